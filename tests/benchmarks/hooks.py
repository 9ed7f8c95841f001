"""The hook that lets sessions become notes, as a client runs it: it leaves a job and starts a process, 20 times."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from spellbook.capture.ledger import Ledger
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure

_ROUNDS = 20


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure whole processes; the transcript is not there, so that what they start has nothing to do."""
    vault, home = folder / "vault", folder / "home"
    vault.mkdir()
    home.mkdir()
    places = {"SPELLBOOK_STATE": str(folder / "state"), "SPELLBOOK_DATA": str(folder / "data"), "HOME": str(home)}
    os.environ.update(places)
    Ledger(str(vault.resolve())).turn(True, vault)
    hook = {"hook_event_name": "SessionStart", "session_id": "s", "transcript_path": None, "cwd": "/"}
    command = [sys.executable, "-P", "-m", "spellbook", "--vault", str(vault), "capture", "hook"]
    took = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        subprocess.run(command, input=json.dumps(hook).encode(), env={**os.environ, **places}, check=True)
        took.append(time.perf_counter() - began)
    longest = f"longest {max(took) * 1_000:.0f} ms"
    yield Figure("`capture hook`, whole process", statistics.median(took), most=0.3, also=longest)
