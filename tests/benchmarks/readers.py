"""
Two servers without files and one writer: how long after a write each of them shows it, and whether any answer was stale.

The writer's machine has the files and publishes; all three are processes, with a PostgreSQL of their own. One note is
written over and over. Each reader is asked without a pause; half of the questions search, the others open the note.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Failure, Figure
from tests.helpers import note_writer
from tests.index.postgres import server as postgres
from tests.server.http.running import Server

SECONDS = 60.0
STATED = 3.0
"""Seconds after which docs/scale.md says that every reader shows a write."""

_PAUSE = 0.25
_HANDED = 5
"""Every so many writes, one goes through a reader, which hands it over."""

_VERSION = re.compile(r"version (\d+)")


@dataclass
class Run:
    """
    What was seen: `written` is when the answer to each version's write had come (monotonic seconds), `handed` how long
    those took that a reader handed over. `seen` has for each reader when a question began, when its answer had come,
    and its version.
    """

    written: dict[int, float] = field(default_factory=dict)
    handed: list[float] = field(default_factory=list)
    seen: list[list[tuple[float, float, int]]] = field(default_factory=lambda: [[], []])
    errors: list[str] = field(default_factory=list)

    def delays(self, reader: int) -> list[float]:
        """Return for each write how long it took until the reader showed it, or a later one; 0 if it did before."""
        found = []
        for version, at in self.written.items():
            shown = next((came for _, came, each in self.seen[reader] if each >= version), None)
            if shown is not None:
                found.append(max(0.0, shown - at))
        return sorted(found)

    def stale(self) -> float:
        """Return the most seconds by which a question began after a write that its answer did not have."""
        worst = 0.0
        for asked in self.seen:
            for began, _, version in asked:
                after = self.written.get(version + 1)
                worst = max(worst, began - after if after is not None else 0.0)
        return worst


def run(folder: Path, seconds: float) -> Run:
    """Write and read for so many seconds."""
    data, started, found = postgres.folder(), list[Server](), Run()
    try:
        _, url = postgres.start(data)
        vault = folder / "notes"
        write = note_writer(vault)
        write("note.md", "# Note\n\nThe harbour, version 0.\n", id="NOTE")
        for i in range(50):
            write(f"other/{i}.md", f"# Other {i}\n\nNothing of the quay number {i}.\n")
        common = {"SPELLBOOK_DATABASE_URL": url, "SPELLBOOK_WRITES_TOKEN": "any: it is this machine"}
        common["SPELLBOOK_DATA"] = str(folder / "data")
        started.append(Server(vault, SPELLBOOK_STATE=str(folder / "state"), **common))
        machine = started[0].url
        _until(lambda: _answers(machine))
        httpx.post(f"{machine}/api/reindex", json={}).raise_for_status()
        _until(lambda: _published(url))
        for i in range(2):
            state = {"SPELLBOOK_STATE": str(folder / f"reader{i}")}
            options = ("--published", "--writes-to", f"notes={machine}")
            started.append(Server(folder, *options, **state, **common))
        readers = [each.url for each in started[1:]]
        for each in readers:
            _until(lambda each=each: _answers(each) and _asked(httpx, each, 0) is not None)
        stop = threading.Event()
        asking = [threading.Thread(target=_ask, args=(found, i, each, stop)) for i, each in enumerate(readers)]
        for each in asking:
            each.start()
        end, version = time.monotonic() + seconds, 0
        with httpx.Client(timeout=30) as client:
            while time.monotonic() < end:
                version += 1
                is_handed = version % _HANDED == 0
                began = time.monotonic()
                body = {"replace": {"old": f"version {version - 1}.", "new": f"version {version}."}}
                answer = client.patch(f"{readers[0] if is_handed else machine}/api/notes/NOTE", json=body)
                if answer.status_code != 200:
                    found.errors.append(answer.text[:300])
                    break
                found.written[version] = time.monotonic()
                if is_handed:
                    found.handed.append(found.written[version] - began)
                time.sleep(_PAUSE)
        time.sleep(STATED)
        stop.set()
        for each in asking:
            each.join()
    finally:
        for each in started:
            each.end()
        postgres.stop(data)
        shutil.rmtree(data, ignore_errors=True)
    return found


def _ask(found: Run, reader: int, url: str, stop: threading.Event) -> None:
    number = 0
    with httpx.Client(timeout=30) as client:
        while not stop.is_set():
            number += 1
            began = time.monotonic()
            try:
                version = _asked(client, url, number)
            except httpx.HTTPError as error:
                found.errors.append(repr(error))
                return
            if version is None:
                found.errors.append(f"reader {reader} did not find the note")
                return
            found.seen[reader].append((began, time.monotonic(), version))


def _asked(client: Any, url: str, number: int) -> int | None:
    """Return the version that a reader shows, None if it does not find the note."""
    if number % 2:
        answer = client.get(f"{url}/api/search", params={"q": "harbour", "mode": "find"})
    else:
        answer = client.get(f"{url}/api/notes/NOTE")
    shown = _VERSION.search(answer.text) if answer.status_code == 200 else None
    return int(shown[1]) if shown else None


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.HTTPError:
        return False


def _published(url: str) -> bool:
    import psycopg

    try:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT notes FROM spellbook.vaults WHERE is_live").fetchone()
            return row is not None and row[0] == 51
    except psycopg.Error:
        return False


def _until(is_so: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError("a server did not start")
        time.sleep(0.05)


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure | Failure]:
    """Write and read for a minute."""
    os.environ.pop("SPELLBOOK_DATABASE_URL", None)
    try:
        found = run(folder, SECONDS)
    except BaseException as error:
        if type(error).__name__ != "Skipped":
            raise
        yield Failure("readers", str(error))
        return
    whole = f"{len(found.written)} writes in {SECONDS:.0f} s"
    for reader in range(2):
        taken = found.delays(reader)
        p95 = taken[int(len(taken) * 0.95)]
        also = f"p95 {p95:.2f} s, at most {taken[-1]:.2f} s; {len(found.seen[reader]):,} answers"
        row = f"a write until reader {reader + 1} shows it, {whole}"
        yield Figure(row, statistics.median(taken), most=STATED, also=also)
    yield Figure("the oldest answer: seconds behind a write", found.stale(), most=STATED)
    also = f"at most {max(found.handed):.2f} s"
    yield Figure("a write that a reader hands over, until its answer", statistics.median(found.handed), also=also)
    for each in found.errors[:3]:
        yield Failure("readers", each)
