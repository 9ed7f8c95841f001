"""Where a vault's index and its data lie: two folders on each system, and one for each vault, however it is typed."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from spellbook.http.tokens import Tokens
from spellbook.settings import config
from spellbook.system import platform
from tests.helpers import finished, python
from tests.trees import contents, grow

ON_MAC = """
import json, os, sys
sys.platform = "darwin"
from spellbook.settings import paths
from spellbook.system import platform
def refuse(*names):
    raise PermissionError(13, "held", *names)
root = sys.argv[1]
if sys.argv[2] == "held":
    platform.rename = refuse
print(json.dumps([paths.data(root), paths.snapshots(root), paths.default_file(), paths.state(root)]))
"""


def on_mac(home: Path, root: str, how: str = "") -> list[str]:
    """The folders for data, snapshots, the file of this machine's vault and the index, as macOS has them."""
    unset = {f"SPELLBOOK_{name}": "" for name in ("DATA", "STATE")}
    return list(json.loads(finished(python(ON_MAC, root, how, HOME=str(home), **unset))[0]))


@pytest.mark.skipif(sys.platform == "win32", reason="the home folder is not in HOME there")
def test_tokens_do_not_lie_in_the_folder_of_the_index(tmp_path: Path) -> None:
    """
    Where the system has one folder for both, data lie below `data`, and those of an earlier version are moved there, once:
    tokens, capture, snapshots and the vault of this machine. While another program holds them, they are used where they
    are. An older file is not put over a newer one.
    """
    support = tmp_path / "Library" / "Application Support" / "spellbook"
    vault = f"notes-{hashlib.sha256(b'/v/notes').hexdigest()[:10]}"
    of_vault = {f"{vault}/{name}": b"kept" for name in ("tokens.json", "capture/ledger.db", "capture-off/1")}
    shared = {f"snapshots/{vault}/1.gz": b"kept", "default-vault": b"/v/notes\n"}
    grow(support, {**of_vault, **shared, f"{vault}/catalog.db": b"index"})
    held = [str(support / name) for name in (vault, f"snapshots/{vault}", "default-vault", vault)]
    assert on_mac(tmp_path, "/v/notes", "held") == held
    data, snapshots, default, state = (Path(place) for place in on_mac(tmp_path, "/v/notes"))
    assert contents(support) == {
        **{f"data/{name}": content for name, content in {**of_vault, **shared}.items()},
        f"{vault}/catalog.db": b"index",
    }
    assert [place.relative_to(support).as_posix() for place in (data, snapshots, default, state)] == [
        *(f"data/{vault}", f"data/snapshots/{vault}", "data/default-vault", vault)
    ]
    grow(support, {f"{vault}/tokens.json": b"older"})
    assert Path(on_mac(tmp_path, "/v/notes")[0], "tokens.json").read_bytes() == b"kept"


@pytest.mark.skipif(os.path.normcase("A") == "a", reason="the disk ignores case")
def test_a_vault_is_one_however_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    On macOS `~/notes` and `~/Notes` are one vault with one index; what an earlier version kept for the other spelling,
    tokens too, becomes that of the true one.
    """
    grow(tmp_path, {"Notes/a.md": b"a", "notes/a.md": b"a"})  # on this disk they are two
    typed, true = str(tmp_path / "notes"), str(tmp_path / "Notes")
    secret = Tokens.of(Path(typed)).add("phone", "read", "private")
    monkeypatch.setattr(platform, "kernel_path", lambda path: path.replace("/notes", "/Notes"))
    one, other = config.load(typed), config.load(true)
    assert (str(one.vault), one.state, one.is_elsewhere) == (true, other.state, False)
    caller = Tokens.of(one.vault).caller(secret)
    assert caller is not None
    assert caller.name == "phone"
