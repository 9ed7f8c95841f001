"""Shared fixtures: each test has its own vault and state, and the small deterministic embedder."""

import ctypes
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from spellbook.index.vectors import follow
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from tests.archive.pages.site import Site, serving
from tests.helpers import Write, note_writer

# A busy machine is no fault, and what fails once must fail again: new examples are looked for with --hypothesis-profile=explore.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True, max_examples=50)
settings.load_profile("same")

_OF_THE_RUN = {"SPELLBOOK_CACHE", "SPELLBOOK_LOOKS", "SPELLBOOK_STRESS_SECONDS"}
"""Variables that say how the tests run; no setting of Spellbook's for a vault."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On Windows skip the tests that windows.toml lists, with its reasons: of Wine alone, and of any Windows."""
    if sys.platform != "win32":
        return
    table = tomllib.loads(Path(__file__).with_name("windows.toml").read_text("utf-8"))
    is_wine = hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")
    for row in [*table["differs"], *(table["lacks"] if is_wine else [])]:
        without = pytest.mark.skip(reason=f"windows.toml: {row['reason']}")
        for item in items:
            if any(item.nodeid == test or item.nodeid.startswith((f"{test}[", f"{test}::")) for test in row["tests"]):
                item.add_marker(without)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the prepared model, shared by all processes of a run: SPELLBOOK_CACHE, or a temporary folder."""
    base = tmp_path_factory.getbasetemp()  # of this process; that of the run is above it
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    cache = Path(os.environ.get("SPELLBOOK_CACHE") or run / "cache")
    cache.mkdir(parents=True, exist_ok=True)
    return cache


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of whoever runs the tests, and keep indexes in temporary folders."""
    for name in os.environ:
        if name in {"OPENAI_API_KEY", "OLLAMA_HOST", "CLAUDE_PROJECT_DIR"} or (
            name.startswith("SPELLBOOK_") and name not in _OF_THE_RUN
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SPELLBOOK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SPELLBOOK_CACHE", str(prepared))
    monkeypatch.setenv("SPELLBOOK_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("SPELLBOOK_LANG", "en")


@pytest.fixture
def chroma_follows() -> None:
    """Commands of this test leave a process behind that fills Chroma, as they do for a person."""


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no other test leave such a process behind: each takes a second, and what it does shows in no answer."""
    if "chroma_follows" not in request.fixturenames:
        monkeypatch.setattr(follow, "start", lambda index: None)


@pytest.fixture(autouse=True)
def _links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the rest of a test whose links cannot be made: a person of Windows may have no right to, and Wine makes none."""
    if sys.platform != "win32":
        return
    make = os.symlink

    def link(source: object, target: object, *given: object, **more: object) -> None:
        try:
            make(source, target, *given, **more)
        except OSError as error:
            if error.winerror != 1314:  # a privilege is not held
                raise
        if not os.path.lexists(target):
            pytest.skip("no symbolic links can be made here")

    monkeypatch.setattr(os, "symlink", link)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """An empty vault."""
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def write_note(vault: Path) -> Write:
    """Write a note by its path: `write_note("a/b.md", "text", topic="x")`; `age` is how many seconds ago."""

    return note_writer(vault)


@pytest.fixture
def book(vault: Path) -> Iterator[Spellbook]:
    """The vault, opened."""
    with books.open(vault, embedder="hash") as opened:
        yield opened


@pytest.fixture(scope="session")
def _web_server() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def site(_web_server: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A web server on this machine, still without pages, that Spellbook may fetch from."""
    monkeypatch.setenv("SPELLBOOK_FETCH_LOCAL", "1")
    _web_server.pages.clear()
    _web_server.seen.clear()
    return _web_server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without any client."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
    for name in ("XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder
