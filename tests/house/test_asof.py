"""
Earlier states of a vault: what is answered equals an index of that commit checked out, and nothing of the vault changes.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import spellbook
from spellbook import asof
from spellbook.book import Spellbook
from spellbook.errors import InvalidInput, MemoryNotFound, PermissionDenied, SpellbookError, StorageError
from spellbook.index import sync
from spellbook.maintenance import upkeep
from tests import repositories
from tests.helpers import Counting, from_scratch, held, opened, told

WORDS = "harbour quay crane ferry lock pilot tide buoy cargo anchor rudder mast".split()


def generated(count: int) -> dict[str, bytes]:
    """Return notes with sections, frontmatter, links between them, and ids on some."""
    random, notes = Random(3), {}
    for number in range(count):
        head = f"---\nid: note-{number}\ntags: [{random.choice(WORDS)}]\n---\n" if number % 3 else ""
        parts = [f"# The {random.choice(WORDS)} {number}\n"]
        for section in range(random.randint(1, 3)):
            said = " ".join(random.choices(WORDS, k=15))
            parts.append(f"## Part {section}\n\nThe {said} of {number}. See [[{random.randrange(count)}]].\n")
        notes[f"{random.choice(['ports', 'ships', ''])}/{number}.md".lstrip("/")] = (head + "\n".join(parts)).encode()
    return notes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[repositories.Commit]]:
    """A repository of thirty notes with forty commits."""
    root = tmp_path_factory.mktemp("made") / "vault"
    return root, repositories.write(root, repositories.history(generated(30), 40))


@pytest.fixture
def past(made: tuple[Path, list[repositories.Commit]], tmp_path: Path) -> Iterator[Spellbook]:
    """A book of that repository."""
    with spellbook.open(made[0], embedder="hash", state=tmp_path / "state") as book:
        book.reindex()
        yield book


def day(number: int) -> str:
    """Return the date of the commit with this number."""
    return dt.datetime.fromtimestamp(repositories.FIRST + number * repositories.BETWEEN, dt.UTC).isoformat()


@pytest.mark.parametrize("number", [0, 3, 8, 12, 17, 21, 26, 30, 35, 39])
def test_a_past_state_is_what_a_checkout_of_it_would_be(
    made: tuple[Path, list[repositories.Commit]], past: Spellbook, tmp_path: Path, number: int
) -> None:
    """Index and answers equal those of the commit checked out and indexed from nothing."""
    folder = repositories.checked_out(tmp_path / "then", made[1][number])
    with asof.at(past, day(number)) as then:
        assert asof.fields(then)["as_of"]["commit"] == made[1][number].hash
        then.embed(float("inf"))
        assert told(then.index) == from_scratch(folder, tmp_path / "other")
        with spellbook.open(folder, embedder="hash", state=tmp_path / "third") as fresh:
            fresh.reindex()
            for query in ("the crane of the quay", "swept", "part 1 ferry", "harbour 7"):
                hits, others = then.search(query).hits, fresh.search(query).hits
                assert [(hit.id, round(hit.score, 6)) for hit in hits] == [
                    (hit.id, round(hit.score, 6)) for hit in others
                ]
            assert [replace(each, titles=sorted(each.titles)) for each in then.topics()] == [
                replace(each, titles=sorted(each.titles)) for each in fresh.topics()
            ]
            assert [each.id for each in then.recent(50).notes] == [each.id for each in fresh.recent(50).notes]
