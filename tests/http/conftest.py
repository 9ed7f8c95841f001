"""Clients of the app."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from spellbook.http.served import Served
from spellbook.library.book import Spellbook

from .running import Server, Serving, asked


@pytest.fixture
def api(book: Spellbook) -> Iterator[TestClient]:
    """A program on this machine, which needs no token."""
    with asked(Served(book), raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def serving(vault: Path) -> Iterator[Serving]:
    """Start servers of the vault; they end with the test."""
    started: list[Server] = []

    def start(*options: str, **environment: str) -> Server:
        started.append(Server(vault, *options, **environment))
        return started[-1]

    yield start
    for each in started:
        each.end()
