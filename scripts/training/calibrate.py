"""
Compute the calibration of multilingual-e5-small that ships with Spellbook: `python scripts/training/calibrate.py`.

It learns from parallel texts: one half of XQuAD's articles in 12 languages, every
second page of the React documentation in English and Korean (both from `--data`),
and the sample that ships with Spellbook, in 21 languages. `make bench-quality`
measures with the other halves. The result is written beside
`spellbook/models/e5/e5.py`. If one bit of it changes, change `CALIBRATED` there:
all vectors change too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from spellbook.models import base, calibration
from spellbook.models.calibration import Calibration, Side
from spellbook.models.e5 import e5
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse

SCALE = ((0.14, 0.0), (0.34, 0.5), (0.47, 0.7), (0.84, 0.95), (1.0, 1.0))
"""
Read off the first two corpora and the notes of `tests/quality`, see `make bench-quality`: the median of unrelated
pairs; the cosine that few questions off topic reach; between the medians of questions and their answers within a
language and across; and where Korean pairs that people call the same part from all others.
"""

HALF = 120
"""Paragraphs of XQuAD to learn from; the others are for measuring."""

Corpus = dict[str, list[str]]


def xquad(data: Path) -> tuple[Corpus, Corpus]:
    """Return the questions and paragraphs of the first half, by language."""
    questions: Corpus = {}
    passages: Corpus = {}
    for file in sorted((data / "eval" / "xquad").glob("xquad.*.json")):
        language = file.suffixes[0][1:]
        paragraphs = [
            each for article in json.loads(file.read_text("utf-8"))["data"] for each in article["paragraphs"]
        ][:HALF]
        passages[language] = [each["context"] for each in paragraphs]
        questions[language] = [asked["question"] for each in paragraphs for asked in each["qas"]]
    return questions, passages


def react(data: Path) -> tuple[Corpus, Corpus]:
    """Return the headings and sections of every second page with equally many in both languages."""
    root = data / "vaults" / "react-docs"
    questions: Corpus = {"en": [], "ko": []}
    passages: Corpus = {"en": [], "ko": []}
    for page in sorted(path.relative_to(root / "en") for path in (root / "en").rglob("*.md"))[::2]:
        pair = [_sections(root / language / page) for language in ("en", "ko")]
        if len(pair[0]) == len(pair[1]):
            for language, sections in zip(("en", "ko"), pair, strict=True):
                questions[language] += [heading for heading, _ in sections if heading]
                passages[language] += [text for _, text in sections[:3]]
    return questions, passages


def _sections(file: Path) -> list[tuple[str, str]]:
    if not file.exists():
        return []
    return [
        (chunk.heading[-1] if chunk.heading else "", chunk.embedded)
        for chunk in cut(parse(file.name, file.read_bytes()))
    ]


def main() -> None:
    """Compute and save the calibration."""
    parser = argparse.ArgumentParser(description="Compute the calibration of the bundled model.")
    parser.add_argument("--data", type=Path, required=True, help="holds eval/xquad and vaults/react-docs")
    parser.add_argument("--out", type=Path, default=Path(e5.__file__).with_name(e5.CALIBRATION))
    given = parser.parse_args()
    corpora = [xquad(given.data), react(given.data), calibration.sample()]
    if not all(texts for questions, passages in corpora for texts in (*questions.values(), *passages.values())):
        sys.exit(f"{given.data} does not hold eval/xquad and vaults/react-docs.")
    engine = e5.E5().local.engine()
    sides = list[Side]()
    for name, embed, number in (("query", engine.query, 0), ("passage", engine.passage, 1)):
        vectors = [
            {language: _embedded(embed, texts) for language, texts in corpus[number].items()} for corpus in corpora
        ]
        sides.append(Side.fit(*vectors))
        count = sum(len(rows) for corpus in vectors for rows in corpus.values())
        print(f"{name}: {len(sides[-1].basis)} directions from {count} texts")
    with given.out.open("wb") as file:
        Calibration(sides[0], sides[1], SCALE).save(file)
    print(f"{given.out.name}: {given.out.stat().st_size:,} bytes")


def _embedded(embed: Callable[[str], base.Vectors], texts: list[str]) -> base.Vectors:
    return np.stack(list(_each(embed, texts)))


def _each(embed: Callable[[str], base.Vectors], texts: list[str]) -> Iterator[base.Vectors]:
    for done, text in enumerate(texts, 1):
        yield embed(base.clean(text))
        print(f"\r{done} of {len(texts)} ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
