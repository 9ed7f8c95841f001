"""A server with a public name, and an app in process for what asks often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from spellbook.http.app import make
from spellbook.http.guard import AccessRules, hosts
from spellbook.http.served import Served
from spellbook.http.tokens import Tokens
from spellbook.library.book import Spellbook
from tests.http.running import PROGRAM, Server

from .remote import HOST, ISSUER, App


@pytest.fixture
def served(book: Spellbook) -> Served:
    return Served(book, public=ISSUER)


@pytest.fixture
def remote(served: Served) -> Iterator[App]:
    """An app and its person, at the app itself."""
    rules = AccessRules(hosts=hosts("127.0.0.1", (HOST,)), public=ISSUER)
    with TestClient(make(served, rules, live=False), ISSUER, client=PROGRAM, follow_redirects=False) as client:
        yield App(client, served.tokens.add("me"))


@pytest.fixture(scope="module")
def tunnel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`spellbook serve --public-url`, asked by its public name: the address, a client, the vault's tokens, one of them."""
    folder = tmp_path_factory.mktemp("tunnel")
    vault: Path = folder / "vault"
    vault.mkdir()
    (vault / "harbor.md").write_text("The harbor is closed on Mondays.", "utf-8")
    own = {f"SPELLBOOK_{name}": str(folder / name.lower()) for name in ("STATE", "DATA", "MODELS", "CACHE")}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in own.items():
            patched.setenv(name, value)
        tokens = Tokens.of(vault)
        token = tokens.add("me")
        server = Server(vault, "--public-url", ISSUER, **own)
        with httpx2.Client(base_url=server.url, headers={"host": HOST}, timeout=60) as http:
            yield server.url, http, tokens, token, vault
        server.end()
