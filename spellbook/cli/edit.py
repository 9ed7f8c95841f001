"""Commands that write notes: scribe, erase."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli import output
from spellbook.cli.app import command, file_argument, json_option, scope_option
from spellbook.text.quoting import one_line, quoted

if TYPE_CHECKING:
    from spellbook.book import Spellbook


@command(
    file_argument(required=True),
    click.option("--topic", help="What it is filed under."),
    click.option("--category", help="project, preference, knowledge, decision, article …"),
    click.option("-k", "--keyword", "keywords", multiple=True, help="A term to find it by; repeat for more."),
    click.option("--source", help="Where it comes from."),
    scope_option,
    click.option("--force", is_flag=True, help="Write it even if it repeats what is there, or looks like a password or a key."),
    json_option,
)
def scribe(
    book: Spellbook, file: bytes, topic: str, category: str, keywords: Sequence[str], source: str, force: bool, as_json: bool
) -> None:
    """
    Keep a memory from FILE, or from stdin with -.

    The file is Markdown with frontmatter, plain text with the options below,
    or the JSON that the MCP tool takes: {"text": …, "metadata": {…}}.

    \b
    echo "We deploy on Fridays no more." | spellbook scribe - --topic deploy -k Friday -k deploy
    """
    from spellbook.errors import InvalidInput

    chunk = _read_chunk(file)
    given = {"topic": topic, "category": category, "keywords": list(keywords)}
    meta = chunk.get("metadata", {})
    if isinstance(meta, dict):  # else scribe says what is wrong with it
        chunk["metadata"] = {**meta, **{key: value for key, value in given.items() if value}}
        if not (chunk["metadata"].get("topic") and chunk["metadata"].get("keywords")):
            raise InvalidInput(
                "A memory needs a topic and keywords.", "Say --topic and -k, or put them into the frontmatter; nothing was written."
            )
    done = book.scribe(chunk, source=source, force=force)
    if as_json:
        from dataclasses import asdict

        output.as_json({**asdict(done), "status": "success" if done.written else "warning"})
    for warning in done.warnings[0]:
        click.echo(f"spellbook: {one_line(warning)}", err=True)
    if not done.written:
        for each in done.duplicates[0]:
            if each.path:
                click.echo(f"spellbook: {one_line(each.path)} says so already ({each.score:.2f}).", err=True)
                if each.difference:
                    click.echo(quoted(each.difference), err=True)
        click.echo("  Nothing was written; revise that note, or repeat with --force.", err=True)
        sys.exit(1)
    for each in done.duplicates[0]:
        click.echo(f"spellbook: {one_line(each.path)} may say the same: `spellbook merge` makes one of two.", err=True)
    if not as_json:
        click.echo(f"{one_line(done.written[0].path)}  {done.written[0].chunk_id}")


def _read_chunk(data: bytes) -> dict[str, Any]:
    from spellbook.errors import InvalidInput
    from spellbook.notes.note import parse

    if data.lstrip()[:1] == b"{":
        try:
            given = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"The input looks like JSON and is none ({error}).", "Mend it, or give Markdown.") from error
        if not isinstance(given, dict):
            raise InvalidInput("The input must be one JSON object.", '{"text": …, "metadata": {…}}')
        return given
    note = parse("The input", data)
    if note.faults:
        raise InvalidInput(f"{note.faults[0]}.", "Mend it; nothing was written.")
    meta = {key: value for key, value in note.meta.items() if key not in {"id", "created", "updated"}}
    return {"text": note.body, "metadata": meta}


@command(
    click.argument("id"),
    click.option("--topic", "is_topic", is_flag=True, help="ID is a topic: erase all its notes."),
    click.option(
        "--hard", is_flag=True, help="Delete for good instead of moving to the trash; only snapshots that were taken before keep it."
    ),
    click.option("--yes", is_flag=True, help="Do not ask before --hard."),
    json_option,
)
def erase(book: Spellbook, id: str, is_topic: bool, hard: bool, yes: bool, as_json: bool) -> None:
    """
    Erase a note, one section of it, or a topic, into the vault's .trash folder.

    ID is a note's id or path, for all of it, or a section's id.

    \b
    spellbook erase 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    spellbook erase ops/keys#rotation
    spellbook erase decision/infra --topic
    """
    from dataclasses import asdict

    if hard and not yes and sys.stdin.isatty():
        click.confirm(f"Delete {id} for good?", abort=True, err=True)
    done = book.erase_topic(id, hard=hard) if is_topic else book.erase(id, hard=hard)
    if as_json:
        output.as_json({"status": "erased", **asdict(done)})
    else:
        where = f" It is in {', '.join(map(one_line, done.trash))}." if done.trash else ""
        click.echo(f"Erased {done.erased}.{where}")
