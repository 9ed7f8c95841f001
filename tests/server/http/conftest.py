"""Clients of the app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from spellbook.book import Spellbook
from spellbook.server.http.app import make
from spellbook.server.http.served import Served

from .described import Described


@pytest.fixture
def api(book: Spellbook) -> Iterator[TestClient]:
    """A program on this machine, whose answers are compared with the OpenAPI document."""
    served = Served(book)
    app = make(served, live=False)
    with Described(app, "http://localhost:17950", raise_server_exceptions=False) as made:
        made.app_served = served
        yield made
