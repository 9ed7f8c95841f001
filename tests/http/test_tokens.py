"""Tokens: who is let in, what the file tells, and when a cookie ends."""

from __future__ import annotations

import json
import stat
import sys
import time
from pathlib import Path

import pytest

from spellbook.http.tokens import COOKIE_SECONDS, FILE, RIGHTS, SCOPES, Caller, Tokens
from spellbook.system.errors import InvalidInput, PermissionDenied, StorageError
from tests.helpers import finished, python

from .running import may_of

GIVEN = "correct horse battery staple"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / FILE


@pytest.fixture
def tokens(file: Path) -> Tokens:
    return Tokens(file, {})


def cookie_for(tokens: Tokens, token: str) -> str:
    """A new cookie for a token."""
    cookie = tokens.cookie(token)
    assert cookie
    return cookie


def test_a_token_names_its_caller_and_no_other_text_does(file: Path, tokens: Tokens) -> None:
    """
    The token that `add` returns, and nothing near it, is its caller, with the rights that were given.

    Only the owner may read the file. It has neither tokens nor cookies, and nothing that one could be made of.
    """
    assert tokens.is_empty
    kinds = [*((may, "private") for may in RIGHTS), *(("read", sees) for sees in SCOPES[1:])]
    made = {f"{may}-{sees}": tokens.add(f"{may}-{sees}", may, sees) for may, sees in kinds}
    for (name, token), (may, sees) in zip(made.items(), kinds, strict=True):
        assert tokens.caller(token) == Caller(name, may, sees)
        for wrong in ("", token[:-1], token + "a", token.upper(), f" {token}", "é" * 5, "\ud800", "a" * 10_000):
            assert tokens.caller(wrong) is None
    assert Tokens(file, {}).caller(made["read-private"]) == Caller("read-private", "read", "private")
    assert not tokens.is_empty
    assert len(set(made.values())) == len(kinds)
    cookie = tokens.cookie(token)
    data = file.read_text("utf-8")
    assert not [each for each in (cookie, *made.values()) if each in data + repr(tokens.all())]
    for hashed in json.loads(data)["logins"]:
        assert tokens.caller("", hashed) is tokens.caller(hashed) is None
    assert sys.platform == "win32" or stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not [each for each in file.parent.iterdir() if each.suffix == ".tmp"]


def test_a_cookie_stands_for_its_token_until_it_ends(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """
    For thirty days; no changed one does, none whose token was removed or made anew, and the form's value is its own.

    A logout ends a cookie for all processes, and no other cookie. Of more than a hundred browsers the first is logged
    out.
    """
    token = tokens.add("a b", "read", "team")
    cookie, other = cookie_for(tokens, token), cookie_for(tokens, token)
    assert tokens.cookie(token + "x") is None
    assert tokens.caller("", cookie) == Caller("a b", "read", "team", by_cookie=True)
    for wrong in ("", token, cookie + "A", cookie[:-1], cookie.swapcase(), "é\ud800", "a" * 10_000):
        assert tokens.caller("", wrong) is None
    assert tokens.csrf(cookie) not in {tokens.csrf(other), cookie, ""}
    now = time.time()
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: now + COOKIE_SECONDS + 2)
        assert tokens.caller("", cookie) is None
    tokens.remove("a b")
    assert tokens.caller("", cookie) is None
    tokens.add("a b", "read", "team")
    assert tokens.caller("", cookie) is None
    tokens = Tokens(file, {"SPELLBOOK_TOKEN": GIVEN})
    secrets = (GIVEN, tokens.add("a"), tokens.add("b"))
    for secret in secrets:
        gone, kept = cookie_for(tokens, secret), cookie_for(tokens, secret)
        tokens.log_out(gone)
        tokens.log_out(gone + "x")
        for each in (tokens, Tokens(file, {"SPELLBOOK_TOKEN": GIVEN})):
            assert each.caller("", gone) is None
            assert each.caller("", kept)
            assert each.caller(secret)
    assert len(json.loads(file.read_text())["logins"]) == 3
    many = [cookie_for(tokens, secrets[1]) for _ in range(100)]
    assert tokens.caller("", many[0])
    assert tokens.cookie(secrets[1])
    assert [tokens.caller("", each) is None for each in many[:2]] == [True, False]
    tokens.remove("a")
    assert len(json.loads(file.read_text())["logins"]) == 2


def test_a_lent_token_is_of_this_process_alone(file: Path, tokens: Tokens) -> None:
    """
    It is in no file, closes nothing for others, stands beside one of its name, and a new one replaces it.

    A running server refuses what was removed elsewhere, takes what was added, and nothing is lost between writers. A
    file that cannot be read is an error that names it, not a server without tokens; it is never written over. 0.2.0
    could limit a token to some vaults of a server: it must not see a whole one instead. Others are let in.
    """
    first, second = tokens.lend(), tokens.lend()
    assert tokens.caller(first) is None
    assert tokens.caller(second) == Caller("phone", "write")
    assert tokens.is_empty
    assert not file.exists()
    assert Tokens(file, {}).caller(second) is None
    own = tokens.add("phone", "read")
    assert not tokens.is_empty
    cookies = {secret: cookie_for(tokens, secret) for secret in (second, own)}
    Tokens(file, {}).add("another")  # a process that knows none of it
    for secret, may in ((second, "write"), (own, "read")):
        assert may_of(tokens.caller("", cookies[secret])) == may
    assert tokens.remove("phone").may == "write"
    assert tokens.caller(second) is tokens.caller("", cookies[second]) is None
    assert may_of(tokens.caller(own)) == tokens.remove("phone").may == "read"
    token = tokens.add("mine")
    assert tokens.caller(token)
    code = """
import sys
from pathlib import Path
from spellbook.http.tokens import Tokens
tokens = Tokens(Path(sys.argv[1]), {})
print(*(tokens.add(f"{sys.argv[2]}{i}") for i in range(5)))
"""
    made = [token for said in finished(*(python(code, file, name) for name in "xy")) for token in said.split()]
    assert [tokens.caller(each) for each in made] == [Caller(f"{x}{i}", "write") for x in "xy" for i in range(5)]
    Tokens(file, {}).remove("mine")
    assert tokens.caller(token) is None
    file.unlink()
    assert tokens.is_empty
    plain, limited = tokens.add("plain"), tokens.add("ops")
    kept = json.loads(file.read_text())
    rows = {row["name"]: row for row in kept["tokens"]}
    rows["ops"]["vaults"] = ["ops"]
    file.write_text(json.dumps(kept))
    assert tokens.caller(limited) is None
    assert tokens.caller(plain) == Caller("plain", "write", "private")
    rows["plain"]["may"] = "everything"
    unknown = json.dumps(kept).encode()
    for bad in (b"", b"[]", b"{}", b'{"tokens": [{}]}', b"\xff", b'{"tokens": [{"name": "a"}]}', unknown):
        file.write_bytes(bad)
        for call in (lambda: tokens.caller(plain), lambda: tokens.is_empty, lambda: tokens.add("b")):
            with pytest.raises(StorageError) as raised:
                call()
            assert str(file) in str(raised.value)
        assert file.read_bytes() == bad


def test_the_token_of_the_environment(file: Path) -> None:
    """SPELLBOOK_TOKEN writes and sees all; a short one is refused without being shown."""
    tokens = Tokens(file, {"SPELLBOOK_TOKEN": GIVEN})
    mine = Caller("SPELLBOOK_TOKEN", "write", "private")
    assert tokens.caller(GIVEN) == mine
    assert tokens.caller("", cookie_for(tokens, GIVEN)) == Caller(mine.name, "write", "private", True)
    other = tokens.add("a", "admin")
    assert tuple(each.name for each in tokens.all()) == ("SPELLBOOK_TOKEN", "a")
    assert tokens.caller(other) == Caller("a", "admin")
    with pytest.raises(InvalidInput, match="16 letters") as raised:
        Tokens(file, {"SPELLBOOK_TOKEN": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_rights_are_checked(tokens: Tokens) -> None:
    """
    A name holds no sign that changes the order of a line, nor a second line.

    A limited token has the right to read by default and no other, whatever a file that was edited by hand says.
    """
    for name in ("a\n", "a\u202eb"):
        with pytest.raises(InvalidInput):
            tokens.add(name)
    for sees in SCOPES[1:]:
        assert tokens.caller(tokens.add(sees, sees=sees)) == Caller(sees, "read", sees)
        Caller("a", "read", sees).require("read")
    for right in RIGHTS[1:]:
        with pytest.raises(InvalidInput, match="only read"):
            tokens.add("a", right, "team")
        with pytest.raises(PermissionDenied, match="sees what is team alone"):
            Caller("a", "admin", "team").require(right)
    with pytest.raises(PermissionDenied, match="may write, and this needs admin"):
        Caller("a", "write").require("admin")
    Caller("a", "admin").require("write")
