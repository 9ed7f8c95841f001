"""Journal and undo: changes by tools can be undone byte for byte, whatever happened in between."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.editing.edits import merged
from spellbook.index.vectors import follow
from spellbook.library import book as books
from spellbook.library.limited import seen_by
from spellbook.system.errors import Conflict, MemoryNotFound, SpellbookError, StorageError
from spellbook.vault.folder import digest
from spellbook.vault.journal import Change, Journal
from tests.commands import spellbook_in as spellbook
from tests.editing.conftest import NOTE
from tests.helpers import finished, from_scratch, python, told
from tests.mcp.agent import talk
from tests.trees import files, is_killed, tree

CHUNK = {
    "text": "The lighthouse keeper rotates the keys every Monday.",
    "metadata": {"topic": "infra", "keywords": ["keys"]},
}


# -- undo


ACTIONS = {
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


@settings(max_examples=15)
@given(st.lists(st.sampled_from(sorted(ACTIONS)), min_size=1, max_size=6))
def test_undo_restores_every_byte(actions):
    """
    Undoing any changes one by one restores each earlier state of every file, with trash and modes; redoing does too.
    """
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


def test_undo_goes_back_step_by_step(book, harbour):
    """Repeated, undo reverts the change before; an undo is undone by its number; at the end nothing is left."""
    states = [harbour.read_bytes()]
    for text in ("a", "b", "c"):
        book.revise("harbour#two", text)
        states.append(harbour.read_bytes())
    for state in reversed(states[:-1]):
        book.undo()
        assert harbour.read_bytes() == state
    with pytest.raises(MemoryNotFound, match="nothing to undo"):
        book.undo()
    book.undo(6)
    assert (harbour.read_bytes(), [(each.id, each.state) for each in book.log()]) == (
        states[1],
        [(7, ""), (6, "undone"), (5, ""), (4, ""), (3, "undone"), (2, "undone"), (1, "")],
    )
    assert book.undo().entry.id == 1


def test_what_was_undone_is_found_again(book, harbour):
    """After undo the index is up to date at once; a file in the trash is moved back, with its times, not written anew."""
    before = harbour.stat()
    book.erase("harbour.md")
    assert book.find("second").hits == ()
    done = book.undo()
    assert (done.paths, done.entry.verb) == (("harbour.md", ".trash/harbour.md"), "erase")
    assert [hit.id for hit in book.find("second").hits] == ["harbour#two"]
    assert book.index.catalog.counts().pending == 0
    after = harbour.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)


def test_an_edit_in_another_place_stays(book, harbour):
    """In a file edited since, only the lines that the tool changed are reverted."""
    book.revise("harbour#two", "mine")
    harbour.write_bytes(
        harbour.read_bytes().replace(b"first", b"first, by an editor").replace(b"third", b"third\r\nand more")
    )
    book.undo()
    assert harbour.read_bytes().decode() == NOTE.replace("first", "first, by an editor").replace(
        "third", "third\r\nand more"
    )


def test_an_older_change_is_undone_beneath_a_newer_one(book, harbour):
    """The middle one of three changes can be undone alone."""
    book.revise("harbour#one", "a")
    book.erase("harbour#two")
    book.revise("harbour#three", "c")
    book.undo(2)
    assert harbour.read_bytes().decode() == NOTE.replace("first", "a").replace("third", "c")


@pytest.mark.parametrize(
    ("change", "edit"),
    [
        pytest.param(
            lambda book: book.revise("harbour#two", "mine"),
            lambda file: file.write_text("## Two\n\ntheirs"),
            id="changed",
        ),
        pytest.param(lambda book: book.revise("harbour#two", "mine"), lambda file: file.unlink(), id="gone"),
        pytest.param(
            lambda book: book.erase("harbour.md"), lambda file: file.write_text("another note"), id="in the way"
        ),
    ],
)
def test_an_edit_in_the_same_place_is_a_conflict(book, harbour, vault, change, edit):
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


def test_a_new_memory_that_was_edited_is_not_taken_away(book, vault):
    """Undoing a scribe removes only its own text, and keeps what was added since."""
    [written] = book.scribe(CHUNK).written
    file = vault / written.path
    file.write_text(file.read_text() + "\nby hand\n")
    with pytest.raises(Conflict, match=r"changed since entry 1 \(scribe ") as caught:
        book.undo()
    assert "+by hand" in caught.value.difference
    assert file.exists()


def test_all_files_are_undone_or_none(book, vault, write_note):
    """If one file of a topic cannot be restored, the others stay as they are."""
    for i in range(3):
        write_note(f"t/{i}.md", f"text {i}", topic="old")
    book.erase_topic("old")
    write_note("t/1.md", "another one")
    before = tree(vault)
    with pytest.raises(Conflict):
        book.undo()
    assert tree(vault) == before
    (vault / "t/1.md").unlink()
    book.undo()
    assert sorted(tree(vault)) == ["t/0.md", "t/1.md", "t/2.md"]


def test_a_dry_run_changes_nothing(book, harbour, vault):
    """A dry run returns the difference and changes neither files nor log."""
    book.revise("harbour#two", "mine")
    before = tree(vault)
    done = book.undo(dry_run=True)
    assert "-mine" in done.difference
    assert "+second" in done.difference
    assert (tree(vault), len(book.log())) == (before, 1)


def test_what_failed_half_way_is_taken_back(book, vault, write_note):
    """A change of many files that fails leaves every file as it was and no log entry."""
    write_note("a.md", "one")
    before = tree(vault)

    def fail():
        with book.index.vault.change("mv", "all"):
            book.index.vault.write("a.md", b"two", digest(b"one"))
            book.index.vault.create("t", "new", b"new")
            book.index.vault.move("a.md", "deep/b.md", digest(b"two"))
            raise StorageError("The disk is full.")

    with pytest.raises(StorageError):
        fail()
    assert tree(vault) == before
    assert book.log() == []


@pytest.mark.parametrize(("to", "error"), [("b.md", Conflict), ("../b.md", SpellbookError)])
def test_a_file_moves_to_a_free_place_in_the_vault(book, vault, write_note, to, error):
    """`Vault.move` never overwrites and never leaves the vault."""
    write_note("a.md", "one")
    write_note("b.md", "two")
    before = tree(vault)
    with pytest.raises(error):
        book.index.vault.move("a.md", to, digest(b"one"))
    with pytest.raises(Conflict):
        book.index.vault.move("a.md", "c.md", digest(b"something else"))
    assert tree(vault) == before
    book.index.vault.move("a.md", "deep/c.md", digest(b"one"))
    assert (vault / "deep/c.md").read_text() == "one"


@settings(max_examples=200)
@given(
    *[st.lists(st.sampled_from(["a\n", "b\r\n", "c\r", "\n", "가\n", "z"]), max_size=6).map("".join) for _ in range(3)]
)
def test_a_three_way_merge_is_right_or_refused(base, ours, theirs):
    """A change of one side alone is kept, and swapping the sides gives the same result."""
    assert merged(base, base, theirs) == theirs
    assert merged(base, ours, base) == ours
    assert merged(base, ours, theirs) == merged(base, theirs, ours)


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_was_moved_since_is_not_said_to_be_undone(book, vault, by_hand):
    """If the note was moved since, undo is refused with its new path until the move is undone."""
    book.scribe(CHUNK)
    [entry] = book.log()
    path = entry.traces[0].path
    if by_hand:
        (vault / path).rename(vault / "elsewhere.md")
    else:
        book.move(path, "elsewhere.md")
    with pytest.raises(Conflict, match=r"was moved since, to elsewhere\.md"):
        book.undo(entry.id)
    assert not book.log()[-1].is_undone
    if by_hand:
        (vault / "elsewhere.md").rename(vault / path)
    else:
        book.undo()
    book.undo(entry.id)
    assert not files(vault)


# -- for good


def test_what_was_erased_for_good_is_kept_nowhere(book, vault, write_note):
    """
    After erase --hard neither the note nor its earlier texts in the journal are on the disk; other changes can still be
    undone.
    """
    file = write_note("a.md", "## One\n\nSECRET-one\n\n## Two\n\nSECRET-two\n")
    write_note("b.md", "## One\n\nharmless\n\n## Two\n\nmore\n")
    book.revise("b#one", "changed")
    book.revise("a#one", "SECRET-three")
    book.index.vault.move("a.md", "moved.md", digest(file.read_bytes()))
    book.reindex()
    book.erase("moved.md", hard=True)
    journal = book.index.vault.journal
    for text in ("SECRET-one", "SECRET-three"):
        for sections in ("## One\n\n{}\n\n## Two\n\nSECRET-two\n",):
            assert journal.text(digest(sections.format(text).encode())) is None
    with pytest.raises(MemoryNotFound, match="not kept"):
        book.undo()
    book.undo(1)
    assert "harmless" in (vault / "b.md").read_text()


def test_what_was_replaced_and_came_back_is_kept_nowhere_either(book, vault, write_note, tmp_path):
    """After erase --hard, texts that an import replaced and an undo restored are removed from the journal too."""
    file = write_note("a.md", "old\n")
    book.export(tmp_path / "then.zip")
    file.write_text("SECRET\n")
    book.import_(tmp_path / "then.zip", on_conflict="overwrite")
    book.undo()
    assert file.read_text() == "SECRET\n"
    book.erase("a.md", hard=True)
    assert book.index.vault.journal.text(digest(b"SECRET\n")) is None


def test_a_section_erased_for_good_is_not_in_the_journal(book, harbour):
    """After erase --hard of a section, the journal holds no earlier text of its note."""
    book.revise("harbour#one", "x")
    before = harbour.read_bytes()
    book.erase("harbour#two", hard=True)
    assert book.index.vault.journal.text(digest(before)) is None
    assert [(entry.verb, entry.traces[0].kind) for entry in book.log()] == [("erase", "changed"), ("revise", "changed")]


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
def test_no_file_of_the_state_holds_what_was_erased_for_good(book, vault, write_note, way):
    """
    After erase --hard no name, log, table, free page or vector index holds title, text, labels or path, while the book
    is open and after.
    """
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
    book.close()
    assert not {(name, word) for name, word in found(book.config.state, vault) if word in gone}


@pytest.mark.slow
def test_a_repeated_erasing_finishes_one_that_was_killed(vault):
    """After erase --hard was killed anywhere, repeating it leaves no trace of the note in the state folder."""
    one, two, three, *_ = TOLD
    chunk = {"text": f"Said: {two}.", "metadata": {"topic": "t", "title": one, "keywords": [three]}}
    for at in (1, 3, 5, 8, 12):
        with books.open(vault, embedder="hash") as book:
            [written] = book.scribe(chunk).written
        is_killed(vault, vault, f"book.erase({written.chunk_id!r}, hard=True)", at)
        with books.open(vault, embedder="hash") as book, contextlib.suppress(MemoryNotFound):
            book.erase(written.chunk_id, hard=True)
        # Only now: whoever reads the file of an open database in its own process gives up the locks on it.
        assert not found(book.config.state), at


# -- restore


@pytest.mark.parametrize("name", [".trash/harbour two.md", "harbour#two"])
def test_a_section_goes_back_into_its_note(book, harbour, vault, name):
    """
    A section is restored by its place in the trash or its id to its old place, though the note was edited elsewhere;
    the trash is empty then.
    """
    book.erase("harbour#two")
    harbour.write_bytes(harbour.read_bytes().replace(b"first", b"edited"))
    assert book.restore(name) == ("harbour.md",)
    assert (harbour.read_bytes().decode(), list(tree(vault))) == (NOTE.replace("first", "edited"), ["harbour.md"])


def test_a_section_whose_place_is_gone_becomes_a_note(book, harbour, vault):
    """A section whose note is gone is restored as its own note."""
    book.erase("harbour#two")
    harbour.write_text("all is new")
    assert book.restore("harbour#two") == ("harbour two.md",)
    assert (vault / "harbour two.md").read_bytes() == b"## Two\r\n\r\nsecond\r\n\r\n"


@pytest.mark.parametrize("name", ["t/1.md", "t/1", ".trash/t/1.md"])
def test_one_note_of_an_erased_topic_comes_back(book, vault, write_note, name):
    """One note of an erased topic can be restored alone; the topic's name restores the rest."""
    for i in range(3):
        write_note(f"t/{i}.md", f"text {i}", topic="old")
    book.erase_topic("old")
    assert book.restore(name) == ("t/1.md",)
    assert sorted(tree(vault)) == [".trash/t/0.md", ".trash/t/2.md", "t/1.md"]
    assert set(book.restore("old")) >= {"t/0.md", "t/2.md"}
    assert sorted(tree(vault)) == ["t/0.md", "t/1.md", "t/2.md"]
    assert [hit.path for hit in book.find("text 2").hits][:1] == ["t/2.md"]


def test_nothing_is_restored_that_was_not_erased(book, harbour):
    """An unknown name is MEMORY_NOT_FOUND."""
    for name in ("harbour.md", "nothing", ".trash/x.md"):
        with pytest.raises(MemoryNotFound):
            book.restore(name)


# -- the journal itself


def test_the_entries_of_a_file_are_those_that_changed_it(tmp_path):
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


def test_old_entries_are_let_go(tmp_path):
    """Entries past the day limit are removed with their texts."""
    journal = Journal(tmp_path, most_days=0.00001)
    journal.note([Change("a.md", b"old", b"new")])
    time.sleep(1)
    journal.note([Change("b.md", b"x", b"y")])
    assert [entry.traces[0].path for entry in journal.entries()] == ["b.md"]
    assert (journal.text(digest(b"old")), journal.text(digest(b"x"))) == (None, b"x")
    journal.close()


def test_the_journal_stays_within_its_bytes(tmp_path):
    """The oldest entries are removed first; the newest can always be undone, however large, until the next."""
    journal = Journal(tmp_path, most_bytes=400_000)
    noise = random.Random(5)
    for i in range(60):
        journal.note([Change(f"{i}.md", noise.randbytes(10_000), noise.randbytes(10_000))])
    kept = journal.entries()
    assert 8 < len(kept) < 25
    assert kept[0].traces[0].path == "59.md"
    assert all(journal.text(kept[0].traces[0].before) for _ in kept)
    big = noise.randbytes(1_000_000)
    journal.note([Change("big.md", None, big)])
    [entry] = journal.entries()
    assert (entry.traces[0].path, journal.text(digest(big))) == ("big.md", big)
    journal.note([Change("small.md", None, b"small")])
    assert ([entry.traces[0].path for entry in journal.entries()], journal.text(digest(big))) == (["small.md"], None)
    assert sum(file.stat().st_size for file in tmp_path.glob("journal.db")) < 2_500_000
    journal.close()


def test_entries_are_one_a_command(book, harbour):
    """A batch is one entry, a change without effect is none, and each entry names verb, object and files."""
    book.scribe_all([CHUNK, {**CHUNK, "text": "Another thought about zebras."}])
    book.revise("harbour#two", "second")
    book.erase_topic("infra")
    log = [entry.as_dict() for entry in book.log()]
    assert [(each["verb"], each["what"], len(each["files"])) for each in log] == [
        ("erase", "infra", 4),
        ("scribe", "2 memories", 2),
    ]
    assert {each["change"] for each in log[1]["files"]} == {"added"}


@pytest.mark.slow
def test_processes_share_a_journal(vault, write_note, book):
    """With three processes at once each change is an entry, and undoing all of them restores the file."""
    write_note("many.md", "".join(f"## Part {i}\n\nold {i}\n\n" for i in range(12)))
    before = (vault / "many.md").read_bytes()
    book.reindex()
    code = """
import sys, spellbook
with spellbook.open(sys.argv[1], embedder="hash") as book:
    for i in range(int(sys.argv[2]), 12, 3):
        book.revise(f"many#part-{i}", f"new {i}")
"""
    finished(*(python(code, vault, i) for i in range(3)))
    assert len(book.log()) == 12
    assert all(entry.is_whole for entry in book.log())
    for entry in random.Random(7).sample(book.log(), 12):
        book.undo(entry.id)
    assert (vault / "many.md").read_bytes() == before


KILLED = """
import sys, spellbook
with spellbook.open(sys.argv[1], embedder="hash") as book:
    for i in range(1000):
        with book.index.vault.change("test", str(i)):
            for name in ("a", "b", "c"):
                data, _ = book.index.vault.read(f"{name}.md")
                book.index.vault.write(f"{name}.md", f"{i} {name}".encode(), __import__("hashlib").sha256(data).hexdigest())
            book.index.vault.create("new", f"{i}", b"made")
        print(i, flush=True)
"""


@pytest.mark.slow
def test_a_killed_change_can_be_undone(vault, write_note, tmp_path):
    """After SIGKILL at any moment every earlier change is in the log, and undoing all restores the first state."""
    noise = random.Random(11)
    for name in ("a", "b", "c"):
        write_note(f"{name}.md", f"old {name}")
    before = tree(vault)
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(vault)], stdout=subprocess.PIPE, text=True)
        assert child.stdout
        for _ in range(noise.randrange(1, 8)):
            child.stdout.readline()
        time.sleep(noise.random() * 0.02)
        child.kill()
        done = child.communicate()[0]
        for stray in vault.rglob(".spellbook-*.tmp"):
            stray.unlink()
        with books.open(vault, embedder="hash") as book:
            log = [entry for entry in book.log(None) if entry.verb == "test" and not entry.is_undone]
            assert all(entry.is_whole for entry in log[1:])
            assert len(log) >= len(done.split())
            for entry in log:
                book.undo(entry.id)
        assert tree(vault) == before


# -- doors


def test_the_commands(vault, harbour, book):
    """`log`, `undo` and `restore` print text and JSON."""
    book.erase("harbour#two")
    assert "erase" in spellbook(vault, "log").stdout
    [entry] = json.loads(spellbook(vault, "log", "--json").stdout)["entries"]
    assert (entry["entry"], entry["verb"], entry["what"], entry["state"]) == (1, "erase", "harbour#two", "")
    assert "+second" in spellbook(vault, "undo", "--dry-run").stdout
    assert b"second" not in harbour.read_bytes()
    shown = spellbook(vault, "undo")
    assert "+second" in shown.stdout
    assert "Undid 1: erase harbour#two." in shown.stderr
    assert harbour.read_bytes() == NOTE.encode()
    assert json.loads(spellbook(vault, "undo", 2, "--json").stdout)["paths"] == ["harbour.md", ".trash/harbour two.md"]
    assert spellbook(vault, "restore", "harbour#two").stdout == "harbour.md\n"
    assert harbour.read_bytes() == NOTE.encode()
    assert "has no entry 99" in spellbook(vault, "undo", 99, code=1).stderr
    book.revise("harbour#two", "mine")
    harbour.write_text("theirs")
    refused = spellbook(vault, "undo", code=1).stderr
    assert "changed since" in refused
    assert "+theirs" in refused


def test_the_desk(vault, harbour, book):
    """Agents have the same through the toolset desk."""

    async def conversation(agent):
        erased = await agent.json("erase", chunk_id="harbour#two")
        [entry] = (await agent.json("log"))["entries"]
        assert (entry["what"], len(entry["files"])) == ("harbour#two", 2)
        assert "Would undo entry 1" in await agent.call("undo", dry_run=True)
        assert "+second" in await agent.call("undo", entry="null")
        assert harbour.read_bytes() == NOTE.encode()
        await agent.call("undo", entry=2)
        assert (await agent.json("restore", name=erased["trash"][0]))["paths"] == ["harbour.md"]
        assert harbour.read_bytes() == NOTE.encode()
        assert "MEMORY_NOT_FOUND" in await agent.refused("restore", name="nothing")
        await agent.call("revise", chunk_id="harbour#two", content="mine")
        harbour.write_text("theirs")
        refused = await agent.refused("undo")
        assert "CONFLICT" in refused
        assert "+theirs" in refused

    talk(book, conversation, toolsets=["core", "desk"])
