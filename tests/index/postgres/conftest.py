"""Fixtures of the tests of PostgreSQL: one server for all of a process, a database of its own for each test."""

from __future__ import annotations

import shutil
import socket
import uuid
from collections.abc import Iterator

import pytest

from spellbook.index.postgres.database import PostgresDatabase
from tests.index.postgres import server


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of a server."""
    data = server.folder()
    try:
        _, url = server.start(data)
        yield url
    finally:
        server.stop(data)
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def url(address: str) -> Iterator[str]:
    """The address of an empty database."""
    import psycopg

    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield address.replace("/postgres?", f"/{name}?")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(url: str) -> Iterator[PostgresDatabase]:
    """An empty database."""
    opened = PostgresDatabase(url)
    yield opened
    opened.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"postgresql://me:hunter2@127.0.0.1:{listening.getsockname()[1]}/db"
