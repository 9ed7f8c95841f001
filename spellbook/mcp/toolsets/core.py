"""The toolsets core and spellbook, but for its exports: keep, search, read, change, erase, and the contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

from spellbook.editing.erase import LEFT
from spellbook.editing.write import numbered
from spellbook.index.catalog.usage import Session, local
from spellbook.library.limited import Seen
from spellbook.mcp import render, table_of_contents
from spellbook.mcp.arguments import phrase
from spellbook.mcp.asking import DECLINED, Erasing, agreed, can_ask
from spellbook.mcp.tool import ADD, CHANGE, READ, as_json, is_local, reporter, tool
from spellbook.mcp.tool_names import way_on
from spellbook.mcp.toolsets import wiki
from spellbook.memories import session_briefing
from spellbook.search.question import Answer
from spellbook.settings.translate import language_of_tools, translated
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import exact, filled, flat, quoted
from spellbook.verbs import memories, table
from spellbook.verbs.arguments import MOST_CHUNKS
from spellbook.verbs.declare import MOST_LETTERS

_ASIDE = ("category", "min_score", "max_tokens", "offset", "format", "explain")
"""Arguments of reading that are not listed: they are for programs, or an answer names them where they help."""

_REBUILDING = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)

_MOST_TITLES = 5
"""Notes that erase names."""

_SURE = "The same call with dry_run=false erases it."

_OPENING = 0.4
"""Largest share of the table of contents for what the person prefers and what is due."""


@tool("Begin writing memories", ADD, table.REST)
def rest(book: Seen, language: str) -> str:
    """
    Begin an hour of writing: returns a session's id, and rules for dividing a long text.

    Then scribe each chunk, and rest_end.
    """
    session, chunking, rules = book.whole.rest(language)
    return as_json(
        session_id=session.id,
        created_at=local(session.created),
        expires_at=local(session.expires),
        chunking_guide=chunking,
        metadata_rules=rules,
        status=_STATUS_OPEN[session.language],
    )


@tool("End writing memories", ADD, table.REST_END)
def rest_end(book: Seen, session_id: str) -> str:
    """End a session; returns the number of memories."""
    session = book.whole.rest_end(session_id)
    return as_json(status=_STATUS_ENDED[session.language], scribed_count=session.scribed)


@tool("Write a chunk", ADD, table.SCRIBE.unlisted("force"))
def scribe(book: Seen, chunk: Any, session_id: str, **options: Any) -> str:
    """
    Keep one chunk as a note, in a session of rest(). remember(content) needs none.

    A duplicate is named, not written: revise that one.
    """
    return _scribe(book, [chunk], book.whole.require_session(session_id), **options)[0]


@tool("Write finished chunks", ADD, table.SCRIBE_ALL.unlisted("force"))
def scribe_chunk(book: Seen, chunk: Any, session_id: str, **options: Any) -> str:
    """Save one or more chunks in one call. If one is invalid or a duplicate, none is saved."""
    session = book.whole.require_session(session_id)
    chunks = chunk if isinstance(chunk, list) else [chunk]
    if len(chunks) > MOST_CHUNKS:
        raise InvalidInput(
            f"{len(chunks)} chunks are too many for one call.",
            f"Give at most {MOST_CHUNKS}; nothing was written.",
        )
    answers = ",\n".join(_scribe(book, chunks, session, **options))
    return f"[{answers}]" if isinstance(chunk, list) else answers


@tool("Check a chunk", READ, table.VALIDATE)
def scribe_validate(book: Seen, chunk: Any, source: str, category: str) -> str:
    """Check a chunk without saving it: errors, warnings and duplicates."""
    checked, repeats = book.validate(chunk, source=source or None, category=category or None)
    errors = [*_too_long(chunk), *checked.errors]
    return as_json(
        valid=not errors,
        errors=[translated(error, language_of_tools()) for error in errors],
        warnings=[translated(warning, language_of_tools()) for warning in checked.warnings],
        duplicates=[asdict(each) for each in repeats],
    )


@tool("Keep a memory", ADD, memories.REMEMBER.unlisted("force"))
def remember(book: Seen, **memory: Any) -> str:
    """
    Keep a fact, preference, decision or text of any length as a note. Search finds it at once.

    Tag a preference "preference". The answer names older notes it may overturn or repeat.
    """
    return as_json(**book.memories.remember(**memory))


@tool("Search by meaning", READ, table.MEMORIZE.without("per_note").unlisted(*_ASIDE, "as_of"))
def memorize(book: Seen, ctx: Context, **question: Any) -> str:
    """Search by meaning alone, in any language. It keeps nothing: remember(content) does."""
    return _answer(book, "memorize", ctx, **question)


@tool("Search by words", READ, table.FIND.without("per_note").unlisted(*_ASIDE, "as_of"))
def find(book: Seen, ctx: Context, **question: Any) -> str:
    """Search by exact words: names, identifiers, error codes."""
    return _answer(book, "find", ctx, **question)


@tool("Search", READ, table.SEARCH.without("mode", "per_note").unlisted(*_ASIDE))
def search(book: Seen, ctx: Context, also: list[str] | None, **question: Any) -> str:
    """Search by meaning and words; the best first choice, surest with two guesses in `also`."""
    return _answer(book, "search", ctx, also=also or (), **question)


@tool("Table of contents", READ, table.CONTENTS.unlisted(*_ASIDE))
def get_index(book: Seen, scope: str, max_tokens: int, format: str) -> str:
    """Call first: the person's preferences, what is due, and the contents by category and topic."""
    listed = book.contents(scope)
    if format == "json":
        return as_json(**table_of_contents.as_json(listed, max_tokens, book.about))
    first = [] if scope else session_briefing.opening(book.index, int(max_tokens * _OPENING))
    room = max_tokens - render.tokens_of(first)
    return "\n".join([*first, table_of_contents.as_text(listed, book.state(), room, book.about)])


@tool("Read a topic", READ, table.TOPIC.unlisted(*_ASIDE), topic_id="topic")
def get_topic(book: Seen, topic_id: str, max_tokens: int, format: str) -> str:
    """All chunks of a topic in reading order, with ids, hashes and backlinks."""
    chunks = book.topic(topic_id)
    linking = book.backlinks({chunk.path for chunk in chunks})
    old = book.superseded(chunks)
    if format == "json":
        return as_json(**render.topic_json(topic_id, chunks, max_tokens, linking, old))
    return render.topic(topic_id, chunks, max_tokens, linking, old)


@tool("Read a memory", READ, table.SHOW.unlisted(*_ASIDE))
def show(book: Seen, id: str, as_of: str, max_tokens: int, format: str) -> str:
    """Read a whole note or section by a hit's id, with its hash, backlinks and related notes."""
    chunks = book.show(id, as_of)
    around = book.around(chunks[0].path)
    old = book.superseded(chunks)
    if format == "json":
        return as_json(**render.shown_json(id, chunks, around, max_tokens, old))
    return f"On {flat(as_of)} this held:\n\n" * bool(as_of) + render.shown(chunks, around, max_tokens, old)


@tool("Change a memory", CHANGE, table.REVISE.unlisted("force"))
def revise(
    book: Seen, chunk_id: str, content: str, append: str, replace: Any, metadata: Any, expected_hash: str, force: bool
) -> str:
    """
    Change a memory: one section (content, append or replace), frontmatter keys, or both. Returns the difference.

    For append and replace a note's id means the whole note.
    """
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidInput("metadata must be an object.", 'For example {"importance": "high"}.')
    old_and_new, every = phrase(replace)
    done = book.whole.revise(
        chunk_id,
        content or None,
        metadata,
        expected_hash or None,
        append=append or None,
        replace=old_and_new,
        every=every,
        force=force,
    )
    head = f"Revised {exact(done.chunk_id)} in {exact(done.path)}, generation {done.generation}, hash: {done.hash}."
    warned = [f"Warning: {flat(warning)}" for warning in done.warnings]
    warned += [f"questions_to_check: {flat(question)}" for question in done.questions_to_check]
    return "\n".join([head, *warned, quoted(done.difference) or "(no change)"])


@tool("Erase a memory", CHANGE, table.ERASE.unlisted("dry_run"))
def erase(
    book: Seen,
    ctx: Context,
    chunk_id: str,
    topic_id: str,
    hard: bool,
    whole: bool,
    dry_run: bool | None,
    *,
    sure: Erasing,
) -> str:
    """Erase one section or note by chunk_id, or a topic by topic_id, which is first shown; undo brings it back."""
    if bool(chunk_id) == bool(topic_id):
        raise InvalidInput("Give chunk_id or topic_id, one of them.", "Hits name their ids, get_index the topics.")
    if not agreed(sure):
        return as_json(status="kept", message=DECLINED)
    of_id = book.show(chunk_id) if dry_run and chunk_id else []
    chunks = book.topic(topic_id) if topic_id else of_id
    titles = {chunk.path: chunk.title for chunk in chunks}
    about: dict[str, Any] = {"notes": len(titles), "titles": [*titles.values()][:_MOST_TITLES]} if titles else {}
    if dry_run or (dry_run is None and topic_id and not can_ask(ctx)):
        return as_json(status="nothing erased yet", would_erase=about, hint=_SURE)
    done = (
        book.whole.erase_topic(topic_id, hard=hard) if topic_id else book.whole.erase(chunk_id, hard=hard, whole=whole)
    )
    ids = {"chunk_ids": done.chunk_ids[:_MOST_TITLES], "trash": done.trash[:_MOST_TITLES]}
    hint = filled(hint=LEFT if hard else "", warnings=done.warnings)
    return as_json(status="erased", erased=done.erased, **about, **ids, generation=done.generation, **hint)


@tool("Undo a change", CHANGE, table.UNDO.unlisted("dry_run"))
def undo(book: Seen, entry: int | None, dry_run: bool) -> str:
    """Undo your latest change, or one entry of the log; returns the difference. Undoing an undo redoes."""
    done = book.whole.undo(entry, dry_run=dry_run)
    verb = f"{'Would undo' if dry_run else 'Undid'} entry {done.entry.id}, {done.entry.verb}"
    newer = f"\nThe latest change is {done.newer.described}: undo({done.newer.id}) takes it back." if done.newer else ""
    return f"{verb} {flat(done.entry.what)}.\n{quoted(done.difference) or '(nothing to change)'}{newer}"


@tool("Recent notes", READ, table.RECENT.unlisted(*_ASIDE))
def recent(book: Seen, limit: int, offset: int, filter: Any, format: str) -> str:
    """List notes by date, newest first, one a line."""
    listed = book.recent(limit, offset, filter)
    return as_json(**listed.as_dict()) if format == "json" else render.recent(listed, offset)


@tool("State of the index", READ)
def stats(book: Seen) -> str:
    """Counts and sizes of notes and chunks, pending embeddings, faults in files."""
    book.refresh()
    status = book.status()
    return as_json(**{**status, "faults": status["faults"][:20], "fault_count": len(status["faults"])})


@tool("Rebuild the index", _REBUILDING)
def rebuild_index(book: Seen, ctx: Context) -> str:
    """Read every note again and update the index."""
    book.index.vault.check_there()  # that all notes are gone, only a person says
    report = book.whole.reindex(full=True, progress=reporter(ctx))
    failed = [asdict(fault) for fault in report.failed[:20]]
    return as_json(status="rebuilt", **{**report.as_dict(), "failed": failed})


def add_resources(mcp: MCPServer, book: Seen) -> None:
    """Add the table of contents as a resource to a server over `book`."""

    def contents() -> str:
        """The table of contents: categories, their topics, and how many notes each has."""
        return as_json(**table_of_contents.as_json(book.contents(), 4_000, book.about))

    mcp.resource("memory://index", title="Table of contents", mime_type="application/json")(contents)


_STATUS_OPEN = {
    "en": "REST session open for one hour: scribe is possible. The whole guides are notes of the category system.",
    "ko": "REST 세션이 한 시간 동안 열렸습니다. scribe를 쓸 수 있습니다. 가이드 전문은 system 분류의 노트에 있습니다.",
}
_STATUS_ENDED = {
    "en": "The REST session has ended; you may forget the guides.",
    "ko": "REST 세션이 끝났습니다. 가이드는 잊어도 됩니다.",
}


def _narrow(filter: Any, category: str) -> Any:
    """Return a filter with a category added. Raises InvalidInput if it names one already."""
    if not category or not isinstance(filter or {}, Mapping):
        return filter  # the verb says what is wrong with it
    if "category" in (filter or {}):
        raise InvalidInput("category is given twice.", "Name it as the argument or in the filter.")
    return {**(filter or {}), "category": category}


def _answer(
    book: Seen, verb: str, ctx: Context, *, format: str, filter: Any, category: str, explain: bool, **question: Any
) -> str:
    """Return what a verb of searching finds, as text or JSON; for a local program in Claude Code's own memory too."""
    narrowed = _narrow(filter, category)
    beside, below = wiki.of_claude(book, verb, question) if is_local(ctx) and not narrowed else ([], "")
    answer: Answer = getattr(book, verb)(filter=narrowed, explain=explain, **question)
    if format == "text":
        return render.answer(answer, takes_also="also" in question, explain=explain) + below
    return as_json(**render.fence_texts(answer).as_dict(), **filled(claude_memory=beside))


def _too_long(chunk: object) -> list[str]:
    """Say that a chunk's text is longer than tools may write; notes may be longer."""
    text = chunk.get("text") if isinstance(chunk, Mapping) else None
    if isinstance(text, str) and len(text) > MOST_LETTERS:
        return [f"text has {len(text):,} letters; {MOST_LETTERS:,} are the most: divide it"]
    return []


def _scribe(book: Seen, chunks: list[Any], session: Session, source: str, category: str, force: bool) -> list[str]:
    """Write chunks; return the answer for each, in the language of the session."""
    if wrong := numbered([_too_long(each) for each in chunks]):
        raise InvalidInput(f"{'; '.join(wrong)}.", "Nothing was written.")
    done = book.whole.scribe_all(
        chunks, source=source or None, category=category or None, force=force, session=session.id
    )
    say = partial(translated, to=session.language)
    return [
        as_json(**{**row, "message": say(way_on(row["message"])), "warnings": [*map(say, row["warnings"])]})
        for row in render.scribed(done)
    ]
