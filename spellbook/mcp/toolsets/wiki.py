"""
The wiki toolset: a folder of documents beside the vault, searched and never written to.

See `memories.project_documentation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations

from spellbook.library.limited import Seen
from spellbook.mcp import render
from spellbook.mcp.tool import READ, as_json, reporter, tool
from spellbook.memories import claude_memory
from spellbook.search import presentation
from spellbook.search.scores import Hit
from spellbook.system.errors import SpellbookError
from spellbook.system.lazy import regex
from spellbook.text.quoting import counted, exact, filled, flat
from spellbook.verbs import memories

_INDEXING = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)
_HEADING = regex(r"(?m)^(#{1,6}) +(.+?)(?: +#+)?[ \t\r]*$")


@tool("Search the documents", READ, memories.SEARCH_DOCUMENTS)
def wiki_search(book: Seen, threshold: float | None, format: str, explain: bool, **question: Any) -> str:
    """
    Search the project's documents (zywiki/ or docs/) by meaning and by words: what the code does, and where it is.

    Each hit names its file and line, below the folder that holds the documents. They are looked at before each
    answer, so it is up to date. search(query) finds what the person remembers.
    """
    answer = book.whole.wikis.search(min_score=threshold, explain=explain, **question)
    if format == "text":
        return render.answer(answer, _layout(), explain=explain)
    fenced = render.fence_texts(answer)
    return as_json(
        sure=bool(answer.hits),
        results=[*map(_fields, fenced.hits)],
        **filled(closest=[*map(_fields, fenced.closest)]),
        index=answer.index.as_dict(),
    )


@tool("Index the documents", _INDEXING, memories.INDEX_DOCUMENTS)
def wiki_index(book: Seen, path: str, full: bool, ctx: Context) -> str:
    """
    Index the project's documents with all their embeddings, and say how many there are. Never required.

    wiki_search looks for changes itself; after many of them this makes all findable by meaning at once.
    """
    return as_json(**book.whole.wikis.index(path, full=full, progress=reporter(ctx)))


@tool("State of the documents", READ, memories.STATUS_OF_DOCUMENTS)
def wiki_status(book: Seen, path: str) -> str:
    """How many documents and sections are indexed, when they were last looked at, and what is still pending."""
    return as_json(**book.whole.wikis.status(path))


def of_claude(book: Seen, verb: str, question: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Return hits of a search verb in Claude Code's own memory, for JSON and as text, a quarter of the answer long."""
    named = {"query" if name == "keywords" else name: value for name, value in question.items()}
    room = {
        "limit": min(claude_memory.MOST_HITS, question["limit"]),
        "max_tokens": max(50, question["max_tokens"] // 4),
    }
    try:
        answer = None if book.denial else book.whole.wikis.of_claude(verb, **{**named, **room})
    except SpellbookError as error:
        return [], f"\n\n{claude_memory.LABEL} was not searched: {flat(error.message)}"
    if answer is None or not answer.hits:
        return [], ""
    text = f"\n\n{claude_memory.LABEL}, which is changed there alone:\n{render.answer(answer, _layout())}"
    return [*map(_fields, render.fence_texts(answer).hits)], text


def _fields(hit: Hit) -> dict[str, Any]:
    return {
        "file_path": hit.path,
        "section": _section(hit),
        "content": hit.text,
        "similarity": hit.score,
        "line": hit.line,
    }


def _layout() -> render.AnswerLayout:
    """Return how documents are told: by file and line, without ids."""
    return render.AnswerLayout(
        _head,
        lambda hit: f"{_place(hit)} ({counted(hit.why.get('tokens', 0), 'token')}, left out for space)",
        _place,
        "",
        "Try other words, or look into the code.",
    )


def _head(hit: Hit, *, explain: bool = False) -> str:
    score = presentation.score_line(hit) if explain else ""
    lines = (_place(hit), f"why: {presentation.why(hit)}", score, hit.marks.origin)
    return "\n   ".join(filter(None, lines))


def _place(hit: Hit) -> str:
    return f"[{hit.score:.2f}] {exact(hit.path)}:{hit.line} {flat(hit.marks.titles)}"


def _section(hit: Hit) -> str:
    """Return the path of headings with their marks, as in the file; of what stands above the first, the title."""
    if not hit.heading:
        return f"# {hit.title}"
    levels = {name: len(marks) for marks, name in _HEADING.findall(hit.chunk.text)}
    # Those of a section's later parts stand further up in the file.
    marked = [(levels.get(name, 2 + below), name) for below, name in enumerate(hit.heading.split(" > "))]
    return " > ".join(f"{'#' * min(6, level)} {name}" for level, name in marked)
