"""Conversations of ChatGPT and Claude in every form of an export, and in none; tests/transcripts has what becomes of them."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.archive.formats.conversations import convert, lowered
from spellbook.archive.import_sources import opened
from spellbook.library.book import Spellbook
from spellbook.notes.chunks import cut
from spellbook.notes.note import blocks, parse


def gpt(*said: str) -> dict[str, Any]:
    """A conversation of ChatGPT's in one branch: a question, an answer, and so on."""
    names = [f"n{number}" for number in range(len(said))]
    mapping = {
        name: {
            "message": {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}},
            "parent": parent,
        }
        for name, role, text, parent in zip(names, ("user", "assistant"), said, [None, *names], strict=False)
    }
    times = {"create_time": 1_750_000_000.5, "update_time": 1_750_003_600.25}
    return {"title": "Key rotation", **times, "mapping": mapping, "current_node": names[-1], "conversation_id": "68-ab"}


CLAUDE = {
    "uuid": "c0ffee",
    "name": "Harbour",
    "created_at": "2026-03-01T09:30:00.123456Z",
    "chat_messages": [{"sender": "human", "text": "What is a quay?"}, {"sender": "assistant", "text": "A wall."}],
}


def test_a_question_stands_beside_its_answer() -> None:
    """An answer is embedded with its question; letters that no note can hold are left out."""
    note = convert(gpt("How do we rotate keys?", "nul\x00 \ud800 and\r\nline"))
    assert note
    chunks = cut(parse(note.path, b"".join(note.pieces)))
    assert chunks[1].text.endswith("## ChatGPT\n\nnul  and\nline\n")
    assert "How do we rotate keys?" in chunks[1].embedded


@pytest.mark.parametrize("role", ["system", "tool"])
def test_what_nobody_saw_may_have_any_form(role: str) -> None:
    """A message of a tool or of the system is left out before its parts are read, whatever they are."""
    chat = gpt("How do we rotate keys?", "Twice a year.")
    chat["mapping"]["hidden"] = {
        "message": {"author": {"role": role}, "content": "{}", "metadata": "x"},
        "parent": "n1",
    }
    whole = convert(chat)
    chat["current_node"] = "hidden"
    note = convert(chat)
    assert whole is not None
    assert note is not None
    assert [*note.pieces] == [*whole.pieces]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("# A\n## B\n###### C", "### A\n#### B\n###### C"),
        ("A\n===\n\nB\nb\n---\nx", "### A\n\n#### B b\nx"),
        ("```\n# code\n```\n\n    # code\n\n#tag", "```\n# code\n```\n\n    # code\n\n#tag"),
    ],
    ids=["levels", "underlined", "no headings"],
)
def test_headings_in_a_turn_stay_below_it(written: str, expected: str) -> None:
    """A turn is one section, whatever headings it contains."""
    assert lowered(written) == expected


@given(st.text(st.sampled_from("#=-` \na1>*"), max_size=60))
def test_no_text_ends_its_turn(text: str) -> None:
    """No heading inside a turn is as high as the turn's own heading."""
    assert all(block.level > 2 for block in blocks(lowered(text)) if block.kind == "heading")


# -- importing them


def saved(place: Path, *given: dict[str, Any]) -> Path:
    place.write_text(json.dumps(given))
    return place


def zipped(place: Path, **files: Any) -> Path:
    with zipfile.ZipFile(place, "w") as archive:
        for name, value in files.items():
            archive.writestr(name.replace("_", "-") + ".json", json.dumps(value))
        archive.writestr("chat.html", "<html>")
    return place


@pytest.mark.parametrize("form", ["json", "zip", "several", "folder"])
def test_an_export_is_imported(book: Spellbook, vault: Path, tmp_path: Path, form: str) -> None:
    """
    The JSON, the original zip, a zip of several files and its unpacked folder all give the same notes, findable at
    once. A zip of notes that has such a file is a vault.
    """
    one, two = gpt("How do we rotate keys?", "Twice a year."), CLAUDE
    if form == "folder":
        (tmp_path / "export").mkdir()
    source = {
        "json": lambda: saved(tmp_path / "conversations.json", one, two),
        "zip": lambda: zipped(tmp_path / "e.zip", conversations=[one, two], user={"id": 1}),
        "several": lambda: zipped(tmp_path / "e.zip", conversations_000=[one], conversations_001=[two]),
        "folder": lambda: saved(tmp_path / "export" / "conversations.json", one, two).parent,
    }[form]()
    done = book.import_(source)
    paths = ["conversation/ChatGPT/2025-06-15 Key rotation.md", "conversation/Claude/2026-03-01 Harbour.md"]
    assert sorted(done.added) == paths
    assert {hit.path for hit in book.find(["quay", "wall"]).hits} == {"conversation/Claude/2026-03-01 Harbour.md"}
    assert not book.import_(source).paths
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("a.md", "x")
        archive.writestr("data/conversations.json", "[]")
    assert sorted(book.import_(tmp_path / "v.zip").added) == ["a.md", "data/conversations.json"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["author", "role", "content", "parts", "text", "metadata", "message", "parent"]), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), JSON, JSON)
def test_no_conversation_ends_an_import(
    tmp_path_factory: pytest.TempPathFactory, mapping: Any, node: Any, message: Any
) -> None:
    """Every part of an export is imported, skipped with its name, or refused; nothing crashes."""
    file = saved(
        tmp_path_factory.mktemp("c") / "c.json",
        {"mapping": mapping, "current_node": node, "id": 1},
        {"chat_messages": [message], "uuid": "u"},
    )
    with opened(file) as source:
        assert all(b"".join(each.pieces).startswith(b"---\nid: c") for each in source.files)
