"""How long something takes, and how much memory and processor a process has."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def seconds(action: Callable[[], object]) -> float:
    """Return the seconds that `action` takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def medians(
    actions: Mapping[str, Callable[[int], object]], rounds: int, before: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """
    Return the median seconds of each action, which is given the number of the round.

    They take turns, so that a machine that slows down slows all of them; each after `before`, and after one round that is not counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for number, (name, action) in itertools.product(range(-1, rounds), actions.items()):
        before()
        took = seconds(lambda action=action, number=number: action(number))  # type: ignore[misc]
        if number >= 0:
            taken[name].append(took)
    return {name: statistics.median(times) for name, times in taken.items()}


def share(times: Sequence[float], part: float) -> float:
    """Return the time within which `part` of `times` are."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def resident(pid: int | str = "self") -> float:
    """Return the resident megabytes of a process, NaN where the system does not say."""
    return _megabytes(pid, "VmRSS")


def peak(pid: int | str = "self") -> float:
    """Return the most megabytes that a process has had resident, NaN where the system does not say."""
    return _megabytes(pid, "VmHWM")


def _megabytes(pid: int | str, name: str) -> float:
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), math.nan)


def processor(pid: int) -> float:
    """Return the seconds that all threads of a process have spent on a processor, NaN where the system does not say so finely."""
    try:
        return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    except OSError:
        return math.nan
