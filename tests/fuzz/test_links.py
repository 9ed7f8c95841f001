"""
Linked notes that are moved, edited and moved back: links keep their targets, and undo restores every unedited byte.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from tests.fuzz import REFUSED, WHICH, Machine, bounded
from tests.fuzz.texts import PATHS, link, sentence
from tests.helpers import held, leads

BODY = st.lists(st.one_of(link(), link(), sentence()), max_size=5).map("\n\n".join)
NEW = ("new.md", "x/new.md", "x/y/z/b.md", "한글/a.md", "nowhere.md", "moved/", "a.md", "c.md", "w/메모.md")


class Links(Machine):
    """A vault of linked notes."""

    @initialize(
        bodies=st.lists(BODY, min_size=len(PATHS), max_size=len(PATHS)),
        known=st.sets(st.sampled_from(PATHS), min_size=2),
    )
    def write(self, bodies: list[str], known: set[str]) -> None:
        """Start with some notes and a picture."""
        (self.vault / "pic.png").write_bytes(b"png")
        for path, body in zip(PATHS, bodies, strict=True):
            if path in known:
                self.save(path, body)
        self.book.reindex()

    @rule(which=WHICH, new=st.sampled_from(NEW))
    def move(self, which: int, new: str) -> None:
        """Move a note or folder; every link keeps its target, unless the answer names it."""
        folders = sorted({path.rpartition("/")[0] for path in self.notes() if "/" in path})
        old = (places := [*self.notes(), *folders])[which % len(places)]
        new = new if old.endswith(".md") else new.removesuffix(".md")
        before, led = held(self.vault), leads(self.vault)
        try:
            done = self.book.move(old, new)
        except REFUSED:
            assert held(self.vault) == before
            return
        moved = dict(done.moved)
        left = {each.path for each in done.left}
        expected = {
            (moved.get(path, path), number): moved.get(target, target) for (path, number), target in led.items()
        }
        now = leads(self.vault)
        for place, target in expected.items():
            assert place[0] in left or now.get(place) == target, (place, target, now.get(place))
        self.undoable.append((self.book.log(1)[0].id, before))

    @rule(path=st.sampled_from(PATHS), body=BODY)
    def edit(self, path: str, body: str) -> None:
        """A person saves a note; earlier changes can no longer be undone byte for byte."""
        self.save(path, body)
        self.undoable.clear()

    @rule()
    def undo(self) -> None:
        """Undo the last move: every byte is as before."""
        if not self.undoable:
            return
        entry, before = self.undoable.pop()
        self.book.undo(entry)
        assert held(self.vault) == before

    @rule(added=sentence(), which=WHICH)
    def undo_after_an_edit(self, added: str, which: int) -> None:
        """Undo the last move after a note got a sentence: that note keeps it, and all others are as before."""
        if not self.undoable:
            return
        entry, before = self.undoable.pop()
        self.undoable.clear()
        path = (notes := self.notes())[which % len(notes)]
        with (self.vault / path).open("a", newline="") as file:
            file.write(f"\n\n{added}\n")
        try:
            self.book.undo(entry)
        except REFUSED:
            return
        now = held(self.vault)
        differ = {each for each in before.keys() | now.keys() if before.get(each) != now.get(each)}
        assert len(differ) == 1, differ
        assert now[differ.pop()].endswith(f"\n\n{added}\n".encode())

    @invariant()
    def nothing_is_under_way(self) -> None:
        """No move is half done."""
        assert not (self.book.config.state / "moving.json").exists()


TestLinks = Links.TestCase
TestLinks.settings = bounded(25, steps=10)
