"""
Compute the calibration of the second embedder that ships with Spellbook: `python scripts/training/calibrate_use.py`.

From the parallel texts that `calibrate.py` takes, in the
languages that the model knows. What comes out is written to
`spellbook/models/use/`; a change of one bit of it must change `CALIBRATED` in
`spellbook/models/use/use.py`, and so every vector. With `--show` nothing is
written, and the cosines are printed that `SCALE` is read off.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import IO

import numpy as np
from calibrate import react, xquad

from spellbook.models import calibration
from spellbook.models.base import clean, unit
from spellbook.models.onnx.lazy_engine import Engine
from spellbook.models.use import use
from spellbook.models.use.use import UseCalibration

KNOWN = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
"""The model's languages."""

SCALE = ((0.01, 0.0), (0.34, 0.5), (0.42, 0.7), (0.8, 0.95), (1.0, 1.0))
"""
The first two are read off what `--show` prints: the median of unrelated pairs, and what 2 of 1,000 of them reach. A
quarter of all questions have a higher cosine than the third to their answer; more than half of the Korean pairs that
people call the same have less than the fourth, and so do 9 in 10 of the others.
"""

Texts = dict[str, list[str]]


def embedded(engine: Engine, texts: Texts) -> dict[str, np.ndarray]:
    """Return the raw vectors of the texts in each language that the model knows."""
    return {name: np.stack([engine.passage(clean(text)) for text in texts[name]]) for name in KNOWN if name in texts}


def learnt(sides: Sequence[Sequence[dict[str, np.ndarray]]]) -> UseCalibration:
    """Return the calibration; `sides` are the questions and the passages of each corpus."""
    centres, centred = [], []
    for corpora in sides:
        # Each corpus and each language of it counts alike, however many texts it has.
        mean = np.mean([np.mean([rows.mean(axis=0) for rows in corpus.values()], axis=0) for corpus in corpora], axis=0)
        centres.append((calibration.CENTRED * mean).astype(np.float32))
        rows = np.concatenate([rows for corpus in corpora for rows in corpus.values()]) - centres[-1]
        centred.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    everything = np.concatenate(centred)
    directions = np.linalg.svd(everything.T @ everything)[2][: use.WIDTH]
    return UseCalibration(centres[0], centres[1], directions.astype(np.float32), SCALE)


def save(found: UseCalibration, file: IO[bytes]) -> None:
    """Write a calibration as an .npz archive; a byte for each number of the directions is enough."""
    step = float(np.abs(found.directions).max()) / 127
    np.savez_compressed(
        file,
        query=found.query.astype(np.float16),
        passage=found.passage.astype(np.float16),
        directions=np.rint(found.directions / step).astype(np.int8),
        step=np.float32(step),
        scale=np.array(found.scale),
    )


def show(
    data: Path, engine: Engine, given: UseCalibration, asked: dict[str, np.ndarray], told: dict[str, np.ndarray]
) -> None:
    """Print the cosines of XQuAD's learnt half and of KLUE-STS."""

    def kept(rows: np.ndarray, query: bool) -> np.ndarray:
        return unit(np.stack([given.apply(row, query) for row in rows]))

    articles = json.loads((data / "eval/xquad/xquad.en.json").read_text("utf-8"))["data"]
    paragraphs = [each for article in articles for each in article["paragraphs"]]
    right = [number for number, each in enumerate(paragraphs) for _ in each["qas"]][: len(asked["en"])]
    questions, passages = {k: kept(v, True) for k, v in asked.items()}, {k: kept(v, False) for k, v in told.items()}
    unrelated, within, across = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for one, other in product(questions, passages):
        cosines = questions[one] @ passages[other].T
        answers = np.arange(len(passages[other])) == np.array(right)[:, None]
        unrelated.append(cosines[~answers])
        (within if one == other else across).append(cosines[answers])
    print(
        f"unrelated: median {np.median(np.concatenate(unrelated)):.3f}, "
        f"99.8 % {np.percentile(np.concatenate(unrelated), 99.8):.3f}"
    )
    print(
        f"answers: median within {np.median(np.concatenate(within)):.3f}, "
        f"across {np.median(np.concatenate(across)):.3f}, "
        f"a quarter of all above {np.percentile(np.concatenate(within + across), 75):.3f}"
    )
    pairs = json.loads((data / "eval/klue-sts/klue-sts-v1.1_dev.json").read_text("utf-8"))
    first, second = (
        kept(np.stack([engine.passage(clean(pair[name])) for pair in pairs]), False)
        for name in ("sentence1", "sentence2")
    )
    same = np.array([pair["labels"]["binary-label"] for pair in pairs]) == 1
    cosines = (first * second).sum(axis=1)
    best = max((((cosines >= cut) == same).mean(), cut) for cut in np.arange(0.3, 1, 0.01))
    print(f"Korean pairs: told apart best at {best[1]:.2f}, {best[0]:.3f} of them")
    print(
        "same:",
        np.percentile(cosines[same], [5, 25, 50]).round(2),
        "not:",
        np.percentile(cosines[~same], [50, 90, 99]).round(2),
    )


def main() -> None:
    """Compute it and say what came out."""
    parser = argparse.ArgumentParser(description="Compute the calibration of the second embedder.")
    parser.add_argument("--data", type=Path, required=True, help="holds eval/xquad and vaults/react-docs")
    parser.add_argument("--out", type=Path, default=Path(use.__file__).with_name(use.CALIBRATION))
    parser.add_argument("--show", action="store_true", help="only print the cosines that the scale is read off")
    given = parser.parse_args()
    engine = use.USE().local.engine()
    corpora = [xquad(given.data), react(given.data), calibration.sample()]
    sides = [[embedded(engine, corpus[number]) for corpus in corpora] for number in (0, 1)]
    found = learnt(sides)
    if given.show:
        return show(given.data, engine, found, sides[0][0], sides[1][0])
    with given.out.open("wb") as file:
        save(found, file)
    data = given.out.read_bytes()
    print(f"{given.out.name}: {len(data):,} bytes, {hashlib.sha256(data).hexdigest()[:8]}")


if __name__ == "__main__":
    main()
