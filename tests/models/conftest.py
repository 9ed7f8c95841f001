"""Fixtures for services on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.models.speaking import Serve, Speaking


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide proxies of whoever runs the tests."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers = []

    def start(answer: Any) -> Speaking:
        servers.append(Speaking(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.over.set()
        server.shutdown()
        server.server_close()
