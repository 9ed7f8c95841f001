"""The bundle for Claude Desktop: a valid manifest, and contents that start."""

from __future__ import annotations

import copy
import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from scripts import bundle


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle."""
    target = tmp_path_factory.mktemp("bundle") / "spellbook.mcpb"
    bundle.make(target)
    return target


@pytest.fixture(scope="module")
def manifest(made: Path) -> dict[str, Any]:
    """Its manifest, as a client reads it."""
    with zipfile.ZipFile(made) as archive:
        read: dict[str, Any] = json.loads(archive.read("manifest.json"))
    return read


def test_what_it_holds(made: Path, manifest: dict[str, Any], tmp_path: Path) -> None:
    """The bundle has all files that a build of the package needs, nothing else, and the same bytes each time."""
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
    needed = {"manifest.json", "pyproject.toml", "README.md", "LICENSE", "vault/welcome.md"}
    assert needed | {"spellbook/models/e5/e5.npz"} <= set(names)
    assert not [name for name in names if name.startswith(("/", "..")) or "__pycache__" in name]
    assert list(bundle.faults(manifest, names)) == []
    bundle.make(tmp_path / "again.mcpb")
    assert (tmp_path / "again.mcpb").read_bytes() == made.read_bytes()


def without(*path: str) -> Callable[[Any], None]:
    def change(about: Any) -> None:
        for name in path[:-1]:
            about = about[name]
        del about[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("author"), "author is missing"),
        (without("user_config", "vault", "description"), "description is missing"),
        (without("user_config"), "vault is used and not asked for"),
        (lambda about: about.update(icons="x"), "icons means nothing"),
        (lambda about: about.update(version="soon"), "none that can be compared"),
        (lambda about: about["server"].update(type="pip"), "'pip' is none of"),
        (lambda about: about["server"].update(entry_point="server.py"), "no 'server.py' in the bundle"),
        (lambda about: about["server"]["mcp_config"].update(args=[1]), "args[0]: 1 is no str"),
        (lambda about: about.update(tools={}), "tools: {} is no list"),
    ],
)
def test_a_wrong_manifest_is_told(manifest: dict[str, Any], change: Callable[[Any], None], said: str) -> None:
    """Invalid parts of a manifest are named."""
    about = copy.deepcopy(manifest)
    change(about)
    assert any(said in fault for fault in bundle.faults(about, ["spellbook/__main__.py"]))


@pytest.mark.slow
def test_it_starts(made: Path, manifest: dict[str, Any], vault: Path, tmp_path: Path) -> None:
    """Unpacked and started as the manifest says, it is a server with the tools that the manifest lists."""
    place = tmp_path / "unpacked"
    with zipfile.ZipFile(made) as archive:
        archive.extractall(place)
    started = manifest["server"]["mcp_config"]
    arguments = [
        each.replace("${__dirname}", str(place)).replace("${user_config.vault}", str(vault)) for each in started["args"]
    ]
    start = ["uv", "run", "--directory", str(place), "--python", bundle.PYTHON, "spellbook"]
    assert [started["command"], *arguments[:6]] == start
    environment = {**os.environ, "PYTHONPATH": str(place), "SPELLBOOK_EMBEDDER": "hash"}
    command = StdioServerParameters(command=sys.executable, args=["-m", *arguments[5:]], env=environment, cwd=place)

    async def tools() -> list[str]:
        async with Client(command) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert anyio.run(tools) == [tool["name"] for tool in manifest["tools"]]
