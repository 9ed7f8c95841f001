"""
Answers as one text for the model that reads them: short, and with ids.

Every line of a note's text is marked, so that no note can imitate a line of Spellbook; see `text.quoting`. Text that
came from outside is labelled as data.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from spellbook.editing.scribed import Scribed
from spellbook.editing.write import superseding_fields
from spellbook.index import privacy
from spellbook.index.catalog.rows import StoredChunk, Topic
from spellbook.index.filters import fold
from spellbook.mcp.names import way_on
from spellbook.search import newest, presentation, toc
from spellbook.search.newest import Recent
from spellbook.search.question import Answer, State
from spellbook.search.related import Around, Backlink, Related
from spellbook.search.scores import Hit
from spellbook.search.toc import Category, TopicSummary
from spellbook.text.quoting import counted, exact, flat, json_of, quoted
from spellbook.text.terms import estimate_tokens

T = TypeVar("T")
Fields = dict[str, Any]

_MOST_POINTERS = 50
_MORE_TOKENS = 30
"""Tokens reserved for the line that says what was left out."""

_POINTERS = 0.25
"""Largest share of an answer for pointers to chunks that do not fit. By hand."""

_AROUND = 0.2
"""Largest share of an answer for backlinks and related notes."""

_MOST_KEYWORDS = 4

_INTO = (
    'get_topic(topic) reads a topic. recent(filter={"topic": name}) lists its notes. search(query) finds across all.'
)
_AGAIN = "Ask again with also: the sentence you expect, and words in the other language."

_REFUSED = "A similar memory exists; nothing was written. Revise that one, or pass force=true."
_BESIDE = "Nothing was written, because another chunk of this call is a duplicate."
_WRITTEN = "Written; search finds it now."
_PENDING = "Written; search finds it by words now, and by meaning once it is embedded."
_ALIKE = "It may be a duplicate (see duplicates): of two that say the same, revise the older and erase the newer."
_JOIN = "To join two without losing a sentence: merge(a, b)."


@dataclass(frozen=True, slots=True)
class AnswerLayout:
    """
    How hits are laid out: `head` stands above a text, `pointer` instead of one, and `named` is a near match.

    The first near match is laid out as a hit. `closest` is the advice below them, `nothing` if there are none either.
    """

    head: Callable[..., str]
    pointer: Callable[[Hit], str]
    named: Callable[[Hit], str]
    closest: str
    nothing: str


NOTES = AnswerLayout(
    presentation.head,
    presentation.pointer,
    presentation.named,
    "show(id) reads a note.",
    "Try other words, or a wider filter. get_index() lists what there is.",
)


def answer(result: Answer, layout: AnswerLayout = NOTES, *, takes_also: bool = False, explain: bool = False) -> str:
    """Return a search's answer; `explain` adds the arithmetic. Without hits it says that the tool `takes_also`."""
    state = "\n".join([*(flat(str(each)) for each in result.unmatched), way_on(indexline(result.index))])
    again = f" {_AGAIN}" if takes_also and not result.also else ""
    if not result.hits and not result.closest:
        return f"Nothing found.{again or f' {way_on(layout.nothing)}'}\n{state}"
    if not result.hits:
        first, *others = result.closest
        near = [
            line
            for hit in others
            for line in (f"- {layout.named(hit)}", *presentation.labels(hit, hit.properties), quoted(hit.text))
        ]
        advice = f"{way_on(layout.closest)}{again}".strip()
        lines = ["Not sure; closest:", f"1. {_lay_out(first, layout, explain)}", *near, advice, state]
        return "\n".join(filter(None, lines))
    shown = [hit for hit in result.hits if hit.why["text"] != "unnamed"]
    parts = [f"{len(result.hits)} found, best first."]
    at: dict[str, int] = {}
    for hit in shown:
        if hit.why["text"] == "overturned":  # a line below what supersedes it
            at[hit.path] = at[hit.why["superseded_by"]["path"]]
            parts[at[hit.path]] += f"\n   {layout.named(hit)}: {presentation.superseded(hit.why['superseded_by'])}"
        else:
            at.setdefault(hit.path, len(parts))
            parts.append(f"{len(parts)}. {_lay_out(hit, layout, explain)}")
    if len(shown) < len(result.hits):
        parts.append(f"{len(result.hits) - len(shown)} more: ask with a larger max_tokens.")
    return "\n\n".join([*parts, state])


def _lay_out(hit: Hit, layout: AnswerLayout, explain: bool) -> str:
    if hit.why["text"] == "pointer":
        return layout.pointer(hit)
    excerpt = f"\n   (excerpt of {counted(hit.why['tokens'], 'token')}, with the numbers of its lines)"
    head = f"{layout.head(hit, explain=explain)}{'' if hit.why['text'] == 'whole' else excerpt}"
    return "\n   ".join([f"{head}\n{quoted(hit.text)}", *presentation.beside(hit)])


def indexline(state: State) -> str:
    """Return the state of the index in one line."""
    how = " (being embedded now)" if state.embedding else ""
    waiting = f", {counted(state.pending, 'text')} not yet findable by meaning{how}" if state.pending else ""
    if covered := state.meaning():
        waiting = f", meaning: {covered[0]} % by the second encoder, {covered[1]} % by the embedder{how}"
    degraded = f", DEGRADED: {flat(state.reason)}" if state.degraded else ""
    held = f"{counted(state.notes, 'note')}, {counted(state.chunks, 'chunk')}"
    return f"(index: {held}, generation {state.generation}{waiting}{degraded})"


def topic(
    name: str, chunks: Sequence[StoredChunk], max_tokens: int, backlinks: Sequence[Backlink], old: Mapping[str, Fields]
) -> str:
    """
    Return a topic's chunks in reading order, its backlinks, and pointers to chunks that do not fit.

    What supersedes a note stands in `old` by the note's path.
    """
    linked = _near("Linked from", backlinks, int(max_tokens * _AROUND))
    notes = counted(len({chunk.path for chunk in chunks}), "note")
    head = f"Topic {flat(name)}: {notes}, {counted(len(chunks), 'chunk')}."
    return "\n\n".join([head, *_read(chunks, max_tokens - tokens_of(linked), "search within the topic", old), *linked])


def shown(chunks: Sequence[StoredChunk], around: Around, max_tokens: int, old: Mapping[str, Fields]) -> str:
    """Return a note or one chunk of it, backlinks, related notes, and pointers to chunks that do not fit."""
    lists = (("Linked from", around.backlinks), ("Related", around.related), ("Over time,", around.timeline))
    share = int(max_tokens * _AROUND / len(lists))
    near = [line for heading, listed in lists for line in _near(heading, listed, share)]
    return "\n\n".join([*_read(chunks, max_tokens - tokens_of(near), "read a chunk by its id", old), *near])


def _read(chunks: Sequence[StoredChunk], room: int, instead: str, old: Mapping[str, Fields]) -> list[str]:
    own = {chunk.path: presentation.properties(chunk) for chunk in chunks}
    firsts = {chunk.path: chunk.id for chunk in reversed(chunks)}

    def lay_out(chunk: StoredChunk) -> str:
        trust = presentation.trust(chunk) if firsts[chunk.path] == chunk.id else ""
        mark = presentation.superseded(old[chunk.path]) if chunk.path in old else trust
        labels = presentation.labels(chunk, own.pop(chunk.path, ""))
        head = f"{_head(chunk)} hash: {chunk.hash}"
        return "\n".join(filter(None, (head, mark, *labels, quoted(chunk.text.strip()))))

    parts, left, room = _fitting(chunks, room, lay_out, lambda part: tokens_of([part]))
    if left:
        pointers = [
            f"- {_head(chunk)} about {counted(estimate_tokens(quoted(chunk.text.strip())), 'token')}"
            f"{', superseded' if chunk.path in old else ''}"
            for chunk in left[:_MOST_POINTERS]
        ]
        lacks = f"{counted(len(left), 'chunk')} did not fit; ask with a larger max_tokens or {instead}:"
        parts.append("\n".join([lacks, *_first_that_fit(pointers, room - _MORE_TOKENS)]))
    return parts


def _fitting(
    chunks: Sequence[StoredChunk], room: int, lay_out: Callable[[StoredChunk], T], size: Callable[[T], int]
) -> tuple[list[T], list[StoredChunk], int]:
    """Return chunks, laid out, that fit into `room` tokens, those that do not, and the room for naming the latter."""
    whole = sum(estimate_tokens(chunk.text) + _MORE_TOKENS for chunk in chunks)
    kept = int(room * _POINTERS) if whole > room else 0
    parts: list[T] = []
    left: list[StoredChunk] = []
    for chunk in chunks:
        if (cost := size(part := lay_out(chunk))) <= room - kept:
            room -= cost
            parts.append(part)
        else:
            left.append(chunk)
    return parts, left, room


def topic_json(
    name: str, chunks: Sequence[StoredChunk], max_tokens: int, backlinks: Sequence[Backlink], old: Mapping[str, Fields]
) -> Fields:
    """Return what `topic` returns, for JSON: the chunks that fit, and `left_out`, which names the others."""
    linked = _first_that_fit((each._asdict() for each in backlinks), int(max_tokens * _AROUND))
    return {"topic": name, **_read_json(chunks, max_tokens - _size(linked), old), "backlinks": linked}


def shown_json(
    id: str, chunks: Sequence[StoredChunk], near: Around, max_tokens: int, old: Mapping[str, Fields]
) -> Fields:
    """Return what `shown` returns, for JSON, with the note's frontmatter and links, as much of each as fits."""
    lists = near.as_dict()
    around = {name: _first_that_fit(rows, int(max_tokens * _AROUND / len(lists))) for name, rows in lists.items()}
    meta = dict(_first_that_fit(chunks[0].meta.items(), int(max_tokens * _AROUND)))
    room = max_tokens - _size(around) - _size(meta)
    standing = privacy.standing(chunks[0].meta, chunks[0].updated).as_dict()
    return {"id": id, "path": chunks[0].path, **standing, "meta": meta, **_read_json(chunks, room, old), **around}


def _read_json(chunks: Sequence[StoredChunk], room: int, old: Mapping[str, Fields]) -> Fields:
    def lay_out(chunk: StoredChunk) -> Fields:
        row = presentation.chunk_fields(chunk)
        text = fence(row.pop("text").strip(), chunk)
        return {**row, **({"superseded_by": old[chunk.path]} if chunk.path in old else {}), "text": text}

    rows, left, room = _fitting(chunks, room, lay_out, _size)
    named = [{"id": each.id, "line": each.line, "tokens": estimate_tokens(each.text)} for each in left[:_MOST_POINTERS]]
    more = {"left_out": _first_that_fit(named, room), "left_out_count": len(left)} if left else {}
    return {"chunks": rows, **more}


def _first_that_fit(rows: Iterable[T], room: int) -> list[T]:
    """Return the first rows that fit into `room` tokens as JSON."""
    kept: list[T] = []
    for row in rows:
        room -= _size(row)
        if room < 0:
            break
        kept.append(row)
    return kept


def _size(value: object) -> int:
    """Return an upper estimate of the tokens of a value as JSON."""
    return estimate_tokens(json_of(value)) + 2


def _near(heading: str, listed: Sequence[Backlink | Related], room: int) -> list[str]:
    """Return a heading and as many of the notes below it as fit into `room` tokens."""
    lines = [f"{heading} {counted(len(listed), 'note')}:"]
    for note in listed:
        why = "; ".join(note.why if isinstance(note, Related) else note.relations)
        reason = f": {flat(why)}" if why else ""
        title = f"{presentation.stated(note.title, note.untrusted)}{', untrusted' if note.untrusted else ''}"
        line = f"- [{title}] id: {exact(note.id)} ({exact(note.path)}){reason}"
        if tokens_of([*lines, line]) > room - _MORE_TOKENS:
            lines.append(f"- … {len(listed) - len(lines) + 1} more")
            break
        lines.append(line)
    return ["\n".join(lines)] if listed else []


def recent(listed: Recent, offset: int) -> str:
    """Return notes by their dates, one a line: date, title, id, category/topic."""
    if not listed.notes:
        return f"No notes here; {listed.total} in all."
    shown = f"Notes {offset + 1} to {offset + len(listed.notes)} of {listed.total}, newest first."
    lines = [
        f"- {newest.date_of(one)[:10]} {presentation.title_of(one)} id: {exact(one.note)} {presentation.filed_of(one)}"
        for one in listed.notes
    ]
    return "\n".join([shown, *lines])


def contents(
    categories: Sequence[Category], state: State, max_tokens: int, about: Callable[[Topic], TopicSummary]
) -> str:
    """
    Return the table of contents within `max_tokens`: categories with their topics, largest first.

    Names come first, as many as fit. The remaining room is for sizes, dates and summaries of topics, the largest first,
    and descriptions of their categories.
    """
    topics = sum(len(each.topics) for each in categories)
    whole = f"{counted(state.notes, 'note')}, {counted(state.chunks, 'chunk')}"
    lines = [f"{whole}, {counted(topics, 'topic')} in {counted(len(categories), 'category', 'categories')}."]
    last = ["", way_on(_INTO)]
    room = max_tokens - tokens_of([*lines, *last])
    named, is_all = _names(categories, room)
    held = [[each] for each in named]
    if is_all:
        _pick_out(held, categories, room - tokens_of(named), about)
    return "\n".join([*lines, *(line for each in held for line in each), *last])


def contents_json(categories: Sequence[Category], max_tokens: int, about: Callable[[Topic], TopicSummary]) -> Fields:
    """
    Return the table of contents for JSON within `max_tokens`: categories with their topics, largest first.

    Each category gives a topic in turn, with all of its fields, while there is room. `topic_count` and the totals count
    all topics; with `truncated`, `left_out` counts the missing ones.
    """
    listing: Fields = {"categories": [], **toc.totals(categories)}
    room = max_tokens - _size({**listing, "truncated": True, "left_out": {"categories": 0, "topics": 0}})
    half = room // 2
    for category in categories:
        row = {
            "id": category.name,
            "name": category.name,
            "description": category.description,
            "topic_count": len(category.topics),
        }
        if (left := half - _size({**row, "topics": []})) < 0 and listing["categories"]:
            break
        room, half = room - half + left, left
        listing["categories"].append({**row, "topics": []})
    turns = sorted(_largest(categories[: len(listing["categories"])]), key=lambda each: each[1])
    shown = 0
    for at, _, topic in turns[: max_tokens // _MORE_TOKENS]:  # no topic takes less
        if (cost := _size(row := _topic_row(topic, about(topic)))) <= room:
            room, shown = room - cost, shown + 1
            listing["categories"][at]["topics"].append(row)
    missing = {"categories": len(categories) - len(listing["categories"]), "topics": listing["total_topics"] - shown}
    return {**listing, **({"truncated": True, "left_out": missing} if any(missing.values()) else {})}


def _topic_row(topic: Topic, main: TopicSummary) -> Fields:
    return {
        "id": presentation.filed(topic.category, topic.topic),
        "title": (presentation.cut(main.title) if main.is_outside else main.title) or topic.topic,
        "summary": presentation.cut(main.summary) if main.is_outside else main.summary,
        "category": topic.category,
        "chunk_count": topic.chunks,
        "keywords": [*topic.keywords[:_MOST_KEYWORDS]],
        "last_updated": topic.updated,
        **({"untrusted": True} if main.is_outside or topic.is_outside else {}),
    }


def _pick_out(
    lines: list[list[str]], categories: Sequence[Category], left: int, about: Callable[[Topic], TopicSummary]
) -> None:
    """Give the largest topics lines of their own, with summaries, while they fit; the others stay in one line."""
    for at, number, topic in _largest(categories):
        if left < _MORE_TOKENS:
            return
        rest = "; ".join(f"{_topic_name(each)} ({each.chunks})" for each in categories[at].topics[number:])
        full = [
            *(lines[at][:number] if number > 1 else [_heading(categories[at])]),
            _row_about(topic, about),
            *([f"- {rest}"] if rest else []),
        ]
        left -= tokens_of(full) - tokens_of(lines[at])
        if left < 0:
            return
        lines[at] = full


def _largest(categories: Sequence[Category]) -> list[tuple[int, int, Topic]]:
    """Return all topics, largest first, each with the index of its category and its own number in it, from 1."""
    topics = [(at, number, topic) for at, each in enumerate(categories) for number, topic in enumerate(each.topics, 1)]
    return sorted(topics, key=lambda each: -each[2].chunks)


def _names(categories: Sequence[Category], room: int) -> tuple[list[str], bool]:
    """Return a line for each category with as many names of topics as fit, in turn, and whether all of them fit."""
    whole = [_names_line(each, len(each.topics)) for each in categories]
    if tokens_of(whole) <= room:
        return whole, True

    def lines(shown: int, names: int) -> list[str]:
        each = [
            _names_line(category, (names + shown - 1 - at) // shown) for at, category in enumerate(categories[:shown])
        ]
        # A name may be shorter than how to list the others.
        return [min(pair, key=len) for pair in zip(whole, each, strict=False)]

    shown, rest = len(categories), []
    if tokens_of(lines(shown, 0)) > room:
        room -= _MORE_TOKENS
        shown = bisect_right(range(1, shown), room, key=lambda count: tokens_of(lines(count, 0)))
        left_out = len(categories) - shown
        rest = [f"\n… {left_out} smaller categories: search, or get_index with a larger max_tokens"]
    most = shown * max((len(each.topics) for each in categories), default=0)
    return lines(
        shown, bisect_right(range(1, most), room, key=lambda names: tokens_of(lines(shown, names)))
    ) + rest, False


def _names_line(category: Category, names: int) -> str:
    """Return the line of a category with the names of its largest topics, and how to list the others."""
    listed = [_topic_name(each) for each in category.topics[:names]]
    if (rest := len(category.topics) - names) > 0:
        scope = (
            f"(scope={json_of(category.name)})" if category.name else " with a folder as scope, or a larger max_tokens"
        )
        listed.append(f"… {rest} {'smaller ' if names else ''}topics: get_index{scope}")
    return f"\n{_category_name(category)}: {'; '.join(listed)}"


def _category_name(category: Category) -> str:
    return presentation.category_of(category.name, category.is_outside) or "(no category)"


def _heading(category: Category) -> str:
    what = f" ({flat(category.description)})" if category.description else ""
    count = f"{counted(len(category.topics), 'topic')}, {counted(category.chunks, 'chunk')}"
    return f"\n{_category_name(category)}{what}: {count}, last update {category.updated[:10]}"


def _topic_name(topic: Topic) -> str:
    named = presentation.stated(topic.topic, topic.is_outside) or "(top folder)"
    return f"{named}{presentation.UNTRUSTED if topic.is_outside else ''}"


def _row_about(topic: Topic, about: Callable[[Topic], TopicSummary]) -> str:
    """Return the line of a topic with its title, summary and keywords."""
    main = about(topic)
    title = main.title if fold(main.title) not in fold(topic.topic) else ""
    stated = (presentation.stated(text, main.is_outside) for text in (title, main.summary))
    words = [presentation.stated(word, topic.is_outside) for word in topic.keywords[:_MOST_KEYWORDS]]
    mark = presentation.UNTRUSTED if main.is_outside and not topic.is_outside else ""
    row = f"- {_topic_name(topic)} ({topic.chunks}, {topic.updated[:10]}){mark}"
    return ": ".join(filter(None, (row, *stated))) + (f" [{', '.join(words)}]" if words else "")


def tokens_of(lines: Sequence[str]) -> int:
    """Return an upper estimate of the tokens of lines, with their line breaks."""
    return sum(estimate_tokens(line) + 2 for line in lines)


def fence_texts(answer: Answer) -> Answer:
    """Return an answer for JSON, in which texts from outside are fenced and labelled."""
    hits, closest = (tuple(map(fence_hit, listed)) for listed in (answer.hits, answer.closest))
    return replace(answer, hits=hits, closest=closest)


def fence_hit(hit: Hit) -> Hit:
    """Return a hit for JSON, in which texts from outside are fenced and labelled."""
    beside = {side: {**one, "line": fence(one["line"], hit)} for side, one in hit.neighbours.items()}
    return replace(hit, text=fence(hit.text, hit), properties=fence(hit.properties, hit), neighbours=beside)


def _head(chunk: StoredChunk) -> str:
    return f"[{presentation.titles(chunk)}] id: {exact(chunk.id)} ({exact(chunk.path)}:{chunk.line})"


def fence(text: str, by: Hit | StoredChunk) -> str:
    """Return a text of the note of a hit or a chunk for JSON, fenced and labelled if it comes from outside."""
    label = presentation.outside(by)
    if not text or not label:
        return text
    # The fence is longer than any fence in the text, so that the text cannot close it.
    tildes = "~" * max(3, 1 + max(map(len, re.findall("~+", text)), default=0))
    return f"{label}\n{tildes}\n{text}\n{tildes}"


def scribed(done: Scribed) -> list[Fields]:
    """Return the result of writing each chunk, for JSON."""
    if not done.written:
        return [
            {
                "status": "warning" if repeats else "not written",
                "message": _REFUSED if repeats else _BESIDE,
                "duplicates": [asdict(each) for each in repeats],
                "warnings": list(warnings),
            }
            for repeats, warnings in zip(done.duplicates, done.warnings, strict=True)
        ]
    return [
        {
            "status": "success",
            "message": " ".join([_PENDING if each.pending else _WRITTEN, *([_ALIKE, _JOIN] if repeats else [])]),
            "chunk_id": each.chunk_id,
            "path": each.path,
            "generation": each.generation,
            **({"duplicates": [asdict(repeat) for repeat in repeats]} if repeats else {}),
            **superseding_fields(done, number),
            "warnings": list(warnings),
        }
        for number, (each, warnings, repeats) in enumerate(
            zip(done.written, done.warnings, done.duplicates, strict=True)
        )
    ]
