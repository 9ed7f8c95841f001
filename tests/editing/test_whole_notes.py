"""Erasing the whole note that a section's id names."""

from __future__ import annotations

import json

import pytest

from tests.commands import spellbook
from tests.server.agent import talk

TEXT = "# Keys\n\nAnn has them.\n\n## Rotation\n\nEvery Monday.\n\n## Spare\n\nIn the office.\n"


@pytest.fixture
def keys(write_note):
    return write_note("ops/keys.md", TEXT)


@pytest.mark.parametrize("id", ["ops/keys#rotation", "ops/keys#", "ops/keys.md#spare", "ops/keys", "ops/keys.md"])
def test_every_id_of_a_note_erases_all_of_it(book, keys, id):
    """With `whole` any id of a note erases the note, and that id brings it back; with `hard` too it goes to no trash."""
    done = book.erase(id, whole=True)
    assert (done.erased, len(done.chunk_ids), done.trash) == ("the note Keys (3 sections)", 3, (".trash/ops/keys.md",))
    assert not keys.exists()
    book.restore(id)
    assert keys.read_text() == TEXT
    assert book.erase(id, whole=True, hard=True).trash == ()
    assert not [*keys.parents[1].rglob("*.md")]


def test_the_command_and_the_tool(book, keys, monkeypatch):
    """`--whole` and `whole` say what they took; without them a section's id means the section."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    vault = book.config.vault
    said = json.loads(spellbook("--vault", vault, "erase", "ops/keys#spare", "--whole", "--json").stdout)
    assert (said["erased"], keys.exists()) == ("the note Keys (3 sections)", False)
    book.restore("ops/keys")
    told = talk(book, lambda agent: agent.json("erase", chunk_id="ops/keys#spare", whole=True))
    assert (told["erased"], keys.exists()) == ("the note Keys (3 sections)", False)
    book.restore("ops/keys")
    assert talk(book, lambda agent: agent.json("erase", chunk_id="ops/keys#spare"))["erased"] == (
        "the section Spare of Keys"
    )
