"""Two hundred clients at once against a real server, mixed searches, reads and writes; then a team of as many people."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from spellbook.http.tokens import Tokens
from spellbook.library import book as books
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.table import Figure, Ratio, Sizes
from tests.benchmarks.timing import peak, processor, share

CLIENTS = 200
_CANARY = "zyzzyva"
"""A word of notes that only one of the tokens may see."""

_WRITES, _READS = 0.05, 0.15
"""Shares of requests that write a note, and that read one; the others search."""

_PAUSE = 60.0
"""Mean seconds between two questions of one person of the team."""


@dataclass
class Seen:
    """What the clients saw: seconds by kind of request, statuses that are errors, and answers with another's notes."""

    times: dict[str, list[float]] = field(default_factory=lambda: {"search": [], "read": [], "write": []})
    errors: Counter[str] = field(default_factory=Counter)
    leaks: int = 0


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds, and the processor's seconds of the server and of the clients in them."""

    clock: float
    server: float
    clients: float

    @classmethod
    def now(cls, server: int) -> Spent:
        """Return what was spent so far."""
        return cls(time.monotonic(), processor(server), time.process_time())

    def since(self, before: Spent) -> Spent:
        """Return what was spent since `before`."""
        return Spent(self.clock - before.clock, self.server - before.server, self.clients - before.clients)


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Serve a vault of a third of `sizes.notes` notes from `folder` and ask it, each way for `sizes.seconds`."""
    vault, writer = folder / "vault", Writer()
    (vault / "secret").mkdir(parents=True)
    write(vault, range(sizes.notes // 3), writer)
    for number in range(20):
        (vault / "secret" / f"{number}.md").write_text(f"# Secret {number}\n\nThe {_CANARY} {number} is ours alone.\n")
    for number in range(200):
        text = f"---\nprivacy_scope: team\n---\n# Shared {number}\n\nThe river {number} is everybody's.\n"
        (vault / f"shared {number}.md").write_text(text)
    environment = {
        "SPELLBOOK_DATA": str(folder / "data"),
        "SPELLBOOK_STATE": str(folder / "state"),
        "SPELLBOOK_EMBEDDER": "hash",
        "SPELLBOOK_RATE": "0",
    }
    os.environ |= environment
    with books.open(vault) as book:
        book.reindex()
    tokens = Tokens.of(vault)
    given = {"all": tokens.add("all", "write"), "team": tokens.add("team", "read", "team")}
    command = [sys.executable, "-m", "spellbook", "--vault", str(vault), "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, encoding="utf-8") as server:
        try:
            assert server.stderr is not None
            url = next(line.strip() for line in server.stderr if line.startswith("http"))
            asyncio.run(_first(url, given))
            started = Spent.now(server.pid)
            seen = asyncio.run(crowd(url, given, sizes.seconds))
            spent, memory = Spent.now(server.pid).since(started), peak(server.pid)
            waited = asyncio.run(team(url, given["all"], writer, sizes.seconds))
        finally:
            server.terminate()
    yield from _of_crowd(seen, spent, memory)
    asked = f"{CLIENTS} people who ask once a minute"
    yield Figure(f"search, {asked}, p50", share(waited, 0.5), also=f"{len(waited):,} questions")
    yield Figure(f"search, {asked}, p99", share(waited, 0.99))


def _of_crowd(seen: Seen, spent: Spent, memory: float) -> Iterator[Figure]:
    every = [each for times in seen.times.values() for each in times]
    clients = f"{CLIENTS} clients"
    cores = (
        f"{spent.server / spent.clock:.2f} of a core for the server, {spent.clients / spent.clock:.2f} for the clients"
    )
    also = f"{len(every):,} in all; {cores}"
    yield Figure(f"answers a second, {clients}", len(every) / spent.clock, "/s", least=250, also=also)
    yield Figure(f"processor time of the server for an answer, {clients}", spent.server / len(every))
    for kind, times in seen.times.items():
        also, ratio = f"{len(times):,} requests", share(times, 0.99) / share(times, 0.5)
        yield Figure(f"{kind}, {clients}, p50", share(times, 0.5), most=0.8, also=also)
        yield Figure(f"{kind}, {clients}, p99", share(times, 0.99), ratio=Ratio(ratio, "p50", most=2.5))
    told = ", ".join(f"{name} {count}" for name, count in seen.errors.most_common(4))
    yield Figure(f"errors, {clients}", sum(seen.errors.values()), "", most=0, also=told)
    yield Figure(f"answers of another's token, {clients}", seen.leaks, "", most=0)
    yield Figure(f"peak memory of the server, {clients}", memory, "MB")


async def _first(url: str, given: dict[str, str]) -> None:
    """Ask once with each token, so that the vectors are loaded, and the notes that the second one sees indexed."""
    for token in given.values():
        async with _Connection(url, token) as connection:
            await connection.ask("GET", _search("river"))


async def crowd(url: str, given: dict[str, str], seconds: float) -> Seen:
    """Ask as all clients at once, each again as soon as it has its answer."""
    seen, until = Seen(), time.monotonic() + seconds
    await asyncio.gather(*(_client(url, given, number, until, seen) for number in range(CLIENTS)))
    return seen


async def _client(url: str, given: dict[str, str], number: int, until: float, seen: Seen) -> None:
    """Be one client: every second one has the token that sees less."""
    name, rolled = "team" if number % 2 else "all", random.Random(number)
    async with _Connection(url, given[name]) as connection:
        while time.monotonic() < until:
            kind = _kind(rolled.random(), name)
            begun = time.perf_counter()
            status, body = await connection.ask(*_request(kind, number, rolled))
            seen.times[kind].append(time.perf_counter() - begun)
            if status >= 400:
                seen.errors[f"{kind} {status}"] += 1
            if name == "team" and b"is ours alone" in body:
                seen.leaks += 1


async def team(url: str, token: str, writer: Writer, seconds: float) -> list[float]:
    """Ask as people do who do not wait for each other, each about once a minute; return the seconds of each question."""
    rolled, until = random.Random(1), time.monotonic() + seconds
    waits: list[asyncio.Task[float]] = []

    async def ask(number: int) -> float:
        begun = time.perf_counter()
        async with _Connection(url, token) as connection:
            status, _ = await connection.ask("GET", _search(writer.question(number)))
        assert status == 200, status
        return time.perf_counter() - begun

    while (at := time.monotonic()) < until:
        waits.append(asyncio.create_task(ask(len(waits))))
        await asyncio.sleep(at + rolled.expovariate(CLIENTS / _PAUSE) - time.monotonic())
    return await asyncio.gather(*waits)


class _Connection:
    """A connection to the server. A client of a library takes as much processor time as the server for an answer."""

    def __init__(self, url: str, token: str) -> None:
        self._place = urlsplit(url)
        self._head = f"host: {self._place.netloc}\r\nauthorization: Bearer {token}\r\n"

    async def __aenter__(self) -> _Connection:
        self._reader, self._writer = await asyncio.open_connection(self._place.hostname, self._place.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send one request and return the answer's status and body."""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}content-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(answer[9:12]), await self._reader.readexactly(length)


def _request(kind: str, number: int, rolled: random.Random) -> tuple[str, str, bytes]:
    """Return a client's next request: method, path and body."""
    if kind == "write":
        text = f"Client {number} saw {rolled.random()} at the river."
        body = {"text": text, "metadata": {"topic": f"load {number}"}, "force": True}
        return "POST", "/api/notes", json.dumps(body).encode()
    if kind == "read":
        return "GET", quote(f"/api/notes/shared {rolled.randrange(200)}.md"), b""
    return "GET", _search(rolled.choice([_CANARY, "river", f"river {rolled.randrange(200)}"])), b""


def _search(words: str) -> str:
    return f"/api/search?{urlencode({'q': words, 'limit': 5})}"


def _kind(rolled: float, name: str) -> str:
    if rolled < _WRITES and name == "all":
        return "write"
    return "read" if rolled < _WRITES + _READS else "search"
