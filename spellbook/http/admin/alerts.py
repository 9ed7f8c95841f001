"""The route of alerts: what needs attention now, each with its next step."""

from __future__ import annotations

import datetime as dt
import math
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

from spellbook.http import faults
from spellbook.http.endpoints import Call, Endpoint
from spellbook.index import metrics
from spellbook.index.catalog.usage import local
from spellbook.text.quoting import counted
from spellbook.verbs import admin

_SLOW_MS = 500.0
"""Milliseconds from which on the 95th percentile of searches is slow."""

_MOST_FAILING = 0.05
"""Share of calls that may fail. What the caller did wrong, as a note's name that does not exist, does not count."""

_LEAST_FREE = 500_000_000
"""Bytes of the disk that should be free."""

_SNAPSHOT_DAYS = 2
"""Days after which a snapshot is no longer recent."""

_HOUR = 3_600.0

_PENDING_SECONDS = 3_600.0
"""Seconds for which texts may wait to be embedded."""


def alerts(call: Call) -> dict[str, Any]:
    """What needs attention now, each with its next step. `since` is when a look at the alerts first met it."""
    call.book.refresh()
    listed = list(_alerts(call))
    known, now = call.served.noticed, time.time()
    first = {alert["id"]: known.get(alert["id"], alert.pop("since", None) or now) for alert in listed}
    call.served.noticed = first
    shown = []
    for alert in listed:
        since = first[alert["id"]]
        if alert["id"] != "pending" or now - since >= _PENDING_SECONDS:
            shown.append({**alert, "since": local(since)})
    return {"message": call.translated("Performance alerts."), "alerts": shown}


def _alerts(call: Call) -> Iterator[dict[str, Any]]:
    """Yield what is wrong; `since`, where it is known, in seconds since 1970."""
    book = call.book

    def alert(
        message: str, value: Any, threshold: Any, *, id: str, hint: str, severity: str = "warning"
    ) -> dict[str, Any]:
        row = {"what": call.translated(message), "value": value, "threshold": threshold}
        return {"id": id, "severity": severity, **row, "hint": call.translated(hint)}

    # The first search after a pause loads the model. The slowest queries, to which the hint leads, are this process's.
    warm = book.meter.warm(_HOUR)
    slow = warm[math.ceil(0.95 * len(warm)) - 1] if len(warm) >= admin.ENOUGH else 0.0
    if slow > _SLOW_MS:
        hint = "Look at the slowest queries: /admin/stats/performance?includeDetails=true."
        message = f"Searches are slow: 95 % took up to {slow / 1_000:.3g} s."
        yield alert(message, round(slow, 1), _SLOW_MS, id="slow_search", hint=hint)
    state = book.state()
    if state.pending:
        message = f"{counted(state.pending, 'text')} cannot be found by meaning yet."
        yield alert(message, state.pending, 0, id="pending", hint="Start a job: POST /api/reindex.", severity="info")
    if state.degraded:
        message = f"Answers are incomplete: {state.reason}"
        yield alert(message, state.reason, "", id="degraded", hint="Run spellbook doctor.", severity="critical")
    hour = metrics.brief(*book.meter.read(1))
    calls, errors = hour["calls"], hour["errors"]
    failed = sum(count for code, count in errors.items() if not faults.is_callers(code))
    if calls >= admin.ENOUGH and failed / calls > _MOST_FAILING:
        hint = "Look at them: /admin/stats/errors."
        message = f"{failed / calls:.0%} of the calls of the last hour failed."
        yield alert(message, round(failed / calls, 4), _MOST_FAILING, id="errors", hint=hint)
    last = book.snapshots.state()["last"]
    age = (time.time() - dt.datetime.fromisoformat(last).timestamp()) / 86_400 if last else None
    if age is None or age >= _SNAPSHOT_DAYS:
        days = None if age is None else int(age)
        message = "No snapshot was taken yet." if days is None else f"The last snapshot is {days:,} days old."
        row = alert(message, days, _SNAPSHOT_DAYS, id="snapshot", hint="Take one: POST /api/snapshots.")
        yield {**row, "since": time.time() - (age - _SNAPSHOT_DAYS) * 86_400} if age else row
    folder = book.config.vault if os.path.exists(book.config.vault) else book.config.state  # it may have gone away
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE:
        message = f"The disk is nearly full: {free / 1e6:,.0f} MB are free."
        yield alert(message, free, _LEAST_FREE, id="disk", hint="Free some space.", severity="critical")
    if broken := len({fault.path for fault in book.index.catalog.notes.faults()}):
        message = "1 note needs fixing." if broken == 1 else f"{broken:,} notes need fixing."
        yield alert(message, broken, 0, id="faults", hint="They are listed by GET /api/status.")
    if met := errors.get("RATE_LIMIT_EXCEEDED", 0):
        message = f"The limit of requests was met {counted(met, 'time')} in the last hour."
        yield alert(message, met, 0, id="rate", hint="Ask less often, or set SPELLBOOK_RATE.")


ENDPOINTS = (Endpoint("GET", "/admin/alerts/performance", alerts, admin.ALERTS),)
