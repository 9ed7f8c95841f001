"""The command that publishes a vault to a database: publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spellbook.cli import output
from spellbook.cli.app import command, json_option
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import counted

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook


@command(json_option)
def publish(book: Spellbook, as_json: bool) -> None:
    """
    Publish the index to PostgreSQL, for servers elsewhere: what changed since the last time.

    SPELLBOOK_DATABASE_URL names the database, which needs pgvector. A server that
    runs publishes by itself, and so does `spellbook watch`.
    """
    from spellbook.index.postgres import publish as run
    from spellbook.index.postgres.database import URL, configured

    database = configured()
    if database is None:
        raise InvalidInput(f"{URL} is not set.", "Write it as postgresql://USER:PASSWORD@HOST:PORT/NAME.")
    book.reindex()
    try:
        done = run.publish(book.index, database)
    finally:
        database.close()
    if as_json:
        output.as_json(done.as_dict())
        return
    output.say(
        f"Published as {done.name}: {counted(done.notes, 'note')} written, {done.removed} removed, "
        f"{counted(done.vectors, 'vector')} added, in {done.seconds:.1f} s."
    )
