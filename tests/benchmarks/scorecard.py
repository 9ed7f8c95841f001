"""
The scorecard of a memory: forbidden hits, the time from writing to finding, bytes a memory, and deletion steps that hold.

The Agent Memory Atlas (neoneye, benchmarks, sections 5 and 6) names these figures. Hashes of words stand for the model: they
cost no time, so that the figures are of Spellbook itself.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from spellbook.library import book as books
from tests.atlas import deletion
from tests.benchmarks.table import Figure, Sizes
from tests.doors import WAYS, Way, World

_MEMORIES = 500
_WRITES = 20
_STEPS = 13


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure in vaults of their own in `folder`."""
    home = folder / "home"
    home.mkdir()
    for name in ("HOME", "USERPROFILE"):
        os.environ[name] = str(home)
    os.environ["SPELLBOOK_LANG"] = "en"
    for name, way in WAYS.items():
        yield from _in_world(folder / name, home, lambda world, name=name, way=way: _deletion(world, name, way))  # type: ignore[misc]
    yield from _in_world(folder / "lag", home, _lags)
    yield from _in_world(folder / "many", home, _forbidden)


def _in_world(folder: Path, home: Path, measure: Callable[[World], Iterator[Figure]]) -> Iterator[Figure]:
    vault = folder / "vault"
    vault.mkdir(parents=True)
    os.environ.update(SPELLBOOK_STATE=str(folder / "state"), SPELLBOOK_DATA=str(folder / "data"))
    (vault / "journal.md").write_text("# Journal\n\nWe walked along the river for an hour.\n", "utf-8")
    with books.open(vault, embedder="hash") as book:
        yield from measure(World.of(book, home))


def _deletion(world: World, name: str, way: Way) -> Iterator[Figure]:
    steps = dict(deletion(world, way))
    failed = [step for step, is_right in steps.items() if not is_right]
    passed = f"{len(steps) - len(failed)} of {_STEPS} steps hold"
    yield Figure(
        f"deletion by {name}: steps that do not hold", len(failed), "steps", most=0, also="; ".join([passed, *failed])
    )


def _lags(world: World) -> Iterator[Figure]:
    for name, way in WAYS.items():
        lags = []
        for number in range(_WRITES):
            token = f"Quasar{name}{number}"
            began = time.perf_counter()
            way.write(world, f"The beacon of harbour {number} is called {token} by its {name} keeper.")
            assert token in way.ask(world, f"beacon of harbour {number} {token}")
            lags.append(time.perf_counter() - began)
        yield Figure(f"from a memory written by {name} to its hit, p50", statistics.median(lags))


def _forbidden(world: World) -> Iterator[Figure]:
    vault = world.vault
    for number in range(_MEMORIES):
        scope = ("harbour", "orchard")[number % 2]
        text = f"---\nscope: {scope}\n---\nThe crane {number} of the {scope} lifts {number * 7} tons on Tuesdays.\n"
        (vault / f"m{number}.md").write_text(text, "utf-8")
    world.book.reindex()
    state = sum(file.stat().st_size for file in world.book.config.state.rglob("*") if file.is_file())
    erased = [f"m{number}.md" for number in range(0, _MEMORIES, 25)]
    for path in erased:
        world.book.erase(path)
    forbidden = asked = 0
    with books.open(vault, embedder="hash", scope="orchard") as other:
        for number in range(0, _MEMORIES, 5):
            answer = other.search(f"crane {number} of the harbour lifts {number * 7} tons", min_score=0.0)
            hits = (*answer.hits, *answer.closest)
            forbidden += sum(hit.chunk.meta.get("scope") == "harbour" or hit.path in erased for hit in hits)
            asked += 1
    yield Figure("forbidden hits: of another scope, or erased", forbidden, "hits", most=0, also=f"{asked} questions")
    yield Figure("index of a memory of 80 letters", state / _MEMORIES, "bytes", also=f"{_MEMORIES} memories")
