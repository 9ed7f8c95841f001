"""
What changed since a mark, for who keeps a copy of the catalog elsewhere: notes by a sequence number that triggers keep.

A note that was removed keeps its number, without a row in `notes`: so a reader of changes learns of deletions too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from spellbook.index.catalog.meta import Meta
from spellbook.index.catalog.text_bytes import unpacked
from spellbook.system.sqlite import Database

_NOTE = """note, path, name, id, declared, title, topic, category, importance, created, updated, mtime_ns,
    instant(created), instant(updated), moment(created, updated, mtime_ns), keywords, tags, meta"""


class ChangedChunk(NamedTuple):
    """A chunk of a changed note; `words` are its columns of the full-text index."""

    chunk: int
    note: int
    ordinal: int
    suffix: str
    heading: str
    line: int
    end_line: int
    text: str
    lead: str
    tail: str
    key: str
    words: tuple[str, ...]


class Changes:
    """The table `changes` in a catalog's database."""

    def __init__(self, database: Database, meta: Meta) -> None:
        self._database = database
        self._rows = database.rows
        self._meta = meta

    @property
    def catalog(self) -> str:
        """What tells this catalog from one that was begun anew."""
        return str(self._meta.get("catalog") or "")

    def since(self, seq: int, most: int) -> list[tuple[int, int]]:
        """Return seq and note of at most `most` changes after `seq`, oldest first; each note once, by its last."""
        return self._rows("SELECT seq, note FROM changes WHERE seq > ? ORDER BY seq LIMIT ?", (seq, most))

    @property
    def last(self) -> int:
        """The seq of the last change, 0 if there was none."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM changes")[0][0])

    def left(self, seq: int) -> int:
        """Return how many notes changed after `seq`."""
        return int(self._rows("SELECT count(*) FROM changes WHERE seq > ?", (seq,))[0][0])

    def notes(self, notes: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the columns of those of `notes` that are there, as `_NOTE` lists them."""
        return self._rows(f"SELECT {_NOTE} FROM notes WHERE {_AMONG}", (json.dumps(notes),))

    def chunks(self, notes: Sequence[int]) -> list[ChangedChunk]:
        """Return the chunks of `notes`, in order."""
        rows = self._rows(
            f"""
            SELECT chunk, note, ordinal, suffix, chunks.heading, line, end_line, text, lead, tail, coalesce(key, ''),
                worded.title, worded.heading, worded.keywords, worded.questions, worded.body, worded.parts
            FROM chunks JOIN worded USING (chunk) WHERE {_AMONG} ORDER BY chunk
            """,
            (json.dumps(notes),),
        )
        return [ChangedChunk._make((*row[:7], unpacked(row[7]), *row[8:11], tuple(row[11:]))) for row in rows]

    def fields(self, notes: Sequence[int]) -> list[tuple[int, str, str]]:
        """Return note, key and value of the fields of `notes`."""
        return self._rows(f"SELECT note, key, value FROM fields WHERE {_AMONG}", (json.dumps(notes),))

    def labels(self, notes: Sequence[int]) -> list[tuple[int, str, str]]:
        """Return note, kind and vector key of the labels of `notes`."""
        return self._rows(f"SELECT note, kind, key FROM labels WHERE {_AMONG}", (json.dumps(notes),))

    def links(self, notes: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the links of `notes`: note, ordinal, name, target, fragment, whether Markdown, line, relation."""
        return self._rows(
            f"SELECT note, ordinal, name, target, fragment, markdown, line, relation FROM links WHERE {_AMONG}",
            (json.dumps(notes),),
        )

    def moves(self) -> list[tuple[str, str, str]]:
        """Return where files went: the former path, the new one, and the former name."""
        return self._rows("SELECT old, new, name FROM moves ORDER BY old")

    def seconds(self, seq: int) -> Iterator[tuple[str, bytes, int]]:
        """Yield key, vector (int8) and seq of the second encoder's vectors after `seq`, oldest first."""
        return self._database.stream("SELECT key, vector, seq FROM second WHERE seq > ? ORDER BY seq", (seq,))


def batches_by_seq(rows: Iterable[tuple[str, bytes, int]], most: int) -> Iterator[list[tuple[str, bytes, int]]]:
    """Yield rows in batches of about `most`; those of one seq are never parted, so that it can serve as a mark."""
    left = iter(rows)
    batch = list(islice(left, most))
    while batch:
        rest: list[tuple[str, bytes, int]] = []
        for row in left:
            if row[2] != batch[-1][2]:
                rest = [row]
                break
            batch.append(row)
        yield batch
        batch = [*rest, *islice(left, most - 1)] if rest else []


_AMONG = "note IN (SELECT value FROM json_each(?))"
