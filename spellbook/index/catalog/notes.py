"""Files and notes in the catalog: adding, replacing and removing them."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from spellbook.index.catalog.links import Links
from spellbook.index.catalog.rows import ChunkRow, FileEntry, KnownFile, Tables, add_words, drop_words
from spellbook.index.catalog.tables import ADDED
from spellbook.index.catalog.vectors import OF_CHUNKS, OF_LABELS
from spellbook.notes.files import Fault, Stamp
from spellbook.notes.where_links_lead import path_id

_OF_A_ROW = (
    ValueError,
    TypeError,
    ArithmeticError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""Errors that one row can cause; others come from the disk or the whole database."""

_AMONG = "note IN (SELECT value FROM json_each(:notes))"
_KEYS = f"SELECT key FROM chunks WHERE {_AMONG} UNION SELECT key FROM labels WHERE {_AMONG}"
"""The keys of the chunks and labels of notes."""

_log = logging.getLogger(__name__)


class _NotStoredError(Exception):
    """An entry cannot be stored; its cause says why."""


class Notes(Tables):
    """The files, notes, chunks and faults in a catalog's database."""

    def known(self, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
        """Return the catalog's record of every file, or of `paths`."""
        sql = "SELECT path, read_ns, sha256, size, mtime_ns, inode, ctime_ns FROM files"
        if paths is not None:
            sql += " WHERE path IN (SELECT value FROM json_each(:paths))"
        rows = self._rows(sql, {"paths": json.dumps(list(paths or ()))})
        return {path: KnownFile(Stamp(*stamp), read_ns, sha256) for path, read_ns, sha256, *stamp in rows}

    def with_only(self, key: str, values: Collection[str]) -> dict[str, Stamp]:
        """Return the notes, with their files' stamps, that have one of `values` under `key`, and no other value."""
        rows = self._rows(
            """
            SELECT path, size, files.mtime_ns, inode, ctime_ns FROM files JOIN notes USING (path)
            WHERE note IN (SELECT note FROM fields WHERE key = :key AND value IN (SELECT value FROM json_each(:any)))
            AND note NOT IN (
                SELECT note FROM fields WHERE key = :key AND value NOT IN (SELECT value FROM json_each(:any)))
            """,
            {"key": key, "any": json.dumps(list(values))},
        )
        return {path: Stamp(*stamp) for path, *stamp in rows}

    def faults(self) -> tuple[Fault, ...]:
        """Return the faults in the vault's files that a person should fix."""
        return tuple(Fault(*row) for row in self._rows("SELECT path, line, reason FROM faults ORDER BY path, line"))

    def unread(self, *, left_out: bool) -> tuple[str, ...]:
        """Return the paths with a fault of which no note could be read, with or without files left out."""
        sql = "SELECT DISTINCT path FROM faults WHERE walk < ? AND path NOT IN (SELECT path FROM notes) ORDER BY path"
        return tuple(path for (path,) in self._rows(sql, (3 if left_out else 2,)))

    def undated(self) -> list[tuple[str, str]]:
        """Return each key of the frontmatter of each note without a date, with one of its values, both folded."""
        return self._rows(
            """
            SELECT key, max(value) FROM fields JOIN notes USING (note) WHERE created IS NULL AND ordinal < 0
            GROUP BY key, note ORDER BY key
            """
        )

    def twins(self) -> tuple[Fault, ...]:
        """Return the notes that declare the id of another note; their paths serve as their ids."""
        rows = self._rows(
            """
            SELECT notes.path, notes.declared, holder.path FROM notes JOIN notes AS holder ON holder.id = notes.declared
            OR holder.path = notes.declared || '.md'
            WHERE notes.declared IS NOT NULL AND notes.id IS NOT notes.declared AND notes.note <> holder.note
            GROUP BY notes.path ORDER BY notes.path
            """
        )
        return tuple(
            Fault(path, 1, f"its id {id} belongs to {holder}, so its path serves as its id")
            for path, id, holder in rows
        )

    def apply(
        self,
        entries: Iterable[FileEntry],
        gone: Iterable[str],
        now: Callable[[str], Stamp | None],
        fingerprint: str,
        moved: Collection[str] = (),
    ) -> tuple[list[str], list[str]]:
        """
        Store `entries` and remove `gone`; return the paths that were stored and removed.

        `now` returns a file's stamp: a file that changed since it was read, or came back, is left for the next run, so
        that of two processes the one with the older bytes yields. Entries cut for another embedding than the catalog's
        are left too. Ids that fall free go first to `moved`, paths of moved notes. An entry that cannot be stored
        becomes a fault.
        """
        entries, gone = list(entries), list(gone)
        try:
            return self._apply(entries, gone, now, fingerprint, moved)
        except _NotStoredError as failure:
            if len(entries) == 1:
                [entry], error = entries, failure.__cause__
                if entry.note is None:
                    raise error or failure from None
                _log.exception("%s cannot be kept", entry.path, exc_info=error)
                fault = Fault(entry.path, 0, f"Spellbook cannot keep it ({type(error).__name__}: {error})")
                bare = FileEntry(entry.path, entry.stamp, entry.read_ns, entry.sha256, (fault,))
                return self._apply([bare], gone, now, fingerprint, moved)
        # One by one, so that one bad note does not affect others. A savepoint around each would cost twice the time in
        # a large catalog: SQLite walks all pages that changed since it with each row.
        stored = [path for one in entries for path in self.apply([one], (), now, fingerprint, moved)[0]]
        return stored, self.apply((), gone, now, fingerprint, moved)[1]

    def _apply(
        self,
        entries: Sequence[FileEntry],
        gone: Sequence[str],
        now: Callable[[str], Stamp | None],
        fingerprint: str,
        moved: Collection[str],
    ) -> tuple[list[str], list[str]]:
        with self._database.transaction() as connection:
            if self._meta.fingerprint != fingerprint:
                return [], []
            before = int(connection.total_changes)
            lost = [path for path in gone if now(path) is None]
            links = Links(self._database)
            leaving = links.leaving(lost)
            affected = self._forget(connection, lost)
            for sql in ("DELETE FROM faults WHERE path = ? AND NOT walk", "DELETE FROM files WHERE path = ?"):
                connection.executemany(sql, [(path,) for path in lost])
            current = [entry for entry in entries if now(entry.path) == entry.stamp]
            try:
                self._remember(connection, current)
                # A file that could not be opened is stored without a hash, and its note stays as it was.
                read = [entry for entry in current if entry.sha256]
                affected |= self._forget(connection, [entry.path for entry in read if entry.note is None])
                affected |= self._replace_notes(connection, [entry for entry in read if entry.note is not None])
            except _OF_A_ROW as error:
                raise _NotStoredError from error
            self._settle_ids(connection, affected, moved)
            links.record_moves(connection, leaving)
            if connection.total_changes != before:
                self._meta.bump(connection, "generation")
            return [entry.path for entry in current], lost

    def touch(self, entries: Sequence[FileEntry]) -> None:
        """Record that files were read again and have not changed; the generation stays."""
        with self._database.transaction() as connection:
            connection.executemany(
                """
                UPDATE files SET size = ?, mtime_ns = ?, inode = ?, ctime_ns = ?, read_ns = ?
                WHERE path = ? AND sha256 = ?
                """,
                [(*entry.stamp, entry.read_ns, entry.path, entry.sha256) for entry in entries],
            )
            # A row that is written counts as a change, for who keeps a copy of the catalog.
            connection.executemany(
                "UPDATE notes SET mtime_ns = :mtime WHERE path = :path AND mtime_ns <> :mtime",
                [{"mtime": entry.stamp.mtime_ns, "path": entry.path} for entry in entries],
            )

    def recut(self, rules: str) -> None:
        """Have every note read again if `rules`, the version of the chunking rules, have changed."""
        if self._meta.get("rules") == rules:
            return
        with self._database.transaction() as connection:
            if self._meta.get("rules") not in {rules, None}:
                connection.execute("UPDATE files SET sha256 = '', read_ns = 0")
            self._meta.put(connection, "rules", rules)

    def set_walk_faults(self, faults: Sequence[Fault], left_out: Sequence[Fault] = ()) -> None:
        """Store the faults of the last walk, and the files that it left out, apart from the faults of notes."""
        kinds = ((1, faults), (2, left_out))
        new = sorted((fault.path, fault.line, fault.reason, kind) for kind, listed in kinds for fault in listed)
        if self._rows("SELECT * FROM faults WHERE walk ORDER BY 1, 2, 3") == new:
            return
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM faults WHERE walk")
            connection.executemany("INSERT INTO faults VALUES (?, ?, ?, ?)", new)
            self._meta.bump(connection, "generation")

    def _remember(self, connection: sqlite3.Connection, entries: Sequence[FileEntry]) -> None:
        connection.executemany(
            """
            INSERT OR REPLACE INTO files (path, size, mtime_ns, inode, ctime_ns, read_ns, sha256)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [(entry.path, *entry.stamp, entry.read_ns, entry.sha256) for entry in entries],
        )
        connection.executemany("DELETE FROM faults WHERE path = ? AND NOT walk", [(entry.path,) for entry in entries])
        faults = [(fault.path, fault.line, fault.reason) for entry in entries for fault in entry.faults]
        connection.executemany("INSERT INTO faults VALUES (?, ?, ?, 0)", faults)

    def _forget(self, connection: sqlite3.Connection, paths: Sequence[str]) -> set[str]:
        """Remove notes and their chunks; return the ids whose owner may change."""
        stored = _stored(connection, paths)
        self._drop_chunks(connection, [note for note, _ in stored.values()])
        connection.executemany("DELETE FROM notes WHERE note = ?", [(note,) for note, _ in stored.values()])
        return {name for path, (_, declared) in stored.items() for name in (declared, path_id(path)) if name}

    @staticmethod
    def _drop_chunks(connection: sqlite3.Connection, notes: Sequence[int]) -> None:
        """Remove the chunks, words, fields, links and labels of notes, and record that their vectors were used."""
        if not notes:
            return
        # The words of all first: before each statement with triggers FTS5 writes what it holds, as a part of its own,
        # and would have one to merge for each note.
        drop_words(connection, notes)
        values = {"now": int(time.time()), "notes": json.dumps(notes)}
        connection.execute(f"UPDATE vectors SET used = :now WHERE key IN ({_KEYS})", values)
        for table in ("chunks", "fields", "links", "labels"):
            connection.execute(f"DELETE FROM {table} WHERE {_AMONG}", values)

    def _replace_notes(self, connection: sqlite3.Connection, entries: Sequence[FileEntry]) -> set[str]:
        """Replace notes by their entries; return the ids whose owner may change."""
        affected: set[str] = set()
        numbered: list[tuple[int, FileEntry]] = []
        stored = _stored(connection, [entry.path for entry in entries])
        notes = [note for note, _ in stored.values()]
        dropped = {key for (key,) in connection.execute(_KEYS, {"notes": json.dumps(notes)})}
        self._drop_chunks(connection, notes)
        for entry in entries:
            columns = {**(entry.note or {}), "path": entry.path, "mtime_ns": entry.stamp.mtime_ns}
            note, declared = stored.get(entry.path, (0, None))
            affected |= {name for name in (declared, columns["declared"], path_id(entry.path)) if name}
            numbered.append((_put_note(connection, note, columns), entry))
        named = [(note, label) for note, entry in numbered for label in entry.labels]
        keys = {chunk.key for entry in entries for chunk in entry.chunks} | {label.key for _, label in named}
        self._revive(connection, keys - dropped)
        connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?)", [(note, *label) for note, label in named])
        fields = ((note, *field) for note, entry in numbered for field in entry.fields)
        connection.executemany("INSERT OR IGNORE INTO fields VALUES (?, ?, ?, ?)", fields)
        Links.add(connection, [(note, entry.links) for note, entry in numbered])
        self._add_chunks(connection, [(note, chunk) for note, entry in numbered for chunk in entry.chunks])
        return affected

    @staticmethod
    def _add_chunks(connection: sqlite3.Connection, rows: Sequence[tuple[int, ChunkRow]]) -> None:
        if not rows:
            return  # a statement that changes nothing counts as a change
        sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'chunks'"
        [last] = connection.execute(sql).fetchone()
        numbered = list(enumerate(rows, last + 1))
        connection.executemany(
            """
            INSERT INTO chunks
                (chunk, note, suffix, ordinal, heading, line, end_line, text, above, lead, tail, same, key, checksum)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?)
            """,
            [(number, note, *row[:-1]) for number, (note, row) in numbered],
        )
        for sql in ADDED:
            connection.execute(sql, {"last": last})
        add_words(connection, [(number, row.words) for number, (_, row) in numbered])

    def _revive(self, connection: sqlite3.Connection, keys: set[str]) -> None:
        """Give vectors that are in use again a new seq, so that readers by seq see them."""
        sql = f"""
            SELECT key FROM vectors
            WHERE key IN (SELECT value FROM json_each(?)) AND NOT {OF_CHUNKS} AND NOT {OF_LABELS}
        """
        if back := connection.execute(sql, (json.dumps(sorted(keys)),)).fetchall():
            seq = self._meta.bump(connection, "seq")
            connection.executemany("UPDATE vectors SET seq = ? WHERE key = ?", [(seq, key) for (key,) in back])

    def _settle_ids(self, connection: sqlite3.Connection, names: set[str], moved: Collection[str]) -> None:
        """Decide which note has each id of `names`: its owner, else the shortest path; others have their paths."""
        settled: dict[int, str] = {}
        for name in sorted(names):
            rows = connection.execute(
                """
                SELECT note, path, declared, id FROM notes
                WHERE declared = :name OR path = :name || '.md' OR path = :name
                ORDER BY id IS NOT :name, length(path), path
                """,
                {"name": name},
            ).fetchall()
            owners = [row for row in rows if path_id(row[1]) == name]
            claimants = sorted(
                (row for row in rows if row[2] == name), key=lambda row: (row[3] != name, row[1] not in moved)
            )
            winner = next(iter([*owners, *claimants]), None)
            for row in rows:
                note, path, declared, id = row
                if row is winner and declared in {name, None}:
                    settled[note] = name
                elif declared == name:
                    settled[note] = path_id(path)
                elif id is None:
                    settled.setdefault(note, path_id(path))
        connection.executemany(
            "UPDATE notes SET id = NULL WHERE note = ? AND id IS NOT NULL", [(note,) for note in settled]
        )
        connection.executemany(
            "UPDATE notes SET id = ? WHERE note = ?", [(name, note) for note, name in settled.items()]
        )


def _put_note(connection: sqlite3.Connection, note: int, columns: Mapping[str, object]) -> int:
    """Write the row of a note, a new one for the number 0; return its number."""
    if note:
        sets = ", ".join(f"{name} = :{name}" for name in columns)
        connection.execute(f"UPDATE notes SET {sets} WHERE note = :note", {**columns, "note": note})
        return note
    sql = f"INSERT INTO notes ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"
    return connection.execute(sql, columns).lastrowid or 0


def _stored(connection: sqlite3.Connection, paths: Sequence[str]) -> dict[str, tuple[int, str | None]]:
    """Return the notes that are stored at some paths, by path, each with its number and the id that it declares."""
    sql = "SELECT path, note, declared FROM notes WHERE path IN (SELECT value FROM json_each(?))"
    return {path: (note, declared) for path, note, declared in connection.execute(sql, (json.dumps(paths),))}
