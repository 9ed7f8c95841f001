"""
Messages: singular and plural in English; Korean chosen by SPELLBOOK_LANG or the system, complete, without effect on
programs.
"""

from __future__ import annotations

import os
import plistlib
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest
from rich.cells import cell_len

from spellbook.cli import main
from spellbook.settings import translate
from spellbook.text.korean import particle
from spellbook.text.quoting import counted
from tests.cli.messages import every, messages_in_messages, templates
from tests.commands import process

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


def run(vault: Path, *command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a person does."""
    return process(*command, code=None, **{"SPELLBOOK_LANG": "ko", "SPELLBOOK_VAULT": str(vault), **environment})


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
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
    names = {"help_option_names": ["-h", "--help"]}  # click keeps the option that it makes first
    context = click.Context(main, info_name="spellbook", **names)
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
        context = command.context_class(command, info_name=name, parent=context)
    shown = command.get_help(command.context_class(command, info_name=" ".join(("spellbook", *path)), **names))
    assert shown.startswith("사용법: spellbook")
    lines = [
        line for line in shown.splitlines() if not re.match(r"사용법|\s+(spellbook|echo|SPELLBOOK_EMBEDDER=)", line)
    ]
    assert not [line for line in lines if ENGLISH.search(re.sub(r"`[^`]*`|\[.*?\]", "", line))]
    assert max(map(cell_len, lines)) <= 80
    assert "\ue000" not in shown
    assert not re.search(r"\[(OPTIONS|ARGS|COMMAND)\]|COMMAND", shown.split("\n\n")[0])


@pytest.mark.slow
def test_programs_read_the_same_in_each_language(vault: Path) -> None:
    """
    JSON, exit codes and the text of notes are the same in each language, even if a note contains one of our messages.
    """
    (vault / "a.md").write_text("# Nothing found.\n\nThere is no memory x.\n", "utf-8")
    run(vault, "reindex")
    for command in (
        ("show", "a", "--json"),
        ("topics", "--json"),
        ("show", "nope", "--json"),
        ("why", "memory", "--json"),
    ):
        english, korean = run(vault, *command, SPELLBOOK_LANG="en"), run(vault, *command)
        assert (english.stdout, english.returncode) == (korean.stdout, korean.returncode)
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
