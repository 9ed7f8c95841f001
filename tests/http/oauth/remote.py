"""An app on the internet: it asks `spellbook serve --public-url` by its public name, through a tunnel that adds nothing."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from httpx2 import Client, Response

from spellbook.http.tokens import Tokens

HOST = "notes.example.org"
ISSUER = f"https://{HOST}"
CLAUDE = "https://claude.ai/oauth/mcp-oauth-client-metadata"
CALLBACK = "https://claude.ai/api/mcp/auth_callback"
CODE = "https://claude.ai/oauth/claude-code-client-metadata"
VERIFIER = "v" * 50
CHALLENGE = base64.urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
READ, BOTH = "vault:read", "vault:read vault:write"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_index", "arguments": {}}}
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


def answered(answer: Response) -> dict[str, str]:
    """The parameters of a redirect."""
    assert answer.status_code == 302, answer.text
    return {name: value for name, [value] in parse_qs(urlsplit(answer.headers["location"]).query).items()}


@dataclass
class App:
    """An app, and the person who uses it."""

    http: Client
    token: str
    id: str = CLAUDE
    redirect: str = CALLBACK
    more: dict[str, str] = field(default_factory=dict)

    def query(self, **changed: str | None) -> str:
        asked = {
            **{"response_type": "code", "client_id": self.id, "redirect_uri": self.redirect, "state": "s t&a=te"},
            **{"code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": f"{ISSUER}/mcp"},
            **{"scope": READ},
        }
        return "/authorize?" + urlencode(
            {name: value for name, value in (asked | changed).items() if value is not None}
        )

    def log_in(self, **headers: str) -> dict[str, str]:
        """The headers of a browser in which the person has logged in."""
        answer = self.http.post("/login", data={"token": self.token}, headers=headers)
        assert answer.status_code == 303, answer.text
        self.http.cookies.clear()
        return {"cookie": f"spellbook={answer.cookies['spellbook']}"}

    @cached_property
    def browser(self) -> dict[str, str]:
        return self.log_in()

    def page(self, query: str = "", **headers: str) -> Response:
        """What a person sees who has logged in."""
        return self.http.get(query or self.query(), headers={**self.browser, **headers})

    def consent(self, query: str = "", headers: Mapping[str, str] = {}, /, **form: str) -> Response:
        """What a person answers on the page."""
        jar = self.browser
        fields = {"csrf": Tokens.csrf(jar["cookie"].partition("=")[2]), "answer": "yes", **form}
        return self.http.post(query or self.query(), data=fields, headers={**jar, **headers})

    def code(self, query: str = "", **form: str) -> str:
        return answered(self.consent(query, **form))["code"]

    def ask_token(self, **fields: str | None) -> Response:
        data = {"client_id": self.id, **self.more, **fields}
        return self.http.post("/token", data={name: value for name, value in data.items() if value is not None})

    def exchange(self, code: str, /, **changed: str | None) -> Response:
        own = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.redirect}
        return self.ask_token(**{**own, "code_verifier": VERIFIER, "resource": f"{ISSUER}/mcp", **changed})

    def refresh(self, token: str, **changed: str | None) -> Response:
        return self.ask_token(**{"grant_type": "refresh_token", "refresh_token": token, **changed})

    def connect(self, scope: str = READ, **form: str) -> dict[str, Any]:
        """The pair of tokens of a new grant."""
        answer = self.exchange(self.code(self.query(scope=scope), **form))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def call(self, token: str, message: dict[str, Any] = CALL, **headers: str) -> Response:
        """A call of MCP."""
        sent = {**MCP, **headers} | ({"authorization": f"Bearer {token}"} if token else {})
        return self.http.post("/mcp", json=message, headers=sent)


def shown(page: str) -> str:
    """What a person reads on a page."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page.partition("<body>")[2])).split())
