"""Conversations of ChatGPT and Claude become notes: what was said, by whom and when, and never twice."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.archive.formats.conversations import convert, lowered
from spellbook.archive.sources import opened
from spellbook.notes.chunks import cut
from spellbook.notes.note import blocks, parse
from tests.trees import contents


def gpt_message(role: str, *parts: Any, at: float = 1_750_000_000.0, **more: Any) -> dict[str, Any]:
    content = more.pop("content", {"content_type": "text", "parts": list(parts)})
    return {"author": {"role": role}, "create_time": at, "content": content, "recipient": "all", "metadata": {}, **more}


def gpt(*messages: dict[str, Any], title: str | None = "Key rotation", **more: Any) -> dict[str, Any]:
    """A conversation of ChatGPT's in one branch."""
    names = ["root", *(f"n{i}" for i in range(len(messages)))]
    mapping = {
        name: {"id": name, "message": message, "parent": parent, "children": []}
        for name, message, parent in zip(names, [None, *messages], [None, *names], strict=False)
    }
    for name, parent in zip(names[1:], names, strict=False):
        mapping[parent]["children"].append(name)
    return {"title": title, "create_time": 1_750_000_000.5, "update_time": 1_750_003_600.25, "mapping": mapping, "current_node": names[-1], "conversation_id": "68-ab", **more}  # fmt: skip


def claude(*messages: tuple[str, str], **more: Any) -> dict[str, Any]:
    said = [
        {"uuid": f"m{i}", "sender": sender, "text": text, "content": [{"type": "text", "text": text}]}
        for i, (sender, text) in enumerate(messages)
    ]
    times = {"created_at": "2026-03-01T09:30:00.123456Z", "updated_at": "2026-03-02T10:00:00Z"}
    return {"uuid": "c0ffee", "name": "Harbour", **times, "chat_messages": said, **more}


ASKED = gpt_message("user", "How do we rotate keys?")
ANSWERED = gpt_message("assistant", "Twice a year.")


def text_of(value: dict[str, Any]) -> str:
    note = convert(value)
    assert note
    return b"".join(note.pieces).decode()


def test_a_conversation_of_chatgpt() -> None:
    """
    A note with an id, a title, dates and a link back, whose turns stand under who speaks. A conversation without a
    title is named after its first words; an empty conversation makes no note.
    """
    why, because = gpt_message("user", "Why?"), gpt_message("assistant", "Auditors.")
    note = convert(gpt(gpt_message("system", ""), ASKED, ANSWERED, why, because))
    assert note
    assert note.path == "conversation/ChatGPT/2025-06-15 Key rotation.md"
    text = b"".join(note.pieces)
    assert text.decode() == (
        "---\nid: chatgpt-68-ab\ntitle: Key rotation\ntopic: ChatGPT\ncategory: conversation\nsource: https://chatgpt.com/c/68-ab\n"
        "created: 2025-06-15T15:06:40+00:00\nupdated: 2025-06-15T16:06:40+00:00\n---\n\n"
        "## User\n\nHow do we rotate keys?\n\n## ChatGPT\n\nTwice a year.\n\n## User\n\nWhy?\n\n## ChatGPT\n\nAuditors.\n"
    )
    parsed = parse(note.path, text)
    assert (parsed.declared_id, parsed.faults) == ("chatgpt-68-ab", ())
    last = [chunk.text.strip().split("\n")[-1] for chunk in cut(parsed)]
    assert last == ["How do we rotate keys?", "Twice a year.", "Why?", "Auditors."]
    assert "How do we rotate keys?" in cut(parsed)[1].embedded
    note = convert(gpt(ASKED, title=None))
    assert note
    assert note.path.endswith(" How do we rotate keys.md")
    assert convert(gpt(gpt_message("system", "x"))) is None
    assert convert({**gpt(ASKED), "conversation_id": None}) is None
    assert convert({**gpt(ASKED), "create_time": "soon", "update_time": None})


def test_the_branch_that_was_seen_last() -> None:
    """
    A conversation with several branches keeps the branch of its current node, or of its newest leaf if none is current.
    """
    given = gpt(ASKED, gpt_message("assistant", "An answer thrown away.", at=5.0))
    other = gpt_message("assistant", "The answer kept.", at=9.0)
    given["mapping"]["other"] = {"id": "other", "message": other, "parent": "n0", "children": []}
    assert "thrown away" in text_of(given)
    for current in ("other", None, "nowhere"):
        assert "kept" in text_of({**given, "current_node": current})
        assert "thrown away" not in text_of({**given, "current_node": current})
    given["mapping"]["n0"]["parent"] = "n1"  # a ring has an end all the same
    assert "thrown away" in text_of(given)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(gpt_message("assistant", "a", {"content_type": "image_asset_pointer"}, "b"), "a\n\n(image)\n\nb", id="image"),
        pytest.param(gpt_message("assistant", {"content_type": "audio_transcription", "text": "spoken"}), "spoken", id="voice"),
        pytest.param(gpt_message("assistant", "x", metadata={"attachments": [{"name": "plan.pdf"}]}), "x\n\n(attached: plan.pdf)", id="attachment"),
        pytest.param(gpt_message("assistant", content={"content_type": "code", "language": "python", "text": "a = '```'"}), "````python\na = '```'\n````", id="code"),
        pytest.param(gpt_message("assistant", "so \ue200cite\ue202turn0\ue201it is"), "so it is", id="citation mark"),
        pytest.param(
            gpt_message("assistant", "so \ue200cite\ue202t\ue201.", metadata={"content_references": [{"matched_text": "\ue200cite\ue202t\ue201", "alt": "([a](https://a.b))"}]}), "so ([a](https://a.b)).", id="citation"
        ),
        pytest.param(gpt_message("tool", "output"), None, id="a tool"),
        pytest.param(gpt_message("assistant", "search('x')", recipient="browser"), None, id="to a tool"),
        pytest.param(gpt_message("user", "about me", metadata={"is_visually_hidden_from_conversation": True}), None, id="hidden"),
        pytest.param(gpt_message("assistant", content={"content_type": "thoughts", "thoughts": []}), None, id="thoughts"),
        pytest.param(gpt_message("assistant", content=None), None, id="nothing"),
        pytest.param(gpt_message("assistant", "nul\x00 \ud800 and\r\nline"), "nul  and\nline", id="letters that no note can hold"),
    ],
)  # fmt: skip
def test_what_is_kept_of_a_message(message: dict[str, Any], expected: str | None) -> None:
    """What the person saw is kept; what the model sent to its tools is not."""
    text = text_of(gpt(ASKED, message))
    assert text.endswith(f"## ChatGPT\n\n{expected}\n" if expected else "## User\n\nHow do we rotate keys?\n")


def test_a_conversation_of_claude() -> None:
    """
    A Claude conversation keeps its texts, attachments with their extracted text, and the branch that was seen last.
    """
    given = claude(("human", "What is a quay?"), ("assistant", "A wall for ships."))
    given["chat_messages"][0]["attachments"] = [{"file_name": "map.txt", "extracted_content": "the map"}]
    given["chat_messages"][0]["files"] = [{"file_name": "photo.png"}]
    given["chat_messages"][1]["content"].insert(0, {"type": "thinking", "thinking": "hm"})
    note = convert(given)
    assert note
    assert note.path == "conversation/Claude/2026-03-01 Harbour.md"
    text = b"".join(note.pieces).decode()
    assert "id: claude-c0ffee\n" in text
    assert "created: 2026-03-01T09:30:00+00:00\n" in text
    assert text.endswith(
        "## User\n\nWhat is a quay?\n\n(attached: map.txt)\n\n```\nthe map\n```\n\n(attached: photo.png)\n\n## Claude\n\nA wall for ships.\n"
    )
    branched = claude(("human", "first"), ("assistant", "thrown away"), ("assistant", "kept"))
    for message, parent in zip(
        branched["chat_messages"], ["00000000-0000-4000-8000-000000000000", "m0", "m0"], strict=True
    ):
        message["parent_message_uuid"] = parent
    assert "kept" in text_of(branched)
    assert "thrown away" not in text_of(branched)
    alone = {"chat_messages": [{"sender": "human", "text": "only text", "content": []}]}
    assert "only text" in text_of({**claude(), **alone})


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
def test_an_export_is_imported(book, vault, tmp_path, form):
    """
    The JSON, the original zip, a zip of several files and its unpacked folder all give the same notes, findable at
    once.
    """
    one, two = gpt(ASKED, ANSWERED), claude(("human", "What is a quay?"), ("assistant", "A wall for ships."))
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
    assert book.find("quay", filter={"category": "conversation"}).hits[0].source == "https://claude.ai/chat/c0ffee"
    assert not book.import_(source).paths


def test_a_conversation_is_known_by_its_id(book, vault, tmp_path):
    """
    A moved, renamed or continued conversation is recognized, and its note is replaced by the longer one only on
    request. Three conversations with the same day and title become three notes, and importing again adds none. One in
    an unknown form is named by its number, and the others are imported. A zip of notes that has such a file is a vault.
    """
    source = saved(tmp_path / "c.json", gpt(ASKED))
    [path] = book.import_(source).added
    (vault / "mine").mkdir()
    (vault / path).rename(vault / "mine/keys.md")
    assert book.import_(source).unchanged == 1
    saved(source, gpt(ASKED, ANSWERED, title="Another title"))
    assert book.import_(source).skipped == ["mine/keys.md"]
    assert book.import_(source, on_conflict="overwrite").overwritten == ["mine/keys.md"]
    assert list(contents(vault)) == ["mine/keys.md"]
    assert b"Twice a year" in contents(vault)["mine/keys.md"]
    assert b"Twice a year" not in contents(vault / ".trash")["mine/keys.md"]
    three = [gpt(ASKED, conversation_id=id) for id in ("first", "other", "third")]
    source = saved(tmp_path / "c.json", gpt({"author": "me"}), *three)
    done = book.import_(source)
    assert (len(done.added), [fault.path for fault in done.faults]) == (3, ["c.json: conversation 1"])
    assert not book.import_(source).paths
    assert not book.status()["faults"]
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
def test_no_conversation_ends_an_import(tmp_path_factory, mapping, node, message):
    """Every part of an export is imported, skipped with its name, or refused; nothing crashes."""
    file = saved(
        tmp_path_factory.mktemp("c") / "c.json",
        {"mapping": mapping, "current_node": node, "id": 1},
        {"chat_messages": [message], "uuid": "u"},
    )
    with opened(file) as source:
        assert all(b"".join(each.pieces).startswith(b"---\nid: c") for each in source.files)
