"""The route of alerts: what needs attention now, each with its next step."""

from __future__ import annotations

import datetime as dt
import math
import shutil
import time
from collections.abc import Iterator
from typing import Any

from spellbook.index import metrics
from spellbook.index.catalog.usage import local
from spellbook.server.http.admin.common import SLOW_MS, say
from spellbook.server.http.endpoints import Call, Endpoint
from spellbook.verbs import admin

_MOST_FAILING = 0.05
"""Share of calls that may fail."""

_LEAST_FREE = 500_000_000
"""Bytes of the disk that should be free."""

_SNAPSHOT_DAYS = 2
"""Days after which a snapshot is no longer recent."""

_FEW_CALLS = 20
"""Of fewer calls, a share that failed says nothing, and neither does a percentile of their times."""

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
    return {"message": say(call, "Performance alerts."), "alerts": shown}


def _alerts(call: Call) -> Iterator[dict[str, Any]]:
    """Yield what is wrong; `since`, where it is known, in seconds since 1970."""
    book = call.book

    def alert(
        value: Any, threshold: Any, *, id: str, message: str, hint: str, severity: str = "warning"
    ) -> dict[str, Any]:
        row = {"what": say(call, message), "value": value, "threshold": threshold}
        return {"id": id, "severity": severity, **row, "hint": say(call, hint)}

    # The first search after a pause loads the model. The slowest queries, to which the hint leads, are this process's.
    warm = book.meter.warm(_HOUR)
    slow = warm[math.ceil(0.95 * len(warm)) - 1] if len(warm) >= _FEW_CALLS else 0.0
    if slow > SLOW_MS:
        hint = "Look at the slowest queries: /admin/stats/performance?includeDetails=true."
        yield alert(round(slow, 1), SLOW_MS, id="slow_search", message="Searches are slow.", hint=hint)
    state = book.state()
    if state.pending:
        message = "Some texts are not embedded yet."
        yield alert(
            state.pending, 0, id="pending", message=message, hint="Start a job: POST /api/reindex.", severity="info"
        )
    if state.degraded:
        message = "Answers are incomplete."
        yield alert(state.reason, "", id="degraded", message=message, hint="Run spellbook doctor.", severity="critical")
    _, totals = book.meter.read(1)
    calls, failed = totals.get(metrics.CALLS, 0), sum(n for k, n in totals.items() if k.startswith(metrics.ERRORS))
    if calls >= _FEW_CALLS and failed / calls > _MOST_FAILING:
        hint = "Look at them: /admin/stats/errors."
        yield alert(round(failed / calls, 4), _MOST_FAILING, id="errors", message="Many calls fail.", hint=hint)
    last = book.snapshots.state()["last"]
    age = (time.time() - dt.datetime.fromisoformat(last).timestamp()) / 86_400 if last else None
    if not call.served.is_published and (age is None or age >= _SNAPSHOT_DAYS):
        days = None if age is None else int(age)
        hint = "Take one: POST /api/snapshots."
        row = alert(days, _SNAPSHOT_DAYS, id="snapshot", message="There is no recent snapshot.", hint=hint)
        yield {**row, "since": time.time() - (age - _SNAPSHOT_DAYS) * 86_400} if age else row
    free = shutil.disk_usage(book.config.vault).free
    if free < _LEAST_FREE:
        message = "The disk is nearly full."
        yield alert(free, _LEAST_FREE, id="disk", message=message, hint="Free some space.", severity="critical")
    if faults := len(book.index.catalog.notes.faults()):
        message = "Some notes have faults."
        yield alert(faults, 0, id="faults", message=message, hint="They are listed by GET /api/status.")
    if met := totals.get(f"{metrics.ERRORS} RATE_LIMIT_EXCEEDED", 0):
        yield alert(met, 0, id="rate", message="A rate limit was met.", hint="Ask less often, or set SPELLBOOK_RATE.")


ENDPOINTS = (Endpoint("GET", "/admin/alerts/performance", alerts, admin.ALERTS),)
