"""
The pages of the dashboard over a large vault: processor time to the last byte, in the process that serves.

The time of the clock is beside it: on a machine with other work it says little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from starlette.testclient import TestClient

from spellbook.http.app import make
from spellbook.http.served import Served
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.table import Figure, Sizes
from tests.benchmarks.timing import still

_ROUNDS, _WARM = 15, 2
_DECISIONS = 120
_MOST = 0.1


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Build a vault of `sizes.notes` notes in `folder`, and measure each page."""
    vault = folder / "vault"
    vault.mkdir()
    write(vault, range(sizes.notes), Writer())
    with books.open(vault, embedder="hash", state=folder / "state") as book:
        book.reindex()
        for number in range(_DECISIONS):
            book.memories.decisions.save(
                f"topic {number % 30}", f"Decision {number} about the river.", f"Because {number}."
            )
        still(book)
        with TestClient(
            make(Served(book), live=False), "http://localhost:17950", headers={"accept": "text/html"}
        ) as client:
            for name, place in _places(book).items():
                times, clock, size = [], [], 0
                for _ in range(_ROUNDS + _WARM):
                    begun, began = time.process_time(), time.perf_counter()
                    answer = client.get(place)
                    times.append(time.process_time() - begun)
                    clock.append(time.perf_counter() - began)
                    size = len(answer.content)
                    if answer.status_code != 200:
                        raise RuntimeError(f"{place}: {answer.status_code}")
                taken, waited = statistics.median(times[_WARM:]), statistics.median(clock[_WARM:])
                also = f"by the clock {waited * 1e3:.0f} ms, {size / 1e3:.0f} KB"
                yield Figure(f"{name} with {sizes.notes:,} notes", taken, most=_MOST, also=also)


def _places(book: Spellbook) -> dict[str, str]:
    """Return the address of each page; the note is the one with the most text of the newest."""
    note = max(book.recent(100).notes, key=lambda each: len(book.show(each.note))).note
    topic = max(book.topics(), key=lambda each: each.notes)
    named = "/".join(filter(None, (topic.category, topic.topic)))
    folder = max(book.folders().items(), key=lambda each: (each[1], each[0]))[0] or "/"
    tag = next((name for name, _ in book.tags(1)), "none")
    return {
        "home": "/",
        "new note": "/new",
        "contents": "/contents",
        "contents, filtered": "/contents?find=a",
        "a folder": f"/contents?folder={folder}",
        "a topic": f"/contents?topic={named}",
        "a tag": f"/contents?tag={tag}",
        "search": "/search?q=Decision about the river",
        "a note": f"/note/{note}",
        "graph": "/graph",
        "graph, its notes": "/api/graph/whole",
        "decisions": "/decisions",
        "saved": "/articles",
        "activity": "/activity",
        "health": "/upkeep",
        "health, its links": "/links",
        "settings": "/settings",
    }
