"""Checking a memory: a valid one is kept as given, an invalid one gets an error; its title, file name and keywords."""

import datetime as dt
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.editing.derived_labels import derived_keywords
from spellbook.editing.memory import Findings, Memory, check, metadata
from spellbook.notes.note import parse

META = {"topic": "infra", "keywords": ["Docker", "Compose", "YAML"], "questions": ["How?"]}
NOW = dt.datetime(2026, 11, 21, 20, 15, 0, 123, tzinfo=dt.timezone(dt.timedelta(hours=9)))
TEXT = "## Ports\n\n" + "The proxy listens on a port of its own. " * 12


def checked(text: str = TEXT, **meta: object) -> Findings:
    return check({"text": text, "metadata": {**META, **meta}})


def test_note() -> None:
    """
    A chunk of the right size with topic, keywords and questions has no errors or warnings. Its note has its keys in the
    documented order and reads back as given.
    """
    found = checked(importance="high", mood="calm", entities=["Docker", {"name": "Ann", "type": "person"}])
    assert (found.errors, found.warnings) == ([], [])
    assert found.memory is not None
    assert found.memory.name == "Ports"
    note = parse("a.md", found.memory.note("01KAJ3", NOW).encode())
    keys = "id topic category keywords questions entities importance created updated mood title"
    assert " ".join(note.meta) == keys
    assert note.faults == ()
    assert (note.declared_id, note.topic, note.entities, note.importance) == ("01KAJ3", "infra", ("Docker", "Ann"), 0.8)
    assert note.created == note.updated == "2026-11-21T20:15:00+09:00"
    assert note.body.strip() == TEXT.strip()


BAD = [
    ("topic", "", "one line"),
    ("topic", "a\nb", "one line"),
    ("topic", 5, "one line"),
    ("source", "x" * 2_001, "2,000 letters"),
    ("title", "x" * 301, "300 letters"),
    ("title", "a\0", "YAML cannot keep"),
    ("keywords", [1], "list of texts"),
    ("keywords", [None], "keywords is missing"),
    ("tags", {"a": 1}, "list of texts"),
    ("entities", [{"type": "person"}], "has no name"),
    ("entities", [{"name": "a\0"}], "YAML cannot keep"),
    ("importance", "often", "importance must be"),
    ("importance", 2, "importance must be"),
    ("importance", True, "importance must be"),
    ("pinned", "yes", "pinned must be true or false"),
    ("pinned", 1.5, "pinned must be true or false"),
    ("other", object(), "YAML cannot keep"),
    ("other", {"a": {1: 2}}, "YAML cannot keep"),
    ("other", 10**5000, "YAML cannot keep"),
    ("a: b", 1, "cannot be a frontmatter key"),
    ("a#b", 1, "cannot be a frontmatter key"),
    ("", 1, "cannot be a frontmatter key"),
    ("a\nb", 1, "cannot be a frontmatter key"),
]
"""Metadata that frontmatter cannot hold, by its key, and what is said of it."""


@pytest.mark.parametrize(
    ("given_chunk", "says"),
    [
        *(({"text": TEXT, "metadata": {**META, key: value}}, says) for key, value, says in BAD),
        pytest.param("text", "must be an object", id="no object"),
        pytest.param({"metadata": META}, "text is missing", id="no text"),
        pytest.param({"text": " ", "metadata": META}, "text is missing", id="blank"),
        pytest.param({"text": "x" * 10_000_001, "metadata": META}, "10,000,000 are the most", id="too long"),
        pytest.param({"text": "a\0b", "metadata": META}, "NUL", id="NUL"),
        pytest.param({"text": "x"}, "metadata.topic is missing", id="no metadata"),
        pytest.param({"text": "x", "metadata": []}, "metadata must be an object", id="metadata no object"),
        pytest.param({"text": "x", "metadata": {"topic": "a"}}, "metadata.keywords is missing", id="no keywords"),
        pytest.param({"text": "x", "metadata": {**META, "topic": None}}, "metadata.topic is missing", id="topic null"),
    ],
)
def test_no_memory(given_chunk: object, says: str) -> None:
    """An input that is no memory, or has metadata that frontmatter cannot hold, gets errors that name it, and no memory."""
    found = check(given_chunk)
    assert found.memory is None
    assert any(says in error for error in found.errors), found.errors


@pytest.mark.parametrize(
    ("text", "meta", "says"),
    [
        (TEXT, {"id": "x"}, "metadata.id is set by Spellbook"),
        (TEXT, {"created_at": "x"}, "metadata.created_at is set by Spellbook"),
        (TEXT, {"AGENT": "me"}, "metadata.AGENT is set by Spellbook"),
        (TEXT, {"keywords": ["one"]}, "1 keyword;"),
        (TEXT, {"questions": []}, "no questions"),
        (TEXT, {"entities": [{"name": "x", "type": "planet"}]}, "unknown type 'planet'"),
        ("short", {}, "about 1 token;"),
        ("word " * 1000, {}, "divide it"),
        (f"{TEXT}\n\n## Two\n\nx", {}, "more than one ## heading"),
        pytest.param("We deploy on Tuesdays, never on Fridays, to rest.", {}, "", id="a sentence"),
        pytest.param("We moved to Fly.io in May.", {}, "are best", id="seven words"),
        pytest.param("We moved to Fly.io in May of 2026.", {}, "", id="eight words"),
        pytest.param("## Deploys\n\n- on - Tuesdays -", {}, "are best", id="marks are no words"),
        pytest.param("배포는 화요일에 하고 금요일에는 하지 않는다.", {}, "", id="Korean"),
        pytest.param("민지는 아침에 차를 마신다.", {}, "are best", id="short Korean"),
        pytest.param(unicodedata.normalize("NFD", "민지는 아침에 차를 마신다."), {}, "are best", id="NFD"),
        pytest.param("デプロイは火曜日に行い、金曜日には行わない。", {}, "", id="without spaces"),
        pytest.param("테스트 메모", {}, "are best", id="two words"),
        pytest.param("Prefers pnpm.", {"category": "preference"}, "", id="a preference"),
    ],
)
def test_warnings(text: Any, meta: dict[str, Any], says: str) -> None:
    """
    Metadata and text that make a memory hard to find cause a warning and no error. Nothing is said of a sentence of
    eight words or more, nor of a preference.
    """
    found = checked(text, **meta)
    assert found.memory is not None
    assert any(says in warning for warning in found.warnings) if says else not found.warnings, found.warnings


def test_defaults_and_forms() -> None:
    """
    The caller's defaults are used only for missing metadata. The old names `question_this_answers` and `topic_id` work;
    a single text is a list of one; repetitions are dropped; `pinned` is kept as a YAML boolean; in a revision None removes the key. Windows line endings
    become those of the note.
    """
    for meta, kept in (
        ({}, ("article", "https://x")),
        ({"category": None, "source": None}, ("article", "https://x")),
        ({"category": "own", "source": "me"}, ("own", "me")),
    ):
        chunk = {"text": "## A\r\n\r\nb\r\n", "metadata": {**META, **meta}}
        found = check(chunk, category="article", source="https://x")
        assert found.memory is not None
        assert (found.memory.meta["category"], found.memory.meta["source"]) == kept
        assert "\r" not in found.memory.note("x", NOW)
    findings = Findings()
    given = {"topic_id": "t", "question_this_answers": "Why?", "keywords": [" a  b ", "a b"], "importance": None}
    meta = metadata({**given, "pinned": "true"}, findings)
    assert meta == {"topic": "t", "questions": ["Why?"], "keywords": ["a b"], "importance": None, "pinned": True}
    assert findings.errors == []


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(
        st.text(max_size=10) | st.sampled_from(["yes", "- a", "? b", "<<", "=", "~", "---", "1"]), values, max_size=4
    ),
    st.text(min_size=1),
)
def test_whatever_is_accepted_is_read_back(extra: dict[str, Any], text: str) -> None:
    """Every accepted memory becomes a note without faults that has all given keys."""
    found = check({"text": text, "metadata": {**META, **extra}})
    if found.memory:
        note = parse("a.md", found.memory.note("x", NOW).encode())
        assert note.faults == ()
        assert {key: note.meta.get(key) for key in found.memory.meta} == found.memory.meta
        assert note.body.strip("\n") == found.memory.text


# -- title and file name


@pytest.mark.parametrize(
    ("text", "title", "name"),
    [
        ("Intro.\n\n# The *Keys* of [Ann](a.md)", None, "The Keys of Ann"),
        ("```sh\n# no heading\n```\n\n## Yes", None, "Yes"),
        ("just some words, and more of them than eight words", None, "just-some-words-more"),
        ("---", None, ""),
        ("# " + "long " * 50, None, "long long long long"),
        ("x", "Vec<T> isn't C++", "Vec<T> isn't C++"),
        ("x", 'Decision: why? "[draft]" of #3 | plan', "Decision why draft of"),
        ("x", "TCP/IP at 18:30", "TCP/IP at"),
        ("x", "여권 갱신은 2027년 3월까지 구청에서", "여권 갱신은 구청에서"),
        ("x", "wifi pw = bluewhale99!", "wifi pw"),
        ("x", "2026-11-26", ""),
        ("x", "harbour " * 30, "harbour harbour harbour harbour"),
    ],
)
def test_name(text: str, title: str | None, name: str) -> None:
    """
    Four words of a given title, else of the first heading or sentence, name the file: markup, digits, codes and secrets
    are left out, case and signs within a word stay.
    """
    assert Memory(text, {"title": title} if title else {}).name == name


SECRET = "ghp_" + "".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789"[i * 7 % 46] for i in range(36))


@pytest.mark.parametrize(
    ("text", "title", "name"),
    [
        (
            "프로젝트에서 TypeScript를 도입하기로 결정했다. 이유는 셋이다.",
            "프로젝트에서 TypeScript를 도입하기로 결정했다",
            "프로젝트에서-TypeScript를-도입하기로-결정했다",
        ),
        ("닭 모델은 복셀 16×16으로 만든다", "닭 모델은 복셀 16×16으로 만든다", "닭-모델은-복셀-만든다"),
        (
            "We deploy on Tuesdays, never on Fridays -\nat 14:00. And more.",
            "We deploy on Tuesdays, never on Fridays - at 14:00",
            "deploy-Tuesdays-never-Fridays",
        ),
        ("- [ ] buy **milk** and [[shop/Bread|bread]]\n- [ ] tea", "buy milk and bread", "buy-milk-bread"),
        ("> [!note] Hello\n> harbour", "Hello harbour", "Hello-harbour"),
        ("<!-- seen by nobody -->\nHello `harbour`", "Hello harbour", "Hello-harbour"),
        ("```py\nprint(1)\n```", "print(1)", ""),
        ("## Keys\n\nThey rotate.", "Keys", "Keys"),
        ("Don't ask. Ever.", "Don't ask", "Dont-ask"),
        (f"The key is {SECRET} here", "The key is …", "key"),
        ("배포 키는 AKIAIOSFODNN7EXAMPLE 이다", "배포 키는 AKIAIOSFODNN7EXAMPLE 이다", "배포-키는-이다"),
        ("고객은 900101-1234567 번이다", "고객은 …", "고객은"),
        ("word " * 80, ("word " * 23).strip() + "…", "word-word-word-word"),
        ("가" * 200, "가" * 119 + "…", "가" * 119),
        ("!!!", "!!!", ""),
        ("여권 갱신은 2027년 3월까지 한다", "여권 갱신은 2027년 3월까지 한다", "여권-갱신은"),
        ("The wifi password is Orchid-7731-sky", "The wifi password is …", "wifi-password"),
    ],
)
def test_without_a_title(text: str, title: str, name: str) -> None:
    """The first sentence is the title; a few of its words, without signs and secrets, name the file, Korean as Korean."""
    memory = Memory(text, {"topic": "t", "category": "c"})
    assert (memory.title, memory.name) == (title, name)
    assert all(word in text for word in name.split("-") if word != "Dont")


# -- keywords


ENGLISH = (
    "On Monday Anna Kim moved the Lantern team to `pnpm install`, because npm10 broke GPT-4, README.md and "
    "[[ops/Keys|the keys]]. See https://x.example/CamelCase and e.g. this and/or that."
)


@pytest.mark.parametrize(
    ("text", "tags", "expected"),
    [
        pytest.param(
            "프로젝트에서 TypeScript를 도입하기로 결정했다.",
            ["typescript", "decision"],
            ["typescript", "decision", "TypeScript"],
            id="after the tags",
        ),
        pytest.param(
            ENGLISH,
            [],
            ["pnpm install", "npm10", "GPT-4", "README.md", "Keys", "Anna Kim", "Lantern"],
            id="identifiers, then names",
        ),
        pytest.param("Anna가 Blender에서 만든다.", [], ["Anna", "Blender"], id="names begin a Korean sentence"),
        pytest.param("Yesterday it rained. Then we left.", [], [], id="no name because it begins a sentence"),
        pytest.param("WE SHOUT ALL THE TIME", [], [], id="shouting"),
        pytest.param("## A Heading In Title Case\n\nplain text", [], [], id="headings"),
        pytest.param("```py\nfooBar()\n```\n\nplain text", [], [], id="code blocks"),
        pytest.param("snake_case, C++, C#, v1.2.3, .env, useState, JWT", [], ["snake_case", "C++", "C#", "v1.2.3", ".env", "useState", "JWT"], id="kinds"),
        pytest.param(" ".join(f"`name{i}`" for i in range(20)), ["t"], ["t", *(f"name{i}" for i in range(8))], id="at most eight"),
        pytest.param("I asked `anna`, and then Anna and Bob.", ["bob"], ["bob", "anna"], id="no name twice"),
        pytest.param("닭 모델은 복셀 32×32로 만든다", [], [], id="nothing to take"),
    ],
)  # fmt: skip
def test_derived(text: Any, tags: list[str] | list[Any], expected: list[str] | list[Any]) -> None:
    """
    Tags come first, then identifiers in order, then names; at most eight are added. Common names are left out, and the
    rarest of the others comes first.
    """
    assert derived_keywords(text, tags, lambda _: 0, 20) == expected
    counts = {'"Anna"': 3, '"Lantern"': 21, '"Bob"': 0}
    text = "Then Anna gave it to Lantern, and Bob took it."
    assert derived_keywords(text, [], lambda phrase: counts[phrase], 20) == ["Bob", "Anna"]


@pytest.mark.parametrize("part", ["`", "[[", "a.b-", "Ab ", "```\n", "A-b/", "~~~ ", "https://", "[[a|", "[[a]", "`` "])
def test_any_text_is_read_in_no_time(part: str) -> None:
    """Texts made to be slow are read in a second of CPU time or so."""
    began = time.process_time()
    derived_keywords(part * (1_000_000 // len(part)), [], lambda _: 0, 20)
    assert time.process_time() - began < 10
