"""The commands that keep what stdin says, and open a note's file."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    ("editor", "id", "expected"),
    [
        ("nano", "ops/keys#rotation", ["+5", "{file}"]),
        ("code --wait --reuse-window", "ops/keys#rotation", ["--wait", "--reuse-window", "--goto", "{file}:5"]),
        ("hx", "ops/keys", ["{file}:1"]),
        ("notes-editor", "ops/keys.md", ["{file}"]),
        ("'my editor' -x 'a b'", "ops/keys#rotation", ["-x", "a b", "{file}"]),
    ],
)
@pytest.mark.parametrize("variable", ["VISUAL", "EDITOR"])
def test_open_starts_the_editor_at_the_line(vault, write_note, programs, monkeypatch, editor, id, expected, variable):
    """The editor gets the file, and the line if it is known how; options of the variable stay apart."""
    file = write_note("ops/keys.md", TEXT)
    programs.make("my editor" if "my" in editor else editor.split()[0])
    monkeypatch.setenv(variable, editor)
    spellbook("--vault", vault, "open", id)
    assert programs.said() == [[each.format(file=file) for each in expected]]


def test_no_shell_sees_the_path(vault, write_note, programs, monkeypatch):
    """A path that means something to a shell is one argument, and so is one with blanks, quotes and braces."""
    programs.make("touch", 0)
    path = 'it\'s $(touch x); `touch y` & "{line}" -rf.md'
    file = write_note(path, "text")
    monkeypatch.setenv("EDITOR", f"'{programs.make('ed; touch')}'")
    spellbook("--vault", vault, "open", path)
    assert programs.said() == [[str(file)]]


def test_visual_comes_first_and_an_empty_one_is_none(vault, write_note, programs, monkeypatch):
    """VISUAL comes before EDITOR; without either the error says what to set, and nothing is started."""
    write_note("a.md", "text")
    programs.make("one")
    programs.make("two", code=3)
    monkeypatch.setenv("VISUAL", "one")
    monkeypatch.setenv("EDITOR", "two")
    spellbook("--vault", vault, "open", "a")
    monkeypatch.setenv("VISUAL", " ")
    assert "ended with exit code 3" in spellbook("--vault", vault, "open", "a", code=1).stderr
    assert len(programs.said()) == 2
    monkeypatch.setenv("EDITOR", "")
    assert "Set VISUAL or EDITOR" in spellbook("--vault", vault, "open", "a", code=2).stderr
    monkeypatch.setenv("EDITOR", "'open quote")
    assert "Close its quotes" in spellbook("--vault", vault, "open", "a", code=2).stderr
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


def test_a_note_that_cannot_be_read_can_be_opened(vault, programs, monkeypatch):
    """A file that is no valid note opens at the line of its fault; an unknown id is an error."""
    (vault / "bad.md").write_bytes(b"one\ntwo\n\xff\xfe\n")
    programs.make("vim")
    monkeypatch.setenv("EDITOR", "vim")
    spellbook("--vault", vault, "open", "bad")
    assert programs.said() == [["+3", str(vault / "bad.md")]]
    assert "no memory" in spellbook("--vault", vault, "open", "nowhere", code=1).stderr
