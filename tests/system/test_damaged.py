"""A damaged database while another program has it open, which Windows then neither renames nor removes."""

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from spellbook.system import platform
from spellbook.system.errors import StorageError
from spellbook.system.sqlite import Database, expect
from tests.helpers import finished, python

TABLE = "CREATE TABLE words (word TEXT)"
GARBAGE = b"no database at all" * 300
SERVER = """
import pathlib, sys, time
from spellbook.system.processes import present
state = pathlib.Path(sys.argv[1])
with present(state, "mcp"):
    print("here", flush=True)
    while not (state / "end").exists():
        time.sleep(0.01)
"""


class Holder:
    """Another program that has files open: they cannot be renamed, as Windows answers."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def rename(self, source: Path, target: Path) -> None:
        if Path(source).name in self.names:
            error = PermissionError(errno.EACCES, "held", str(source))
            error.winerror = 32  # type: ignore[attr-defined]
            raise error
        os.rename(source, target)


def database(state: Path) -> Database:
    """The database of a process."""
    return Database(state / "x.db", 1, lambda connection, _: connection.execute(TABLE), {})


def words(base: Database, *new: str) -> list[str]:
    """The words of a database after `new` ones."""
    for word in new:
        with base.transaction() as connection:
            connection.execute("INSERT INTO words VALUES (?)", (word,))
    return [row[0] for row in base.rows("SELECT word FROM words")]


def test_a_damaged_file_that_is_held_has_a_new_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """
    While another program holds a damaged database, all processes share a new one beside it, hooks as well, and the message
    names that program. What a program holds may have deleted text in it, so a vacuum fails. At the next start after it
    ended, the damaged file is set aside, and the new one has its name.
    """
    holder = Holder("x.db")
    monkeypatch.setattr(platform, "rename_at_once", holder.rename)
    (tmp_path / "x.db").write_bytes(GARBAGE)
    first, second = database(tmp_path), database(tmp_path)
    server = python(SERVER, tmp_path)
    assert server.stdout is not None
    assert server.stdout.readline() == "here\n"
    try:
        with caplog.at_level(logging.WARNING):
            assert words(first, "one") == ["one"]
    finally:
        (tmp_path / "end").touch()
        finished(server)
    assert f"another program has it open (spellbook mcp, process {server.pid})" in caplog.text
    assert words(second, "two") == ["one", "two"]
    assert (tmp_path / "x.db").read_bytes() == GARBAGE
    expect(tmp_path / "x.db", 1, 1)
    with pytest.raises(StorageError, match="may hold deleted text"):
        first.vacuum()
    holder.names = {"x.db.beside"}  # the other program has ended; a third one uses the new file
    third = database(tmp_path)
    assert words(third) == ["one", "two"]
    assert not (tmp_path / "x.db").exists()
    assert third.exists()
    expect(tmp_path / "x.db", 1, 1)
    assert [file.read_bytes() for file in first.set_aside()] == [GARBAGE]
    holder.names = set()
    for base in (first, second, third):
        base.close()
    assert words(database(tmp_path), "three") == ["one", "two", "three"]
    assert words(first) == ["one", "two", "three"]
    assert {file.name for file in tmp_path.iterdir() if file.suffix in {".broken", ".beside"}} == set()


def test_deleted_text_is_gone_from_the_file_or_that_is_an_error(tmp_path: Path) -> None:
    """While another connection reads an older state, a vacuum that waits for it fails; afterwards the word is in no file."""
    (writer, reader), word = (database(tmp_path), database(tmp_path)), "quetzalcoatlus"
    assert words(writer, word) == [word]
    with reader.reading():
        assert words(reader) == [word]
        with writer.transaction() as connection:
            connection.execute("DELETE FROM words")
        with pytest.raises(StorageError, match="may hold deleted text"):
            writer.vacuum(0.1)
        writer.vacuum()
    writer.vacuum(0.1)
    writer.close()
    reader.close()
    assert not [file for file in tmp_path.iterdir() if word.encode() in file.read_bytes()]
