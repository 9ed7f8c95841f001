"""The pages of the dashboard over a large vault: the time to the last byte, in the process that serves."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from starlette.testclient import TestClient

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.server.http.app import make
from spellbook.server.http.served import Served
from spellbook.system.processes import Watched
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure

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
        book.hand_over(Watched(is_current=True))
        with TestClient(
            make(Served(book), live=False), "http://localhost:17950", headers={"accept": "text/html"}
        ) as client:
            for place in _places(book):
                times, size = [], 0
                for _ in range(_ROUNDS + _WARM):
                    begun = time.perf_counter()
                    answer = client.get(place)
                    times.append(time.perf_counter() - begun)
                    size = len(answer.content)
                    if answer.status_code != 200:
                        raise RuntimeError(f"{place}: {answer.status_code}")
                kept = sorted(times[_WARM:])
                name = place.partition("?")[0] if "?" not in place else place[:40]
                also = f"slowest {kept[-1] * 1e3:.0f} ms, {size / 1e3:.0f} KB"
                yield Figure(f"page {name} of {sizes.notes:,} notes", statistics.median(kept), most=_MOST, also=also)


def _places(book: Spellbook) -> list[str]:
    """Return the pages; the note is the one with the most text of the newest."""
    note = max(book.recent(100).notes, key=lambda each: len(book.show(each.note))).note
    topic = max(book.topics(), key=lambda each: each.notes)
    named = "/".join(filter(None, (topic.category, topic.topic)))
    plain = [
        "/",
        "/new",
        "/contents",
        "/contents?find=a",
        "/contents?folder=/",
        "/decisions",
        "/articles",
        "/activity",
        "/upkeep",
        "/settings",
    ]
    return [*plain, "/search?q=Decision about the river", f"/contents?topic={named}", f"/note/{note}", f"/graph/{note}"]
