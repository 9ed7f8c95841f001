"""
Answers as one text for the model that reads them: short, and with ids.

Every line of a note's text is marked, so that no note can imitate a line of Spellbook; see `text.quoting`. Text that
came from outside is labelled as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from spellbook.editing.scribed import Scribed
from spellbook.editing.write import superseding_fields
from spellbook.index import privacy
from spellbook.index.catalog.rows import StoredChunk
from spellbook.mcp.tool_names import way_on
from spellbook.notes.article_text import cut
from spellbook.search import newest, note_marks, presentation
from spellbook.search.question import Answer, State
from spellbook.search.related import Around, Backlink, Related
from spellbook.search.scores import Hit
from spellbook.text.quoting import counted, exact, fence_of, flat, json_of, quoted
from spellbook.text.terms import estimate_tokens

T = TypeVar("T")
Fields = dict[str, Any]

_MOST_POINTERS = 50
MORE_TOKENS = 30
"""Tokens reserved for the line that says what was left out."""

_POINTERS = 0.25
"""Largest share of an answer for pointers to chunks that do not fit. By hand."""

_AROUND = 0.2
"""Largest share of an answer for backlinks and related notes."""

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
            line for hit in others for line in (f"- {layout.named(hit)}", *presentation.labels(hit), quoted(hit.text))
        ]
        advice = f"{way_on(layout.closest)}{again}".strip()
        head = f"Not sure; closest:\n1. {_lay_out(first, layout, explain)}"
        return "\n".join(filter(None, (head, *near, advice, state)))
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
    firsts = {chunk.path: chunk.id for chunk in reversed(chunks)}

    def lay_out(chunk: StoredChunk) -> str:
        marks = note_marks.of(chunk)
        trust, own = (marks.trust, marks.properties) if firsts[chunk.path] == chunk.id else ("", "")
        stands = presentation.superseded(old[chunk.path]) if chunk.path in old else trust
        head = f"{_head(chunk)} hash: {chunk.hash}"
        return "\n".join(filter(None, (head, stands, *marks.lines(own), quoted(chunk.text.strip()))))

    parts, left, room = _fitting(chunks, room, lay_out, lambda part: tokens_of([part]))
    if left:
        pointers = [
            f"- {_head(chunk)} about {counted(estimate_tokens(quoted(chunk.text.strip())), 'token')}"
            f"{', superseded' if chunk.path in old else ''}"
            for chunk in left[:_MOST_POINTERS]
        ]
        named = first_that_fit(pointers, room - MORE_TOKENS)
        lacks = f"{counted(len(left), 'chunk')} did not fit; ask with a larger max_tokens or {instead}"
        parts.append("\n".join([f"{lacks}{':' if named else '.'}", *named]))
    return parts


def _fitting(
    chunks: Sequence[StoredChunk], room: int, lay_out: Callable[[StoredChunk], T], size: Callable[[T], int]
) -> tuple[list[T], list[StoredChunk], int]:
    """Return chunks, laid out, that fit into `room` tokens, those that do not, and the room for naming the latter."""
    whole = sum(estimate_tokens(chunk.text) + MORE_TOKENS for chunk in chunks)
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
    linked = first_that_fit((each._asdict() for each in backlinks), int(max_tokens * _AROUND))
    return {"topic": name, **_read_json(chunks, max_tokens - size_of(linked), old), "backlinks": linked}


def shown_json(
    id: str, chunks: Sequence[StoredChunk], near: Around, max_tokens: int, old: Mapping[str, Fields]
) -> Fields:
    """Return what `shown` returns, for JSON, with the note's frontmatter and links, as much of each as fits."""
    lists = near.as_dict()
    around = {name: first_that_fit(rows, int(max_tokens * _AROUND / len(lists))) for name, rows in lists.items()}
    meta = dict(first_that_fit(chunks[0].meta.items(), int(max_tokens * _AROUND)))
    room = max_tokens - size_of(around) - size_of(meta)
    standing = privacy.standing(chunks[0].meta, chunks[0].updated).as_dict()
    return {"id": id, "path": chunks[0].path, **standing, "meta": meta, **_read_json(chunks, room, old), **around}


def _read_json(chunks: Sequence[StoredChunk], room: int, old: Mapping[str, Fields]) -> Fields:
    def lay_out(chunk: StoredChunk) -> Fields:
        row = presentation.chunk_fields(chunk)
        text = fence(row.pop("text").strip(), note_marks.of(chunk).origin)
        return {**row, **({"superseded_by": old[chunk.path]} if chunk.path in old else {}), "text": text}

    rows, left, room = _fitting(chunks, room, lay_out, size_of)
    named = [{"id": each.id, "line": each.line, "tokens": estimate_tokens(each.text)} for each in left[:_MOST_POINTERS]]
    more = {"left_out": first_that_fit(named, room), "left_out_count": len(left)} if left else {}
    return {"chunks": rows, **more}


def size_of(value: object) -> int:
    """Return an upper estimate of the tokens of a value as JSON."""
    return estimate_tokens(json_of(value)) + 2


def first_that_fit(rows: Iterable[T], room: int, size: Callable[[T], int] = size_of) -> list[T]:
    """Return the first rows that fit into `room` by their `size`, which is in tokens as JSON by default."""
    kept: list[T] = []
    for row in rows:
        room -= size(row)
        if room < 0:
            break
        kept.append(row)
    return kept


def beginning(text: str, room: int, size: Callable[[str], int]) -> str:
    """Return as much of the beginning of a text as has `room` by its `size`, ended by a sentence or by …"""
    if size(text) <= room:
        return text
    end = len(text)
    while end and (over := size(text[:end]) + 2 - room) > 0:
        end -= min(end, over)
    whole = cut(text, end) if end else ""
    return whole if not whole or whole.endswith((".", "!", "?", "…")) else f"{whole.rstrip()} …"


def _near(heading: str, listed: Sequence[Backlink | Related], room: int) -> list[str]:
    """Return a heading and as many of the notes below it as fit into `room` tokens."""
    lines = [f"{heading} {counted(len(listed), 'note')}:"]
    for note in listed:
        why = "; ".join(note.why if isinstance(note, Related) else note.relations)
        reason = f": {flat(why)}" if why else ""
        title = f"{note_marks.stated(note.title, note.untrusted)}{', untrusted' if note.untrusted else ''}"
        line = f"- [{title}] id: {exact(note.id)} ({exact(note.path)}){reason}"
        if tokens_of([*lines, line]) > room - MORE_TOKENS:
            lines.append(f"- … {len(listed) - len(lines) + 1} more")
            break
        lines.append(line)
    return ["\n".join(lines)] if listed else []


def recent(listed: newest.Recent, offset: int) -> str:
    """Return notes by their dates, one a line: date, title, id, category/topic."""
    if not listed.notes:
        return f"No notes here; {listed.total} in all."
    shown = f"Notes {offset + 1} to {offset + len(listed.notes)} of {listed.total}, newest first."
    lines = [
        f"- {newest.date_of(one)[:10]} {marks.title} id: {exact(one.note)} {marks.filed}"
        for one, marks in zip(listed.notes, map(note_marks.of, listed.notes), strict=True)
    ]
    return "\n".join([shown, *lines])


def tokens_of(lines: Sequence[str]) -> int:
    """Return an upper estimate of the tokens of lines, with their line breaks."""
    return sum(estimate_tokens(line) + 2 for line in lines)


def fence_texts(answer: Answer) -> Answer:
    """Return an answer for JSON, in which texts from outside are fenced and labelled."""
    hits, closest = (tuple(map(fence_hit, listed)) for listed in (answer.hits, answer.closest))
    return replace(answer, hits=hits, closest=closest)


def fence_hit(hit: Hit) -> Hit:
    """Return a hit for JSON, in which texts from outside are fenced and labelled."""
    label = hit.marks.origin
    beside = {side: {**one, "line": fence(one["line"], label)} for side, one in hit.neighbours.items()}
    return replace(hit, text=fence(hit.text, label), properties=fence(hit.properties, label), neighbours=beside)


def _head(chunk: StoredChunk) -> str:
    return f"[{note_marks.of(chunk).titles}] id: {exact(chunk.id)} ({exact(chunk.path)}:{chunk.line})"


def fence(text: str, label: str) -> str:
    """Return a text for JSON, fenced and with the label that its note's `origin` is; as it is without one."""
    if not text or not label:
        return text
    tildes = fence_of(text, "~")
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
