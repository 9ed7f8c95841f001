"""The vault's one inbox: where a note goes that was given no category and no topic."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import spellbook

_NEW = {"newFileLocation": "folder", "newFileFolderPath": "Notes/New"}


@pytest.mark.parametrize(
    ("folders", "obsidian", "expected"),
    [
        pytest.param([], None, "memory/inbox", id="none"),
        pytest.param(["Inbox"], None, "Inbox", id="another case"),
        pytest.param(["INBOX", "knowledge"], None, "INBOX", id="capitals"),
        pytest.param(["00 - Inbox", "projects"], None, "00 - Inbox", id="a number before it"),
        pytest.param(["📥 inbox"], None, "📥 inbox", id="a sign before it"),
        pytest.param(["수집함"], None, "수집함", id="Korean"),
        pytest.param(["areas/work/Inbox"], None, "areas/work/Inbox", id="deep"),
        pytest.param(["areas/Inbox", "inbox"], None, "inbox", id="the nearest to the top"),
        pytest.param(["home/Inbox", "work/Inbox"], None, "memory/inbox", id="two, so none is meant"),
        pytest.param(["memory/inbox", "work/Inbox"], None, "work/Inbox", id="not the one that Spellbook made"),
        pytest.param(["knowledge/inbox"], None, "memory/inbox", id="not the one of 0.3.0"),
        pytest.param(["inbox.old", "my inboxes"], None, "memory/inbox", id="another name"),
        pytest.param([".inbox", "Backup/.x/inbox", ".trash/Inbox"], None, "memory/inbox", id="hidden"),
        pytest.param(["out/Inbox"], None, "memory/inbox", id="excluded"),
        pytest.param([], _NEW, "Notes/New", id="Obsidian's folder, which it would make"),
        pytest.param(["inbox"], _NEW, "Notes/New", id="Obsidian's folder before a name"),
        pytest.param(["notes/NEW"], _NEW, "notes/NEW", id="Obsidian's folder in another case"),
        pytest.param(["inbox"], {**_NEW, "newFileLocation": "current"}, "inbox", id="Obsidian beside the open note"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": "/"}, "inbox", id="Obsidian's own folder"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": "../elsewhere"}, "inbox", id="outside"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": "a/../../b"}, "inbox", id="outside by a detour"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": "~/x"}, "inbox", id="a home"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": "C:/x"}, "inbox", id="a drive"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": ".obsidian/x"}, "inbox", id="a dot-folder"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": "out/new"}, "inbox", id="Obsidian's folder is excluded"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": "a.md"}, "inbox", id="a file is there"),
        pytest.param(["inbox"], {**_NEW, "newFileFolderPath": 7}, "inbox", id="no text"),
        pytest.param(["inbox"], {**_NEW, "userIgnoreFilters": ["Notes/"]}, "inbox", id="excluded by Obsidian"),
        pytest.param(["inbox"], '{"newFileLocation": "fol', "inbox", id="damaged"),
    ],
)
def test_the_inbox_is_the_vaults_own(
    tmp_path: Path, folders: list[Any] | list[str], obsidian: Any, expected: str
) -> None:
    """A note without labels goes to the vault's own inbox, if it has one that can be used, by every way of writing."""
    vault = tmp_path / "vault"
    for folder in folders:
        (vault / folder).mkdir(parents=True)
    (vault / ".obsidian").mkdir(parents=True, exist_ok=True)
    (vault / ".spellbookignore").write_text("out/\n")
    (vault / "a.md").write_text("A note.\n")
    if obsidian is not None:
        text = obsidian if isinstance(obsidian, str) else json.dumps(obsidian)
        (vault / ".obsidian/app.json").write_text(text)
    with spellbook.open(vault, embedder="hash", state=tmp_path / "state") as book:
        added = book.scribe({"text": "The door code is with Mina."}, labels="derived").written[0].path
        remembered = book.memories.remember("Deploys wait for Friday's review.")["path"]
        filed = book.memories.remember("Keys are kept in a vault.", topic="keys")["path"]
        meta = book.show(added)[0].meta
    assert [path.rpartition("/")[0] for path in (added, remembered, filed)] == [expected, expected, "memory/keys"]
    assert (meta["category"], meta["topic"]) == ("memory", "inbox")
    assert not list(tmp_path.glob("elsewhere*"))


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_an_inbox_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """A linked folder is no inbox, by its name or by Obsidian's settings: nothing is written outside of the vault."""
    vault, outside = tmp_path / "vault", tmp_path / "outside"
    (vault / ".obsidian").mkdir(parents=True)
    outside.mkdir()
    os.symlink(outside, vault / "Inbox")
    (vault / ".obsidian/app.json").write_text('{"newFileLocation": "folder", "newFileFolderPath": "Inbox/new"}')
    with spellbook.open(vault, embedder="hash", state=tmp_path / "state") as book:
        path = book.memories.remember("Deploys wait for Friday's review.")["path"]
    assert path.startswith("memory/inbox/")
    assert not list(outside.iterdir())


def test_the_folder_for_memories_goes_before_an_inbox(tmp_path: Path) -> None:
    """A folder that Spellbook's own settings name for memories is kept to, whatever inbox the vault has."""
    (tmp_path / "vault/Inbox").mkdir(parents=True)
    (tmp_path / "vault/.spellbook").mkdir()
    (tmp_path / "vault/.spellbook/config.toml").write_text('[folders]\nmemories = "Agents"\n')
    with spellbook.open(tmp_path / "vault", embedder="hash", state=tmp_path / "state") as book:
        assert book.memories.remember("Deploys wait for review.")["path"].startswith("Agents/memory/inbox/")
