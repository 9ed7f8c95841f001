"""Journal and undo: changes by tools can be undone byte for byte, whatever happened in between."""

import contextlib
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.editing.edits import merged
from spellbook.index.vectors import follow
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.library.limited import seen_by
from spellbook.system.errors import Conflict, MemoryNotFound, StorageError
from spellbook.system.sqlite import Database
from spellbook.vault.entries import Change, moved
from spellbook.vault.folder import digest
from spellbook.vault.journal import Journal, inode_of
from spellbook.vault.vault import Vault
from tests.editing.conftest import NOTE
from tests.helpers import Write, from_scratch, told
from tests.kills import killed
from tests.trees import contents, grow, tree

CHUNK = {
    "text": "The lighthouse keeper rotates the keys every Monday.",
    "metadata": {"topic": "infra", "keywords": ["keys"]},
}


# -- undo


ACTIONS: dict[str, Callable[[Spellbook], object]] = {
    "scribe": lambda book: book.scribe(CHUNK, force=True),
    "two": lambda book: book.scribe_all([CHUNK, {**CHUNK, "text": "한글 기억"}], force=True),
    "text": lambda book: book.revise("harbour#two", "new\nwords"),
    "both": lambda book: book.revise("harbour#one", "other words", {"topic": "port", "importance": "low"}),
    "unset": lambda book: book.revise("harbour", metadata={"title": None, "keywords": ["a", "b"]}),
    "section": lambda book: book.erase("harbour#two"),
    "note": lambda book: book.erase("harbour.md"),
    "topic": lambda book: book.erase_topic("infra"),
    "restore": lambda book: book.restore("harbour.md"),
    "restore topic": lambda book: book.restore("infra"),
    "undo": lambda book: book.undo(),
    "redo": lambda book: book.undo(next(entry.id for entry in book.log() if entry.verb == "undo")),
}


@settings(max_examples=8)
@given(st.lists(st.sampled_from(sorted(ACTIONS)), min_size=1, max_size=6))
def test_undo_restores_every_byte(actions: list[str]) -> None:
    """Undoing changes one by one restores each earlier state, with trash and modes; redoing does too."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder, "vault")
        vault.mkdir()
        (vault / "harbour.md").write_bytes(NOTE.encode())
        (vault / "harbour.md").chmod(0o640)
        with books.open(vault, embedder="hash", state=Path(folder, "state")) as book:
            book.reindex()
            states = {0: tree(vault)}
            for action in actions:
                try:
                    ACTIONS[action](book)
                except (MemoryNotFound, Conflict, StopIteration):
                    continue  # there is nothing that it could change, or something in the way
                newest = book.log(1)
                states[newest[0].id if newest else 0] = tree(vault)
            numbers = sorted(states)
            for before, entry in reversed([*pairwise(numbers)]):
                book.undo(entry)
                assert tree(vault) == states[before]
            # All undone: now the undos themselves, from the last on.
            for entry in numbers[1:]:
                undo = next(each for each in book.log(None) if each.undoes == entry and not each.is_undone)
                book.undo(undo.id)
                assert tree(vault) == states[entry]
            assert told(book.index) == from_scratch(vault, Path(folder, "fresh"))


def test_what_was_undone_is_found_again(book: Spellbook, harbour: Path) -> None:
    """After undo the index is up to date at once; a file in the trash is moved back, with its times, not written anew."""
    before = harbour.stat()
    book.erase("harbour.md")
    assert book.find("second").hits == ()
    done = book.undo()
    assert (done.paths, done.entry.verb) == (("harbour.md", ".trash/harbour.md"), "forget")
    assert [hit.id for hit in book.find("second").hits] == ["harbour#two"]
    assert book.index.catalog.counts().pending == 0
    after = harbour.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)


def test_an_edit_in_another_place_stays(book: Spellbook, harbour: Path) -> None:
    """In a file edited since, only the lines of the change are reverted: of the last one, or of one below a newer one."""
    book.revise("harbour#one", "a")
    book.erase("harbour#two")
    book.revise("harbour#three", "c")
    book.undo(2)
    assert harbour.read_bytes().decode() == NOTE.replace("first", "a").replace("third", "c")
    harbour.write_bytes(harbour.read_bytes().replace(b"lead", b"lead, by an editor"))
    book.undo(3)
    assert harbour.read_bytes().decode() == NOTE.replace("first", "a").replace("lead", "lead, by an editor")


@pytest.mark.parametrize(
    ("change", "edit"),
    [
        (lambda book: book.revise("harbour#two", "mine"), lambda file: file.write_text("## Two\n\ntheirs")),
        (lambda book: book.revise("harbour#two", "mine"), lambda file: file.unlink()),
        (lambda book: book.erase("harbour.md"), lambda file: file.write_text("another note")),
    ],
    ids=["changed", "gone", "in the way"],
)
def test_an_edit_in_the_same_place_is_a_conflict(
    book: Spellbook, harbour: Path, vault: Path, change: Callable[[Spellbook], object], edit: Callable[[Path], object]
) -> None:
    """If the same lines were edited since, nothing is undone, the error shows the edit, and the log gets no entry."""
    change(book)
    edit(harbour)
    before = tree(vault)
    with pytest.raises(Conflict, match=r"changed since entry 1 \(") as caught:
        book.undo()
    assert "+++ now/harbour.md" in caught.value.difference
    assert "+++ now/harbour.md" in str(caught.value)
    assert tree(vault) == before
    assert [entry.id for entry in book.log()] == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links take rights there")
def test_what_was_recorded_and_not_made_needs_no_undo(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """An undo after a kill between the record of a move and the move leaves a file, a folder and links where they are."""
    before = tree(grow(vault, {"a.png": b"a", "folder/b.md": b"b"}))
    (vault / "to a file").symlink_to("a.png")
    (vault / "to a folder").symlink_to(tmp_path)
    for name in ("a.png", "folder", "to a file", "to a folder"):
        with book.index.vault.change("restore", name):
            book.index.vault.journal.note(moved(name, f".trash/{name}", inode_of(vault / name)))
        assert book.undo().paths == ()
    assert all((vault / name).is_symlink() for name in ("to a file", "to a folder"))
    assert before.items() <= tree(vault).items()


def test_all_files_are_undone_or_none(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    A change of many files that fails leaves every file as it was and no log entry. A move never overwrites, and moves
    no file that has other bytes.
    """
    for i in range(2):
        write_note(f"t/{i}.md", f"text {i}")
    before = tree(vault)
    notes, was = book.index.vault, digest((vault / "t/0.md").read_bytes())

    def fail() -> None:
        with notes.change("mv", "all"):
            notes.write("t/0.md", b"two", was)
            notes.create("t", "new", b"new")
            notes.move("t/0.md", "deep/b.md", digest(b"two"))
            raise StorageError("The disk is full.")

    for failing, error in (
        (fail, StorageError),
        (lambda: notes.move("t/0.md", "t/1.md", was), Conflict),
        (lambda: notes.move("t/0.md", "c.md", digest(b"something else")), Conflict),
    ):
        with pytest.raises(error):
            failing()
        assert (tree(vault), book.log()) == (before, [])


@settings(max_examples=60)
@given(
    *[st.lists(st.sampled_from(["a\n", "b\r\n", "c\r", "\n", "가\n", "z"]), max_size=6).map("".join) for _ in range(3)]
)
def test_a_three_way_merge_is_right_or_refused(base: str, ours: str, theirs: str) -> None:
    """A change of one side alone is kept, and swapping the sides gives the same result."""
    assert merged(base, base, theirs) == theirs
    assert merged(base, ours, base) == ours
    assert merged(base, ours, theirs) == merged(base, theirs, ours)


# -- for good


def test_what_was_erased_for_good_is_kept_nowhere(
    book: Spellbook, vault: Path, write_note: Write, harbour: Path, tmp_path: Path
) -> None:
    """
    After erase --hard neither the note nor its earlier texts in the journal are on the disk, also after it was moved,
    or replaced by an import and restored; nor is a section. Other changes can still be undone.
    """
    text = "## One\n\n{}\n\n## Two\n\nSECRET-two\n"
    file = write_note("a.md", text.format("SECRET-one"))
    book.revise("harbour#one", "changed")
    book.export(tmp_path / "then.zip")
    book.revise("a#one", "SECRET-three")
    book.import_(tmp_path / "then.zip", on_conflict="overwrite")
    book.undo()
    book.index.vault.move("a.md", "moved.md", digest(file.read_bytes()))
    book.reindex()
    book.erase("moved.md", hard=True)
    journal = book.index.vault.journal
    assert [journal.text(digest(text.format(f"SECRET-{which}").encode())) for which in ("one", "three")] == [None] * 2
    with pytest.raises(MemoryNotFound, match="not kept"):
        book.undo()
    book.undo(1)
    before = harbour.read_bytes()
    assert before.decode() == NOTE
    book.erase("harbour#two", hard=True)
    assert journal.text(digest(before)) is None
    entry = book.log(1)[0]
    assert (entry.verb, entry.traces[0].kind) == ("forget", "changed")


TOLD = ["Zanzibar", "Quokka", "Flummox", "Gribble", "Wombatish", "Narwhals", "Xylophonic", "Budgerigar", "코끼리울음"]


def found(*folders: Path) -> set[tuple[str, str]]:
    """The files, and the words of TOLD that are in their names or their bytes."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return {
        (file.name, word)
        for file in files
        for word in TOLD
        if word.lower() in file.name.lower() or word.lower().encode() in file.read_bytes().lower()
    }


@pytest.mark.parametrize("way", ["note", "topic", "moved", "section"])
def test_no_file_of_the_state_holds_what_was_erased_for_good(
    book: Spellbook, vault: Path, write_note: Write, way: str
) -> None:
    """After erase --hard no file of the state holds title, text, labels or path, while the book is open and after."""
    one, two, three, four, five, six, seven, eight, nine = TOLD
    for number in range(30):
        write_note(f"other/{number}.md", f"# Other {number}\n\nA note about harbours, number {number}.")
    book.reindex()
    meta = {
        "topic": "t",
        "title": f"{one} {two}",
        "tags": [three],
        "keywords": [four],
        "questions": [f"Who is {five}?"],
    }
    meta["privacy_scope"] = "team"
    [written] = book.scribe({"text": f"Said: {six}.\n\n## {seven}\n\n{eight}.", "metadata": meta}).written
    book.revise(written.chunk_id, replace=(six, f"{six} {nine}"))
    book.revise(written.chunk_id, replace=(nine, "nobody"))
    book.show(written.chunk_id)
    book.reindex()
    follow.catch_up(book.index.catalog, book.index.chroma)
    assert seen_by(book, "team").search(eight).hits
    if way == "moved":
        book.move(written.path, f"t/{one} again.md")
    assert {word for _, word in found(book.config.state, vault)} >= {one, two, three, four, five, seven}
    if way == "section":
        sections = [chunk.id for chunk in book.show(written.chunk_id)]
        book.erase(sections[-1], hard=True)
        gone = {seven, eight}
    else:
        book.erase_topic("t", hard=True) if way == "topic" else book.erase(written.chunk_id, hard=True)
        gone = set(TOLD)
    assert not {(name, word) for name, word in found(book.config.state, vault) if word in gone}
    assert [entry.what for entry in book.log(1)] == ["erased" if way == "topic" else written.chunk_id]
    assert not gone & set(" ".join(str(entry.as_dict()) for entry in book.log(99)).split())
    assert len(book.search("harbours").hits) > 0
    assert not {hit.id for hit in seen_by(book, "team").search(eight).hits} - set(sections if way == "section" else ())
    book.close()
    assert not {(name, word) for name, word in found(book.config.state, vault) if word in gone}


@pytest.mark.slow
def test_a_repeated_erasing_finishes_one_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After erase --hard was killed anywhere, repeating it leaves no trace of the note in the state folder."""
    one, two, three, *_ = TOLD
    note = f"---\nid: X1\ntitle: {one}\nkeywords: [{three}]\n---\nSaid: {two}.\n".encode()
    for vault in killed(tmp_path, monkeypatch, "book.erase('X1', hard=True)", {"a.md": note}):
        with books.open(vault) as book, contextlib.suppress(MemoryNotFound):
            book.erase("X1", hard=True)
        # Only now: whoever reads the file of an open database in its own process gives up the locks on it.
        assert not found(book.config.state), vault


# -- the journal itself


def test_the_entries_of_a_file_are_those_that_changed_it(tmp_path: Path) -> None:
    """They are found by its path, newest first, however many others came after; one that left it as it was is none."""
    journal = Journal(tmp_path)
    for path in ("a.md", "b.md", "a.md", "b.md", "b.md"):
        journal.note([Change(path, b"old", b"new")])
    assert [[entry.id for entry in journal.entries(most, "a.md")] for most in (None, 1)] == [[3, 1], [3]]
    assert journal.entries(None, "c.md") == []
    with journal.entry("edit", "one"):
        journal.note([Change("x.md", b"a", b"b")])
    with journal.entry("edit", "two"):
        journal.note([Change("x.md", b"b", b"c")])
        journal.note([Change("x.md", b"c", b"b")])
        journal.note([Change("y.md", b"1", b"2")])
    assert [entry.what for entry in journal.entries(1, "x.md")] == ["one"]
    journal.close()


def test_the_journal_stays_within_its_days_and_bytes(tmp_path: Path) -> None:
    """
    Entries past the day limit are removed with their texts. Of too many bytes the oldest entries are removed first; the
    newest can always be undone, however large, until the next.
    """
    journal = Journal(tmp_path / "old", most_days=0.00001)
    journal.note([Change("a.md", b"old", b"new")])
    time.sleep(1)
    journal.note([Change("b.md", b"x", b"y")])
    assert [entry.traces[0].path for entry in journal.entries()] == ["b.md"]
    assert (journal.text(digest(b"old")), journal.text(digest(b"x"))) == (None, b"x")
    journal.close()
    journal = Journal(tmp_path, most_bytes=400_000)
    noise = random.Random(5)
    for i in range(60):
        journal.note([Change(f"{i}.md", noise.randbytes(10_000), noise.randbytes(10_000))])
    kept = journal.entries()
    assert 8 < len(kept) < 25
    assert kept[0].traces[0].path == "59.md"
    assert all(journal.text(entry.traces[0].before or "") for entry in kept)
    big = noise.randbytes(1_000_000)
    journal.note([Change("big.md", None, big)])
    [entry] = journal.entries()
    assert (entry.traces[0].path, journal.text(digest(big))) == ("big.md", big)
    journal.note([Change("small.md", None, b"small")])
    assert ([entry.traces[0].path for entry in journal.entries()], journal.text(digest(big))) == (["small.md"], None)
    assert sum(file.stat().st_size for file in tmp_path.glob("journal.db")) < 2_500_000
    journal.close()


def test_a_journal_that_fails_during_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write leaves nothing in it, and the entry is complete."""
    journal = Journal(tmp_path)
    transaction = Database.transaction

    @contextlib.contextmanager
    def full(self: Database) -> Iterator[sqlite3.Connection]:
        with transaction(self) as connection:
            yield connection
            raise StorageError("the disk is full")

    with journal.entry("first"):
        monkeypatch.setattr(Database, "transaction", full)
        with pytest.raises(StorageError):
            journal.note([Change("a.md", None, b"lost")])
        monkeypatch.undo()
        journal.note([Change("b.md", None, b"kept")])
    entries = [(entry.verb, [trace.path for trace in entry.traces]) for entry in journal.entries()]
    assert entries == [("first", ["b.md"])]
    journal.close()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
def test_a_journal_that_is_lost_during_a_change(tmp_path: Path) -> None:
    """If it is deleted, its rest is no part of the next entry."""
    journal = Journal(tmp_path)
    with journal.entry("second"):
        journal.note([Change("c.md", None, b"gone")])
        for file in tmp_path.glob("journal.db*"):
            file.unlink()
        journal.note([Change("d.md", None, b"kept")])
    with journal.entry("third"):
        journal.note([Change("e.md", None, b"other")])
    entries = [(entry.verb, [trace.path for trace in entry.traces]) for entry in journal.entries()]
    assert entries == [("third", ["e.md"]), ("second", ["d.md"])]
    journal.close()


def test_a_change_that_fails_is_taken_back_though_the_journal_cannot_be_written(
    vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A full disk of the state folder keeps nothing of a half-made change in the vault. If it fills up when a change is made,
    that is no failure: the log calls the change unfinished, and it can be undone.
    """
    notes = Vault(grow(vault, {"a.md": b"a", "b.md": b"b"}), tmp_path / "locks")

    @contextlib.contextmanager
    def full(self: Database) -> Iterator[None]:
        raise StorageError("the disk is full")
        yield

    def merge() -> None:
        with notes.change("merge"):
            notes.create("t", "new", b"new")
            notes.write("a.md", b"changed", digest(b"a"))
            notes.trash.remove("b.md", digest(b"b"))
            monkeypatch.setattr(Database, "transaction", full)
            notes.create("t", "other", b"other")

    with pytest.raises(StorageError):
        merge()
    assert contents(vault) == {"a.md": b"a", "b.md": b"b"}
    monkeypatch.undo()
    with notes.change("scribe"):
        notes.create("t", "new", b"new")
        monkeypatch.setattr(Database, "transaction", full)
    monkeypatch.undo()
    assert contents(vault) == {"a.md": b"a", "b.md": b"b", "t/new.md": b"new"}
    assert [(entry.verb, entry.state) for entry in notes.journal.entries(1)] == [("add", "unfinished")]
