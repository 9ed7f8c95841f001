"""The alerts of the admin API: what needs attention now, each with its next step."""

from __future__ import annotations

import datetime as dt
import math
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

from spellbook.http import faults
from spellbook.http.endpoints import Call
from spellbook.index import metrics
from spellbook.index.catalog.usage import local
from spellbook.text.quoting import counted

_SLOW_MS = 500.0
"""Milliseconds from which on the 95th percentile of searches is slow."""

_MOST_FAILING = 0.05
"""Share of calls that may fail. Errors of the caller, such as the name of a missing note, do not count."""

_LEAST_FREE = 500_000_000
"""Bytes of the disk that should be free."""

_SNAPSHOT_DAYS = 2
"""Days after which a snapshot is no longer recent."""

_HOUR = 3_600.0

_PENDING_SECONDS = 3_600.0
"""Seconds for which texts may wait to be embedded."""


def alerts(call: Call) -> dict[str, Any]:
    """Return what needs attention now, each with its next step. `since` is when the alerts first showed it."""
    call.book.refresh()
    listed = [*_of_answers(call), *_of_upkeep(call)]
    known = call.served.noticed
    now = time.time()
    first = {alert["id"]: known.get(alert["id"], alert.pop("since", None) or now) for alert in listed}
    call.served.noticed = first
    late = [each for each in listed if each["id"] != "pending" or now - first["pending"] >= _PENDING_SECONDS]
    return {
        "message": call.translated("Performance alerts."),
        "alerts": [{**each, "since": local(first[each["id"]])} for each in late],
    }


def alert(
    call: Call, message: str, value: Any, threshold: Any, *, id: str, hint: str, severity: str = "warning"
) -> dict[str, Any]:
    """Return a row: its message and hint in the language that the request asks."""
    return {
        "id": id,
        "severity": severity,
        "what": call.translated(message),
        "value": value,
        "threshold": threshold,
        "hint": call.translated(hint),
    }


def _of_answers(call: Call) -> Iterator[dict[str, Any]]:
    """Yield what is wrong with answers: they are slow, incomplete, or errors."""
    # The first search after a pause loads the model. The slowest queries, to which the hint leads, are this process's.
    warm = call.book.meter.warm(_HOUR)
    slow = warm[math.ceil(0.95 * len(warm)) - 1] if len(warm) >= metrics.ENOUGH else 0.0
    if slow > _SLOW_MS:
        hint = "Look at the slowest queries: /admin/stats/performance?includeDetails=true."
        message = f"Searches are slow: 95 % took up to {slow / 1_000:.3g} s."
        yield alert(call, message, round(slow, 1), _SLOW_MS, id="slow_search", hint=hint)
    state = call.book.state()
    if state.pending:
        message = f"{counted(state.pending, 'text')} cannot be found by meaning yet."
        yield alert(
            call, message, state.pending, 0, id="pending", hint="Start a job: POST /api/reindex.", severity="info"
        )
    if state.degraded:
        message = f"Answers are incomplete: {state.reason}"
        yield alert(call, message, state.reason, "", id="degraded", hint="Run spellbook doctor.", severity="critical")
    hour = metrics.brief(*call.book.meter.read(1))
    errors = hour["errors"]
    failed = sum(count for code, count in errors.items() if faults.STATUS.get(code, 500) >= 500)
    share = failed / hour["calls"] if hour["calls"] >= metrics.ENOUGH else 0.0
    if share > _MOST_FAILING:
        message = f"{share:.0%} of the calls of the last hour failed."
        hint = "Look at them: /admin/stats/errors."
        yield alert(call, message, round(share, 4), _MOST_FAILING, id="errors", hint=hint)
    if refusals := errors.get("RATE_LIMIT_EXCEEDED", 0):
        message = f"The limit of requests was met {counted(refusals, 'time')} in the last hour."
        yield alert(call, message, refusals, 0, id="rate", hint="Ask less often, or set SPELLBOOK_RATE.")


def _of_upkeep(call: Call) -> Iterator[dict[str, Any]]:
    """Yield what a person should look after: snapshots, the disk, notes. `since` is in seconds since 1970."""
    book = call.book
    last = book.snapshots.state()["last"]
    age = (time.time() - dt.datetime.fromisoformat(last).timestamp()) / 86_400 if last else None
    if age is None or age >= _SNAPSHOT_DAYS:
        days = None if age is None else int(age)
        message = "No snapshot was taken yet." if days is None else f"The last snapshot is {days:,} days old."
        row = alert(call, message, days, _SNAPSHOT_DAYS, id="snapshot", hint="Take one: POST /api/snapshots.")
        yield {**row, "since": time.time() - (age - _SNAPSHOT_DAYS) * 86_400} if age else row
    folder = book.config.vault if os.path.exists(book.config.vault) else book.config.state  # it may have gone away
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE:
        message = f"The disk is nearly full: {free / 1e6:,.0f} MB are free."
        yield alert(call, message, free, _LEAST_FREE, id="disk", hint="Free some space.", severity="critical")
    if broken := len({fault.path for fault in book.index.catalog.notes.faults()}):
        message = "1 note needs fixing." if broken == 1 else f"{broken:,} notes need fixing."
        yield alert(call, message, broken, 0, id="faults", hint="They are listed by GET /api/status.")
