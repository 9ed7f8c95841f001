"""The commands that write a quick note, label a memory, and open a note's file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from spellbook.notes.note import Note, parse
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


def read(vault: Path, path: str) -> Note:
    return parse(path, (vault / path).read_bytes())


# -- writing


def test_scribe_takes_a_title_and_questions(vault: Path) -> None:
    """`--title` names the note and its file, `-q` or `--question` may be repeated, and none is said to be missing."""
    given = ("--topic", "deploy", "-k", "Friday", "--title", "배포: 금요일?", "-q", "When?", "--question", "Why not?")
    done = spellbook("--vault", vault, "scribe", "-", *given, stdin="We deploy on Fridays no more.\n")
    path = done.stdout.partition("  ")[0]
    assert "questions" not in done.stderr
    note = read(vault, path)
    assert (path, note.title) == ("knowledge/deploy/배포 금요일.md", "배포: 금요일?")
    assert (note.questions, note.keywords) == (("When?", "Why not?"), ("Friday",))


def test_add_keeps_a_sentence(vault: Path) -> None:
    """`add` needs no labels: the topic is `inbox`, and keywords come from tags and text."""
    said = ["Mina", "moved the PostgreSQL database", "-t", "staging", "--source", "standup"]
    told = json.loads(spellbook("--vault", vault, "add", *said, "--json").stdout)
    [written] = told["written"]
    note = read(vault, written["path"])
    assert (told["status"], note.body.strip()) == ("success", "Mina moved the PostgreSQL database")
    assert (note.topic, note.tags, note.keywords, note.meta["source"]) == (
        "inbox", ("staging",), ("staging", "PostgreSQL"), "standup",
    )  # fmt: skip
    assert spellbook("--vault", vault, "find", "Mina", "--json").stdout.count(written["path"]) == 1
    again = spellbook("--vault", vault, "add", *said, code=1)
    assert "already says this" in again.stderr


def test_add_reads_stdin(vault: Path) -> None:
    """With - the text is stdin's, line ends and all, filed where the options say."""
    given = ["--topic", "shop", "--category", "home", "--title", "18:30"]
    result = spellbook("--vault", vault, "add", "-", *given, stdin="\ufeff- milk\n- tea\n")
    assert (vault / "home/shop/note.md").read_text("utf-8").endswith("---\n\n- milk\n- tea\n")
    assert (result.stdout.startswith("home/shop/note.md  "), result.stderr) == (True, "")


@pytest.mark.parametrize(
    ("text", "stdin", "says"),
    [
        ([" "], None, "text is missing"),
        (["-"], b"\xff\xfe\xff", "UTF-16"),
        (["-"], "", "text is missing"),
        (["password: hunter2hunter2XY9"], None, "looks like it holds"),
    ],
)
def test_add_refuses_what_cannot_be_kept(vault: Path, text: list[str], stdin: str | bytes | None, says: str) -> None:
    """Nothing to say, no text, or a secret: an error, and nothing is written."""
    result = spellbook("--vault", vault, "add", *text, stdin=stdin, code=2 if stdin != b"\xff\xfe\xff" else 1)
    assert says in result.stderr
    assert not [*vault.rglob("*.md")]


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
def test_open_starts_the_editor_at_the_line(
    vault: Path,
    write_note: Write,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
    editor: str,
    id: str,
    expected: list[str],
    variable: str,
) -> None:
    """The editor gets the file, and the line if it is known how; options of the variable stay apart."""
    file = write_note("ops/keys.md", TEXT)
    programs.make("my editor" if "my" in editor else editor.split()[0])
    monkeypatch.setenv(variable, editor)
    spellbook("--vault", vault, "open", id)
    assert programs.said() == [[each.format(file=file) for each in expected]]


def test_no_shell_sees_the_path(
    vault: Path, write_note: Write, programs: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A path that means something to a shell is one argument, and so is one with blanks, quotes and braces."""
    programs.make("touch", 0)
    path = 'it\'s $(touch x); `touch y` & "{line}" -rf.md'
    file = write_note(path, "text")
    monkeypatch.setenv("EDITOR", f"'{programs.make('ed; touch')}'")
    spellbook("--vault", vault, "open", path)
    assert programs.said() == [[str(file)]]


def test_visual_comes_first_and_an_empty_one_is_none(
    vault: Path, write_note: Write, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setenv("EDITOR", "not-there")
    assert "not-there: it cannot be started" in spellbook("--vault", vault, "open", "a", code=2).stderr
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


def test_a_note_that_cannot_be_read_can_be_opened(
    vault: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is no valid note opens at the line of its fault; an unknown id is an error."""
    (vault / "bad.md").write_bytes(b"one\ntwo\n\xff\xfe\n")
    programs.make("vim")
    monkeypatch.setenv("EDITOR", "vim")
    spellbook("--vault", vault, "open", "bad")
    assert programs.said() == [["+3", str(vault / "bad.md")]]
    assert "no memory" in spellbook("--vault", vault, "open", "nowhere", code=1).stderr
