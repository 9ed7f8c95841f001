"""Obsidian's settings: what they leave out of a vault, and that faulty ones have no effect."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from spellbook.vault import obsidian
from spellbook.vault.folder import Folder
from spellbook.vault.ignored import IGNORE_FILE
from spellbook.vault.obsidian import APP, DAILY, PERIODIC, TEMPLATER, TEMPLATES


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
    assert not left_out & set(filter(folder.ignores, NOTES)) or ignore, "a backup holds them"
    if not ignore:
        assert set(Folder(notes).walk().files) == set(NOTES)


def test_a_change_of_the_settings_counts_at_once(notes: Path) -> None:
    """The next walk reads settings that changed, came or went."""
    folder = Folder(notes, obsidian=True)
    assert len(folder.walk().files) == len(NOTES)
    put(notes, TEMPLATES, {"folder": "Templates"})
    assert len(folder.walk().files) == len(NOTES) - 2
    put(notes, TEMPLATES, {"folder": "틀"})
    assert len(folder.walk().files) == len(NOTES) - 1
    (notes / TEMPLATES).unlink()
    assert len(folder.walk().files) == len(NOTES)


def test_settings_that_are_none(notes: Path) -> None:
    """Whatever stands in the files, every note is listed."""
    filters = ('{"userIgnoreFilters": "Home.md"}', '{"userIgnoreFilters": {"a": 1}}')
    for value in ("", "{", "[]", "7", *filters, "[" * 100_000, "\ufeff{}"):
        for name in (APP, DAILY, TEMPLATES, TEMPLATER, PERIODIC):
            put(notes, name, value)
        assert set(Folder(notes, obsidian=True).walk().files) == set(NOTES)


def test_a_file_that_is_not_read_is_named(notes: Path) -> None:
    """A huge file, one that is no JSON, and a folder in its place are problems that `doctor` names."""
    put(notes, APP, "{")
    with (notes / DAILY).open("wb") as file:
        os.truncate(file.fileno(), 100_000_000)
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
