"""Hostile vaults and input: nothing hangs, fills memory or disk, or stops the other notes; bad input is an error with a hint."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spellbook.cli.clients import changes
from spellbook.index import sync
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.extract import read
from spellbook.index.filters import path_glob
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.models.embedders import HashEmbedder
from spellbook.notes.links import find
from spellbook.notes.note import parse
from spellbook.search import related
from spellbook.settings import config
from spellbook.system import disk
from spellbook.system.errors import InvalidInput, SpellbookError, StorageError
from spellbook.system.sqlite import Database
from spellbook.vault.journal import FILE
from spellbook.vault.listing import leaves_out, patterns_of, verdict
from tests.commands import spellbook_in as spellbook
from tests.helpers import Write, held, opened, rows

YEAR_NS = 365 * 86_400 * 10**9

HEADERS = {
    "a large number": f"importance: 1{'0' * 400}\nn: {'9' * 5000}",
    "no number": "importance: .nan\nx: .inf\nsource: .inf\nsupersedes: [.nan]",
    "sixtieths": "n: 1" + ":1" * 100_000,
    "the ends of time": "created: 0001-01-01\nupdated: 9999-12-31T23:59:59-14:00",
    "no date": "created: 2026-02-30\nupdated: 2026-01-01T00:00:00+99:99",
    "half a letter": 'title: "\\ud800"',
    "deep": "a: " + "[" * 5_000 + "]" * 5_000,
    "itself": "a: &a [*a]",
    "a long topic": "topic: " + "t" * 60_000,
    "a long category": "category: " + "c" * 60_000,
}


def test_odd_values_stop_nothing(book: Spellbook, write_note: Write, tmp_path: Path) -> None:
    """With any frontmatter and file date all notes are found, and all output is valid JSON."""
    write_note("plain.md", "# Plain\n\nThe lighthouse.\n")
    for name, header in HEADERS.items():
        write_note(f"odd/{name}.md", f"---\n{header}\n---\n\nThe lighthouse, {name}.\n")
    for name, when in {"future": 330 * YEAR_NS, "past": -60 * YEAR_NS}.items():
        os.utime(write_note(f"{name}.md", f"The lighthouse, {name}.\n"), ns=(when, when))
    count = len(HEADERS) + 3
    assert (book.reindex().added, book.reindex().changed) == (count, 0)
    found = book.search("lighthouse", limit=50, max_tokens=100_000)
    assert len(found.hits) == book.status()["notes"] == book.snapshots.create().files == count
    for category in book.contents():
        for topic in category.topics:
            book.about(topic)
    assert dict(book.doctor())["catalog"] == []
    metas = [dict(book.show(f"odd/{name}")[0].meta) for name in ("no number", "a large number")]
    for told in (found.as_dict(), *metas):
        json.loads(json.dumps(told, default=str), parse_constant=pytest.fail)
    assert [book.export(tmp_path / form, form).notes for form in ("json", "markdown")] == [count, count]
    json.loads((tmp_path / "json").read_text(), parse_constant=pytest.fail)


def test_a_note_that_cannot_be_stored_stops_no_other(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A note that cannot be stored is named until it changes; the others of its batch are indexed. A full disk is reported as
    such, not as a fault of a note.
    """
    for number in range(5):
        write_note(f"{number}.md", f"---\nid: note-{number}\n---\nThe note {number}.\n")
    with opened(vault, HashEmbedder()) as index:
        sync.run(index)
        for number in range(5):
            write_note(f"{number}.md", f"---\nid: note-{number}\n---\nThe note {number}, edited.\n")
        read_now = [read(index.vault, f"{number}.md", sync.rules(index)) for number in range(5)]
        entries = [entry for entry in read_now if entry]
        for number, wrong in ((1, {"title": "\ud800"}), (3, {"importance": 2**80})):
            entries[number] = entries[number]._replace(note={**(entries[number].note or {}), **wrong})
        taken, _ = index.catalog.notes.apply(entries, (), index.vault.stamp, index.embedder.fingerprint)
        assert taken == [f"{number}.md" for number in range(5)]
        assert rows(index.catalog, "SELECT path FROM notes ORDER BY 1") == [("0.md",), ("2.md",), ("4.md",)]
        assert index.catalog.at("4.md")[0].text.strip() == "The note 4, edited."
        reasons = {fault.path: fault.reason for fault in index.catalog.notes.faults()}
        assert ({*reasons}, all("cannot keep it" in each for each in reasons.values())) == ({"1.md", "3.md"}, True)
        write_note("1.md", "Mended.\n")
        assert [fault.path for fault in sync.run(index).failed] == ["3.md"]
        assert index.catalog.upkeep.verify() == []
        write_note("large.md", "text " * 50_000)
        [[pages]] = rows(index.catalog, "PRAGMA page_count")
        connection = Database.connection

        def limited(self: Database) -> sqlite3.Connection:
            found = connection(self)
            found.execute(f"PRAGMA max_page_count = {pages + 2}")
            return found

        monkeypatch.setattr(Database, "connection", limited)
        with pytest.raises(StorageError, match="full"):
            sync.run(index)
        assert {fault.path for fault in index.catalog.notes.faults()} == {"3.md"}


# -- files that are no regular files


@pytest.mark.skipif(sys.platform == "win32", reason="there are no FIFOs")
def test_files_that_are_no_regular_files_are_named_and_not_read(
    book: Spellbook, vault: Path, write_note: Write, tmp_path: Path
) -> None:
    """
    FIFOs, devices and links to them are named and block no scan; in the place of settings a huge file neither. FILE must be a
    regular file, and stdin is read up to the size limit of a note; `install` leaves others alone.
    """
    write_note("plain.md", "The lighthouse.\n")
    for file in (vault / ".spellbookignore", vault / ".spellbook/config.toml"):
        file.parent.mkdir(exist_ok=True)
        for make, said in (
            (lambda file: file.symlink_to("/dev/zero"), "not a regular file"),
            (os.mkfifo, "not a regular file"),
            (lambda file: file.write_bytes(b"#" * (disk.SMALL + 1)), "over 1 MB"),
        ):
            make(file)
            shown = spellbook(vault, "reindex", code=2).stderr
            assert f"{file}: " in shown
            assert said in shown
            file.unlink()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(StorageError, match="not a regular file"):
        changes.read(tmp_path / "fifo")
    for command in ("scribe {} --topic t -k k", "revise plain {}"):
        for file in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
            assert "Give a regular file" in spellbook(vault, *command.format(file).split(), code=2).stderr
    with open("/dev/zero", "rb") as zeros:
        program = [sys.executable, "-m", "spellbook", "--vault", str(vault), "revise", "plain", "-"]
        told = subprocess.run(program, stdin=zeros, capture_output=True)
    assert (told.returncode, b"over 10 MB" in told.stderr) == (2, True)
    assert (vault / "plain.md").read_text() == "The lighthouse.\n"
    os.mkfifo(vault / "fifo.md")
    (vault / "link.md").symlink_to("fifo.md")
    (vault / "zero.md").symlink_to("/dev/zero")
    os.mkfifo(vault / "attached.bin")
    notes = {"fifo.md", "link.md", "zero.md"}
    assert {fault.path for fault in book.reindex().failed} == notes
    assert [hit.path for hit in book.search("lighthouse").hits] == ["plain.md"]
    for name in ("fifo.md", "link.md", "attached.bin"):
        for look in (book.index.vault.read, book.index.vault.hash, lambda path: list(book.index.vault.pieces(path))):
            with pytest.raises(InvalidInput, match="not a regular file"):
                look(name)
    assert {fault.path for fault in book.export(tmp_path / "all.json").faults} == notes | {"attached.bin"}


# -- patterns and settings that take for ever

PATTERNS = ["*a*a*a*a*a*b", "**/a/**/a/**/a/**/a/**/b", "a/**/*a*a*a*a*b/**/c", "*?" * 400 + "b", "[ab]*" * 150 + "c"]
LONG = ["a" * 255, "a/" * 2_000 + "a.md", "a" * 4_000]


def test_no_pattern_and_no_setting_takes_long(book: Spellbook, vault: Path) -> None:
    """
    Matching a path with a pattern or glob, or finding links that nobody closes, takes linear time. Too long or too many
    patterns are refused by file and line, and nothing is indexed. Any config.toml is read at once or refused with a short
    message, whatever its numbers and depth.
    """
    started = time.process_time()
    for pattern in PATTERNS:
        patterns = patterns_of(".gitignore", pattern.encode(), "Mend the line.")
        for path in LONG:
            assert not leaves_out(partial(verdict, patterns), path)
            assert not path_glob(path, pattern)
    for begun in ("[[a|", "[[a#", "![["):
        assert list(find(parse("a.md", (begun * 20_000 + "\n]]\n").encode()))) == []
    digits, zeros, many = "9" * 5_000, "0" * 400, "".join(f"'{n}' = 'x'\n" for n in range(201))
    for text in (
        *(f"cache_mb = {digits}", f"journal_days = 1{zeros}", "threads = 1000000", f"x = {'[' * 100_000}"),
        *(f"embedder{'.a' * 100_000} = 1", "[scopes" + ' . "a"' * 100_000 + "]\nx = 1"),
        *(f"[half_lives]\nx = 1{zeros}", f"[scopes]\n{many}", f"[scopes]\n{'a' * 1_001} = 'x'\n"),
    ):
        with pytest.raises(InvalidInput) as caught:
            config.settings_of("config.toml", text)
        assert len(str(caught.value)) < 500
    assert time.process_time() - started < 30
    for text, said in (
        ("x\n" * 1_001, "1,001 lines"),
        ("x\n" + "*" * 1_001, "line 2: it is over 1,000 letters"),
        ("x\n[z-a]", "line 2: bad character range"),
    ):
        (vault / ".spellbookignore").write_text(text)
        with pytest.raises(InvalidInput, match=said):
            book.reindex()


# -- a journal and a catalog that are none


def test_a_damaged_journal_or_catalog_is_set_aside_and_told(
    vault: Path, write_note: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Commands continue with a new journal; log, undo and doctor say what is lost and where the old file is. A damaged catalog
    that is set aside is reported too; nothing is lost. A stored text that does not match its hash counts as missing.
    """
    write_note("a.md", "text\n")

    def run(*command: str) -> str:
        result = spellbook(vault, *command, code=None)
        return result.stdout + result.stderr

    run("revise", "a", "--set", "x=1")
    [state] = (tmp_path / "state").iterdir()
    garbage = b"no database " * 4_000
    (state / "journal.db").write_bytes(garbage)
    run("revise", "a", "--set", "x=2")
    assert "The journal of changes was damaged" in caplog.text
    assert [file.read_bytes() for file in state.glob("journal.db.damaged-*")] == [garbage]
    assert "edit" in run("log")
    assert "x: 1" in run("undo")
    assert all("journal.db.damaged-" in run(command) for command in ("log", "doctor", "undo"))
    assert "x: 1" in (vault / "a.md").read_text()
    with books.open(vault, embedder="hash") as book:
        journal, [entry] = book.index.vault.journal, book.log(1)
        sha256 = entry.traces[0].before or ""
        assert journal.text(sha256)
        for damaged in (b"no zlib", zlib.compress(b"other\n")):
            with contextlib.closing(sqlite3.connect(state / FILE, isolation_level=None)) as database:
                database.execute("UPDATE blobs SET data = ? WHERE sha256 = ?", (damaged, sha256))
            assert journal.text(sha256) is None
    (tmp_path / "catalog.db").write_bytes(garbage)
    Catalog.open(tmp_path).close()
    assert "it is rebuilt from the vault" in caplog.text


# -- bad input

ODD = [
    *("", " ", "\0", "\ud800", "../../etc/passwd", "/etc/passwd", "C:\\x", "a" * 100_000, "#" * 10_000),
    *("~", "#", "x'; DROP TABLE notes; --", "%", "🧙‍♂️", "null", "a#b~9"),
]
VERBS: tuple[tuple[str, dict[str, object]], ...] = (
    ("show", {}),
    ("topic", {}),
    ("revise", {"content": "new"}),
    ("revise", {"metadata": {"topic": "x"}}),
    ("erase", {}),
    ("erase", {"hard": True}),
    ("erase_topic", {}),
    ("restore", {}),
    ("require_session", {}),
)
META = {"topic": "sea", "keywords": ["lighthouse"]}
GOOD = {"text": "A finished thought about the lighthouse.", "metadata": META}
BAD: tuple[Any, ...] = (
    *(None, "text", [], {}, {"text": ""}, {"text": "x"}, {"text": 5, "metadata": {}}, {**GOOD, "metadata": []}),
    *({**GOOD, "text": text} for text in ("a\0b", "\ud800", "x" * 10_000_001)),
    *({**GOOD, "metadata": metadata} for metadata in (None, {"topic": "t"})),
    *({**GOOD, "metadata": {**META, **wrong}} for wrong in (
        {"topic": ""}, {"topic": 5}, {"topic": "a\nb"}, {"keywords": [1]}, {"keywords": [""]}, {"importance": "huge"}, {"importance": 2},
        {"importance": True}, {"entities": [{"type": "person"}]}, {"category": "x" * 301}, {"bad: key": 1}, {"x": object()}, {"x": "a\0"},
    )),
)  # fmt: skip
TOPICS = (
    *("../../up", "/abs", "C:\\win", "a/../../b", "~root", "con", "..", ".hidden", "a\\..\\..\\b"),
    *("x" * 300, "가" * 150, "a/b/c/d"),
)


def test_bad_input_is_an_error_with_a_message(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    An unknown name is a SpellbookError with message and hint, and no file changes. An invalid chunk is named by its number,
    and nothing of the batch is written; an empty batch is INVALID_INPUT.
    """
    write_note("a.md", "# A\n\ntext\n\n## B\n\nmore", topic="t")
    before = held(vault)
    for odd in ODD:
        with pytest.raises(SpellbookError, match="match"):
            book.find("x", match=odd)
        with pytest.raises(SpellbookError, match=r"guides|Unicode"):
            book.rest(odd or "fr")  # without a language it is the setting's
        for name, given in VERBS:
            with pytest.raises(SpellbookError) as caught:
                getattr(book, name)(odd, **given)
            assert caught.value.message, name
            assert caught.value.hint, name
            assert len(str(caught.value)) < 2_000
    for chunk in BAD:
        with pytest.raises(SpellbookError, match=r"chunk 2|chunks\[1\]") as caught:
            book.scribe_all([GOOD, chunk])
        assert caught.value.code == "INVALID_INPUT"
    with pytest.raises(SpellbookError, match="no chunk"):
        book.scribe_all([])
    assert held(vault) == before


def test_a_memory_lands_in_the_vault_whatever_its_topic(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """Whatever topic, category and title are, a new note is inside the vault and found."""
    for topic in TOPICS:
        metadata = {**META, "topic": topic, "category": topic[:200], "title": topic}
        [written] = book.scribe({**GOOD, "metadata": metadata}, force=True).written
        file = vault / written.path
        assert file.resolve().is_relative_to(vault)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "vault"]
        assert [hit.path for hit in book.find("lighthouse").hits] == [written.path]
        assert all(len(part.encode()) <= 120 for part in written.path.split("/"))
        file.unlink()


TITLES = [
    "x" * 97 + ".md and more",
    *"""[a] b
a]] [[b
a|b
C# notes
#tag
a^b
^block
a#h^b
a/b\\c
../a
say "hi"
it's ''so''
end...
... begin
README.md
CHANGES.MD
a.md.Md
.md
a .md
a.md?
설계 결정: DB [초안]
회의록 | 2026-11-28
e\u0301 가
2026-11-28
2026_11_28
a%20b
a&amp;b
%%a%%
`a`
$x$ $y$
<!-- a -->
a: b
- a
~
null
true
http://a.b/c
a.png
{{a}}
a, b""".splitlines(),
]
AS_GIVEN: dict[str, Any] = {"force": True, "labels": "derived", "category": "memory"}
FILES = """a[b]c.md
a#b.md
a^b.md
a|b.md
X.MD.md
y.MD
it's.md
say "x".md
a]]b.md
회의 [1].md
a%%b.md""".splitlines()


def test_a_link_to_a_note_leads_to_it_whatever_its_title_and_its_file_are_called(
    book: Spellbook, vault: Path, write_note: Write
) -> None:
    """
    A wikilink to the file of a note that was just written leads to it, by name, by path and by the relation that supersedes
    it. So does such a relation to a file of any name that a person gave.
    """
    by_hand = ["hand/" + name for name in FILES if os.name != "nt"]
    for number, path in enumerate(by_hand):
        write_note(path, f"{number} nets hang here.")
    book.reindex()
    named = [
        {"text": f"{number} boats.", "metadata": {"topic": "t", "title": each}} for number, each in enumerate(TITLES)
    ]
    paths = [each.path for each in book.scribe_all(named, **AS_GIVEN).written]
    links = [f"- [[{path[:-3]}]], [[{path.rpartition('/')[2][:-3]}|x]]\n" for path in paths]
    write_note("z.md", "".join(links))
    book.reindex()
    assert leading(book, "z.md") == [path for path in paths for _ in range(2)]
    after = [
        {"text": f"{path} is over.", "metadata": {"topic": "t", "supersedes": [path]}} for path in (*paths, *by_hand)
    ]
    successors = book.scribe_all(after, **AS_GIVEN).written
    assert [leading(book, each.path) for each in successors] == [[path] for path in (*paths, *by_hand)]


def leading(book: Spellbook, path: str) -> list[str | None]:
    """The paths that the links of a note lead to, None for a link that leads nowhere."""
    return [link.path for link in related.links(book.index.catalog.links, path)]
