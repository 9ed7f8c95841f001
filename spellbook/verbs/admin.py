"""The verbs of a server's administrator: figures, errors, upkeep and caches. They are offered over HTTP alone."""

from __future__ import annotations

from spellbook.verbs.arguments import DRY_RUN
from spellbook.verbs.declare import choice, flag, needed, number, share, text, texts, verb

MOST_DAYS = 36_500
RANGES = {"1h": 1, "24h": 24, "7d": 168, "30d": 720}
"""Periods of figures, in hours."""

ENOUGH = 20
"""Fewer calls give no share of failures and no percentile of times. By hand."""

_RANGE = choice("Of which time.", " ".join(RANGES), "24h")
_CACHE = choice("Which cache.", "search embedding all", "all")

PERFORMANCE = verb(
    "performance",
    "admin",
    timeRange=_RANGE,
    includeDetails=flag("With the slowest queries of this process."),
)
ALERTS = verb("alerts", "admin")
ERRORS = verb("errors", "admin", timeRange=_RANGE, resolved=flag("The resolved ones."))
RESOLVE = verb(
    "resolve",
    "admin",
    errorId=needed("Which error.", 100),
    resolvedBy=text("Who resolved it.", 200),
    reason=text("Why it is resolved."),
)
BROKEN_LINKS = verb("broken_links", "admin")
CLEAN = verb(
    "clean",
    "admin",
    dry_run=DRY_RUN,
    working_days=share("After how many days; working_days of the settings if not given.", most=MOST_DAYS),
)
FORGETTING = verb("forgetting", "admin")
REVIEW = verb(
    "review",
    "admin",
    memory_id=needed("Id or path."),
    at=text("When to look at it again: a date, as 2026-03-14. Neither this nor days takes the date away.", 10, None),
    days=number("In how many days to look at it again.", None, 0, MOST_DAYS),
)
REVIEWS = verb("reviews", "admin", due=flag("Only those that are due."))
OPTIMIZE = verb(
    "optimize",
    "admin",
    actions=texts("What to do.", items=4, default=("all",), choices=("analyze", "index", "vacuum", "all")),
    autoCreateIndexes=flag("Without effect: the indexes that are needed are there."),
)
CACHE = verb("cache", "admin", cacheType=_CACHE)
CLEAR = verb(
    "clear",
    "admin",
    cacheType=_CACHE,
    pattern=text("A regular expression for the cached queries to drop; without one, all.", 200),
)
