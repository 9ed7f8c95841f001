"""Timing, the memory and CPU time of processes, and measurements in a process of their own."""

import contextlib
import itertools
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from spellbook.library.book import Spellbook
from spellbook.settings import config
from spellbook.system import processes
from tests.helpers import watched


def seconds(action: Callable[[], object]) -> float:
    """Return the wall-clock seconds that `action` takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def medians(
    actions: Mapping[str, Callable[[int], object]], rounds: int, before: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """
    Return the median seconds of each action, called with the number of the round.

    Actions take turns, so that a slow phase of the machine slows all of them. `before` runs before each; a first round is not
    counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for number, (name, action) in itertools.product(range(-1, rounds), actions.items()):
        before()
        took = seconds(partial(action, number))
        if number >= 0:
            taken[name].append(took)
    return {name: statistics.median(times) for name, times in taken.items()}


def share(times: Sequence[float], part: float) -> float:
    """Return a quantile: `part` of `times` are at most this long."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def resident(pid: int | str = "self") -> float:
    """Return the resident memory of a process in MB; NaN where the system does not report it."""
    return _megabytes(pid, "VmRSS")


def peak(pid: int | str = "self") -> float:
    """Return the peak resident memory of a process in MB; NaN where the system does not report it."""
    return _megabytes(pid, "VmHWM")


def _megabytes(pid: int | str, name: str) -> float:
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), math.nan)


def processor(pid: int) -> float:
    """Return the CPU seconds of all threads of a process; NaN where the system does not report them."""
    try:
        return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    except OSError:
        return math.nan


def still(book: Spellbook) -> None:
    """Let no question scan the vault, however long the benchmark takes."""
    processes.BELIEVED = math.inf
    watched(book)


def opened(folder: Path, embedder: Any) -> Spellbook:
    """Open the vault in `folder` with an embedder."""
    (folder / "vault").mkdir(parents=True, exist_ok=True)
    return Spellbook(config.load(folder / "vault", state=folder / "state"), embedder)


def apart(measure: Callable[..., Iterable[Any]], *given: Any) -> Iterator[Any]:
    """
    Run `measure` in a new process and yield its results as they arrive; the processes share no memory.

    Raises RuntimeError if the process fails; its traceback is on stderr.
    """
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_send, args=(there, measure, given))
    child.start()
    there.close()
    try:
        with contextlib.suppress(EOFError):
            while True:
                yield here.recv()
        child.join()
        if child.exitcode:
            raise RuntimeError(f"the process ended with {child.exitcode}")
    finally:
        child.terminate()
        child.join()


def _send(there: Connection, measure: Callable[..., Iterable[Any]], given: Sequence[Any]) -> None:
    for each in measure(*given):
        there.send(each)
