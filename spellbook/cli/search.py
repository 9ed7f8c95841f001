"""Commands that read: search, memorize, find, recent, show, history."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

import spellbook
from spellbook.cli import found, output
from spellbook.cli.app import Asking, command, filter_option, option, scope_option, warn_of_unmatched
from spellbook.search.presentation import note_fields
from spellbook.verbs import table

min_score_option = option(table.SEARCH, "min_score")
also_option = option(table.SEARCH, "also")
_NARROWED = (option(table.SEARCH, "limit", "-n", "--limit"), filter_option, scope_option, option(table.SEARCH, "as_of"))
_SHOWN = (option(table.SEARCH, "max_tokens"), option(table.SEARCH, "explain"))

_OF_POINTERS = ("id", "path", "line", "title", "heading")
"""Fields of a section in the list of a topic."""

_MOST_TOKENS = 10_000_000
"""Tokens of the contents as JSON: a program gets them whole."""


@command(click.argument("query"), *_NARROWED, min_score_option, *_SHOWN, kind=Asking)
def memorize(book: spellbook.Spellbook, query: str, as_json: bool, **options: Any) -> None:
    """
    Search by meaning, in any language.

    \b
    spellbook memorize "왜 PostgreSQL로 옮겼나?"
    """
    show = partial(found.answer, vault=book.config.vault, explain=options["explain"])
    output.result(book.memorize(query, **options), as_json, show)


@command(
    click.argument("words", nargs=-1, required=True),
    click.option("--all", "match_all", is_flag=True, help="Only sections that contain every WORD."),
    *_NARROWED,
    *_SHOWN,
    kind=Asking,
)
def find(book: spellbook.Spellbook, words: tuple[str, ...], match_all: bool, as_json: bool, **options: Any) -> None:
    """
    Search by words; each WORD may be a phrase.

    \b
    spellbook find useState "error boundary" --all
    """
    reply = book.find(words, "all" if match_all else "any", **options)
    show = partial(found.answer, vault=book.config.vault, by_words=True, explain=options["explain"])
    output.result(reply, as_json, show)


@command(
    click.argument("query"),
    also_option,
    *_NARROWED,
    min_score_option,
    *_SHOWN,
    click.option("--why", metavar="ID", help="Explain why this note or section is, or is not, found."),
    kind=Asking,
)
def search(book: spellbook.Spellbook, query: str, why: str | None, as_json: bool, **options: Any) -> None:
    """
    Search by meaning and by words.

    \b
    spellbook search "how do we rotate keys" --filter category=decision
    spellbook search "how do we rotate keys" --also "Keys are rotated every 90 days." --also "키 교체 주기"
    spellbook search "how do we rotate keys" --why decision/keys.md
    """
    if why is None:
        show = partial(found.answer, vault=book.config.vault, explain=options["explain"])
        output.result(book.search(query, **options), as_json, show)
    else:
        asked = {name: value for name, value in options.items() if name not in {"explain", "max_tokens"}}
        output.result(book.why(query, why, **asked), as_json, found.explanation)


@command(option(table.RECENT, "limit", "-n", "--limit"), filter_option, scope_option)
def recent(book: spellbook.Spellbook, limit: int, filter: dict[str, object] | None, as_json: bool) -> None:
    """
    List the newest notes, by `created`, else `updated`, else the time of the file.

    \b
    spellbook recent
    spellbook recent --filter category=decision --filter when=2026-11
    """
    notes = book.recent(limit, filter=filter)
    warn_of_unmatched(book, filter)
    output.result(notes, as_json, found.recent)


@command(click.argument("id", required=False), option(table.SHOW, "as_of"), filter_option, scope_option)
def show(
    book: spellbook.Spellbook, id: str | None, as_of: str, filter: dict[str, object] | None, as_json: bool
) -> None:
    """
    Print a note or one of its sections; ID is a section's id, a note's id or its path.

    Notes that link to it and related notes follow. With a / at its end, ID is a
    topic, whose sections are listed. Without ID, all topics are listed by
    category; --filter leaves some of them out.

    \b
    spellbook show 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    spellbook show decision/infra/
    spellbook show
    """
    if id is None:
        _print_contents(book, filter, as_json)
        return
    if filter:
        raise click.UsageError("--filter goes without ID.")
    if id.endswith("/"):
        topic = id.rstrip("/")
        listed = book.topic(topic)
        fields = [{key: getattr(each, key) for key in _OF_POINTERS} for each in listed]
        output.result({"topic": topic, "chunks": fields}, as_json, lambda _: found.pointers(listed))
        return
    chunks = book.show(id, as_of)
    around = book.around(chunks[0].path)
    if as_json:
        output.as_json(note_fields(id, chunks, around, book.superseded(chunks)))
    else:
        if as_of:
            output.say(f"On {as_of} this held:")
        found.chunks(chunks, book.superseded(chunks))
        found.around(around)
        output.faults([fault for fault in book.index.catalog.notes.faults() if fault.path == chunks[0].path])


@command(click.argument("id"), option(table.HISTORY, "limit", "-n", "--limit"))
def history(book: spellbook.Spellbook, id: str, limit: int, as_json: bool) -> None:
    """
    List the versions of a note with their differences, newest first; ID as for show.

    They come from git and the journal of changes, whichever has them. Of a
    note that is gone, give the path.

    \b
    spellbook history decision/keys.md
    """
    from spellbook.library import history as kept

    output.result(kept.versions(book, id, limit), as_json, found.versions)


def _print_contents(book: spellbook.Spellbook, filter: dict[str, object] | None, as_json: bool) -> None:
    """Print categories and their topics as a tree."""
    listed = book.contents(filter=filter)
    warn_of_unmatched(book, filter)
    if as_json:
        from spellbook.mcp import table_of_contents

        output.as_json(table_of_contents.as_json(listed, _MOST_TOKENS, book.about))
    else:
        found.contents(listed, book.about)
