"""Commands that read: search, memorize, find, why, show, topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli import output
from spellbook.cli.app import (
    Asking,
    answer,
    command,
    doubt,
    filter_option,
    filtered,
    json_option,
    limit_option,
    max_tokens_option,
    min_score_option,
    scope_option,
)

if TYPE_CHECKING:
    from spellbook.book import Spellbook


@command(
    click.argument("query"),
    limit_option,
    filter_option,
    scope_option,
    min_score_option,
    max_tokens_option,
    json_option,
    kind=Asking,
)
def memorize(book: Spellbook, query: str, as_json: bool, filters: Sequence[str], **asked: Any) -> None:
    """
    Search by meaning, in any language.

    \b
    spellbook memorize "왜 PostgreSQL로 옮겼나?"
    """
    answer(book.memorize(query, filter=filtered(filters), **asked), as_json)


@command(
    click.argument("words", nargs=-1, required=True),
    click.option("--all", "match_all", is_flag=True, help="Only chunks that contain every WORD."),
    limit_option,
    filter_option,
    scope_option,
    max_tokens_option,
    json_option,
    kind=Asking,
)
def find(
    book: Spellbook, words: tuple[str, ...], match_all: bool, as_json: bool, filters: Sequence[str], **asked: Any
) -> None:
    """
    Search by words; each WORD may be a phrase.

    \b
    spellbook find useState "error boundary" --all
    """
    answer(book.find(words, "all" if match_all else "any", filter=filtered(filters), **asked), as_json, by_words=True)


@command(
    click.argument("query"),
    limit_option,
    filter_option,
    scope_option,
    min_score_option,
    max_tokens_option,
    json_option,
    kind=Asking,
)
def search(book: Spellbook, query: str, as_json: bool, filters: Sequence[str], **asked: Any) -> None:
    """
    Search by meaning and by words.

    \b
    spellbook search "how do we rotate keys" --filter category=decision
    """
    answer(book.search(query, filter=filtered(filters), **asked), as_json)


@command(
    click.argument("query"),
    click.argument("id", required=False),
    click.option(
        "--by",
        type=click.Choice(["search", "memorize", "find"]),
        default="search",
        show_default=True,
        help="The verb to explain.",
    ),
    limit_option,
    filter_option,
    scope_option,
    min_score_option,
    json_option,
    kind=Asking,
)
def why(
    book: Spellbook, query: str, id: str | None, by: str, as_json: bool, filters: Sequence[str], **asked: Any
) -> None:
    """
    Explain what QUERY finds, or why the note or chunk ID is or is not found.

    Prints the rank and share of each part, every adjustment, and how certain it
    is that a chunk is relevant at all.

    \b
    spellbook why "how do we rotate keys"
    spellbook why "how do we rotate keys" decision/keys.md
    """
    given = book.why(query, id, verb=by, filter=filtered(filters), **asked)
    if as_json:
        output.as_json(given.as_dict())
    else:
        output.explanation(given)


@command(click.argument("id"), json_option)
def show(book: Spellbook, id: str, as_json: bool) -> None:
    """
    Print a note or one of its chunks; ID is a chunk's id, a note's id or its path.

    Notes that link to it and related notes follow.

    \b
    spellbook show 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    """
    from dataclasses import asdict

    found = book.show(id)
    around = book.around(found[0].path)
    if as_json:
        keys = (
            "id",
            "path",
            "line",
            "end_line",
            "title",
            "heading",
            "text",
            "topic",
            "category",
            "importance",
            "created",
            "updated",
        )
        chunks = [{**{key: getattr(chunk, key) for key in keys}, "hash": chunk.hash} for chunk in found]
        output.as_json(
            {"id": id, "path": found[0].path, "meta": dict(found[0].meta), "chunks": chunks, **asdict(around)}
        )
        return
    output.chunks(found)
    output.around(around)


@command(click.argument("topic", required=False), filter_option, scope_option, json_option)
def topics(book: Spellbook, topic: str | None, filters: Sequence[str], as_json: bool) -> None:
    """
    Print categories and their topics as a tree, or what TOPIC holds.

    \b
    spellbook topics
    spellbook topics decision/infra
    """
    from dataclasses import asdict

    if topic:
        chunks = book.topic(topic)
        if as_json:
            shown = [
                {"id": each.id, "path": each.path, "line": each.line, "title": each.title, "heading": each.heading}
                for each in chunks
            ]
            output.as_json({"topic": topic, "chunks": shown})
            return
        output.pointers(chunks)
        return
    listed = book.contents(filter=filtered(filters))
    doubt(book, filters)
    if as_json:
        keys = ("category", "topic", "notes", "chunks", "updated", "keywords")
        shown = [
            {**{key: getattr(each, key) for key in keys}, **asdict(book.about(each))}
            for category in listed
            for each in category.topics
        ]
        described = [
            {"category": each.name, "description": each.description, "topics": len(each.topics)} for each in listed
        ]
        output.as_json({"categories": described, "topics": shown})
        return
    output.contents(listed, book.about)
