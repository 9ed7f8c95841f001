"""
The figures of the main road, as ratios taken in one run: `make bench`.

Notes are generated, or taken from SPELLBOOK_BENCH_VAULT; the embedder is `hash`, so that the store is
measured and not a model.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import spellbook
from spellbook.notes import parse
from tests.benchmarks.corpora import WORDS

NOTES = int(os.environ.get("SPELLBOOK_BENCH_NOTES", "2000"))


def generate(vault: Path, count: int) -> None:
    """Write `count` notes of about 5 KB, the same ones each time."""
    random.seed(1)
    for i in range(count):
        sections = "\n\n".join(f"## Section {j} {random.choice(WORDS)}\n\n{' '.join(random.choices(WORDS, k=120))}" for j in range(5))
        file = vault / f"area {i % 20}" / f"topic {i % 60}" / f"note {i}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\ntopic: topic {i % 60}\ntags: [bench]\n---\n# Note {i}\n\n{sections}\n", "utf-8")


def seconds(action: Callable[[], object], repeat: int = 5) -> float:
    """Return the median seconds that `action` takes."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def process(*args: str) -> Callable[[], object]:
    """Return an action that runs `spellbook` with `args` as a whole process."""
    return lambda: subprocess.run([sys.executable, "-m", "spellbook", *args], check=True, capture_output=True)


def bare(vault: Path) -> float:
    """Return the seconds to read, hash and block-parse every note: what stage one cannot go below."""

    def work() -> None:
        for file in vault.rglob("*.md"):
            data = file.read_bytes()
            hashlib.sha256(data).hexdigest()
            parse(file.name, data)

    return seconds(work, 1)


def main() -> None:
    """Measure and print the table."""
    folder = Path(tempfile.mkdtemp(prefix="spellbook-bench-"))
    os.environ["SPELLBOOK_STATE"] = str(folder / "state")
    os.environ["SPELLBOOK_EMBEDDER"] = "hash"
    try:
        vault = Path(os.environ.get("SPELLBOOK_BENCH_VAULT", folder / "vault"))
        if not vault.exists():
            generate(vault, NOTES)
        floor = bare(vault)
        with spellbook.open(vault) as book:
            words = seconds(lambda: book.reindex(words_only=True), 1)
            rest = seconds(book.reindex, 1)
            counts = book.index.catalog.counts()
            queries = [f"{a} {b}" for a in WORDS[:8] for b in WORDS[8:]]
            rows = [
                ("stage one, against read + sha256 + parse", words, words / floor),
                ("stage two with the hash embedder, against stage one", rest, rest / words),
                ("no-op in a warm process, against stage one", noop := seconds(book.reindex), noop / words),
            ]
            for name, verb in (("find", book.find), ("memorize", book.memorize), ("search", book.search)):
                book.watching = True
                verb(queries[0])
                taken = [seconds(lambda verb=verb, query=query: verb(query), 1) for query in queries]  # type: ignore[misc]
                rows.append((f"{name}, p50 (p99 {sorted(taken)[-1] * 1000:.1f} ms)", statistics.median(taken), float("nan")))
        click = seconds(lambda: subprocess.run([sys.executable, "-c", "import click"], check=True))
        help_, again = seconds(process("--help")), seconds(process("--vault", str(vault), "reindex", "--quiet"))
        rows += [
            ("spellbook --help, against bare import of click", help_, help_ / click),
            ("no-op reindex as a process, against bare import of click", again, again / click),
        ]
        print(f"{counts.notes} notes, {counts.chunks} chunks\n")
        print(f"| {'figure':<58} | {'ms':>9} | {'ratio':>6} |\n| {'-' * 58} | {'-' * 9} | {'-' * 6} |")
        for name, value, ratio in rows:
            print(f"| {name:<58} | {value * 1000:9.1f} | {'' if ratio != ratio else f'{ratio:.2f}':>6} |")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
