"""A printed message is read back exactly: its template is found, and no value is taken for another message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from spellbook.search import presentation
from spellbook.settings import translate

SLOT = re.compile(r"\{(\d+)(?::([^{}]+))?\}")

VALUES = {
    "n": ("3", "1,204", "-0.03"),
    "c": ("3 notes", "1 of 12 texts"),
    "w": ("a.md", "https://example.com/a", "3"),
    "q": ("'two words'", "'There is no memory x.'", '"it\'s: so"'),
    "message": ("Nothing was written.", "3 notes"),
    "wrapped": ("a.md: it is gone.", "Nothing was written."),
    "": (
        "a.md",
        "my notes/two words.md",
        "회의 기록.md",
        "홍길동",
        "7",
        "-0.03",
        "There is no memory 'x'.",
        "Nothing was written.",
        "3 notes",
    ),
}
"""Samples of each kind of value; for a slot without a kind also what is itself a message."""

TEMPLATES = [english for english in translate.table() if SLOT.search(english)]


def kinds(english: str) -> list[str]:
    """Return the kind of each slot: its own, or that the Korean translates its value."""
    messages = {slot for slot, how in SLOT.findall(translate.table()[english]) if how.startswith("t")}
    return [
        kind or ("" if slot not in messages else "wrapped" if f": {{{slot}}}" in english else "message")
        for slot, kind in SLOT.findall(english)
    ]


def samples(english: str) -> Iterator[list[str]]:
    """Yield values of a template: each slot has each of its samples, the others their first."""
    choices = [VALUES[kind] for kind in kinds(english)]
    first = [choice[0] for choice in choices]
    yield first
    for slot, choice in enumerate(choices):
        yield from ([*first[:slot], value, *first[slot + 1 :]] for value in choice[1:])


def test_a_message_is_read_back_exactly() -> None:
    """Each template with each of its samples becomes its own Korean with these values, never that of another."""
    wrong = []
    for english in TEMPLATES:
        for values in samples(english):
            text = SLOT.sub(lambda slot, values=values: values[int(slot[1])], english)
            korean = translate.fill(translate.table()[english], values)
            if translate.translated(text, "ko") != korean:
                wrong.append(f"{english}\n  {text}\n  {translate.translated(text, 'ko')}\n  {korean}")
    assert not wrong, "\n".join(wrong)


def test_a_slot_has_the_kind_of_its_value() -> None:
    """A number of things is told as one: a slot that the Korean counts is a number, so that no word is counted."""
    for english, korean in translate.table().items():
        kind = dict(SLOT.findall(english))
        for slot in re.findall(r"\{(\d+)\}(?:개|번째|초|MB)", korean):
            assert kind[slot] in ("n", "q") or "lines" in english, english


def test_text_of_others_stays_as_it_is() -> None:
    """Hardly a sentence of the documents, which are no messages, looks like one: 942 of 3,231 did."""
    root = Path(__file__).parents[2]
    sentences = {
        sentence
        for file in (root / "README.md", *(root / "docs").glob("*.md"))
        for line in file.read_text("utf-8").splitlines()
        for sentence in re.split(r"(?<=[.?!:;]) +", line.strip("-*#| "))
        if len(sentence.split()) > 3 and sentence not in translate.table() and not re.search("[가-힣]", sentence)
    }
    garbled = [each for each in sentences if translate.translated(each, "ko") != each]
    assert len(sentences) > 1_000
    assert len(garbled) <= 10, garbled


@pytest.mark.parametrize(
    ("english", "korean"),
    [
        ("There is no memory 'x'.", "'x'에 해당하는 기억이 없습니다."),
        (
            "2 notes: 1 added, 1 changed; 3 texts embedded. 4 chunks, 0.1 s.",
            "노트 2개: 1개 추가, 1개 변경; 글 3개 임베딩. 청크 4개, 0.1초.",
        ),
        (
            "searched by words only: The embedder x failed (E: y).",
            "단어로만 검색했습니다: 임베딩 모델 x가 실패했습니다(E: y).",
        ),
        (
            "spellbook: line 2 of the text looks like it holds an AWS access key",
            "spellbook: 글의 2번째 줄에 비밀 정보로 보이는 것이 있습니다: AWS 액세스 키",
        ),
        (
            "Moved a.md to b.md: 1 file; 2 links in 1 note updated.",
            "옮겼습니다: a.md → b.md. 파일 1개. 노트 1개의 링크 2개를 고쳤습니다.",
        ),
        ("search p50 3 ms, p95 12 ms (1 query)", "search 중앙값 3ms, 95% 12ms 이내(질문 1개)"),
        (
            "Restored n to /x: 1 file written, 4 unchanged, 2 moved into .trash; 1 file missing.",
            "n: /x에 복원했습니다. 새로 쓴 파일 1개, 그대로인 파일 4개, .trash로 옮긴 파일 2개; 빠진 파일 1개.",
        ),
        ("a sentence that nobody wrote", "a sentence that nobody wrote"),
        ("chunk 2 of its note here", "같은 노트에서 2번째로 나온 청크"),
        ("The fields of each endpoint are in /api/openapi.json.", "The fields of each endpoint are in /api/openapi.json."),
        (
            "Error: Invalid value for '--by': 'guess' is not one of 'search', 'find'.",
            "오류: '--by'의 값이 잘못되었습니다: 'guess'는 'search', 'find' 가운데 하나가 아닙니다.",
        ),
        (
            "The body is not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte.",
            "본문이 JSON이 아닙니다: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte.",
        ),
        (
            "chunk 1: metadata.topic is missing; chunk 1: metadata.keywords is missing.",
            "청크 1: metadata.topic이 없습니다; 청크 1: metadata.keywords가 없습니다.",
        ),
        (
            "chunk 1: line 1 of the text looks like it holds a secret after 'password'.",
            "청크 1: 글의 1번째 줄에 비밀 정보로 보이는 것이 있습니다: 'password' 뒤의 비밀 값.",
        ),
        ("has text, notes; lacks title", "있는 단어: text, notes. 없는 단어: title"),
        (
            "Error: Invalid value for 'FILE': a.md: No such file or directory. Give a regular file, or pipe the text into -.",
            "오류: 'FILE'의 값이 잘못되었습니다: a.md: 그런 파일이나 폴더가 없음. 파일의 경로를 쓰거나, - 기호로 표준 입력을 넘기세요.",
        ),
        ("No note has topic nothing; did you mean note?", "topic 값이 nothing인 노트가 없습니다; 혹시 note?"),
        ("before entry 3 mv", "변경 3번(mv) 앞"),
        (
            "docs/Search: words.md: no such note in /v.",
            "docs/Search: words.md: /v에 그런 노트가 없습니다.",
        ),
        ("Did you mean tags? Keys here are a, b.", "혹시 tags? 여기 있는 키는 a, b입니다."),
    ],
)  # fmt: skip
def test_a_message_is_translated_with_its_values(english: str, korean: str) -> None:
    """
    Values stay as they are, messages in a message are translated too, and unknown text stays; among them what was
    translated by another message's template, or in part.
    """
    assert translate.translated(english, "ko") == korean


def test_a_reason_is_translated_without_its_share() -> None:
    """A hit's reason is translated before its share is put behind it: no share is a part of a path."""
    adjustments = [
        {"reason": "supersedes a -0.03.md", "share": 0.1},
        {"reason": "chunk 2 of its note here", "share": -0.03},
    ]
    hit = SimpleNamespace(why={"adjustments": adjustments})
    assert presentation.reasons(hit, lambda text: translate.translated(text, "ko")) == [  # type: ignore[arg-type]
        "a -0.03.md를 대신함 +0.10",
        "같은 노트에서 2번째로 나온 청크 -0.03",
    ]


@pytest.mark.parametrize(
    ("value", "forms"),
    [
        ("강", "강은 강이 강을 강과 강으로"),
        ("개", "개는 개가 개를 개와 개로"),
        ("길", "길은 길이 길을 길과 길로"),
        ("노트", "노트는 노트가 노트를 노트와 노트로"),
        ("'길'", "'길'은 '길'이 '길'을 '길'과 '길'로"),
        ("노트(세 개)", "노트(세 개)는 노트(세 개)가 노트(세 개)를 노트(세 개)와 노트(세 개)로"),
        ("QUERY", "QUERY는 QUERY가 QUERY를 QUERY와 QUERY로"),
        ("stdout", "stdout은 stdout이 stdout을 stdout과 stdout으로"),
        ("keep", "keep은 keep이 keep을 keep과 keep으로"),
        ("7", "7은 7이 7을 7과 7로"),
        ("10,000", "10,000은 10,000이 10,000을 10,000과 10,000으로"),
        ("59%", "59%는 59%가 59%를 59%와 59%로"),
        ("a.md", "a.md는 a.md가 a.md를 a.md와 a.md로"),
        ("a.toml", "a.toml은 a.toml이 a.toml을 a.toml과 a.toml로"),
        ("note", "note는 note가 note를 note와 note로"),
        ("link", "link는 link가 link를 link와 link로"),
        ("PDF", "PDF는 PDF가 PDF를 PDF와 PDF로"),
        ("a.md (lines 1-3)", "a.md (lines 1-3)는 a.md (lines 1-3)가 a.md (lines 1-3)를 a.md (lines 1-3)와 a.md (lines 1-3)로"),
        ("?", "?은(는) ?이(가) ?을(를) ?과(와) ?으로(로)"),
    ],
)  # fmt: skip
def test_particles_fit_how_a_value_is_read(value: str, forms: str) -> None:
    """A particle follows what is read last: a Korean syllable, an English word, a number, a capital; not an aside."""
    assert translate.fill("{0:은} {0:이} {0:을} {0:과} {0:으로}", [value]) == forms
