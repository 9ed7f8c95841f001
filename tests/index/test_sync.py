"""Sync: the index equals the vault, with the least work, whatever happened in between."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from spellbook.index import embed, extract, sync
from spellbook.index.catalog.links import Links
from spellbook.index.catalog.rows import KnownFile
from spellbook.index.opened import Index
from spellbook.index.sync import SETTLED_NS, Plan, is_unlikely, plan
from spellbook.models.base import Vectors
from spellbook.notes import chunks
from spellbook.notes.files import Stamp
from spellbook.search.question import Answer, Question
from spellbook.search.searcher import Searcher
from spellbook.system.errors import EmbeddingError, StorageError
from spellbook.vault.listing import Listing
from tests.helpers import PATIENCE, Counting, Failing, Write, from_scratch, opened, rows, told

THEN, NOW = 1_000_000_000_000, 1_000_000_000_000 + SETTLED_NS
OLD, CHANGED = Stamp(10, THEN, 1), Stamp(10, 1, 1, THEN + 1)
KNOWN = KnownFile(OLD, NOW, "hash")

PLANS = [
    ({}, {}, Plan()),
    ({"a": OLD}, {"a": KNOWN}, Plan()),
    ({"a": OLD}, {}, Plan(("a",))),  # new
    *[({"a": Stamp(*stamp)}, {"a": KNOWN}, Plan(("a",))) for stamp in ((11, THEN, 1), (10, THEN - 1, 1))],
    *[({"a": Stamp(*stamp)}, {"a": KNOWN}, Plan(("a",))) for stamp in ((10, THEN, 2), (10, THEN, 1, 5))],
    ({"a": CHANGED}, {"a": KnownFile(CHANGED, THEN + 10**7, "")}, Plan(("a",))),  # in place, mid-run
    ({"a": CHANGED}, {"a": KnownFile(CHANGED, THEN + 10**8, "")}, Plan()),  # settled
    ({"b": OLD}, {"a": KNOWN}, Plan(("b",), ("a",))),  # renamed
    ({"a": OLD}, {"a": KnownFile(OLD, NOW - 1, "")}, Plan(("a",))),  # written mid-run
    ({"a": OLD}, {"a": KnownFile(OLD, 0, "")}, Plan(("a",))),  # never trusted
]
LIKELY = [
    *((0, 100, 100, True), (0, 51, 100, True), (0, 50, 100, False)),  # all, more than half, half
    *((0, 9, 9, False), (100, 100, 100, False), (5, 100, 100, True)),  # few, all renamed, little new for much
]


def test_plan() -> None:
    """
    Only new, changed and unsettled files are read; missing files are dropped only if their folder was readable. Many
    files missing with none new looks like a drive that is not mounted.
    """
    for disk, known, expected in PLANS:
        assert plan(disk, known) == expected
        assert plan(disk, known, full=True) == Plan(tuple(disk), expected.gone)
        assert plan(disk, {**known, "hidden/b": KNOWN}, ("hidden/",)) == expected
    for read, gone, count, unlikely in LIKELY:
        work = Plan(tuple(f"new{i}" for i in range(read)), tuple(f"p{i}" for i in range(gone)))
        assert is_unlikely(work, dict.fromkeys((f"p{i}" for i in range(count)), KNOWN)) is unlikely


Call = Callable[..., Any]
COUNTS = ("scanned", "added", "changed", "moved", "removed", "unchanged", "embedded", "reused")


def counts(report: object) -> dict[str, int]:
    return {name: getattr(report, name) for name in COUNTS if getattr(report, name)}


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
def index(vault: Path, write_note: Write, embedder: Counting) -> Iterator[Index]:
    """Four notes with two sections each below a bare title, indexed, with stamps old enough to be trusted."""
    for i in range(4):
        write_note(f"f/{i}.md", f"# Note {i}\n\n## One\n\nfirst {i}\n\n## Two\n\nsecond {i}\n", age=100)
    with opened(vault, embedder) as opening:
        report = sync.run(opening)
        assert counts(report) == {"scanned": 4, "added": 4, "embedded": 8}
        embedder.taken()
        yield opening


def test_nothing_to_do_is_nothing_done(index: Index, vault: Path) -> None:
    """
    A run over an unchanged vault writes nothing: the generation stays. So it does for a file that came back, or was
    written while it was read, and for keys of another embedding.
    """
    generation, apply = index.catalog.generation, index.catalog.notes.apply
    report = sync.run(index)
    assert (counts(report), report.generation) == ({"scanned": 4, "unchanged": 4}, generation)
    assert (report.chunks, report.pending) == (12, 0)
    read = extract.read(index.vault, "f/0.md", sync.rules(index))
    assert read is not None
    assert apply((), ["f/0.md"], index.vault.spelled, index.embedder.fingerprint) == ([], [])
    assert apply([read], (), index.vault.stamp, "another embedding") == ([], [])
    (vault / "f/0.md").write_text("written meanwhile")
    assert apply([read], (), index.vault.stamp, index.embedder.fingerprint) == ([], [])
    assert index.catalog.generation == generation


@pytest.mark.skipif(os.name == "nt", reason="no time there that nobody can set")
def test_stamps_that_change_alone_and_edits_that_keep_them(
    index: Index, vault: Path, embedder: Counting, tmp_path: Path
) -> None:
    """
    A file with the same bytes is read once more, and nothing is written of its note: time, permissions, hard links.

    An edit that keeps a file's size, time and number is found by a look at everything; on a disk whose stamps do not
    show the change, if an event hinted at it.
    """
    generation, file = index.catalog.generation, vault / "f/0.md"
    for touch in (
        partial(os.utime, file, ns=(5, 5)),
        partial(file.chmod, 0o600),
        partial(os.link, file, tmp_path / "other name"),
    ):
        before = index.catalog.notes.known()
        touch()
        assert counts(sync.run(index)) == {"scanned": 4, "unchanged": 4}
        assert before != index.catalog.notes.known()
    assert (index.catalog.generation, embedder.taken()) == (generation, 0)
    assert index.catalog.notes.known()["f/0.md"].stamp == index.vault.stamp("f/0.md")
    status = file.stat()
    file.write_text(file.read_text().replace("first", "extra"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat()[:-3] == status[:-3]
    assert counts(sync.run(index)) == {"scanned": 4, "changed": 1, "unchanged": 3, "embedded": 1, "reused": 1}
    assert [hit.path for hit in Searcher(index).ask(Question("extra", "keyword")).hits] == ["f/0.md"]
    file.write_text(file.read_text().replace("extra", "third"))
    stamp = index.vault.stamp("f/0.md")
    assert stamp is not None
    sql = "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, ctime_ns = ?, read_ns = ? WHERE path = 'f/0.md'"
    rows(index.catalog, sql, *stamp, stamp.mtime_ns + 10 * SETTLED_NS)
    assert counts(sync.scan(index)) == {"scanned": 4, "unchanged": 4}
    assert counts(sync.scan(index, hinted={"f/0.md"})) == {"scanned": 4, "changed": 1, "unchanged": 3, "reused": 1}


SECTIONS = "# Note 0\n\n## Two\n\nsecond 0\n\n## One\n\nfirst 0\n"
LABELLED = "---\nimportance: high\ntags: [x]\n---\n# Note 0\n\n## One\n\nfirst 0\n\n## Two\n\nsecond 0\n"
REWRITTEN = "# Note 0\n\n## One\n\nfirst 0\n\n## Two\n\nrewritten\n"
APART = {"f/0.md": "# Note 0\n\n## One\n\nfirst 0\n", "f/9.md": "# Note 0\n\n## Two\n\nsecond 0\n"}


def written(**texts: str) -> Callable[[Path], object]:
    """A change that writes these notes."""
    return lambda vault: [(vault / path).write_text(text) for path, text in texts.items()]


def contents(vault: Path) -> dict[Path, str]:
    return {file: file.read_text() for file in vault.rglob("*.md")}


def lose_one_and_find_two(vault: Path) -> None:
    shutil.copy(vault / "f/0.md", vault / "x.md")
    (vault / "f/0.md").rename(vault / "y.md")


def change_in_every_way(vault: Path) -> None:
    written(**{"new.md": "entirely new", "f/0.md": REWRITTEN})(vault)
    (vault / "f/1.md").unlink()
    (vault / "f/2.md").rename(vault / "moved.md")


@pytest.mark.parametrize(
    ("change", "full", "expected"),
    [
        pytest.param(lambda vault: (vault / "f/0.md").rename(vault / "renamed.md"), False, {"scanned": 4, "moved": 1, "unchanged": 3, "reused": 2}, id="rename"),
        pytest.param(lambda vault: (vault / "f").rename(vault / "g"), False, {"scanned": 4, "moved": 4, "reused": 8}, id="folder"),
        pytest.param(written(**{"f/0.md": SECTIONS}), False, {"scanned": 4, "changed": 1, "unchanged": 3, "reused": 2}, id="section"),
        pytest.param(written(**APART), False, {"scanned": 5, "changed": 1, "added": 1, "unchanged": 3, "reused": 2}, id="between notes"),
        pytest.param(written(**{"f/0.md": LABELLED}), False, {"scanned": 4, "changed": 1, "unchanged": 3, "reused": 2}, id="metadata"),
        pytest.param(lambda vault: None, True, {"scanned": 4, "unchanged": 4, "reused": 8}, id="rebuild"),
        pytest.param(lambda vault: shutil.copy(vault / "f/0.md", vault / "copy.md"), False, {"scanned": 5, "added": 1, "unchanged": 4, "reused": 2}, id="copy"),
        pytest.param(lose_one_and_find_two, False, {"scanned": 5, "added": 1, "moved": 1, "unchanged": 3, "reused": 2}, id="one lost, two found"),
        pytest.param(change_in_every_way, False, {"scanned": 4, "added": 1, "changed": 1, "moved": 1, "removed": 1, "unchanged": 1, "embedded": 2, "reused": 3}, id="everything"),
    ],
)  # fmt: skip
def test_changes_are_counted_as_a_person_would(
    index: Index, vault: Path, embedder: Counting, tmp_path: Path, change: Any, full: bool, expected: dict[str, Any]
) -> None:
    """
    Added, changed, removed, moved and embedded are told as they are; text that was embedded before is not embedded
    again, wherever it moves. Switching branches there and back embeds each branch's texts once.
    """
    before = contents(vault)
    change(vault)
    assert counts(sync.run(index, full=full)) == expected
    assert embedder.taken() == expected.get("embedded", 0)
    assert told(index) == from_scratch(vault, tmp_path / "fresh")
    after = contents(vault)
    for branch in (before, after):
        for file in before | after:
            file.parent.mkdir(exist_ok=True)
            file.write_text(branch[file]) if file in branch else file.unlink(missing_ok=True)
        report = sync.run(index)
        assert (report.embedded, embedder.taken(), report.pending) == (0, 0, 0)


def test_one_bad_note_is_reported_and_the_others_indexed(vault: Path, write_note: Write, tmp_path: Path) -> None:
    """
    Undecodable, too large and faulty notes are each named, one that becomes so leaves; everything else is found. A note
    replaced by a link out of the vault is removed with a reason by the first run; later runs change nothing.
    """
    write_note("good.md", "lighthouse")
    (vault / "binary.md").write_bytes(b"\x00\xff\xfe" * 100)
    (vault / "cp949.md").write_bytes("한글".encode("cp949"))
    (vault / "large.md").write_bytes(b"x" * 10_000_001)
    write_note("yaml.md", "---\na: [1\n---\nbody stays")
    with opened(vault) as index:
        report = sync.run(index)
        assert {fault.path for fault in report.failed} == {"binary.md", "cp949.md", "large.md", "yaml.md"}
        assert {found.path for found in index.catalog.by_number(range(1, 10))} == {"good.md", "yaml.md"}
        generation = index.catalog.generation
        assert {fault.path for fault in sync.run(index).failed} == {fault.path for fault in report.failed}
        assert index.catalog.generation == generation
        (vault / "cp949.md").write_text("한글", "utf-8")
        (vault / "large.md").unlink()
        assert {fault.path for fault in sync.run(index).failed} == {"binary.md", "yaml.md"}
        (vault / "good.md").write_bytes(b"\xff\xfa\xff\xfa")
        assert {fault.path for fault in sync.run(index).failed} == {"binary.md", "good.md", "yaml.md"}
        assert index.catalog.note("good") == []
        (tmp_path / "secret.md").write_text("secret")
        (vault / "good.md").unlink()
        (vault / "good.md").symlink_to(tmp_path / "secret.md")
        assert "good.md" in {fault.path for fault in sync.run(index).failed}
        generation = index.catalog.generation
        assert "good.md" in {fault.path for fault in sync.run(index).failed}
        assert index.catalog.generation == generation
        assert told(index) == from_scratch(vault, tmp_path / "fresh")


def test_a_note_that_breaks_the_reader_does_not_stop_the_rest(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error in one note, as it is read or kept, is a fault of that note alone."""
    cut, links = chunks.cut, Links.add

    def breaking(whole: Call, error: Exception, is_bad: Call) -> Call:
        def breaks(*given: Any) -> Any:
            if is_bad(given):
                raise error
            return whole(*given)

        return breaks

    refuses = breaking(links, OverflowError("too large"), lambda given: "refused" in str(given[1]))
    monkeypatch.setattr(
        chunks, "cut", breaking(cut, RecursionError("too deep"), lambda given: given[0].path == "bad.md")
    )
    monkeypatch.setattr(Links, "add", staticmethod(lambda connection, notes: refuses(connection, list(notes))))
    for name, text in (("bad", "x"), ("good", "y"), ("worse", "[[refused]]")):
        write_note(f"{name}.md", text)
    with opened(vault) as index:
        failed = {fault.path: fault.reason for fault in sync.run(index).failed}
        assert failed.keys() == {"bad.md", "worse.md"}
        assert ("RecursionError" in failed["bad.md"], "OverflowError" in failed["worse.md"]) == (True, True)
        assert index.catalog.counts().notes == 1
    assert "bad.md" in caplog.text


def test_ids(vault: Path, write_note: Write, tmp_path: Path) -> None:
    """
    Of two files with one id the older keeps it: the copy is known by its path, both are named, and it gets the id when
    the original, also renamed, is gone.

    In a new index the shorter path gets a shared id, not the older file; a path goes before an id that equals it.
    `a.md`, `a.MD`, `a.MD.md`, `a.md.md` and `A.md` are five notes with five ids.
    """
    write_note("z/original.md", "text", id="abc", age=100)
    with opened(vault) as index:

        def holders(*ids: str) -> list[str]:
            sync.run(index)
            return [index.catalog.note(id)[0].path for id in ids]

        def named() -> list[str]:
            return [fault.path for fault in index.catalog.notes.twins()]

        sync.run(index)
        write_note("a/copy.md", "text", id="abc")
        assert sync.run(index).failed == ()
        assert holders("abc", "a/copy") == ["z/original.md", "a/copy.md"]
        assert (named(), "z/original.md" in index.catalog.notes.twins()[0].reason) == (["a/copy.md"], True)
        write_note("z/original.md", "edited, so younger than its copy", id="abc")
        assert holders("abc") == ["z/original.md"]
        (vault / "z/original.md").rename(vault / "zwei.md")
        assert holders("abc", "a/copy") == ["zwei.md", "a/copy.md"]
        (vault / "zwei.md").unlink()
        assert (holders("abc"), named()) == (["a/copy.md"], [])
        assert index.catalog.where_is("a/copy.md") == "abc"
        write_note("b copy.md", "text", id="shared", age=1000)
        write_note("b.md", "text", id="shared")
        write_note("x.md", "one", id="y", age=100)
        assert holders("shared", "b copy", "y") == ["b.md", "b copy.md", "x.md"]
        write_note("y.md", "two")
        assert (holders("y", "x"), named()) == (["y.md", "x.md"], ["b copy.md", "x.md"])
        (vault / "y.md").unlink()
        assert holders("y") == ["x.md"]
        names = {"c.md": "c", "c.MD": "c.MD", "c.MD.md": "c.MD.md", "c.md.md": "c.md.md", "C.md": "C"}
        for name in names:
            write_note(name, f"text of {name}")
        if len(list(vault.glob("[cC].*"))) == 5:  # else the disk does not tell case apart
            assert holders(*names.values()) == holders(*names) == [*names]
        sync.run(index)
        assert told(index) == from_scratch(vault, tmp_path / "fresh")


def test_an_unmounted_drive_is_no_deletion(
    vault: Path, write_note: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Many missing notes stop the run and stay in the index, and searches under a watcher report the loss too; existing
    ones are still read. With `full` they are removed.

    A folder that moves during the walk may be missed in both places; a second walk finds it before an alarm.
    """
    for number in range(30):
        write_note(f"later/{number}.md", f"text {number}")
    with opened(vault) as index:
        sync.run(index)
        walk = index.vault.walk

        def late() -> Listing:
            monkeypatch.setattr(index.vault, "walk", walk)
            listing = walk()
            (vault / "later").rename(vault / "earlier")
            return listing._replace(files={})

        monkeypatch.setattr(index.vault, "walk", late)
        report = sync.run(index)
        assert (report.moved, report.removed, report.embedded) == (30, 0, 0)
        assert told(index) == from_scratch(vault, tmp_path / "moved")
        for number in range(20):
            (vault / f"earlier/{number}.md").unlink()
        write_note("earlier/29.md", "edited meanwhile")
        with pytest.raises(StorageError, match="20 of 30 notes are gone") as caught:
            sync.run(index)
        assert "--full" in caught.value.hint
        assert [row[0] for row in index.catalog.match('"meanwhile"', (), 5)] != []
        assert index.catalog.counts().notes == 30
        assert sync.run(index, full=True).removed == 20
        assert told(index) == from_scratch(vault, tmp_path / "fresh")


def test_an_embedder_that_fails_keeps_no_other_text_from_its_vector(vault: Path, write_note: Write) -> None:
    """
    If embedding fails notes are found by words, and the next run finishes. If the embedder refuses one text, by any
    error, the others of its batch are embedded and it stays pending.
    """
    refusals = [EmbeddingError("no such letter"), ValueError("an error of its own")]

    class Picky(Counting):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if any("refused" in text for text in texts):
                raise refusals[0]
            return super().embed_passages(texts)

    for i in range(6):
        write_note(f"{i}.md", f"{'refused' if i == 3 else 'plain'} text {i}")
    with opened(vault, Failing()) as index:
        with pytest.raises(EmbeddingError):
            sync.run(index)
        assert len(index.catalog.match('"plain"', (), 9)) == 5
        assert sync.run(index, words_only=True).pending == 6
    with opened(vault, Picky()) as index:
        for embedded in (5, 2):
            report = sync.run(index)
            assert (report.embedded, report.pending) == (embedded, 1)
            refusals.pop(0)
            write_note("8.md", "plain text 8")
            write_note("9.md", "plain text 9")
    with opened(vault) as index:
        assert counts(sync.run(index)) == {"scanned": 8, "unchanged": 8, "embedded": 1}


def test_embedding_is_newest_first_bounded_and_resumable(vault: Path, write_note: Write, embedder: Counting) -> None:
    """
    At most `most` texts are embedded, newest files first; a later call continues. Notes with many links count as newer.
    While another process embeds, a search embeds nothing and a run goes on once that one has ended.
    """
    for i in range(36):
        write_note(f"{i:02}.md", f"text {i:02}", age=100 + i)
    for i in range(4):
        write_note(f"links {i}.md", f"[[hub]] {i}", age=86_400 + i)
    write_note("hub.md", "the hub", age=2 * 86_400)
    with opened(vault, embedder) as index:
        sync.scan(index)
        assert embed.embed_texts(index, most=3) == 3
        assert embedder.texts == ["text 00", "text 01", "text 02"]
        assert embed.embed_texts(index, stop=lambda: embedder.taken() > 0) == 0
        with ThreadPoolExecutor(1) as thread:
            with FileLock(index.config.state / "embed.lock"):
                assert embed.embed_texts(index, most=5) == 0
                later = thread.submit(embed.embed_texts, index)
                assert index.catalog.counts().pending == 38
            assert later.result(PATIENCE) == 38
        assert embedder.texts[-5:] == ["the hub", *(f"[[hub]] {i}" for i in range(4))]
        assert index.catalog.waiting.in_order() == []


def test_what_a_search_finds_by_words_is_embedded_next(vault: Path, write_note: Write) -> None:
    """
    During a long run, texts that a search found by words are embedded next, also from another process. While another
    process commits, a search answers at once and only skips the hint.
    """
    for i in range(200):
        write_note(f"{i:03}.md", f"{'lighthouse' if i in {120, 180} else 'text'} {i:03}", age=100 + i)

    def ask(index: Index, word: str) -> Answer:
        return Searcher(index).ask(Question(word, "keyword", keywords=(word,)))

    class Asked(Counting):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if not self.texts:
                with opened(vault) as other:
                    answer = ask(other, "lighthouse")
                    assert (len(answer.hits), answer.index.pending) == (2, 200)
            return super().embed_passages(texts)

    with opened(vault, embedder := Asked()) as index:
        sync.scan(index)
        with contextlib.closing(sqlite3.connect(index.catalog.file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert len(ask(index, "text").hits) == 5
            assert index.catalog.waiting.asked_for() == []
        assert embed.embed_texts(index) == len(embedder.texts) == 200
        assert sorted(embedder.texts.index(f"lighthouse {i}") for i in (120, 180)) == [24, 25]


def test_some_looks_at_the_paths_it_is_given(index: Index, vault: Path, write_note: Write, tmp_path: Path) -> None:
    """
    A hint about a new, changed, missing or ignored file updates that file and nothing else. With another `chunk_tokens`
    every note is cut again, and the index equals a new one.
    """
    for name in ("new", "unhinted", ".hidden"):
        write_note(f"{name}.md", f"# {name}\n\n" + "\n\n".join(f"paragraph {i} " + "word " * 60 for i in range(10)))
    (vault / "f/1.md").unlink()
    report = sync.scan_paths(index, ["new.md", "f/1.md", ".hidden.md", "never.md", "../x.md"])
    assert (report.added, report.removed) == (1, 1)
    assert {path for path in index.catalog.notes.known() if "/" not in path} == {"new.md"}
    few = sync.run(index).chunks
    with opened(vault, chunk_tokens=64) as other:
        assert sync.run(other).chunks > few
        assert told(other) == from_scratch(vault, tmp_path / "fresh", chunk_tokens=64)
