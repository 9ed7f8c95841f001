"""Sessions are captured only where a person said yes, from a client's own folder, into a vault that is there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook.capture import jobs
from spellbook.capture.excluded import is_excluded
from spellbook.capture.ledger import Ledger
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import SpellbookError
from tests.capture.transcripts import (
    BILLING,
    DEPLOY,
    LONG,
    OTHER,
    ROTATE,
    SESSION,
    answered,
    asked,
    claude,
    said,
    talk,
)
from tests.commands import spellbook_in

Capture = Callable[..., dict[str, str]]


def test_what_was_said_while_off(captured: Capture, ledger: Ledger, vault: Path, home: Path) -> None:
    """After capture was off, a session that goes on brings nothing of that time."""
    ledger.turn(False, vault)
    ledger.turn(True, vault)
    now = time.strftime("%Y-%m-%dT%H:%M:59Z", time.gmtime(time.time() + 60))
    assert asked(captured(*talk(ROTATE, DEPLOY), said(LONG[0], timestamp=now))) == [LONG[0].strip()]


@pytest.mark.parametrize(
    ("glob", "is_kept"),
    [
        ("/work", False),
        ("~/secret/", True),
        ("/work/shop/", False),
        ("/work/s*", False),
        ("*/other", True),
        ("shop", False),
    ],
)
def test_excluded_folders(vault: Path, ledger: Ledger, home: Path, glob: str, is_kept: bool) -> None:
    """What is said in a folder of `[capture] exclude`, or below it, is left out."""
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "config.toml").write_text(f'[capture]\nexclude = ["{glob}"]\n')
    claude(home).write_bytes(b"".join(talk(ROTATE, DEPLOY)))
    with books.open(vault, embedder="hash") as book:
        assert bool(jobs.capture(book.index, ledger, str(claude(home)), is_over=True)) is is_kept


def test_a_folder_has_many_names(tmp_path: Path) -> None:
    """
    A folder is excluded by each of its names: through a link on either side, with `//`, `..` or a slash at the end, and
    with letters of a glob. A folder that no absolute path names is excluded.
    """
    real = tmp_path / "work" / "client-a"
    (real / "sub").mkdir(parents=True)
    (tmp_path / "work" / "[old]").mkdir()
    work = f"{tmp_path}/work"
    names = [f"{real}", f"{work}/o/../client-a/", f"{work}//client-a"]
    globs = [f"{work}/client-*"]
    if sys.platform != "win32":  # where links need a right
        (tmp_path / "short").symlink_to(real)
        (tmp_path / "all").symlink_to(tmp_path / "work")
        names += [f"{tmp_path}/short/sub", f"{tmp_path}/all/client-a"]
        globs += [f"{tmp_path}/short/", f"{tmp_path}/all/*-a", f"{tmp_path}//all/../short"]
    for glob in globs:
        assert [name for name in names if not is_excluded(name, (glob,))] == []
        assert not any(is_excluded(name, (glob,)) for name in (f"{work}/client", f"{work}/o"))
    brackets = (f"{work}/[old]",)
    assert [is_excluded(f"{work}/{name}", brackets) for name in ("[old]", "[old]/x", "older", "x")] == [
        True,
        True,
        False,
        False,
    ]
    for glob in (f"{work}/client-a/**", f"{tmp_path}/**/client-a", f"{work}/**/client-a/**/", f" {work}/client-a "):
        assert [is_excluded(name, (glob,)) for name in (*names, f"{work}/o")] == [True] * len(names) + [False], glob
    assert [is_excluded(name, ()) for name in ("", "work", "../work", str(tmp_path))] == [True, True, True, False]


def test_an_answer_from_an_excluded_folder(captured: Capture, book: Spellbook) -> None:
    """An agent that went into an excluded folder tells of it: its answer is left out, the question is kept."""
    assert isinstance(book.config.capture, dict)
    book.config.capture["exclude"] = ["/work/secret"]
    notes = captured(*talk(ROTATE), said(DEPLOY[0], 1), answered("tiger-lily", cwd="/work/secret/a"))
    assert asked(notes) == [ROTATE[0], DEPLOY[0]]
    assert "tiger-lily" not in "".join(notes.values())


@pytest.mark.parametrize(
    "own",
    [
        {"uuid": "same"},
        {"sessionId": OTHER, "timestamp": "2026-11-26T08:00:00Z"},
        {"timestamp": "2026-11-26T09:00:00Z"},
    ],
)
def test_copies_of_a_session_that_is_off(captured: Capture, ledger: Ledger, home: Path, own: dict[str, str]) -> None:
    """Words of a session that is off are known in its forks and copies: by their id, their session, themselves."""
    ledger.forbid(OTHER)
    assert captured(said(LONG[0], uuid="same"), answered("No."), place=claude(home, OTHER)) == {}
    fork = captured(said(LONG[0], **own), answered("No."), *talk(ROTATE, DEPLOY, first=1))
    assert asked(fork) == [ROTATE[0], DEPLOY[0]]


@pytest.mark.parametrize("setting", ["on = true", 'exclude = "a"', "exclude = [1]", f'exclude = ["{"x" * 2_000}"]'])
def test_settings_exclude_and_nothing_else(vault: Path, setting: str) -> None:
    """A vault's settings cannot switch capture on; a wrong one is named."""
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "config.toml").write_text(f"[capture]\n{setting}\n")
    assert "exclude" in spellbook_in(vault, "status", code=2).stderr


FIFO = pytest.param("fifo", marks=pytest.mark.skipif(sys.platform == "win32", reason="there are no FIFOs"))


@pytest.mark.parametrize("kind", ["outside", "link", "linked folder", "folder", FIFO, "other name", "gone", "up"])
def test_what_is_no_transcript_is_refused(
    book: Spellbook, ledger: Ledger, home: Path, tmp_path: Path, kind: str
) -> None:
    """Nothing is read but regular files in a client's own folder: no link, no device, no path out of it."""
    place, evil = claude(home), tmp_path / "evil.jsonl"
    evil.write_bytes(b"".join(talk(ROTATE, DEPLOY)))
    if kind == "link":
        place.symlink_to(evil)
    elif kind == "linked folder":
        place.parent.rmdir()
        place.parent.symlink_to(tmp_path)
        place = place.parent / evil.name
    elif kind == "folder":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place)
    places = {"outside": evil, "other name": place.with_suffix(".txt"), "up": place.parent / "../../../.." / evil.name}
    with pytest.raises((OSError, SpellbookError)):
        jobs.capture(book.index, ledger, str(places.get(kind, place)), is_over=True)
    assert not (book.config.vault / "sessions").exists()


def test_a_client_elsewhere(captured: Capture, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a client may be named by its variable, and may be a link."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "config").symlink_to(tmp_path / "dotfiles")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    place = tmp_path / "config" / "projects" / "p" / f"{SESSION}.jsonl"
    place.parent.mkdir(parents=True)
    assert len(captured(*talk(ROTATE, DEPLOY), place=place)) == 1


def test_a_vault_that_is_not_mounted(captured: Capture, book: Spellbook, home: Path) -> None:
    """Into an empty folder in place of a vault that had notes nothing is written."""
    captured(*talk(ROTATE, DEPLOY), *talk(LONG, first=5))
    for number in range(3):
        (book.config.vault / f"{number}.md").write_text("a note")
    book.refresh()
    for file in [*book.config.vault.rglob("*")][::-1]:
        file.rmdir() if file.is_dir() else file.unlink()
    with pytest.raises(SpellbookError, match="not there"):
        captured(*talk(ROTATE, DEPLOY, BILLING))
