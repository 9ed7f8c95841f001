"""A day with Obsidian: daily notes, templates, a renamed folder, an attachment and a canvas, as Obsidian writes them."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spellbook.index import sync
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput
from tests.commands import spellbook_in as run
from tests.helpers import Counting, opened

YESTERYEAR = "2019-05-06"
"""A day on which none of the files was written."""

FILES = {
    "일기/2026-10-15.md": "금요일에 오더허브 배포를 하지 않기로 했다. [[주간회의]] ![[구조.png]]\n",
    "일기/2026-10-16.md": "",
    "일기/2026-10-14.md": "---\ndate: 2019-05-06\n---\n날짜를 적은 일기\n",
    "회의/주간회의.md": "# 주간회의\n\n배포 일정 이야기. [[템플릿/회의|회의 틀]] [일기](../일기/2026-10-15.md)\n",
    "Projects/오더허브.md": "---\ntags: [decision]\n---\n# 캐시는 Redis로\n\n이유: 이미 쓰고 있다.\n",
    "Projects/결제.md": "---\ncategory: fact\ntags: [decision]\n---\n# 결제\n\n결제 대행사는 둘이다.\n",
    "메모/스택.md": "# 스택\n\n언어는 Go로 정했다. #decision/infra\n",
    "템플릿/회의.md": "---\ndate: {{date}}\n---\n# {{title}}\n",
    "템플릿/일기.md": "---\ncreated: <% tp.date.now() %>\n---\n\n",
    "첨부/구조.png": "not a note",
    "지도.canvas": '{"nodes":[{"id":"1","type":"file","file":"회의/주간회의.md","x":0,"y":0,"width":400,"height":400}]}',
    "보관/옛날.md": "지난 배포 이야기\n",
    ".obsidian/app.json": json.dumps({"userIgnoreFilters": ["보관/"], "newLinkFormat": "shortest"}),
    ".obsidian/daily-notes.json": json.dumps({"folder": "일기", "format": "YYYY-MM-DD", "template": "템플릿/일기"}),
    ".obsidian/templates.json": json.dumps({"folder": "템플릿"}),
    ".obsidian/workspace.json": "{}",
}
CATEGORIES = '[categories]\n"#decision" = "decision"\n"회의/" = "meeting"\ndecision = "What we decided"\n'


def put(vault: Path, path: str, text: str) -> None:
    """Write a file, with a time long after all days in it."""
    (vault / path).parent.mkdir(parents=True, exist_ok=True)
    (vault / path).write_text(text, "utf-8")
    os.utime(vault / path, (1_800_000_000, 1_800_000_000))


@pytest.fixture
def notes(vault: Path) -> Path:
    """The vault, as it lies on the disk in the evening."""
    for path, text in FILES.items():
        put(vault, path, text)
    return vault


@pytest.fixture
def book(notes: Path) -> Iterator[Spellbook]:
    """The vault, indexed."""
    with books.open(notes, embedder="hash") as opened:
        opened.reindex()
        yield opened


def dates(book: Spellbook) -> dict[str, str]:
    """The dates of all notes as `recent` shows them."""
    return {note["path"]: note["when"][:10] for note in book.recent(limit=50).as_dict()["notes"]}


def test_templates_are_neither_notes_nor_faulty(notes: Path) -> None:
    """
    `reindex` says nothing of templates and excluded files and ends well; links to them are not broken, a backup has
    them, and nothing is written there.
    """
    done = run(notes, "reindex")
    assert "{{" not in done.output
    assert "7 notes" in done.stdout
    assert "leads nowhere" not in run(notes, "doctor", code=0).stdout
    exported = notes.parent / "out.zip"
    run(notes, "export", exported)
    assert "템플릿/회의.md" in zipfile.ZipFile(exported).namelist()
    with books.open(notes, embedder="hash") as book:
        assert not book.find("title").hits
        with pytest.raises(InvalidInput, match=r"\.obsidian leaves out"):
            book.scribe({"text": "a note", "metadata": {"topic": "나", "category": "템플릿", "keywords": ["a"]}})


def test_a_daily_note_is_from_its_day(book: Spellbook, notes: Path) -> None:
    """
    `recent`, filters and questions take the day of its name; what the frontmatter says goes before it. After a copy of
    the vault and for a token that sees less, a daily note is from the same day.

    After a folder was renamed, its notes are moved ones, and links of Obsidian's short form still lead there.
    """
    known = dates(book)
    assert known["일기/2026-10-15.md"] == "2026-10-15"
    assert known["일기/2026-10-14.md"] == YESTERYEAR
    assert known["회의/주간회의.md"].startswith("2027-01")
    for text, when, path in (("배포", "2026-10-15", "일기/2026-10-15.md"), ("날짜", YESTERYEAR, "일기/2026-10-14.md")):
        assert [hit.path for hit in book.search(text, filter={"when": when}, min_score=0).hits] == [path]
    copy = shutil.copytree(notes, notes.parent / "copy", copy_function=shutil.copyfile)
    with books.open(copy, embedder="hash") as other:
        other.reindex()
        assert dates(other)["일기/2026-10-15.md"] == "2026-10-15"
    (notes / "회의").rename(notes / "모임")
    canvas = notes / "지도.canvas"
    canvas.write_text(canvas.read_text("utf-8").replace("회의/", "모임/"), "utf-8")
    report = book.reindex()
    assert (report.moved, report.added, report.embedded) == (1, 0, 0)
    assert "leads nowhere" not in run(notes, "doctor").stdout
    put(notes, "일기/2026-10-13.md", "---\nprivacy_scope: team\ntags: [decision]\n---\n팀의 일기 배포\n")
    put(notes, ".spellbook/config.toml", CATEGORIES)
    with books.open(notes, embedder="hash") as again:
        again.reindex()
        [note] = limited.seen_by(again, "team").recent(limit=50).as_dict()["notes"]
        assert (note["path"], note["when"], note["category"]) == ("일기/2026-10-13.md", "2026-10-13", "decision")


def test_another_format_dates_notes_anew_and_embeds_none(notes: Path) -> None:
    """When Obsidian's format or the mapping of categories changes, the next scan follows, without an embedding."""
    put(notes, "일기/16.10.2026.md", "다른 형식의 일기\n")
    model = Counting()
    with opened(notes, model) as index:
        sync.run(index)
        assert model.taken()
        day = {"path": "일기/16.10.2026.md"}
        assert index.catalog.at(day["path"])[0].created is None
        put(notes, ".obsidian/daily-notes.json", json.dumps({"folder": "일기", "format": "DD.MM.YYYY"}))
        sync.run(index)
        assert index.catalog.at(day["path"])[0].created == "2026-10-16"
        assert index.catalog.at("일기/2026-10-15.md")[0].created == "2026-10-15"
        put(notes, ".obsidian/app.json", "{}")
        assert sync.run(index).added == 1
        assert not [text for text in model.texts if "옛날" not in text and "지난" not in text]
    model.taken()
    put(notes, ".spellbook/config.toml", CATEGORIES)
    with opened(notes, model) as index:
        sync.run(index)
        assert index.catalog.at("Projects/오더허브.md")[0].category == "decision"
        assert not model.taken()


def test_half_of_a_vault_may_be_excluded(notes: Path) -> None:
    """Files that settings exclude are forgotten at once: a missing drive is told by what is not there."""
    for number in range(30):
        put(notes, f"클립/{number}.md", f"클립 {number}")
    with books.open(notes, embedder="hash") as book:
        assert book.reindex().added == 37
        put(notes, ".obsidian/app.json", json.dumps({"userIgnoreFilters": ["클립"]}))
        assert book.reindex().removed == 30
        put(notes, ".spellbook/config.toml", "obsidian = false\n")
    with books.open(notes, embedder="hash") as book:
        book.reindex()
        assert {"템플릿/회의.md", "보관/옛날.md", "클립/7.md"} <= dates(book).keys(), "one setting says no"


def test_a_tag_or_a_folder_stands_for_a_category(notes: Path) -> None:
    """Notes that are tagged so are decisions everywhere; frontmatter's own category goes before the mapping."""
    put(notes, ".spellbook/config.toml", CATEGORIES)
    with books.open(notes, embedder="hash") as book:
        book.reindex()
        decided = book.memories.decisions.find(kind="decision")
        assert {item.chunk.path for item in decided.items} == {"Projects/오더허브.md", "메모/스택.md"}
        shown = {item.chunk.path: item.as_dict() for item in decided.items}["Projects/오더허브.md"]
        assert (shown["type"], shown["reasoning"]) == ("decision", "이미 쓰고 있다.")
        named = {category.name: category for category in book.contents()}
        assert named["decision"].description == "What we decided"
        assert named["meeting"].topics[0].topic == "회의"
        assert "#decision" not in named
        assert [hit.path for hit in book.find("결제", filter={"category": "fact"}).hits] == ["Projects/결제.md"]
        id = shown["id"]
        assert book.memories.decisions.update(id, "success", "잘 된다")["outcome"] == "success"
