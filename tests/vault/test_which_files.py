"""Which files are notes, by names, `.spellbookignore` and Obsidian's settings; and names that every system allows."""

import itertools
import json
import os
import random
import shutil
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.vault import obsidian
from spellbook.vault.folder import Folder
from spellbook.vault.names import COPY, IGNORE_FILE, is_note, safe_name
from spellbook.vault.obsidian import APP, DAILY, PERIODIC, TEMPLATER, TEMPLATES

PARTS = [*("./()~#a한\n"), "~$", "case conflict", "conflicted copy", ".sync-conflict-1", ".md"]


@given(st.lists(st.sampled_from(PARTS)))
def test_a_name_that_is_no_notes_is_told_by_all_of_it(parts: Any) -> None:
    """The quick check of a path agrees with the slow one on every rule."""
    path = "".join(parts) + ".md"
    hidden = any(part.startswith(".") for part in path.split("/"))
    assert is_note(path) == (not hidden and not COPY.search(path.rpartition("/")[2][:-3]))
    assert is_note("".join(parts)) == (path[:-3].lower().endswith(".md") and is_note(path[:-3]))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param('a<b>:"c/d\\e|f?g*h', "a-b-c-d-e-f-g-h", id="Windows"),
        pytest.param("a#b^c[d]e", "a-b-c-d-e", id="Obsidian"),
        pytest.param("tab\tline\nbell\x07", "tab-line-bell", id="control characters"),
        pytest.param("  .hidden. ", "hidden", id="dots and blanks at the ends"),
        pytest.param("~$lock~", "$lock", id="no editor's temporary name"),
        pytest.param("CON", "CON-", id="device"),
        pytest.param("nul.tar.gz", "nul-.tar.gz", id="device before a dot"),
        pytest.param("com¹ .x", "com¹- .x", id="device before a blank"),
        pytest.param("", "note", id="empty"),
        pytest.param("\ud800", "note", id="half a letter"),
        pytest.param(unicodedata.normalize("NFD", "한글 é"), "한글 é", id="NFC"),
        pytest.param("a" * 200, "a" * 117, id="length"),
        pytest.param("가" * 100, "가" * 39, id="length in bytes"),
        pytest.param("x" * 116 + "e\u0323\u0302\u0330", "x" * 116, id="not through a letter with marks"),
        pytest.param("x" * 103 + "👩‍👩‍👧‍👦", "x" * 103, id="not through a family"),
        pytest.param("x" * 111 + "👍🏽", "x" * 111, id="not through a skin"),
        pytest.param("x" * 112 + "कि", "x" * 112, id="not through a syllable"),
        pytest.param("복셀 16×16 크기!", "복셀 16×16 크기!", id="signs stay"),
        pytest.param("Don't mix A & B, 50 %", "Don't mix A & B, 50 %", id="case, blanks and commas stay"),
        pytest.param("18:30 회의", "18-30 회의", id="time"),
        pytest.param("abc\u202egnp.exe", "abcgnp.exe", id="right to left override"),
        pytest.param("\u200f\u2067a\u2069", "a", id="isolates"),
        pytest.param("a\u200bb\u00adc\ufeff\u0085d", "abcd", id="nothing to see"),
        pytest.param("می\u200cخواهم 👨\u200d👩\u200d👧", "می\u200cخواهم 👨\u200d👩\u200d👧", id="joiners stay"),
        pytest.param("e\u200b\u0301", "é", id="composed after that"),
        pytest.param("Plan (conflicted copy 2)", "Plan -conflicted copy 2-".strip("-"), id="no conflict copy"),
        pytest.param("x.sync-conflict-20260101", "x-sync-conflict-20260101", id="no conflict of Syncthing"),
        pytest.param("(case conflict) a", "case conflict- a", id="no conflict of case"),
    ],
)
def test_safe_name(text: str, name: Any) -> None:
    """
    The name is valid on Windows, macOS, Linux and in Obsidian, with at most 117 bytes before `.md`, what shows nothing
    is left out, and the result is a note by its name.
    """
    assert safe_name(text) == name
    assert is_note(f"{name}.md")


@given(st.text(max_size=200), st.integers(5, 117))
@settings(max_examples=300)
def test_safe_name_is_always_safe(text: str, most: int) -> None:
    """For any text the name is short enough, stable, not hidden and no device name."""
    name = safe_name(text, most)
    assert 0 < len(name.encode()) <= most + 1  # a device that is cut short gets its dash back
    assert safe_name(name, 120) == name
    assert not set(name) & set('<>:"/\\|?*#^[]\0\n')
    assert not name.startswith(".")
    assert name[-1] not in " ."


PIECES = ("*", "**", "a", "b", "ab", "*b", "a*", "?", "[ab]", "n.md", "*.md", "n?.md")
KNOWN = (
    ("*", "!*/"),
    ("*", "!*/", "!*.md"),
    ("/*", "!/a/"),
    ("a/**", "!a/b/"),
    ("a/**", "!a/**/", "!a/b/n.md"),
    ("**", "!**/", "!n.md"),
    ("a/", "!a/n.md"),
    ("*.md", "!n.md", "b/n.md"),
    ("**/b", "!a/b"),
    ("# a/", "\\#x", "**/n.md"),
    ("\ufeffn.md\r",),
)


def patterns(rolled: random.Random) -> list[str]:
    """Some lines as a person may write them."""
    lines = []
    for _ in range(rolled.randint(1, 4)):
        path = "/".join(rolled.choices(PIECES, k=rolled.choice((1, 1, 1, 2, 3))))
        lines.append(rolled.choice(("", "", "!")) + rolled.choice(("", "", "/")) + path + rolled.choice(("", "", "/")))
    return lines


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_lines_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    """
    For known traps of order and folders, and for generated lines: of each note git says the same, also to the one who
    has read the file before it was edited. A walk and a question for one note agree.
    """
    folder = Folder(tmp_path)
    folders = ["", *("/".join(each) for size in (1, 2, 3) for each in itertools.product(("a", "b", "ab"), repeat=size))]
    notes = [f"{folder}/{name}".lstrip("/") for folder in folders for name in ("n.md", "ab.md", "b.md")]
    for note in notes:
        (tmp_path / note).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / note).write_text("x")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    rolled = random.Random(7)
    for lines in (*KNOWN, *(patterns(rolled) for _ in range(60))):
        for file in (".gitignore", IGNORE_FILE):
            (tmp_path / file).write_text("\n".join(lines) + "\n", "utf-8", newline="")
        asked = subprocess.run(
            ["git", "-C", tmp_path, "check-ignore", "--no-index", "--stdin", "-z"],
            input="\0".join(notes).encode(),
            capture_output=True,
            check=False,
        )
        left_out = set(filter(None, asked.stdout.decode().split("\0")))
        assert {note for note in notes if folder.ignores(note)} == left_out, lines
        assert {note for note in notes if not folder.stamp(note)} == left_out, lines
        assert set(folder.walk().files) == set(notes) - left_out, lines


def put(vault: Path, name: str, value: Any) -> None:
    """Write one of the settings as Obsidian does."""
    (vault / name).parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    (vault / name).write_text(text, "utf-8")


NOTES = (
    *("Home.md", "Templates/Daily.md", "Templates/deep/Meeting.md", "Templates old.md", "틀/회의.md"),
    *("Projects/보관/a.md", "Projects/b.md", "Clippings/c.md", "drafts/_d.md", "Journal.md"),
)


@pytest.fixture
def notes(vault: Path) -> Path:
    """A vault with some notes."""
    for path in NOTES:
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text("text", "utf-8")
    return vault


@pytest.mark.parametrize(
    ("settings", "ignore", "left_out"),
    [
        ({}, "", set()),
        ({TEMPLATES: {"folder": "Templates"}}, "", {"Templates/Daily.md", "Templates/deep/Meeting.md"}),
        ({TEMPLATES: {"folder": "/templates/"}}, "", {"Templates/Daily.md", "Templates/deep/Meeting.md"}),
        ({TEMPLATER: {"templates_folder": "틀"}}, "", {"틀/회의.md"}),
        ({APP: {"userIgnoreFilters": ["Projects/보관/", "clippings"]}}, "", {"Projects/보관/a.md", "Clippings/c.md"}),
        ({APP: {"userIgnoreFilters": ["/(^|\\/)_/", "/^Home\\.md$/"]}}, "", {"drafts/_d.md", "Home.md"}),
        ({DAILY: {"folder": "Daily", "template": "Journal"}}, "", {"Journal.md"}),
        ({PERIODIC: {"weekly": {"enabled": True, "template": "틀/회의.md"}}}, "", {"틀/회의.md"}),
        # What would be all of a vault, or is nothing of it, leaves nothing out.
        ({TEMPLATES: {"folder": "/"}, TEMPLATER: {"templates_folder": ""}}, "", set()),
        ({APP: {"userIgnoreFilters": ["", "/", "//", 7, None, "../Home.md"]}}, "", set()),
        # .spellbookignore has the last word, folder by folder as in git.
        ({TEMPLATES: {"folder": "Templates"}}, "!Templates/", set()),
        ({TEMPLATES: {"folder": "Templates"}}, "!Templates/\nTemplates/deep/", {"Templates/deep/Meeting.md"}),
        (
            {TEMPLATES: {"folder": "Templates"}},
            "!Templates/Daily.md\nHome.md",
            {"Templates/Daily.md", "Templates/deep/Meeting.md", "Home.md"},
        ),
        ({APP: {"userIgnoreFilters": ["Home.md"]}}, "!Home.md", set()),
    ],
)
def test_what_the_settings_leave_out(notes: Path, settings: dict[str, object], ignore: str, left_out: set[str]) -> None:
    """A walk and a question for one path agree; a folder that does not read Obsidian's settings leaves nothing out."""
    for name, value in settings.items():
        put(notes, name, value)
    if ignore:
        (notes / IGNORE_FILE).write_text(ignore, "utf-8")
    folder = Folder(notes, obsidian=True)
    assert set(NOTES) - set(folder.walk().files) == left_out
    assert {path for path in NOTES if not folder.is_note(path)} == left_out
    assert {path for path in NOTES if folder.stamp(path) is None} == left_out
    assert not any(folder.ignores(path) for path in left_out) or ignore, "a backup holds them"
    if not ignore:
        assert set(Folder(notes).walk().files) == set(NOTES)


def test_settings_that_change_or_are_none(notes: Path) -> None:
    """
    The next walk reads settings that changed, came or went. Whatever stands in the files, every note is listed. A huge
    file, one that is no JSON, and a folder in its place are problems that `doctor` names.
    """
    folder = Folder(notes, obsidian=True)
    assert len(folder.walk().files) == len(NOTES)
    put(notes, TEMPLATES, {"folder": "Templates"})
    assert len(folder.walk().files) == len(NOTES) - 2
    put(notes, TEMPLATES, {"folder": "틀"})
    assert len(folder.walk().files) == len(NOTES) - 1
    (notes / TEMPLATES).unlink()
    assert len(folder.walk().files) == len(NOTES)
    filters = ('{"userIgnoreFilters": "Home.md"}', '{"userIgnoreFilters": {"a": 1}}')
    for value in ("", "{", "[]", "7", *filters, "[" * 100_000, "\ufeff{}"):
        for name in (APP, DAILY, TEMPLATES, TEMPLATER, PERIODIC):
            put(notes, name, value)
        assert set(Folder(notes, obsidian=True).walk().files) == set(NOTES)
    put(notes, APP, "{")
    with (notes / DAILY).open("wb") as file:
        os.truncate(file.fileno(), 100_000_000)
    (notes / TEMPLATES).unlink()
    (notes / TEMPLATES).mkdir()
    problems = obsidian.read(notes).problems
    assert [problem.partition(":")[0] for problem in problems] == [APP, TEMPLATES, DAILY]


def test_expressions(vault: Path) -> None:
    """
    Expressions are used, whatever the case of the path. What is no regular expression leaves nothing out, and is a
    problem that `doctor` names.
    """
    for source, path in (
        ("^Archive", "Archive/a.md"),
        (".*", "a.md"),
        ("(old|alt)/", "x/alt/y.md"),
        (r"\d\d\d\d-.*\.md$", "a 2026-x.md"),
        ("[가-힣]+ draft", "글 draft.md"),
        ("colou?r", "Color.md"),
        (r"(^|/)(?!keep)[^/]+\.draft\.md$", "x/a.draft.md"),
    ):
        put(vault, APP, {"userIgnoreFilters": [f"/{source}/"]})
        settings = obsidian.read(vault)
        assert not settings.problems
        assert (is_left_out := settings.leaves_out())
        assert is_left_out(path)
    for source in ("[z-a]", "(", ")", "a**", "*", "a{99999999999}", "(" * 490):
        put(vault, APP, {"userIgnoreFilters": [f"/{source}/"]})
        settings = obsidian.read(vault)
        assert not settings.expressions
        assert "so it excludes nothing" in settings.problems[0]
