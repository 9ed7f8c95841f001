"""Spellbook as directories, registries and agents find it: the files say the same, and are in the forms that these read."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from scripts import plugin, release
from spellbook import __version__
from spellbook.library.book import Spellbook
from spellbook.mcp.app import build

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SKILLS = sorted((ROOT / "plugins/spellbook/skills").glob("*/SKILL.md"))
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def read(name: str) -> Any:
    return json.loads((ROOT / name).read_text("utf-8"))


def test_the_committed_plugin_is_the_one_that_is_made() -> None:
    """`make plugin` changes nothing; what it writes and the skills are all that is in the plugin."""
    for name, text in plugin.files().items():
        assert (ROOT / name).read_bytes().decode() == text, f"{name}: run make plugin"
    there = {file.relative_to(ROOT).as_posix() for file in (ROOT / "plugins").rglob("*") if file.is_file()}
    skills = {file.relative_to(ROOT).as_posix() for file in SKILLS}
    assert there == skills | (plugin.files().keys() - {".claude-plugin/marketplace.json"})


def test_the_plugin_has_the_documented_shape() -> None:
    """Marketplace, manifest, server and hooks are as Claude Code reads them, and run the `spellbook` on the PATH."""
    market, about = read(".claude-plugin/marketplace.json"), read("plugins/spellbook/.claude-plugin/plugin.json")
    [listed] = market["plugins"]
    assert KEBAB.fullmatch(market["name"])
    assert market["owner"]["name"]
    assert listed["name"] == about["name"] == "spellbook"
    assert re.fullmatch(r"\./[\w/]+", listed["source"])
    assert (ROOT / listed["source"]).is_dir()
    assert about.keys() <= {"name", "version", "description", "author", "homepage", "repository", "license", "keywords"}
    (server,) = read("plugins/spellbook/.mcp.json")["mcpServers"].values()
    assert (server["command"], server["args"]) == ("spellbook", ["mcp"])
    hooks = read("plugins/spellbook/hooks/hooks.json")
    assert hooks.keys() == {"description", "hooks"}
    assert "Stop" not in hooks["hooks"]
    for run in (run for groups in hooks["hooks"].values() for group in groups for run in group["hooks"]):
        assert (run.keys(), run["type"]) == ({"type", "command", "timeout"}, "command")
        assert re.fullmatch(r"spellbook (context --\S+|capture hook)", run["command"])


@pytest.mark.parametrize("file", SKILLS, ids=lambda file: file.parent.name)
def test_a_skill(file: Path, book: Spellbook) -> None:
    """A skill has the keys that every client takes, the name of its folder, and names tools of the default set alone."""
    _, header, body = file.read_text("utf-8").split("---\n", 2)
    about = yaml.safe_load(header)
    assert about.keys() <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert KEBAB.fullmatch(about["name"])
    assert about["name"] == file.parent.name
    assert len(about["name"]) <= 64
    assert 0 < len(about["description"]) <= 1_024
    assert len(body.splitlines()) < 500
    named = {each for each in re.findall(r"`([a-z_]+)`", body)} - {"also", "supersedes"}
    offered = {tool.name for tool in anyio.run(build(book, live=False).list_tools)}
    assert named
    assert named <= offered


def test_the_entry_of_the_registry() -> None:
    """server.json is what the registry takes once its owner is named: form, one exact version, the README's own name."""
    entry = read("server.json")
    [package] = entry["packages"]
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert len(entry["description"]) <= 100
    assert (package["registryType"], package["identifier"]) == ("pypi", PROJECT["name"])
    assert package["transport"] == {"type": "stdio"}
    assert package["runtimeHint"] == "uvx"
    assert PROJECT["name"] in PROJECT["scripts"]  # uvx runs the command of the distribution's own name
    assert re.search(rf"mcp-name: {re.escape(entry['name'])}(?!\S)", (ROOT / "README.md").read_text("utf-8"))


def test_a_release_fills_the_entry(tmp_path: Path) -> None:
    """The bundle is named by its address and hash; without an owner and a repository nothing is made."""
    (bundle := tmp_path / "spellbook-1.mcpb").write_bytes(b"x")
    template = read("server.json")
    owned = {**template, "name": "io.github.anna/spellbook"}
    project = {"urls": {"Repository": "https://github.com/anna/spellbook"}}
    assert release.registered(template, project, bundle) is None
    assert release.registered(owned, {}, bundle) is None
    made = release.registered(owned, project, bundle)
    assert [each["registryType"] for each in made["packages"]] == ["pypi", "mcpb"]
    assert made["packages"][1]["fileSha256"] == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert made["packages"][1]["identifier"].endswith(f"/v{__version__}/spellbook-1.mcpb")


def test_one_version_and_one_description() -> None:
    """Package, registry, plugin and marketplace say the same."""
    entry, about = read("server.json"), read("plugins/spellbook/.claude-plugin/plugin.json")
    [listed] = read(".claude-plugin/marketplace.json")["plugins"]
    assert {entry["version"], entry["packages"][0]["version"], about["version"]} == {__version__}
    assert {entry["description"], about["description"], listed["description"]} == {PROJECT["description"]}


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
