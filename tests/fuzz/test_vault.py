"""
Any verbs in any order on one vault: only named files change, an edit changes only what was asked, a move keeps where links
lead, a merge loses no sentence, undo restores every byte, and the index equals a new one.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from spellbook.index import sync
from spellbook.index.catalog.rows import StoredChunk
from spellbook.library import book as books
from spellbook.notes.chunks import cut
from spellbook.notes.note import Note, parse
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, PathOutsideVault
from tests.fuzz import bounded
from tests.helpers import from_scratch, held, leads, told

REFUSED = (Conflict, InvalidInput, MemoryNotFound, PathOutsideVault)
WHICH = st.integers(0, 99)

PATHS = ("a.md", "b.md", "B note.md", "x/a.md", "x/y/c.md", "한글/메모.md", "x/v1.2.md", "z (1)/d#e.md", "z/index.md")
"""Paths of notes: two of one name, blanks, dots, brackets, a fragment's mark, Korean."""

TARGETS = (
    "a", "b", "c", "x/a", "../a", "메모", "한글/메모", "B note", "nowhere", "x/y/c", "v1.2", "alias", "d#e", "index", "new",
    "a.md",
)  # fmt: skip

WORDS = (
    "anchor", "lantern", "granite", "배포", "금요일", "3 ms", "never", "e\u0301", "é", "Ünï", "`code`", "**bold**",
    "a_b_c", "#tag", "#태그/하위",
)  # fmt: skip
"""What sentences are made of."""

_ODD = (
    "\u2028", "\x0c", "\x85", "\t", "\u200b", "\ufeff", "\\", "%%", "<!--", "-->", "~~~", "```", "$$", "[[", "]]",
    "![](", "---", "===", "|", ">",
)  # fmt: skip


def sentence() -> st.SearchStrategy[str]:
    """A sentence of one line."""
    return st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")


def link(targets: Sequence[str] = TARGETS) -> st.SearchStrategy[str]:
    """A link in any form that people write."""
    forms = (
        "[[{}]]", "[[{}|shown]]", "![[{}]]", "[[{}#One]]", "[shown]({}.md)", "[shown](<{}.md>)", "`[[{}]]`",
        "[[{}^x]]", "[ref]: {}.md",
    )  # fmt: skip
    return st.builds(lambda form, target: form.format(target), st.sampled_from(forms), st.sampled_from(targets))


def block() -> st.SearchStrategy[str]:
    """A piece of Markdown of one or a few lines."""
    heading = st.builds(
        lambda depth, text: f"{'#' * depth} {text}",
        st.integers(1, 4),
        st.sampled_from(["One", "Two", "One", "셋", "a b", ""]),
    )
    table = st.just("| a | b |\n| - | - |\n| 1 | 2 |\n| 3 | 4 |")
    fence = st.builds(
        lambda mark, text: f"{mark}\n{text}\n{mark}", st.sampled_from(["```", "~~~~", "````"]), sentence()
    )
    listed = st.lists(sentence(), min_size=1, max_size=3).map(lambda items: "\n".join(f"- {item}" for item in items))
    quote = sentence().map(lambda text: f"> [!note] {text}\n> more")
    odd = st.lists(st.sampled_from([*_ODD, "x", " "]), min_size=1, max_size=5).map("".join)
    return st.one_of(heading, sentence(), link(), table, fence, listed, quote, odd)


def value() -> st.SearchStrategy[str]:
    """A frontmatter value in YAML, valid or not."""
    plain = (
        *("yes", "1.10", "12:30", "2300-01-01", "0001-01-01", "-.inf", "1e999", "9" * 400, "null", "~", "'it''s'"),
        *('"a\\u0000b"', "[a, b]", "{a: b}", "[[a]]", '"[[a]]"', "- a\n- b", "|\n  text\n  more", "&x y", "*x"),
        *("!!python/object:os.system x", "# comment", "%", "@", "a: b", "\t"),
    )
    return st.one_of(st.sampled_from(plain), sentence().map(json.dumps), st.text(max_size=8))


def frontmatter() -> st.SearchStrategy[str]:
    """A header, "" for none."""
    keys = (
        "topic", "category", "title", "tags", "keywords", "questions", "aliases", "id", "created", "updated",
        "importance", "own key", "scope", "entities",
    )  # fmt: skip
    lines = st.lists(st.tuples(st.sampled_from(keys), value()), max_size=5)
    header = lines.map(lambda pairs: "---\n" + "".join(f"{key}: {each}\n" for key, each in pairs) + "---\n")
    return st.one_of(st.just(""), st.just("---\ntopic: infra\naliases: [alias]\n---\n"), header)


@st.composite
def note(draw: st.DrawFn) -> str:
    """The text of a note: any header, blocks, and line ends of one kind."""
    blocks = draw(st.lists(block(), max_size=6))

    def one_of(*values: str) -> str:
        return draw(st.sampled_from(values))

    text = draw(frontmatter()) + one_of("\n\n", "\n").join(blocks) + one_of("\n", "", "\n\n\n")
    return one_of("", "", "", "\ufeff") + text.replace("\n", one_of("\n", "\n", "\r\n"))


# -- the machine

TIMES = st.sampled_from([0, 1, 10**9, 10**18, 2**62, -1, -(2**61), 10_413_792_000 * 10**9])
LINKED = st.lists(st.one_of(link(), link(), sentence()), max_size=5).map("\n\n".join)
NEW = ("new.md", "x/new.md", "x/y/z/b.md", "한글/a.md", "nowhere.md", "moved/", "a.md", "c.md", "w/메모.md")
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


def sentences(text: str) -> list[str]:
    """The lines of a body with text, without marks of lists and quotes, headings, code and links."""
    body = text.lstrip("\ufeff")
    if body.startswith("---\n"):
        body = body[4:].partition("\n---\n")[2] if "\n---\n" in body else ""
    lines = [re.sub(r"^\s*(?:[-*>|]|\d+\.)\s(?:\[!\w+\] )?", "", line) for line in body.splitlines()]
    return [line for line in lines if re.fullmatch(r"[\w .`*]+", line) and re.search(r"\w", line) and line[0] != "#"]


def letters(text: str) -> str:
    """A text without blanks and punctuation."""
    return "".join(re.findall(r"\w", text)).casefold()


class VaultMachine(RuleBasedStateMachine):
    """A vault of a person, an editor and agents; `undoable` are entries of the log with the files from before each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.vault = self.folder / "vault"
        self.vault.mkdir()
        self.book = books.open(self.vault, embedder="hash", state=self.folder / "state")
        self.undoable: list[tuple[int, dict[str, bytes]]] = []

    def save(self, path: str, text: str) -> None:
        """Write a file as an editor does."""
        (self.vault / path).parent.mkdir(parents=True, exist_ok=True)
        (self.vault / path).write_bytes(text.encode("utf-8", "surrogatepass"))

    def notes(self) -> list[str]:
        """The paths of all notes."""
        return sorted(path for path in held(self.vault) if path.endswith(".md") and not path.startswith("."))

    @initialize(texts=st.lists(st.one_of(note(), LINKED), min_size=4, max_size=len(PATHS)))
    def write(self, texts: list[str]) -> None:
        """Start with some notes and a picture."""
        (self.vault / "pic.png").write_bytes(b"png")
        for path, text in zip(PATHS, texts, strict=False):
            self.save(path, text)

    def change(self, verb: Callable[[], Any], names: Callable[[Any], set[str]]) -> Any:
        """Run a verb and return its answer; only files that `names` gives for it may change, and none if it is refused."""
        before, last = held(self.vault), self.book.log(1)
        try:
            done = verb()
        except REFUSED:
            assert held(self.vault) == before
            return None
        now = held(self.vault)
        differ = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        assert differ <= names(done), (differ, names(done))
        if differ and (entry := self.book.log(1)) != last:
            self.undoable.append((entry[0].id, before))
        return done

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

    @rule(which=WHICH, new=st.sampled_from([*PATHS, *NEW]))
    def move(self, which: int, new: str) -> None:
        """Move a note or folder; every link keeps its target, unless the answer names it."""
        folders = {path.rpartition("/")[0] for path in self.notes() if "/" in path}
        old = (places := [*self.notes(), *sorted(folders)] or ["none.md"])[which % len(places)]
        new, led = new if old.endswith(".md") else new.removesuffix(".md"), leads(self.vault)
        names = lambda done: {path for pair in done.moved for path in pair} | {each.path for each in done.changed}  # noqa: E731
        if done := self.change(lambda: self.book.move(old, new), names):
            moved, left, now = dict(done.moved), {each.path for each in done.left}, leads(self.vault)
            for (path, number), target in led.items():
                place = moved.get(path, path), number
                assert place[0] in left or now.get(place) == moved.get(target, target), (place, target, now.get(place))

    @rule(first=WHICH, other=WHICH, keep=st.sampled_from(["", "a", "b", "both"]))
    def merge(self, first: int, other: int, keep: Any) -> None:
        """Merge two notes: each line of text is in the union unless it contradicts, and no new link leads to the note itself."""
        a, b = self.some(first), self.some(other)
        before, led = held(self.vault), leads(self.vault)
        names = lambda done: {a, b, done.trash, *done.linking}  # noqa: E731
        done = self.change(lambda: self.book.merge(a, b, keep=keep, apply=True), names)
        if done is None:
            return
        merged = letters((self.vault / done.path).read_text("utf-8"))
        for path in {a, b} if keep == "both" or not done.changed else ():
            for line in sentences(before[path].decode("utf-8", "surrogatepass")):
                assert letters(line) in merged, line
        now = leads(self.vault)
        known = [place for place, target in led.items() if place[0] == target]
        assert len([place for place, target in now.items() if place[0] == target == done.path]) <= len(known)
        for (path, number), target in led.items():
            # In a note that cannot be edited, and to a path that no link can name, `merged` in the union leads there.
            if path not in {a, b} and (
                target != done.gone or (parse(path, before[path]).editable and "#" not in done.path)
            ):
                assert now.get((path, number)) == (done.path if target == done.gone else target), (path, target)

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

    @rule(added=sentence(), which=WHICH)
    def undo_after_an_edit(self, added: str, which: int) -> None:
        """Undo the last change after a note got a sentence: that note keeps it, and all others are as before."""
        if not self.undoable or not self.notes():
            return
        entry, before = self.undoable.pop()
        self.undoable.clear()
        path = self.some(which)
        with (self.vault / path).open("a", newline="") as file:
            file.write(f"\n\n{added}\n")
        try:
            self.book.undo(entry)
        except REFUSED:
            return
        now = held(self.vault)
        [differs] = {each for each in before.keys() | now.keys() if before.get(each) != now.get(each)}
        assert now[differs].endswith(f"\n\n{added}\n".encode())

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

    @rule(which=WHICH, path=st.sampled_from(PATHS), replace=st.sampled_from([os.replace, shutil.copyfile]))
    def relocate(self, which: int, path: str, replace: Callable[[Path, Path], object]) -> None:
        """Somebody renames or copies a note, perhaps over another one; an editor saves so, too."""
        source, target = self.vault / self.some(which), self.vault / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file() and source != target:
            replace(source, target)
        self.undoable.clear()

    @rule(renamed=st.booleans(), full=st.booleans(), hints=st.booleans())
    def scan(self, renamed: bool, full: bool, hints: bool) -> None:
        """A folder is perhaps renamed, and some files or all are scanned, without an embedding."""
        if renamed and (self.vault / "x").is_dir():
            shutil.rmtree(self.vault / "v", ignore_errors=True)
            (self.vault / "x").rename(self.vault / "v")
            self.undoable.clear()
        if hints:
            sync.scan_paths(self.book.index, self.notes())
        else:
            sync.scan(self.book.index, full=full)

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
        """At the end the index equals a new one, whatever was scanned in between, and no word outlives its chunk."""
        try:
            self.book.reindex()
            sync.run(self.book.index)
            actual, expected = told(self.book.index), from_scratch(self.vault, self.folder / "scratch")
            assert actual == expected
        finally:
            self.book.close()
            shutil.rmtree(self.folder)


TestVault = VaultMachine.TestCase
TestVault.settings = bounded(15, steps=16)
