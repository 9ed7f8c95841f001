"""
Any verbs in any order on one vault: only named files change, an edit changes only what was asked, undo restores every
byte, and the index equals a new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from spellbook.index import sync
from spellbook.index.catalog.schema import StoredChunk
from spellbook.notes.chunks import cut
from spellbook.notes.note import Note, parse
from tests.fuzz import REFUSED, WHICH, Machine, bounded
from tests.fuzz.texts import PATHS, block, note, sentence
from tests.helpers import from_scratch, held, told

TIMES = st.sampled_from([0, 1, 10**9, 10**18, 2**62, -1, -(2**61), 10_413_792_000 * 10**9])


META = st.dictionaries(
    st.sampled_from(["topic", "tags", "keywords", "own key", "importance", "새 키"]),
    st.one_of(
        st.none(),
        st.sampled_from(["plain", "12:30", "yes", "[[a]]", "# no comment"]),
        st.lists(st.sampled_from(["x", "y"]), max_size=2),
    ),
    min_size=1,
    max_size=2,
)
EDITS = st.one_of(
    st.fixed_dictionaries({"append": sentence()}),
    st.fixed_dictionaries({"content": block()}),
    st.fixed_dictionaries({"metadata": META}),
)


def only_asked(before: Note, now: Note, chunk: StoredChunk | None) -> None:
    """Check that an edit changed a section alone, or the frontmatter alone."""
    if chunk is None:
        assert now.text[now.body_at :] == before.text[before.body_at :]
        return
    pieces = cut(before)
    suffix = pieces[chunk.ordinal].suffix.partition("~")[0]
    section = [piece for piece in pieces if piece.suffix.partition("~")[0] == suffix]
    assert now.text[now.body_at :].startswith(before.text[before.body_at : section[0].start].rstrip())
    assert now.text.endswith(before.text[section[-1].end :])


class VaultMachine(Machine):
    """A vault shared by a person, an editor and agents."""

    @initialize(texts=st.lists(note(), min_size=4, max_size=4))
    def write(self, texts: list[str]) -> None:
        """Start with some notes."""
        for path, text in zip(PATHS, texts, strict=False):
            self.save(path, text)

    def change(self, verb: Callable[[], Any], names: Callable[[Any], set[str]]) -> None:
        """Run a verb; only files that `names` gives for its answer may change, and none if it is refused."""
        before, last = held(self.vault), self.book.log(1)
        try:
            done = verb()
        except REFUSED:
            assert held(self.vault) == before
            return
        now = held(self.vault)
        differ = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        assert differ <= names(done), (differ, names(done))
        if differ and (entry := self.book.log(1)) != last:
            self.undoable.append((entry[0].id, before))

    def some(self, which: int) -> str:
        """Return one of the notes, by a number of a fixed range: what Hypothesis draws must not depend on the vault."""
        return (paths := self.notes() or ["none.md"])[which % len(paths)]

    # -- what agents and people ask for

    @rule(text=sentence(), topic=st.sampled_from(["infra", "한글", "a/b", "con"]))
    def scribe(self, text: str, topic: str) -> None:
        """Keep a memory."""
        chunk = {
            "text": f"## One\n\n{text}\n\n## Two\n\nlast",
            "metadata": {"topic": topic, "keywords": ["a", "b", "c"]},
        }
        self.change(lambda: self.book.scribe(chunk, force=True), lambda done: {each.path for each in done.written})

    @rule(which=WHICH, section=WHICH, asked=EDITS)
    def revise(self, which: int, section: int, asked: dict[str, Any]) -> None:
        """Change a section or the frontmatter: text around the section stays, or the body."""
        path = self.some(which)
        before = (self.vault / path).read_bytes() if path in self.notes() else b""
        asked_for: list[StoredChunk] = []

        def verb() -> Any:
            chunks = self.book.show(path)
            asked_for.append(chunks[section % len(chunks)])
            return self.book.revise(path if "metadata" in asked else asked_for[0].id, **asked)

        self.change(verb, lambda done: {done.path})
        now = (self.vault / path).read_bytes() if before else b""
        if now != before:
            only_asked(parse(path, before), parse(path, now), None if "metadata" in asked else asked_for[0])

    @rule(which=WHICH, section=WHICH, hard=st.booleans(), whole=st.booleans())
    def erase(self, which: int, section: int, hard: bool, whole: bool) -> None:
        """Erase a note or a section."""
        path = self.some(which)

        def verb() -> Any:
            chunks = [] if whole else self.book.show(path)
            return self.book.erase(chunks[section % len(chunks)].id if chunks else path, hard=hard)

        self.change(verb, lambda done: {path, *done.trash})
        if hard:  # what is erased for good cannot be had back
            self.undoable.clear()

    @rule(which=WHICH, new=st.sampled_from([*PATHS, "new.md", "q/new.md"]))
    def move(self, which: int, new: str) -> None:
        """Move a note."""
        path = self.some(which)
        verb = lambda: self.book.move(path, new)  # noqa: E731
        self.change(
            verb, lambda done: {path for pair in done.moved for path in pair} | {each.path for each in done.changed}
        )

    @rule(first=WHICH, other=WHICH, keep=st.sampled_from(["", "a", "b", "both"]))
    def merge(self, first: int, other: int, keep: Any) -> None:
        """Merge two notes."""
        a, b = self.some(first), self.some(other)
        self.change(
            lambda: self.book.merge(a, b, keep=keep, apply=True), lambda done: {a, b, done.trash, *done.linking}
        )

    @rule()
    def mend_links(self) -> None:
        """Repair broken links."""
        self.change(lambda: self.book.mend_links(), lambda done: {each.path for each in done.changed})

    @rule()
    def undo(self) -> None:
        """Undo the last change: every byte is as before."""
        if self.undoable:
            entry, before = self.undoable.pop()
            self.book.undo(entry)
            assert held(self.vault) == before

    # -- what happens to files

    @rule(path=st.sampled_from(PATHS), text=note(), mtime_ns=st.one_of(st.none(), TIMES))
    def edit(self, path: str, text: str, mtime_ns: int | None) -> None:
        """A person saves a note, with any file time."""
        self.save(path, text)
        if mtime_ns is not None:
            os.utime(self.vault / path, ns=(0, mtime_ns))
        self.undoable.clear()

    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        """Somebody deletes a note."""
        (self.vault / self.some(which)).unlink(missing_ok=True)
        self.undoable.clear()

    @rule(query=sentence())
    def look(self, query: str) -> None:
        """No verb that only reads changes anything."""
        before = held(self.vault)
        self.book.reindex()
        for verb in (self.book.search, self.book.memorize, self.book.find):
            verb(query)
        self.book.topics()
        self.book.status()
        assert held(self.vault) == before

    def teardown(self) -> None:
        """At the end the index equals a new one."""
        try:
            self.book.reindex()
            sync.run(self.book.index)
            actual, expected = told(self.book.index), from_scratch(self.vault, self.folder / "scratch")
            assert actual == expected
        finally:
            super().teardown()


TestVault = VaultMachine.TestCase
TestVault.settings = bounded(20, steps=14)
