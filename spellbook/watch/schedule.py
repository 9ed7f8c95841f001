"""When the watcher and the background of a server do each kind of work: every time that they wait for, in seconds."""

from __future__ import annotations

from spellbook.system import processes

QUIET = 0.3
"""Seconds without an event, after a save, before the vault is scanned."""

MOST_WAIT = 2.0
"""Seconds for which a stream of events can put that off."""

FULL_SCAN = processes.BELIEVED / 2
"""Seconds between scans of everything, whatever the events were."""

AGAIN = 2.0
"""Seconds between such scans while a folder reports no events or after a failed one; longer if a scan takes long."""

ELECTION = 1.0
"""Seconds between attempts to become the watcher. Until then, other processes scan by themselves. By hand."""

SETTLE_AFTER = 1.5
"""Seconds without changes before the cache is trimmed and Chroma catches up, in two more; see `vectors.follow`."""

SNAPSHOT_AFTER = 120.0
"""Seconds until a process that watches first checks whether the day's snapshot is there."""

SNAPSHOT_CHECK = 1800.0
"""Seconds between such checks."""

RELEASE_AFTER = 600.0
"""Seconds without a question or a new vector before the memory for them is freed."""

RELEASE_CHECK = 60.0
"""Seconds between checks of this."""

WARM_UP_SECONDS = 1.0
"""Seconds after its start before a server prepares its first answer, and watches."""

CALL_SECONDS = 0.25
"""Seconds after the first call before the model is loaded in the background, so that loading does not slow the call."""
