"""The decisions toolset: decisions with their reasons and outcomes, and checkpoints. See `memories.decisions`."""

from __future__ import annotations

from typing import Any

from spellbook.library.reader import Reader
from spellbook.mcp.tool import ADD, CHANGE, READ, as_json, tool
from spellbook.memories.decisions import FoundDecisions
from spellbook.notes.dates import VALID
from spellbook.notes.labels import DECISION
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import exact, filled, flat, quoted, shortened
from spellbook.verbs import memories

_OF_DECISION = ("topic", "decision", "reasoning", "confidence", "supersedes", "user_involvement", *VALID)
_OF_CHECKPOINT = ("summary", "next_steps", "open_files")
_SHORT = 200
"""Letters of each further decision where nothing is sure."""


@tool("Save a decision or a checkpoint", ADD, memories.SAVE_DECISION)
def mama_save(book: Reader, type: str, session_id: str, force: bool, **fields: Any) -> str:
    """
    Save a decision with its reason (topic, decision), or a checkpoint of work under way (summary, next_steps).

    Nothing is superseded unless supersedes says so; the answer names living decisions of the topic that are near.
    """
    wrong, own = (_OF_CHECKPOINT, _OF_DECISION) if type == DECISION else (_OF_DECISION, _OF_CHECKPOINT)
    if foreign := [name for name in wrong if fields[name]]:
        raise InvalidInput(f"A {type} has no {', '.join(foreign)}.", "Nothing was written.")
    save = book.memories.decisions.save if type == DECISION else book.memories.decisions.checkpoint
    return as_json(**save(**{name: fields[name] for name in own}, session=session_id, force=force))


@tool("Search decisions", READ, memories.SEARCH_DECISIONS)
def mama_search(book: Reader, type: str, format: str, **question: Any) -> str:
    """
    Find decisions and checkpoints alone, by topic or outcome; without a query the newest ones.

    Each with its reason, its outcome, and what replaced it. Look here before deciding again.
    """
    decisions = book.memories.decisions.find(kind=type, **question)
    if format == "json":
        items, closest = ([each.as_dict() for each in some] for some in (decisions.items, decisions.closest))
        sure = {"sure": bool(items)} if decisions.best else {}  # without a query there is nothing to be sure of
        return as_json(**sure, items=items, total_count=decisions.total, **filled(closest=closest))
    return _lay_out(decisions, question["max_tokens"])


@tool("Record an outcome", CHANGE, memories.UPDATE_DECISION)
def mama_update(book: Reader, **fields: Any) -> str:
    """
    Record how a decision turned out, or which older decisions it replaces.

    Earlier outcomes stay in the note as its history.
    """
    return as_json(**book.memories.decisions.update(**fields))


@tool("Load the last checkpoint", READ, memories.CHECKPOINT)
def mama_checkpoint(book: Reader, format: str) -> str:
    """Load the newest checkpoint: where the work stands, the steps with their boxes, and decisions since."""
    checkpoint = book.memories.decisions.newest_checkpoint()
    if format == "json":
        return as_json(checkpoint=checkpoint and checkpoint.as_dict())
    none = "No checkpoint yet: mama_save(type='checkpoint', …) makes one."
    return "\n".join(checkpoint.lines()) if checkpoint else none


def _lay_out(decisions: FoundDecisions, max_tokens: int) -> str:
    """Return what was found as text, as much of each as fits."""
    order = "best first" if decisions.best else "newest first"
    shown = decisions.items or decisions.closest
    if not shown:
        return "Nothing found. mama_save(type='decision', topic, decision) keeps one."
    lines = [f"{len(shown)} of {decisions.total:,} found, {order}." if decisions.items else "Not sure; closest:"]
    room = max_tokens * 3 // len(shown)  # letters of each: a token has about three
    for number, item in enumerate(shown, 1):
        row = item.as_dict()
        score = f"[{item.similarity:.2f}] " if item.similarity is not None else ""
        sure = f", confidence {flat(str(row['confidence']))}" if row.get("confidence") is not None else ""
        facts = f"({flat(item.chunk.topic)}, {flat(row['created_at'][:10])}{sure})"
        turned = (
            f" outcome: {flat(str(item.outcome))}"
            if item.kind == DECISION and item.outcome not in {None, "pending"}
            else ""
        )
        by = f" superseded by {exact(item.superseded_by)}" if item.superseded_by else ""
        replaces = f" replaces {', '.join(map(exact, item.supersedes))}" if item.supersedes else ""
        lines.append(f"{number}. {score}{flat(item.chunk.title)} {facts}{turned}{by}")
        lines.append(f"   id: {exact(item.chunk.note)}{replaces}")
        if item.superseded_by not in {each.chunk.note for each in shown}:
            is_short = number > 1 and not decisions.items
            lines.append(quoted(shortened(item.body.strip(), _SHORT if is_short else room)))
    return "\n".join(lines)
