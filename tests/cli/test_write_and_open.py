"""The commands that keep what stdin says, and open a note's file."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.commands import spellbook

Write = Callable[..., Path]
TEXT = "# Keys\n\nAnn has them.\n\n## Rotation\n\nEvery Monday.\n"
FAKE = """#!{python}
import json, sys
with open({said!r}, "a", encoding="utf-8") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
sys.exit({code})
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)


class Programs:
    """Programs on the path that write down their arguments."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.folder = folder
        self.log = folder / "said.jsonl"
        monkeypatch.setenv("PATH", str(folder))

    def make(self, name: str, code: int = 0) -> Path:
        file = self.folder / name
        file.write_text(FAKE.format(python=sys.executable, said=str(self.log), code=code))
        file.chmod(0o755)
        return file

    def said(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text("utf-8").splitlines()] if self.log.exists() else []


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return Programs(tmp_path / "programs", monkeypatch)


# -- writing


def test_add_reads_stdin(vault: Path) -> None:
    """With - the text is stdin's, line ends and all, filed where the options say."""
    given = ["--topic", "shop", "--category", "home", "--title", "18:30"]
    result = spellbook("--vault", vault, "add", "-", *given, stdin="\ufeff- milk\n- tea\n")
    assert (vault / "home/shop/note.md").read_text("utf-8").endswith("---\n\n- milk\n- tea\n")
    assert (result.stdout.startswith("home/shop/note.md  "), result.stderr) == (True, "")


# -- opening


def test_open_starts_the_editor_at_the_line(
    vault: Path, write_note: Write, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The editor gets the file, and the line if it is known how; options of the variable stay apart.

    A path that means something to a shell is one argument. A file that is no valid note opens at the line of its fault;
    an unknown id is an error.
    """
    evil = 'it\'s $(touch x); `touch y` & "{line}" -rf.md'
    write_note("ops/keys.md", TEXT)
    write_note(evil, "text")
    (vault / "bad.md").write_bytes(b"one\ntwo\n\xff\xfe\n")
    file, expected = str(vault / "ops/keys.md"), []
    for editor, note, given in (
        ("nano", "ops/keys#rotation", ["+5", file]),
        ("code --wait --reuse-window", "ops/keys#rotation", ["--wait", "--reuse-window", "--goto", f"{file}:5"]),
        ("hx", "ops/keys", [f"{file}:1"]),
        ("notes-editor", "ops/keys.md", [file]),
        ("'my editor' -x 'a b'", "ops/keys#rotation", ["-x", "a b", file]),
        ("'ed; touch'", evil, [str(vault / evil)]),
        ("vim", "bad", ["+3", str(vault / "bad.md")]),
    ):
        programs.make(shlex.split(editor)[0])
        for variable in ("EDITOR", "VISUAL"):
            with monkeypatch.context() as patch:
                patch.setenv(variable, editor)
                spellbook("--vault", vault, "open", note)
            expected.append(given)
    assert programs.said() == expected
    assert "no memory" in spellbook("--vault", vault, "open", "nowhere", code=1).stderr


def test_visual_comes_first_and_an_empty_one_is_none(vault, write_note, programs, monkeypatch):
    """VISUAL comes before EDITOR; without either the error says what to set, and nothing is started."""
    write_note("a.md", "text")
    programs.make("one")
    programs.make("two", code=3)
    for visual, editor, code, message in (
        ("one", "two", 0, ""),
        (" ", "two", 1, "ended with exit code 3"),
        (" ", "", 2, "Set VISUAL or EDITOR"),
        (" ", "'open quote", 2, "Close its quotes"),
    ):
        monkeypatch.setenv("VISUAL", visual)
        monkeypatch.setenv("EDITOR", editor)
        assert message in spellbook("--vault", vault, "open", "a", code=code).stderr
    assert len(programs.said()) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no xdg-open")
def test_obsidian_gets_an_address(vault: Path, write_note: Write, programs: Programs) -> None:
    """`--obsidian` opens `obsidian://open?path=…`, the path percent-encoded; without a program the address is shown."""
    file = write_note("노트 & more/a b#c?.md", "text")
    said = spellbook("--vault", vault, "open", "노트 & more/a b#c?.md", "--obsidian", code=2).stderr
    programs.make("xdg-open")
    spellbook("--vault", vault, "open", "노트 & more/a b#c?.md", "--obsidian")
    [[address]] = programs.said()
    scheme, path = address.split("=", 1)
    assert (scheme, unquote(path), path.isascii(), set("&#? ") & set(path)) == (
        "obsidian://open?path", str(file), True, set(),
    )  # fmt: skip
    assert address in said
