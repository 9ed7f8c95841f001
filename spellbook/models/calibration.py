"""
Calibration: what makes a model's vectors comparable across languages, and its cosines mean something.

Models such as e5 put the language of a text into its vector, so that a
question prefers notes in its own. What languages differ in spans a few
directions; with these taken out, a vector says what a text means whatever it
is written in, and a mixed text is treated in proportion. No language is
detected. What remains is centred in part, and a scale maps cosines to scores.

The directions: Yang, Yang, Cer and Darve, "A Simple and Effective Method To
Eliminate the Self Language Bias in Multilingual Representations", EMNLP 2021.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import IO

from spellbook.models.base import Scale, Vectors
from spellbook.system.lazy import np

VERSION = "c1"
"""Names the method and the sample; part of the fingerprint of every embedder that is calibrated by them."""

CENTRED = 0.8
"""
Share of the general mean that is subtracted from the vectors.

For questions in the language of the notes, this value costs 0.002 nDCG@10. The whole mean would cost 0.005.
"""

_MOST = 16
"""Most directions that are taken out for the first corpus."""

_MOST_FURTHER = 8
"""Most directions that each further corpus adds."""

_LANGUAGES = ("en", "ko", "ja", "zh", "de", "es", "fr", "tr", "vi", "ru", "ar", "hi")
"""Languages of the sample that an embedder is calibrated by."""

_ITEMS = 16
"""Questions, each with its passage, that are embedded of each language."""

_EDITED = 4
"""Passages of each language that are embedded a second time as edited."""

_KNOWN = 0.5
"""Share of the questions whose own passage must come first; a language with less is one the model does not know."""

_SCORES = (0.0, 0.5, 0.7, 0.95, 1.0)
"""Scores of the points of a scale, in the order of `scale_of`."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """
    The part that calibration removes from the vectors of questions, or of passages.

    `basis` holds directions, shape (k, dim). `shift` has the shape (dim,).
    """

    basis: Vectors
    shift: Vectors

    def apply(self, vector: Vectors) -> Vectors:
        """Return one unit vector without its language, shape (dim,)."""
        rest = vector - (self.basis @ vector) @ self.basis - self.shift
        unit: Vectors = (rest / (np.linalg.norm(rest) or 1.0)).astype(np.float32)
        return unit

    def apply_all(self, vectors: Vectors) -> Vectors:
        """Return `apply` of each row of `vectors`, shape (n, dim). No row changes the result for another."""
        return np.array([self.apply(row) for row in vectors], dtype=np.float32).reshape(vectors.shape)

    @classmethod
    def fit(cls, corpus: Mapping[str, Vectors], *further: Mapping[str, Vectors]) -> Side:
        """
        Learn from parallel corpora, each the vectors of the same texts by language, shape (n, dim).

        Only the differences between the languages of a corpus count. Further corpora add the strongest directions that
        the ones before them lack. The mean is that of the corpora's means.
        """
        basis = np.empty((0, next(iter(corpus.values())).shape[1]))
        centres = []
        for part, most in [(corpus, _MOST), *((other, _MOST_FURTHER) for other in further)]:
            means = np.array([vectors.mean(axis=0, dtype=np.float64) for vectors in part.values()])
            centres.append(means.mean(axis=0))
            apart = means - centres[-1]
            apart -= (apart @ basis.T) @ basis
            directions = np.linalg.svd(apart, full_matrices=False)[2]
            basis = np.vstack([basis, directions[: min(len(part) - 1, most)]])
        mean = np.mean(centres, axis=0)
        shift = CENTRED * (mean - (mean @ basis.T) @ basis)
        return cls(basis.astype(np.float32), shift.astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Both sides, and the scale on which their cosines are read."""

    query: Side
    passage: Side
    scale: Scale

    def save(self, file: IO[bytes]) -> None:
        """Write it as an .npz archive; half precision is enough, and half the size."""
        np.savez(
            file,
            scale=np.array(self.scale),
            query_basis=self.query.basis.astype(np.float16),
            query_shift=self.query.shift.astype(np.float16),
            passage_basis=self.passage.basis.astype(np.float16),
            passage_shift=self.passage.shift.astype(np.float16),
        )

    @classmethod
    def load(cls, file: IO[bytes]) -> Calibration:
        """Read what `save` wrote. Raises OSError, EOFError, BadZipFile, ValueError or KeyError for anything else."""
        with np.load(file, allow_pickle=False) as archive:
            query, passage = (
                Side(archive[f"{name}_basis"].astype(np.float32), archive[f"{name}_shift"].astype(np.float32))
                for name in ("query", "passage")
            )
            scale = tuple((float(cosine), float(score)) for cosine, score in archive["scale"])
        return cls(query, passage, scale)


def calibrate(
    embed_queries: Callable[[Sequence[str]], Vectors], embed_passages: Callable[[Sequence[str]], Vectors]
) -> Calibration:
    """
    Learn a model's calibration from a part of the sample that ships with Spellbook.

    The part has about 11,000 tokens. Each language takes two calls, and the edited texts take one more.

    A language in which the model does not find most of the answers is one it
    does not know, and does not count. Raises what the functions raise.
    """
    questions, passages = sample(_LANGUAGES, _ITEMS)
    raw = {name: (embed_queries(questions[name]), embed_passages(passages[name])) for name in _LANGUAGES}
    known = [
        name
        for name, (queries, answers) in raw.items()
        if np.mean((queries @ answers.T).argmax(axis=1) == np.arange(_ITEMS)) >= _KNOWN
    ]
    used = known or _LANGUAGES[:1]
    query, passage = (Side.fit({name: raw[name][side] for name in used}) for side in (0, 1))
    asking = [query.apply_all(raw[name][0]) for name in used]
    answering = [passage.apply_all(raw[name][1]) for name in used]
    edited = passage.apply_all(embed_passages([edit(text) for name in used for text in passages[name][:_EDITED]]))
    whole = (row for rows in answering for row in rows[:_EDITED])
    twins = [float(a @ b) for a, b in zip(edited, whole, strict=True)]
    return Calibration(query, passage, scale_of(product(asking, answering), twins))


def scale_of(pairs: Iterable[tuple[Vectors, Vectors]], twins: Sequence[float]) -> Scale:
    """
    Return the scale on which a cosine is a score: 0 for what is unrelated, 0.5 related, 0.7 relevant, 0.95 a duplicate.

    Each of `pairs` holds vectors of n questions and of the n passages that
    answer them, shape (n, dim); `twins` are cosines of texts to themselves as
    edited. Related is what few of the unrelated reach.
    """
    related: list[float] = []
    unrelated: list[float] = []
    for questions, passages in pairs:
        cosines = questions @ passages.T
        own = np.eye(len(questions), dtype=bool)
        related += cosines[own].tolist()
        unrelated += cosines[~own].tolist()
    points = (
        np.median(unrelated),
        np.percentile(unrelated, 99.8),
        np.percentile(related, 75),
        np.percentile(twins, 1),
        1.0,
    )
    # A model that tells nothing apart still gets a scale that rises.
    rising: list[float] = []
    for i, point in enumerate(points):
        rising.append(max(min(float(point), 1 - 0.01 * (len(points) - 1 - i)), rising[-1] + 0.01 if rising else -1.0))
    return tuple(zip(rising, _SCORES, strict=True))


def edit(text: str) -> str:
    """Return `text` as somebody leaves it who takes a few words out of its middle."""
    half, few = len(text) // 2, max(1, len(text) // 12)
    return text[:half] + text[half + few :]


def sample(
    languages: Sequence[str] = (), items: int | None = None
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """
    Return questions by language, and the passages that answer them by language.

    Every language has the same ones. They are the whole sample unless `languages` or `items` limit it.
    """
    parallel = json.loads(Path(__file__).with_name("sample.json").read_text("utf-8"))
    questions, passages = (
        {name: [item[side][name] for item in parallel["items"][:items]] for name in languages or parallel["languages"]}
        for side in ("question", "passage")
    )
    return questions, passages
