"""Commands that read: search, memorize, find, why, recent, show, history, topics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli import output
from spellbook.cli.app import Asking, command, filter_option, option, scope_option, warn_of_unmatched
from spellbook.search.presentation import note_fields
from spellbook.verbs import table

if TYPE_CHECKING:
    from spellbook.library.reader import Reader

min_score_option = option(table.SEARCH, "min_score")
also_option = option(table.SEARCH, "also")
_NARROWED = (option(table.SEARCH, "limit", "-n", "--limit"), filter_option, scope_option, option(table.SEARCH, "as_of"))
_SHOWN = (option(table.SEARCH, "max_tokens"), option(table.SEARCH, "explain"))


def _pick(item: Any, keys: str) -> dict[str, Any]:
    """Return the fields of a chunk or a topic that `keys` lists, with blanks between them."""
    return {key: getattr(item, key) for key in keys.split()}


@command(click.argument("query"), *_NARROWED, min_score_option, *_SHOWN, kind=Asking)
def memorize(book: Reader, query: str, as_json: bool, **options: Any) -> None:
    """
    Search by meaning, in any language.

    \b
    spellbook memorize "왜 PostgreSQL로 옮겼나?"
    """
    show = partial(output.answer, vault=book.config.vault, explain=options["explain"])
    output.result(book.memorize(query, **options), as_json, show)


@command(
    click.argument("words", nargs=-1, required=True),
    click.option("--all", "match_all", is_flag=True, help="Only chunks that contain every WORD."),
    *_NARROWED,
    *_SHOWN,
    kind=Asking,
)
def find(book: Reader, words: tuple[str, ...], match_all: bool, as_json: bool, **options: Any) -> None:
    """
    Search by words; each WORD may be a phrase.

    \b
    spellbook find useState "error boundary" --all
    """
    reply = book.find(words, "all" if match_all else "any", **options)
    show = partial(output.answer, vault=book.config.vault, by_words=True, explain=options["explain"])
    output.result(reply, as_json, show)


@command(click.argument("query", required=False), also_option, *_NARROWED, min_score_option, *_SHOWN, kind=Asking)
def search(book: Reader, query: str | None, as_json: bool, **options: Any) -> None:
    """
    Search by meaning and by words.

    Without QUERY, --filter lists the notes that it leaves, newest first, as `recent` does.

    \b
    spellbook search "how do we rotate keys" --filter category=decision
    spellbook search "how do we rotate keys" --also "Keys are rotated every 90 days." --also "키 교체 주기"
    spellbook search --filter category=decision
    """
    if query is not None:
        show = partial(output.answer, vault=book.config.vault, explain=options["explain"])
        output.result(book.search(query, **options), as_json, show)
    elif options["filter"] is None:
        raise click.UsageError("Give a QUERY to search for or --filter K=V to list notes.")
    elif options["also"] or options["as_of"]:
        raise click.UsageError("--also and --as-of need a QUERY.")
    elif options["min_score"] is not None:
        raise click.UsageError("--min-score needs a QUERY: a list of notes has no scores.")
    else:
        _list(book, options["limit"], options["filter"], as_json)


@command(option(table.RECENT, "limit", "-n", "--limit"), filter_option, scope_option)
def recent(book: Reader, limit: int, filter: dict[str, object] | None, as_json: bool) -> None:
    """
    List the newest notes, by `created`, else `updated`, else the time of the file.

    \b
    spellbook recent
    spellbook recent --filter category=decision --filter when=2026-11
    """
    _list(book, limit, filter, as_json)


def _list(book: Reader, limit: int, filter: dict[str, object] | None, as_json: bool) -> None:
    notes = book.recent(limit, filter=filter)
    warn_of_unmatched(book, filter)
    output.result(notes, as_json, output.recent)


@command(
    click.argument("query"),
    click.argument("id", required=False),
    option(table.WHY, "verb", "--by"),
    also_option,
    *_NARROWED,
    min_score_option,
    kind=Asking,
)
def why(book: Reader, query: str, id: str | None, by: str, as_json: bool, **options: Any) -> None:
    """
    Explain what QUERY finds, or why the note or chunk ID is or is not found.

    Prints the rank and share of each part, every adjustment, and how certain it
    is that a chunk is relevant at all.

    \b
    spellbook why "how do we rotate keys"
    spellbook why "how do we rotate keys" decision/keys.md
    """
    output.result(book.why(query, id, verb=by, **options), as_json, output.explanation)


@command(click.argument("id"), option(table.SHOW, "as_of"))
def show(book: Reader, id: str, as_of: str, as_json: bool) -> None:
    """
    Print a note or one of its chunks; ID is a chunk's id, a note's id or its path.

    Notes that link to it and related notes follow.

    \b
    spellbook show 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    """
    chunks = book.show(id, as_of)
    around = book.around(chunks[0].path)
    if as_json:
        output.as_json(note_fields(id, chunks, around, book.superseded(chunks)))
    else:
        if as_of:
            output.say(f"On {as_of} this held:")
        output.chunks(chunks, book.superseded(chunks))
        output.around(around)
        output.faults([fault for fault in book.index.catalog.notes.faults() if fault.path == chunks[0].path])


@command(click.argument("id"), option(table.HISTORY, "limit", "-n", "--limit"))
def history(book: Reader, id: str, limit: int, as_json: bool) -> None:
    """
    List the versions of a note with their differences, newest first; ID as for show.

    They come from git and the journal of changes, whichever has them. Of a
    note that is gone, give the path.

    \b
    spellbook history decision/keys.md
    """
    from spellbook.library import history as kept

    output.result(kept.versions(book, id, limit), as_json, output.versions)


@command(click.argument("topic", required=False), filter_option, scope_option)
def topics(book: Reader, topic: str | None, filter: dict[str, object] | None, as_json: bool) -> None:
    """
    Print categories and their topics as a tree, or what TOPIC holds.

    \b
    spellbook topics
    spellbook topics decision/infra
    """
    if topic:
        chunks = book.topic(topic)
        if not as_json:
            output.pointers(chunks)
            return
        shown = [_pick(entry, "id path line title heading") for entry in chunks]
        output.as_json({"topic": topic, "chunks": shown})
        return
    listed = book.contents(filter=filter)
    warn_of_unmatched(book, filter)
    if not as_json:
        output.contents(listed, book.about)
        return
    from spellbook.search import toc

    described = [
        {"category": entry.name, "description": entry.description, "topics": len(entry.topics)} for entry in listed
    ]
    listed_topics = [
        {**_pick(entry, "category topic notes chunks updated keywords"), **output.fields(book.about(entry))}
        for category in listed
        for entry in category.topics
    ]
    output.as_json({"categories": described, "topics": listed_topics, **toc.totals(listed)})
