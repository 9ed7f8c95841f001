"""Two hundred clients at once against a real server: mixed searches and writes for a minute, with two tokens."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from spellbook.library import book as books
from spellbook.server.http.tokens import Tokens
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure
from tests.benchmarks.timing import peak, share

CLIENTS = 200
SECONDS = 60.0
_CANARY = "zyzzyva"
"""A word of notes that only one of the tokens may see."""

_WRITES, _READS = 0.05, 0.15
"""Shares of requests that write a note, and that read one; the others search."""


@dataclass
class Seen:
    """What the clients saw: seconds by kind of request, statuses that are errors, and answers with another's notes."""

    times: dict[str, list[float]] = field(default_factory=lambda: {"search": [], "read": [], "write": []})
    errors: Counter[str] = field(default_factory=Counter)
    leaks: int = 0


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Serve a vault of a third of `sizes.notes` notes from `folder` and ask it all at once."""
    vault = folder / "vault"
    (vault / "secret").mkdir(parents=True)
    write(vault, range(sizes.notes // 3), Writer())
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
            seen = asyncio.run(_ask(url, given))
            memory = peak(server.pid)
        finally:
            server.terminate()
    every = [each for times in seen.times.values() for each in times]
    clients = f"{CLIENTS} clients"
    yield Figure(f"requests a second, {clients}", len(every) / SECONDS, "/s", also=f"{len(every):,} in all")
    for kind, times in seen.times.items():
        also = f"p99 {share(times, 0.99) * 1e3:,.0f} ms, {len(times):,} requests"
        yield Figure(f"{kind}, {clients}, p50", share(times, 0.5), also=also)
    told = ", ".join(f"{name} {count}" for name, count in seen.errors.most_common(4))
    yield Figure(f"errors, {clients}", sum(seen.errors.values()), "", most=0, also=told)
    yield Figure(f"answers of another's token, {clients}", seen.leaks, "", most=0)
    yield Figure(f"peak memory of the server, {clients}", memory, "MB")


async def _ask(url: str, given: dict[str, str]) -> Seen:
    seen, until = Seen(), time.monotonic() + SECONDS
    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
        await asyncio.gather(*(_client(client, given, number, until, seen) for number in range(CLIENTS)))
    return seen


async def _client(client: httpx.AsyncClient, given: dict[str, str], number: int, until: float, seen: Seen) -> None:
    """Be one client: every second one has the token that sees less."""
    name = "team" if number % 2 else "all"
    headers, rolled = {"authorization": f"Bearer {given[name]}"}, random.Random(number)
    while time.monotonic() < until:
        kind = _kind(rolled.random(), name)
        begun = time.perf_counter()
        try:
            if kind == "write":
                text = f"Client {number} saw {rolled.random()} at the river."
                body = {"text": text, "metadata": {"topic": f"load {number}"}, "force": True}
                answer = await client.post("/api/notes", json=body, headers=headers)
            elif kind == "read":
                answer = await client.get(f"/api/notes/shared {rolled.randrange(200)}.md", headers=headers)
            else:
                words = rolled.choice([_CANARY, "river", f"river {rolled.randrange(200)}"])
                answer = await client.get("/api/search", params={"q": words, "limit": 5}, headers=headers)
        except httpx.HTTPError as error:
            seen.errors[type(error).__name__] += 1
            continue
        seen.times[kind].append(time.perf_counter() - begun)
        if answer.status_code >= 400:
            seen.errors[f"{kind} {answer.status_code}"] += 1
        if name == "team" and "is ours alone" in answer.text:
            seen.leaks += 1


def _kind(rolled: float, name: str) -> str:
    if rolled < _WRITES and name == "all":
        return "write"
    return "read" if rolled < _WRITES + _READS else "search"
