"""The page of decisions: each topic's as a chain in time, with outcomes; and checkpoints with their steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from spellbook.memories.decisions import DecisionItem
from spellbook.notes import decisions as form
from spellbook.server.http.api import changes
from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View

_MOST = 100
_CHECKPOINTS = 3


def page(shown: View) -> Response:
    """List decisions by topic, the latest topic first and its earliest decision first, and the newest checkpoints."""
    topic, outcome = shown.query.get("topic", ""), shown.query.get("outcome", "")
    outcome = outcome if outcome in {*form.RESULTS, "pending"} else ""
    decisions = shown.book.memories.decisions.find(kind=form.DECISION, limit=_MOST, topic=topic, outcome=outcome)
    checkpoints = shown.book.memories.decisions.find(kind=form.CHECKPOINT, limit=_CHECKPOINTS)
    return shown.page(
        "decisions.html",
        chains=_chains(decisions.items),
        titles={item.chunk.note: item.chunk.title for item in decisions.items},
        total=decisions.total,
        shown_count=len(decisions.items),
        topic=topic,
        outcome=outcome,
        outcomes=("pending", *form.RESULTS),
        results=tuple(form.RESULTS),
        checkpoints=[(each, form.read_checkpoint(each.body)) for each in checkpoints.items],
    )


def _chains(items: Sequence[DecisionItem]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the decisions of each topic, the earliest first. They come newest first, so topics do too."""
    chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in items:
        chains[item.chunk.topic].insert(
            0, {**item.as_dict(), "title": item.chunk.title, "is_superseded": item.is_superseded}
        )
    return list(chains.items())


def outcome(shown: View) -> Response:
    """Record how a decision turned out."""
    fields = {"outcome": shown.form.get("outcome", ""), "reason": shown.form.get("reason", "").strip()}
    done = shown.ask(changes.outcome, shown.form.get("id", ""), **fields)
    return shown.back(shown.entry("revise", done["path"]))


ROUTES = [view.page("/decisions", page), view.action("/do/outcome", outcome)]
