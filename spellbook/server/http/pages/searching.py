"""The page that searches, with the found words marked and the reasons of each hit."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from spellbook.library import earlier
from spellbook.models.services import guess
from spellbook.search import presentation
from spellbook.server.http.api import finding
from spellbook.server.http.pages import rendering, view
from spellbook.server.http.pages.view import View

MODES = {"search": "Meaning and words", "memorize": "Meaning", "find": "Words"}
DAYS = {"7": "the last week", "30": "the last month", "365": "the last year"}
_MOST_CATEGORIES = 40
_HITS = 20


def search(shown: View) -> Response:
    """Ask, narrow, and see why something was found, or was not."""
    wanted = {
        key: shown.query.get(key, "").strip() for key in ("q", "mode", "category", "days", "tag", "as_of", "missing")
    }
    wanted["mode"] = wanted["mode"] if wanted["mode"] in MODES else "search"
    values: dict[str, Any] = {"wanted": wanted, "modes": MODES, "days": DAYS, "answer": None, "missing": None}
    values |= {"failure": "", "guess_at": ""}
    if wanted["q"]:
        options: dict[str, Any] = {"query": wanted["q"], "mode": wanted["mode"], "limit": _HITS}
        if limits := _filter(wanted):
            options["filter"] = limits
        if shown.book.config.guesser and wanted["mode"] == "search":
            if shown.is_part and "guess" not in shown.query:  # somebody still types
                values["guess_at"] = f"/search?{urlencode({**wanted, 'guess': '1'})}"
            else:
                options["also"], values["failure"] = guess.guess(shown.book.config.guesser, wanted["q"])
        words = rendering.found_words(wanted["q"])
        with earlier.at(shown.book, wanted["as_of"]) as then:
            values |= {
                "answer": finding.answer(then, **options, per_note=3, max_tokens=8_000),
                "of_then": earlier.sentences(then),
            }
        values |= {
            "excerpt": lambda hit: rendering.excerpt(hit.text, words, hit.heading),
            "marked": lambda text: rendering.marked(text, words),
            "present": presentation,
        }
        if wanted["missing"] and not wanted["as_of"]:
            values["missing"] = shown.ask(finding.why, id=wanted["missing"], **options)
    counts = Counter[str]()
    if not shown.is_part:
        shown.book.refresh()
        for category, _, notes in shown.book.index.catalog.topic_counts(shown.book.index.visible):
            counts[category] += notes
    categories = [name for name, _ in counts.most_common(_MOST_CATEGORIES) if name]
    return shown.page("hits.html" if shown.is_part else "search.html", categories=categories, **values)


def _filter(wanted: dict[str, str]) -> dict[str, Any]:
    """Return the filter that the chips say."""
    limits: dict[str, Any] = {}
    if wanted["category"]:
        limits["category"] = wanted["category"]
    if wanted["tag"]:
        limits["tags"] = wanted["tag"]
    if wanted["days"] in DAYS:
        try:
            today = dt.date.fromisoformat(wanted["as_of"])
        except ValueError:
            today = dt.date.today()
        limits["when"] = f"{today - dt.timedelta(days=int(wanted['days']))}.."
    return limits


ROUTES = [view.page("/search", search, guesses=True)]
