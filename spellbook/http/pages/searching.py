"""The page that searches: a hit a note, ten at a time, with the found words marked and the reasons in words."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from spellbook.http.api import finding
from spellbook.http.pages import rendering, view
from spellbook.http.pages.view import View
from spellbook.search import packing, presentation
from spellbook.search.ranking import Hit
from spellbook.search.scores import FOREIGN
from spellbook.settings.limits import MOST_HITS
from spellbook.text import terms
from spellbook.text.terms import STOP_WORDS

MODES = {"search": "Meaning and words", "memorize": "Meaning", "find": "Words"}
DAYS = {"7": "the last week", "30": "the last month", "365": "the last year"}
_MOST_CATEGORIES = 40
_HITS = 10
_BRIEF = 8
"""Hits in the dialog that every page has."""
_TEXTS = 50_000
"""Tokens of the hits' texts: all of each, so that none is packed before an excerpt is made of it."""
_MOST_SECTIONS = 20
"""Further sections of a note that are listed."""


def search(shown: View) -> Response:
    """Ask, narrow, and see why something was found, or was not."""
    asked = ("q", "mode", "category", "days", "tag", "as_of", "missing")
    wanted = {key: shown.query.get(key, "").strip() for key in asked}
    wanted["mode"] = wanted["mode"] if wanted["mode"] in MODES else "search"
    is_brief = "hx-request" in shown.request.headers and "brief" in shown.query
    offset = min(shown.number("offset", 0), MOST_HITS - _HITS)
    values: dict[str, Any] = {"wanted": wanted, "modes": MODES, "days": DAYS, "offset": offset}
    values |= {"answer": None, "missing": None}
    if wanted["q"]:
        options: dict[str, Any] = {"query": wanted["q"], "mode": wanted["mode"], "as_of": wanted["as_of"]}
        options["limit"] = _BRIEF if is_brief else offset + _HITS
        if limits := _filter(wanted):
            options["filter"] = limits
        answer = finding.answer(shown.book, **options, per_note=1, max_tokens=_TEXTS)
        found = answer.hits or answer.closest
        rows = (row for hit in found for row in hit.why["words"])
        words = rendering.found_words(wanted["q"], [text for row in rows for text in row])
        weigh = packing.by_words({word: 1.0 for word in terms.terms(wanted["q"]) if word not in STOP_WORDS})
        more = f"/search?{urlencode({**wanted, 'missing': '', 'offset': offset + _HITS})}"
        is_more = answer.found > offset + _HITS <= MOST_HITS - _HITS
        values |= {
            "answer": answer,
            "listed": [explained(hit, wanted["q"]) for hit in found[offset:]],
            "more": more if is_more and not is_brief else "",
            "most_sections": _MOST_SECTIONS,
            "excerpt": lambda hit: rendering.excerpt(hit.text, words, weigh, hit.heading),
            "marked": lambda text: rendering.marked(text, words),
            "present": presentation,
        }
        if wanted["missing"]:
            values["missing"] = shown.ask(finding.why, id=wanted["missing"], **options)
    if is_brief:
        return shown.page("brief.html", **values)
    counts = Counter[str]()
    shown.book.refresh()
    for category, _, notes in shown.book.index.catalog.topic_counts(shown.book.index.visible):
        counts[category] += notes
    values["categories"] = [name for name, _ in counts.most_common(_MOST_CATEGORIES) if name]
    return shown.page("search.html", **values)


def explained(hit: Hit, query: str) -> Hit:
    """Return a hit without the reason that it is in another language if the question has letters of its script."""
    is_foreign = terms.scripts(query).keys().isdisjoint(terms.scripts(hit.chunk.text))
    left = [one for one in hit.why.get("adjustments", ()) if is_foreign or one["reason"] != FOREIGN]
    return replace(hit, why={**hit.why, "adjustments": left})


def _filter(wanted: dict[str, str]) -> dict[str, Any]:
    """Return the filter that the chips say."""
    limits: dict[str, Any] = {key: wanted[of] for key, of in (("category", "category"), ("tags", "tag")) if wanted[of]}
    if wanted["days"] in DAYS:
        limits["when"] = f"{dt.date.today() - dt.timedelta(days=int(wanted['days']))}.."
    return limits


ROUTES = [view.page("/search", search)]
