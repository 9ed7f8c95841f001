"""Installing the plugin for Obsidian adds its files and its name to a vault; uninstalling restores every byte."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import Result

from spellbook import __version__
from spellbook.cli.clients.obsidian_plugin import FILES, SHIPPED
from tests.commands import spellbook
from tests.helpers import PATIENCE

ROOT = Path(__file__).parents[2]
MODULES = [ROOT / "node_modules", *map(Path, filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)))]
TYPINGS = [
    folder
    for folder in MODULES
    if shutil.which("node")
    and (folder / "obsidian/obsidian.d.ts").is_file()
    and (folder / "typescript/bin/tsc").is_file()
]

LISTS = {
    "none": None,
    "empty": "",
    "an empty list": "[]",
    "an open list": "[\n]\n",
    "as Obsidian writes it": '[\n  "dataview",\n  "메모"\n]',
    "tabs and CRLF": '[\r\n\t"dataview"\r\n]\r\n',
    "one line": '["dataview", "calendar"]',
    "a byte order mark": '\ufeff["dataview"]\n',
}


@pytest.fixture
def opened(vault: Path) -> Path:
    """A vault that Obsidian has opened, with another plugin."""
    (vault / "a.md").write_text("lantern", "utf-8")
    other = vault / ".obsidian/plugins/dataview"
    other.mkdir(parents=True)
    (other / "main.js").write_bytes(b"// other\r\n")
    (vault / ".obsidian/community-plugins.json").write_bytes(b'[\n  "dataview"\n]')
    return vault


def install(vault: Path, *args: object, code: int = 0) -> Result:
    return spellbook("--vault", vault, "install", "obsidian", *args, code=code)


def tree(vault: Path) -> dict[str, bytes | None]:
    """Every file and folder of a vault but dated backups."""
    return {
        path.relative_to(vault).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(vault.rglob("*"))
        if not path.name.endswith(".bak")
    }


def plugin(vault: Path) -> Path:
    return vault / ".obsidian/plugins/spellbook"


@pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS)
def test_there_and_back(opened: Path, listed: str | None) -> None:
    """
    The files are those of the package, the list keeps its others, and after --uninstall no byte is different. --dry-run
    prints the changes as a diff.
    """
    file = opened / ".obsidian/community-plugins.json"
    if listed is None:
        file.unlink()
    else:
        file.write_bytes(listed.encode())
    before = tree(opened)
    assert "class SpellbookPlugin" in install(opened, "--dry-run").stdout
    assert tree(opened) == before
    said = install(opened).stdout
    assert str(file) in said
    assert "spellbook serve" in said
    assert {name: (plugin(opened) / name).read_bytes() for name in FILES} == {
        name: (SHIPPED / name).read_bytes() for name in FILES
    }
    assert json.loads((plugin(opened) / "data.json").read_bytes()) == {"address": "http://127.0.0.1:17950"}
    assert json.loads(file.read_text("utf-8-sig")) == [*json.loads((listed or "[]").lstrip("\ufeff")), "spellbook"]
    assert before.items() - tree(opened).items() <= {(file.relative_to(opened).as_posix(), (listed or "").encode())}
    assert "nothing was changed" in install(opened).stdout
    install(opened, "--uninstall")
    assert tree(opened) == before
    assert not [*opened.glob(".obsidian/*.bak")], "git would take it"
    assert "nothing was changed" in install(opened, "--uninstall").stdout


def test_the_manifest_is_what_obsidian_wants() -> None:
    """
    All required keys, this version, a description as the guidelines want it; and the plugin stays small.

    Only `requestUrl` leaves Obsidian, at one place; nothing becomes HTML or code.
    """
    told = json.loads((SHIPPED / "manifest.json").read_bytes())
    assert told.keys() == {"id", "name", "version", "minAppVersion", "description", "author", "isDesktopOnly"}
    assert told["version"] == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", told["minAppVersion"])
    assert len(told["description"]) <= 250
    assert told["description"].endswith(".")
    assert sorted(each.name for each in SHIPPED.iterdir()) == sorted(FILES)
    assert sum(len((SHIPPED / name).read_text("utf-8").splitlines()) for name in FILES) < 500
    code = (SHIPPED / "main.js").read_text("utf-8")
    assert code.count("requestUrl(") == 1
    wrong = r"innerHTML|outerHTML|insertAdjacent|eval\(|new Function|fetch\(|XMLHttp|WebSocket|sendBeacon|console\."
    assert re.findall(wrong, code) == []
    assert re.findall(r"require\(([^)]*)\)", code) == ["'obsidian'"]


@pytest.mark.skipif(not TYPINGS, reason="needs node, and npm's obsidian and typescript in node_modules or NODE_PATH")
@pytest.mark.slow
def test_the_types_are_those_of_obsidian(tmp_path: Path) -> None:
    """tsc, strict, finds nothing wrong with the plugin against Obsidian's own typings."""
    options = {
        "allowJs": True,
        "checkJs": True,
        "strict": True,
        "noEmit": True,
        "skipLibCheck": True,
        "target": "es2022",
        "module": "nodenext",
        "lib": ["es2023", "dom", "dom.iterable"],
        "types": [],
        "paths": {"obsidian": [str(TYPINGS[0] / "obsidian/obsidian.d.ts")]},
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["main.js"]}))

    def checked(code: str) -> str:
        (tmp_path / "main.js").write_text(code, "utf-8")
        command = ["node", str(TYPINGS[0] / "typescript/bin/tsc"), "--project", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout

    code = (SHIPPED / "main.js").read_text("utf-8")
    assert checked(code) == ""
    assert "error TS" in checked(code.replace("getFileByPath", "getFileByPlace"))
