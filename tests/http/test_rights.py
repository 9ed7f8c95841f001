"""What each endpoint asks for: a new one without a row here fails, and each is refused to whoever has less."""

from __future__ import annotations

from starlette.testclient import TestClient

from spellbook.http import admin, api
from spellbook.http.app import make
from spellbook.http.callers import RIGHTS
from spellbook.http.guard import AccessRules
from spellbook.http.served import Served

from .running import code

WRITE = {
    *("POST /api/notes", "PATCH /api/notes/{id}", "DELETE /api/notes/{id}", "POST /api/restore", "POST /api/undo"),
    *("POST /api/move", "POST /api/merge", "POST /api/links/mend", "POST /api/articles", "POST /api/snapshots"),
    *("POST /api/decisions/{id}/outcome", "POST /api/reindex", "POST /api/check", "DELETE /api/jobs/{id}"),
}
ADMIN = {"POST /api/migrate", "POST /api/import"}
"""Beside everything below /admin."""

READ = {
    *("GET /api/status", "GET /api/index", "GET /api/topic", "GET /api/graph/whole", "GET /api/search", "GET /api/why"),
    *("GET /api/recent", "GET /api/history", "GET /api/notes/{id}", "GET /api/log", "GET /api/articles"),
    *("GET /api/snapshots", "GET /api/check", "GET /api/jobs", "GET /api/jobs/{id}"),
}


def right_of(called: str) -> str:
    """The least right that an endpoint asks for."""
    if called in ADMIN or "/admin" in called:
        return "admin"
    return "write" if called in WRITE else "read"


def test_every_endpoint_has_its_right():
    """As the table above says, which a person reads."""
    known = {f"{each.method} {each.path}": each.right for each in (*api.ENDPOINTS, *admin.ENDPOINTS)}
    assert {called for called in known if "/admin" not in called} == WRITE | ADMIN | READ
    assert known == {called: right_of(called) for called in known}


def test_who_has_less_is_refused(book):
    """Without a token 401, with a lesser one 403; with the right one whatever the verb says of an empty request."""
    served = Served(book)
    with TestClient(make(served, AccessRules(is_local=False), live=False), "http://localhost:17950") as client:
        tokens = {may: {"authorization": f"Bearer {served.tokens.add(may, may)}"} for may in RIGHTS}
        for called in sorted(f"{each.method} {each.path}" for each in (*api.ENDPOINTS, *admin.ENDPOINTS)):
            method, path = called.replace("{id}", "nothing").split()
            needed = right_of(called)
            assert client.request(method, path).status_code == 401, called
            for may in RIGHTS[: RIGHTS.index(needed)]:
                answer = client.request(method, path, headers=tokens[may])
                assert code(answer) == (403, "PERMISSION_DENIED"), (called, may)
            answer = client.request(method, path, headers=tokens[needed])
            assert answer.status_code not in {401, 403, 500}, (called, answer.text)
