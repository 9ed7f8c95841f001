"""Exports of other memories, and of Notion: what comes of them, that nothing comes twice, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput, PathOutsideVault
from tests.archive.formats.incoming import SERVICE, notes, zipped

A, B = "0123456789abcdef" * 2, "fedcba9876543210" * 2

MEM0 = {
    "count": 2,
    "results": [
        {
            "id": "f1a0-77",
            "memory": "Prefers morning meetings.",
            "hash": "x",
            "metadata": {"type": "preference"},
            "categories": ["work"],
            "created_at": "2026-01-02T10:00:00-08:00",
            "updated_at": None,
            "user_id": "dev",
        },
        {"id": "../../x", "memory": "Leads the API redesign.", "created_at": 1767434400000},
    ],
}
GRAPH = [
    {"type": "entity", "name": "민수", "entityType": "person", "observations": ["Likes tea", "Lives in Busan"]},
    {"type": "entity", "name": "../../Acme/Corp", "entityType": "org", "observations": []},
    {"type": "relation", "from": "민수", "to": "../../Acme/Corp", "relationType": "works_at"},
    {"type": "relation", "from": "민수", "to": "nobody", "relationType": "knows"},
]


NOTION: dict[str, bytes | str] = {
    f"Home {A}.md": f"# Home\n\nTags: a, b\nStatus: Done\n\nSee [Plans](Home%20{A}/Plans%20{B}.md), "
    f"![x](Home%20{A}/image.png) and [out](https://www.notion.so/x-{A}).\n",
    f"Home {A}/Plans {B}.md": "# Plans\n\nWe plan.\n",
    f"Home {A}/image.png": b"\x89PNG",
    f"Home {A}/Table {B}.csv": "Name,State\nx,y\n",
}


@pytest.mark.parametrize("given", [SERVICE, SERVICE["memories"]])
def test_memories_of_mcp_memory_service(book: Spellbook, tmp_path: Path, given: Any) -> None:
    """Text, tags, dates and plain metadata; nothing comes twice, and what was edited since stays."""
    file = tmp_path / "export.json"
    file.write_text(json.dumps(given), "utf-8")
    assert book.import_(file, dry_run=True).added
    assert notes(book) == {}
    done = book.import_(file)
    assert len(done.added) == 2
    chunk = notes(book)["mcp-memory-service-a1b2c3d4"]
    assert chunk.title == "The deploy key is rotated every ninety days"
    assert (chunk.tags, chunk.category, chunk.created[:10]) == (("ops", "keys"), "memory", "2026-01-01")
    assert (chunk.meta["project"], chunk.meta["memory_type"], "nested" in chunk.meta) == ("river", "note", False)
    assert notes(book)["mcp-memory-service-e5f6"].tags == ("사람", "회의")
    again = book.import_(file)
    assert (again.added, again.unchanged) == ([], 2)
    book.revise("mcp-memory-service-e5f6", append="고쳤다.")
    assert len(book.import_(file).skipped) == 1
    assert "고쳤다" in (book.config.vault / done.added[1]).read_text("utf-8")


@pytest.mark.parametrize("given", [MEM0, MEM0["results"]])
def test_memories_of_mem0(book: Spellbook, tmp_path: Path, given: Any) -> None:
    """As get_all answers, whole or its list; an id cannot lead anywhere."""
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(given), "utf-8")
    assert len(book.import_(file).added) == 2
    found = notes(book)
    chunk = found["mem0-f1a0-77"]
    assert (chunk.title, chunk.tags, chunk.meta["user_id"]) == ("Prefers morning meetings", ("work",), "dev")
    assert chunk.meta["type"] == "preference"
    assert found["mem0-------x"].created == "2026-01-03T10:00:00+00:00"
    assert book.import_(file).added == []
    assert all(path.is_relative_to(book.config.vault) for path in book.config.vault.rglob("*.md"))


def test_a_knowledge_graph(book: Spellbook, tmp_path: Path) -> None:
    """Each entity is a note with its observations; relations are links that lead to the others."""
    file = tmp_path / "memory.jsonl"
    file.write_text("\n".join(map(json.dumps, GRAPH)) + "\n", "utf-8")
    assert len(book.import_(file).added) == 2
    (person,) = (chunk for chunk in notes(book).values() if chunk.title == "민수")
    assert (person.category, person.topic) == ("entity", "person")
    text = (book.config.vault / person.path).read_text("utf-8")
    assert "- Likes tea" in text
    assert "nobody" not in text
    (link,) = book.around(person.note).links
    assert link.title == "../../Acme/Corp"
    assert book.import_(file).unchanged == 2
    file.write_text(file.read_text("utf-8") + '{"type": "entity", "name": "Ne', "utf-8")
    before = sorted(book.config.vault.rglob("*"))
    with pytest.raises(InvalidInput, match="line 5 is not JSON"):
        book.import_(file)
    assert sorted(book.config.vault.rglob("*")) == before


@pytest.mark.parametrize("parts", [False, True])
def test_an_export_of_notion(book: Spellbook, tmp_path: Path, parts: bool) -> None:
    """Ids leave names and links and become the notes' ids; pictures and tables come along; zips in a zip are read."""
    file = tmp_path / "Export.zip"
    if parts:
        one = dict(list(NOTION.items())[:2])
        two = dict(list(NOTION.items())[2:])
        file.write_bytes(zipped({"Export-x-Part-1.zip": zipped(one), "Export-x-Part-2.zip": zipped(two)}))
    else:
        file.write_bytes(zipped(NOTION))
    done = book.import_(file)
    assert sorted(done.added) == ["Home.md", "Home/Plans.md", "Home/Table.csv", "Home/image.png"] or parts
    found = notes(book)
    assert set(found) == {f"notion-{A}", f"notion-{B}"}
    home = (book.config.vault / "Home.md").read_text("utf-8")
    assert "[Plans](Home/Plans.md)" in home
    assert f"https://www.notion.so/x-{A}" in home
    assert found[f"notion-{A}"].tags == ("a", "b")
    assert book.around(f"notion-{A}").links[0].id == f"notion-{B}"
    again = book.import_(file)
    assert (again.added, again.unchanged) == ([], 4)
    book.move("Home/Plans.md", "Ideas/Plans.md")
    assert book.import_(file).added == []


def test_names_with_brackets_and_the_folder_of_an_export(book: Spellbook, tmp_path: Path) -> None:
    """Links to pages whose names hold brackets or blanks lead on; another export of the same pages brings nothing."""
    page = f"[x](Sub%20(1)%20{B}.md) [y](<Sub (1) {B}.md>) [z](https://www.notion.so/Sub-(1)-{B})\n"
    for number in "12":
        root = f"Export-d2b14fbf-86de-4508-a1b2-6515ff8d7aa{number}"
        files = {
            f"{root}/Home {A}.md": page,
            f"{root}/Sub (1) {B}.md": "# Sub (1)\n",
            f"{root}/a.png": b"1",
            "__MACOSX/._x": "x",
        }
        file = tmp_path / f"{number}.zip"
        file.write_bytes(zipped({"Export-x-Part-1.zip": zipped(files)}))
        done = book.import_(file)
        assert sorted(done.added) == (["Home.md", "Sub (1).md", "a.png"] if number == "1" else [])
    text = (book.config.vault / "Home.md").read_text("utf-8")
    assert text.endswith(f"[x](Sub%20(1).md) [y](<Sub (1).md>) [z](https://www.notion.so/Sub-(1)-{B})\n")
    notes(book)
    assert {link.id for link in book.around(f"notion-{A}").links} == {f"notion-{B}"}


def test_a_plain_zip_is_no_export_of_notion(book: Spellbook, tmp_path: Path) -> None:
    """Names stay as they are where most have no id."""
    file = tmp_path / "notes.zip"
    file.write_bytes(zipped({"a.md": "A", "b.md": "B", f"c {A}.md": "C"}))
    assert f"c {A}.md" in book.import_(file).added


@pytest.mark.parametrize(
    "made",
    [
        zipped({f"../x {A}.md": "# x"}),
        zipped({f"/etc/x {A}.md": "# x"}),
        zipped({"Export-x-Part-1.zip": b"PK no zip"}),
        zipped({"Export-x-Part-1.zip": zipped({f"a {A}.md": b"0" * 90_000_000})}),
        zipped(NOTION)[:-40],
        zipped(NOTION)[:200],
    ],
)
def test_hostile_and_damaged_exports(book: Spellbook, tmp_path: Path, made: bytes) -> None:
    """Nothing is written."""
    file = tmp_path / "Export.zip"
    file.write_bytes(made)
    with pytest.raises((InvalidInput, PathOutsideVault)):
        book.import_(file)
    assert list(book.config.vault.rglob("*.md")) == []


@pytest.mark.parametrize("cut", [20, 300, -10])
def test_a_cut_file_of_memories(book: Spellbook, tmp_path: Path, cut: int) -> None:
    """All or nothing."""
    file = tmp_path / "export.json"
    file.write_bytes(json.dumps(SERVICE).encode()[:cut])
    with pytest.raises(InvalidInput):
        book.import_(file)
    assert list(book.config.vault.rglob("*.md")) == []


@pytest.mark.parametrize(
    ("lines", "created", "updated"),
    [
        (
            "작성일시: 2025년 3월 2일 오후 4:12\n최종 편집 일시: 2025년 3월 3일 오전 12:05\n태그: 업무",
            "2025-03-02T16:12:00",
            "2025-03-03T00:05:00",
        ),
        (
            "Created: March 2, 2025 4:12 PM\nTags: 업무\nLast edited time: Dec 31, 2025 12:00 PM",
            "2025-03-02T16:12:00",
            "2025-12-31T12:00:00",
        ),
        ("생성일: 2025년 3월 2일\nTags: 업무", "2025-03-02", None),
        ("Created: March 2, 2025 → March 4, 2025\nTags: 업무", "2025-03-02", None),
        ("Tags: 업무\nCreated: 2025년 13월 2일\nUpdated: soon", None, None),
        ("Tags: 업무\n\nCreated: March 2, 2025 4:12 PM", None, None),
    ],
)
def test_times_of_notion(book: Spellbook, tmp_path: Path, lines: str, created: str | None, updated: str | None) -> None:
    """Times that Notion fills in become the note's, in Korean and in English; the text stays as it was."""
    file = tmp_path / "Export.zip"
    file.write_bytes(zipped({f"Home {A}.md": f"# Home\n\n{lines}\n\nSee.\n"}))
    book.import_(file)
    chunk = notes(book)[f"notion-{A}"]
    assert (chunk.created, chunk.updated, chunk.tags) == (created, updated, ("업무",))
    assert lines in (book.config.vault / "Home.md").read_text("utf-8")
