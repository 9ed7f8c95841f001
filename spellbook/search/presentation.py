"""
How a hit or a chunk is shown in one line each: titles, place, score, reasons. Tools and the command line both use it.

Whatever a note says of itself stays within its line; see `text.quoting`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spellbook.index import privacy
from spellbook.search import weights
from spellbook.search.note_marks import cut, stated
from spellbook.system.lazy import regex
from spellbook.text.quoting import counted, exact, flat, json_of, one_line

if TYPE_CHECKING:
    from spellbook.index.catalog.rows import Place, StoredChunk
    from spellbook.search.related import Around
    from spellbook.search.scores import Hit

_SHOWN_TEXT = 40
"""Letters of a question's text where a hit says which text found it."""
_MOST_WORDS = 6
"""Words of a question that a hit names as its reason."""
_LEAST_SHARE = 0.03
"""Share of a score from which on its reason is given in words. By hand."""
_OF_SESSION = regex(r"(?m)^(?:\d+: )?<!-- \d{4}-\d\d-\d\d [0-9a-f]{16} -->(?:\n|$)|^(\d+: |)> ?")
"""The line with an exchange's key, and a quote's mark, also behind the number of an excerpt's line."""


def place(at: Hit | StoredChunk | Place) -> str:
    """Return path and line for a person, as an editor takes them: `a.md:3`."""
    return f"{name(at.path)}:{at.line}"


def name(text: str) -> str:
    """Return an id or a path for a person; two spaces in it must not look like those between columns."""
    return exact(text) if "  " in text else one_line(text)


def shares(legs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the parts of the legs' shares by their names, the first with the leg's rank, and the synonyms found."""
    by_meaning = {"text": "text", "title": "title", "question": "question of the note", "note": "whole note"}
    by_words = {"text": "words here", "note": "words of the note"}
    listed = []
    for name, called in (("semantic", by_meaning), ("keyword", by_words)):
        if (leg := legs.get(name)) is None:
            continue
        rank = f" (#{leg['rank']})" if leg["rank"] else ""
        for part, share in leg["parts"].items() or (("text", 0.0),):
            listed.append(f"{called[part]} {share:.2f}{rank}")
            rank = ""
        listed += [f"words: {flat(same)}" for same in leg.get("synonyms", ())]
    return listed


def why(hit: Hit, translate: Callable[[str], str] = str) -> str:
    """Return in words why a hit was found, each reason by `translate`; `reasons` has the arithmetic."""
    meaning, by_meaning = _leg(hit, "semantic")
    words, by_words = _leg(hit, "keyword")
    named = hit.why.get("words", ())
    phrases = []
    if meaning >= _LEAST_SHARE:
        best = max(by_meaning, key=lambda part: by_meaning[part], default="text")
        nearness = by_meaning[best] * hit.why["semantic"]["score"] / meaning + weights.QUESTION_COST
        asked = "by a question that it answers" if nearness >= weights.SAME_QUESTION else "near a question of this note"
        phrases.append({"title": "by its title", "question": asked}.get(best, "by meaning"))
    if named:
        text = f"{hit.marks.titles} {hit.chunk.text}"

        def spelt(word: str) -> str:  # a word of a table as the text has it, as `Redis` for `redis`
            at = text.lower().find(word)
            return text[at : at + len(word)] if at >= 0 else word

        listed = [" = ".join((name, *map(spelt, others))) for name, *others in named[:_MOST_WORDS]]
        phrases.append(f"words: {flat(', '.join(listed))}{', …' if len(named) > _MOST_WORDS else ''}")
    elif by_words.get("note", 0.0) >= _LEAST_SHARE:
        phrases.append("words elsewhere in its note")
    phrases += [flat(one["reason"]) for one in hit.why.get("adjustments", ()) if one["share"] >= _LEAST_SHARE]
    return "; ".join(map(translate, phrases or ["by words" if words else "by meaning"]))


def _leg(hit: Hit, name: str) -> tuple[float, Mapping[str, float]]:
    """Return the share of a leg in a hit's score, and its parts."""
    leg = hit.why.get(name, {})
    return leg.get("share", 0.0), leg.get("parts", {})


def reasons(hit: Hit, translate: Callable[[str], str] = str) -> list[str]:
    """Return the arithmetic of a hit, each reason by `translate`; the shares add up to its score."""
    adjusted = [f"{translate(flat(one['reason']))} {one['share']:+.2f}" for one in hit.why.get("adjustments", ())]
    texts = [f"{json_of(cut(one['text'], _SHOWN_TEXT))} {one['score']:.2f}" for one in hit.why.get("texts", ())]
    by_text = [f"by text: {', '.join(texts)}"] if texts else []
    parts = [*map(translate, shares(hit.why)), *adjusted] or [translate("no leg")]
    return [*parts, *map(translate, by_text)]


def score_line(hit: Hit) -> str:
    """Return the line that explains a hit's score."""
    return f"score: {', '.join(reasons(hit))}"


def head(hit: Hit, *, explain: bool = False) -> str:
    """Return the lines above a hit's text; with `explain` also the hash of the text and the arithmetic of the score."""
    linked = f"linked from {counted(hit.backlinks, 'note')}" if hit.backlinks else ""
    updated = f"updated {flat(hit.updated[:10])}" if hit.updated else ""
    about = hit.chunk.meta if hit.category == "article" else {}
    written = [(word, str(about.get(key) or "")) for word, key in (("by ", "author"), ("", "published"))]
    byline = (f"{word}{stated(label, hit.marks.is_outside)}" for word, label in written if label)
    facts = ", ".join(filter(None, (hit.marks.filed, *byline, updated, linked)))
    at = f"{exact(hit.path)}:{hit.line}" + (f" ({facts})" if facts else "")
    id = f"id: {exact(hit.id)}" + (f" hash: {hit.hash}" if explain else "")
    score = score_line(hit) if explain else ""
    lines = (f"[{hit.score:.2f}] {hit.marks.titles}", id, at, f"why: {why(hit)}", score, *standing(hit))
    return "\n   ".join(filter(None, (*lines, *labels(hit))))


def beside(hit: Hit, translate: Callable[[str], str] = str) -> list[str]:
    """Return the exchanges before and after a hit of a conversation, a line each: its words as data, and its id."""
    return [f"{translate(side)}: {json_of(one['line'])} id: {exact(one['id'])}" for side, one in hit.neighbours.items()]


def standing(hit: Hit) -> list[str]:
    """Return what to know of a note before relying on it, a line each: how it turned out, and what supersedes it."""
    by = hit.why.get("superseded_by")
    stands = hit.marks.trust if by is None else superseded(by)
    return [*filter(None, (hit.outcome and f"outcome: {hit.outcome}", stands))]


def superseded(by: Mapping[str, Any]) -> str:
    """Return "superseded by TITLE id: ID", or just "superseded" if the caller may not see the successor."""
    return f"superseded by {flat(cut(by['title']))} id: {exact(by['id'])}" if by else "superseded"


def labels(hit: Hit) -> list[str]:
    """Return the lines right above a hit's text; see `Marks.lines`."""
    return hit.marks.lines(hit.properties, hit.why.get("cited", ()))


def _marks(hit: Hit) -> str:
    """Return what to know of a hit in a few words, as the end of a list."""
    gone = hit.marks.lapsed if hit.why.get("superseded_by") is None else "superseded"
    return "".join(f", {mark}" for mark in (hit.outcome, gone, hit.marks.period) if mark)


def pointer(hit: Hit) -> str:
    """Return the one line that stands for a hit without its text."""
    size = f"{counted(hit.why.get('tokens', 0), 'token')}, left out for space{_marks(hit)}"
    return f"[{hit.score:.2f}] {hit.marks.titles} ({size}) id: {exact(hit.id)}"


def named(hit: Hit) -> str:
    """Return the one line that names a near match that is no hit."""
    return f"[{hit.score:.2f}] {hit.marks.titles} ({exact(hit.path)}:{hit.line}{_marks(hit)}) id: {exact(hit.id)}"


def spoken(text: str, hit: Hit) -> str:
    """Return a text of a hit as it is shown: of a session without the marks that only Spellbook needs."""
    return _OF_SESSION.sub(r"\1", text) if hit.marks.is_session else text


def waiting(number: int, since: str) -> str:
    """Say how many notes wait for the person's review, and since when; "" for none."""
    if number < 2:
        return f"1 note waits for you, since {since}" if number else ""
    return f"{counted(number, 'note')} wait for you, the oldest since {since}"


_OF_CHUNK = "id path line end_line title heading text topic category importance created updated hash"


def chunk_fields(chunk: StoredChunk) -> dict[str, Any]:
    """Return what JSON shows of a chunk."""
    return {key: getattr(chunk, key) for key in _OF_CHUNK.split()}


def note_fields(
    id: str, chunks: Sequence[StoredChunk], around: Around, old: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return what the command line's JSON and the API show of a note, or of one chunk of it."""
    first, shown = chunks[0], [*map(chunk_fields, chunks)]
    gone = {"superseded_by": old[first.path]} if first.path in old else {}
    about = {"path": first.path, **gone, **privacy.standing(first.meta, first.updated).as_dict()}
    return {"id": id, **about, "meta": dict(first.meta), "chunks": shown, **around.as_dict()}


def relations(around: Around) -> dict[str, list[str]]:
    """Return the ids of related notes by relation; those that other notes say begin with `by:`."""
    named: dict[str, list[str]] = {}
    for link in around.links:
        if link.relation and link.id:
            named.setdefault(link.relation, []).append(link.id)
    for back in around.backlinks:
        for relation in back.relations:
            named.setdefault(f"by:{relation}", []).append(back.id)
    return {key: list(dict.fromkeys(ids)) for key, ids in named.items()}
