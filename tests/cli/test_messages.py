"""
Messages: singular and plural in English; Korean chosen by SPELLBOOK_LANG or the system, complete, and without effect on
programs. A printed message is read back exactly: no value is taken for another message.
"""

from __future__ import annotations

import os
import plistlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import Result
from rich.cells import cell_len

from spellbook.cli import main
from spellbook.search import presentation
from spellbook.settings import translate
from spellbook.text.korean import particle
from spellbook.text.quoting import counted
from tests.cli.messages import every, messages_in_messages, templates
from tests.commands import spellbook_in

SLOT = re.compile(r"\{(\d+)(?::(t|t?(?:은|이|을|과|으로|이라|이나)))?\}")
PARTICLE = re.compile(
    r"(?<=[^\s가-힣.,;:·(/])(으로|이라|이나|은|는|이|가|을|를|과|와|로|라|나)(?:는|도|만|서)?(?![가-힣])"
)
FORMS = {"은": "는", "이": "가", "을": "를", "과": "와", "으로": "로", "이라": "라", "이나": "나"}
LISTS_OF_NAMES = {"Options are {0}."}
PACKAGES = ("spellbook.settings", "spellbook.http.pages")
ENGLISH = re.compile(r"\b[a-z]{2,}(?: [a-z]{2,}){2,}\b")
"""Three English words in a row: a sentence."""


def plain(template: str) -> str:
    """Return a template of the table as the code has it: its slots without their kinds."""
    return re.sub(r"\{(\d+):[ncwq]\}", r"{\1}", template)


@pytest.fixture
def in_korean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPELLBOOK_LANG", "ko")


def run(vault: Path, *command: object, language: str = "ko") -> Result:
    """Run a command in a vault, in a language."""
    return spellbook_in(vault, *command, code=None, SPELLBOOK_LANG=language)


def test_every_message_has_its_korean() -> None:
    """Every message of the command line is in the table."""
    there = set(map(plain, translate.table()))
    missing = [f"{place}: {text}" for text, place in templates().items() if not {text, f"{text}."} & there]
    assert not missing, "\n".join(["add to spellbook/settings/ko.toml:", *missing])


def test_the_table_has_nothing_else() -> None:
    """Every row of the table is used: as a message, a full stop more or less, or as a word before values."""
    said = every()
    parts = {re.sub(r" ?\{\d+\}", "", text) for text in said}

    def is_said(text: str) -> bool:
        word = re.sub(r",? ?\{\d+\}", "", text)
        return (
            text in said
            or f"{text}." in said
            or text.removesuffix(".") in said
            or word in said
            or word in parts
            or not re.search(r"[A-Za-z]{2}", word)
        )

    assert [text for text in map(plain, translate.table()) if not is_said(text)] == []


def test_the_values_of_a_message_are_all_told() -> None:
    """The Korean of a template uses only its slots, in a known form."""
    for english, korean in translate.table().items():
        slots = re.findall(r"\{(\d+)(?::[ncwq])?\}", english)
        assert slots == list(map(str, range(len(slots)))), english
        assert {number for number, _ in SLOT.findall(korean)} <= set(slots), english
        assert not re.search(r"\{\d+[^}]*\}", SLOT.sub("", korean)), korean


def test_a_message_in_a_message_is_translated() -> None:
    """A value that is itself a message, an error or what the system says is translated with the message it stands in."""
    table = {plain(english).removesuffix("."): (english, korean) for english, korean in translate.table().items()}
    found = [
        (*table[text.removesuffix(".")], slot, place)
        for text, slot, place in messages_in_messages()
        if text.removesuffix(".") in table
    ]
    assert len(found) > 50
    left = [
        f"{place}: {korean}"
        for english, korean, slot, place in found
        if f"{{{slot}:n}}" not in english  # of a number and a message, the list is split
        and any(number == str(slot) and not how.startswith("t") for number, how in SLOT.findall(korean))
        and english not in LISTS_OF_NAMES
    ]
    assert left == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_particle_fits_the_word_before_it(package: str) -> None:
    """
    A particle after a foreign word or a number is the one that its sound asks for. After a value it is a slot's, as
    `{0:을}` or `{0:t을}`: after any other value, and after a sign, stands a noun.
    """
    wrong = []
    for korean in translate.table(package).values():
        text = SLOT.sub(lambda slot: "…" if slot[2] in {None, "t"} else "개", korean)
        for at in PARTICLE.finditer(text):
            closed = next(form for form, opened in FORMS.items() if at[1] in (form, opened))
            fits = particle(text[: at.start(1)], closed)
            if at[1] != fits and not ("가" <= text[at.start(1) - 1] <= "힣"):
                wrong.append(f"{text[: at.end()]}: {fits}")
    assert wrong == []


def language_of(system: str = sys.platform, **environment: str) -> str:
    """The language of a process of its own with these variables, which starts no other."""
    code = """
import subprocess, sys
sys.platform, subprocess.Popen = sys.argv[1], None
from spellbook.settings.translate import language
print(language())
"""
    bare = {name: value for name, value in os.environ.items() if name not in translate.VARIABLES}
    command = [sys.executable, "-c", code, system]
    return subprocess.run(
        command, env={**bare, **environment}, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_language_is_that_of_the_person() -> None:
    """SPELLBOOK_LANG decides, then LC_ALL, LC_MESSAGES and LANG."""
    of = language_of
    assert of(LANG="ko_KR.UTF-8") == "ko"
    assert of(LANG="ko_KR.UTF-8", LC_ALL="C") == "en"
    assert of(LANG="ko_KR.UTF-8", SPELLBOOK_LANG="en") == "en"
    assert of(LANG="kok_IN.UTF-8") == of(LANG="C.UTF-8") == "en"


@pytest.mark.skipif(sys.platform == "win32", reason="macOS' home is HOME")
def test_macos_keeps_the_language_in_a_file(tmp_path: Path) -> None:
    """A program that macOS starts without LANG has the first language of the person's settings; no process is started."""
    file = tmp_path / "Library/Preferences/.GlobalPreferences.plist"
    file.parent.mkdir(parents=True)
    told = partial(language_of, "darwin", HOME=str(tmp_path))
    assert told() == "en", "there is no file"
    for languages, expected in ((["ko-KR", "en-US"], "ko"), (["en-KR", "ko-KR"], "en"), ([], "en")):
        file.write_bytes(plistlib.dumps({"AppleLanguages": languages}, fmt=plistlib.FMT_BINARY))
        assert told() == expected
    file.write_bytes(b"bplist00 and no more")
    assert told() == "en"
    assert told(LANG="ko_KR.UTF-8") == "ko"


@pytest.mark.usefixtures("in_korean")
def test_warnings_of_the_log_are_korean(vault: Path) -> None:
    """What a command logs on the terminal is translated as its messages are."""
    code = """
import logging, sys
from spellbook.cli import main
sys.argv = ["spellbook", "--version"]
try:
    main()
except SystemExit:
    logging.getLogger("spellbook.x").warning("%s: %s is no setting, and has no effect.", "a.toml", "x")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stderr == "spellbook: a.toml: x 설정은 없으며 효과가 없습니다.\n"


def commands(group: click.Group, *above: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [above]
    for name, each in group.commands.items():
        found += commands(each, *above, name) if isinstance(each, click.Group) else [(*above, name)]
    return found


@pytest.mark.usefixtures("in_korean")
@pytest.mark.parametrize("path", commands(main), ids=" ".join)
def test_help_is_korean_and_fits_a_terminal(path: tuple[str, ...]) -> None:
    """Help has no English sentence except in examples, and no line is wider than 80 columns."""
    names = ["-h", "--help"]  # click keeps the option that it makes first
    context = click.Context(main, info_name="spellbook", help_option_names=names)
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
        context = command.context_class(command, info_name=name, parent=context)
    name = " ".join(("spellbook", *path))
    shown = command.get_help(command.context_class(command, info_name=name, help_option_names=names))
    assert shown.startswith("사용법: spellbook")
    lines = [
        line for line in shown.splitlines() if not re.match(r"사용법|\s+(spellbook|echo|SPELLBOOK_EMBEDDER=)", line)
    ]
    assert not [line for line in lines if ENGLISH.search(re.sub(r"`[^`]*`|\[.*?\]", "", line))]
    assert max(map(cell_len, lines)) <= 80
    assert "\ue000" not in shown
    assert not re.search(r"\[(OPTIONS|ARGS|COMMAND)\]|COMMAND", shown.split("\n\n")[0])


def test_programs_read_the_same_in_each_language(vault: Path) -> None:
    """
    JSON, exit codes and the text of notes are the same in each language, even if a note contains one of our messages.
    """
    (vault / "a.md").write_text("# Nothing found.\n\nThere is no memory x.\n", "utf-8")
    run(vault, "reindex")
    for command in (
        ("show", "a", "--json"),
        ("show", "--json"),
        ("show", "nope", "--json"),
        ("search", "memory", "--why", "a.md", "--json"),
    ):
        english, korean = run(vault, *command, language="en"), run(vault, *command)
        assert (english.stdout, english.exit_code) == (korean.stdout, korean.exit_code)
    shown = run(vault, "show", "a").stdout
    assert "> # Nothing found." in shown
    assert "> There is no memory x." in shown


def test_english_reads_no_table() -> None:
    """English output does not load the table."""
    code = "import sys; from spellbook.settings.translate import translated; translated('Nothing found.'); print('tomllib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- numbers of things

MANY = {
    "{0} leads on more than {1} times.",
    "{0} notes need fixing.",
    "The last snapshot is {0} days old.",
    "There are {0} keywords; the maximum is {1}.",
    "{0} is a note of {1} sections, and the content is for one.",
    "{0}: {1} is there {2} times, in lines {3}.",
    "{0}: {1} of {2} notes are gone. Is a drive not mounted?",
    "only its first {0} sections are indexed each by itself; the {1} from here on, by size",
}
"""Messages in which the number is always more than one."""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (counted(0, "note"), "0 notes"),
        (counted(1, "note"), "1 note"),
        (counted(2_000, "query", "queries"), "2,000 queries"),
        (counted(1, "file", of=1), "1 of 1 file"),
        (counted(1, "file", of=3_000), "1 of 3,000 files"),
    ],
)
def test_one_is_singular(said: str, expected: str) -> None:
    """The noun fits its number, or the number of all of which some are meant."""
    assert said == expected


def test_no_message_puts_a_plural_behind_any_number() -> None:
    """A noun that is counted somewhere is counted by `counted` everywhere: none reads `1 files`."""
    said = every()
    nouns = {noun[1] for text in said if (noun := re.fullmatch(r"\{0\} (?:of \{1\} )?([a-z ]+)", text))}
    several = {noun for noun in nouns if {noun.removesuffix("s"), re.sub("ies$", "y", noun)} & (nouns - {noun})}
    assert {"notes", "files", "queries"} <= several
    behind = re.compile(rf"\{{\d+\}} (?:{'|'.join(several)})\b")
    counts = {f"{part} {noun}" for part in ("{0}", "{0} of {1}") for noun in several}
    assert {text for text in said if behind.search(text)} - counts - MANY == set()


# -- a printed message is read back


ANY_SLOT = re.compile(r"\{(\d+)(?::([^{}]+))?\}")

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

TEMPLATES = [english for english in translate.table() if ANY_SLOT.search(english)]


def kinds(english: str) -> list[str]:
    """Return the kind of each slot: its own, or that the Korean translates its value."""
    messages = {slot for slot, how in ANY_SLOT.findall(translate.table()[english]) if how.startswith("t")}
    return [
        kind or ("" if slot not in messages else "wrapped" if f": {{{slot}}}" in english else "message")
        for slot, kind in ANY_SLOT.findall(english)
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

    def filled(english: str, values: list[str]) -> str:
        return ANY_SLOT.sub(lambda slot: values[int(slot[1])], english)

    for english in TEMPLATES:
        for values in samples(english):
            text = filled(english, values)
            korean = translate.fill(translate.table()[english], values)
            if translate.translated(text, "ko") != korean:
                wrong.append(f"{english}\n  {text}\n  {translate.translated(text, 'ko')}\n  {korean}")
    assert not wrong, "\n".join(wrong)


def test_a_slot_has_the_kind_of_its_value() -> None:
    """A number of things is told as one: a slot that the Korean counts is a number, so that no word is counted."""
    for english, korean in translate.table().items():
        kind = dict(ANY_SLOT.findall(english))
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
            "2 notes: 1 added, 1 changed; 3 texts embedded. 4 sections, 0.1 s.",
            "노트 2개: 1개 추가, 1개 변경; 글 3개를 의미로 찾을 수 있게 함. 섹션 4개, 0.1초.",
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
        ("chunk 2 of its note here", "같은 노트에서 2번째로 나온 섹션"),
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
        ("before entry 3 mv", "3번 변경(mv) 전"),
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
        "a -0.03.md를 대체함 +0.10",
        "같은 노트에서 2번째로 나온 섹션 -0.03",
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
