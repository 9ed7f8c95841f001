"""Calibration: vectors without their language, and cosines on a common scale; learned once for each model and stored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spellbook.models.base import score, unhurried
from spellbook.models.calibration import VERSION, Calibration, Side, calibrate, edit, sample, scale_of
from spellbook.models.e5 import e5
from spellbook.models.services.embed import Calibrated, ServiceEmbedder
from spellbook.models.use import use
from spellbook.system.errors import EmbeddingError

DIM = 64
QUESTIONS, PASSAGES = sample()
LANGUAGES = list(QUESTIONS)


def direction(*names: Any) -> Any:
    """A fixed random unit vector for a name."""
    seed = int.from_bytes(hashlib.sha256("/".join(map(str, names)).encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).normal(size=DIM)
    return vector / np.linalg.norm(vector)


def whose(text: str) -> Any:
    """The language and item number of a sample text, and whether it was edited."""
    for side in (QUESTIONS, PASSAGES):
        for language, texts in side.items():
            for i, each in enumerate(texts):
                if text in {each, edit(each)}:
                    return language, i, text != each
    raise KeyError(text)


class Model(ServiceEmbedder):
    """
    A simulated model: its vectors mix meaning, wording, language and a part that all texts share.

    `knows` limits its languages.
    """

    name = "model"
    fingerprint = "model:1"
    scale = ((0.0, 0.0), (1.0, 1.0))

    def __init__(self, knows: Any = LANGUAGES) -> None:
        self.knows = knows
        self.asked = 0

    def _vector(self, text: str) -> Any:
        self.asked += 1
        language, i, edited = whose(text)
        says = direction("topic", i) if language in self.knows else direction("noise", text)
        vector = (
            says
            + 0.7 * direction("wording", text[:4])
            + 0.2 * edited * direction("edit", i)
            + 2 * direction(language)
            + 2 * direction("all")
        )
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def embed_query(self, text: str) -> Any:
        return self._vector(text)

    def embed_passages(self, texts: Sequence[str]) -> Any:
        return np.array([self._vector(text) for text in texts], dtype=np.float32)

    embed_queries = embed_passages

    def describe(self) -> Any:
        return "a model"


def best_of_two(calibration: Any, model: Any, language: Any, other: Any, most: Any = None) -> Any:
    """How often a question finds its answer in another language before all other texts in its own language."""
    right = 0
    asked, told = (
        (lambda v: v, lambda v: v) if calibration is None else (calibration.query.apply, calibration.passage.apply)
    )
    foreign = np.array([told(row) for row in model.embed_passages(PASSAGES[other][:most])])
    own = np.array([told(row) for row in model.embed_passages(PASSAGES[language][:most])])
    for i, question in enumerate(QUESTIONS[language][:most]):
        vector = asked(model.embed_query(question))
        right += float(foreign[i] @ vector) > max(float(row @ vector) for j, row in enumerate(own) if j != i)
    return right / len(own)


@pytest.fixture(scope="module")
def learnt() -> Any:
    model = Model()
    return calibrate(model.embed_queries, model.embed_passages)


def test_vectors_lose_their_language_and_their_cosines_have_a_scale(learnt: Any) -> None:
    """
    Raw vectors prefer texts in the question's language; calibrated ones find the answer. Unrelated texts are nearly
    orthogonal; their raw vectors point the same way. Unrelated pairs score below related ones, answers higher, and an
    edited copy as a duplicate.
    """
    model = Model()
    for language, other in (("ko", "en"), ("en", "ar"), ("ja", "de")):
        assert best_of_two(None, model, language, other) < 0.5
        assert best_of_two(learnt, model, language, other) > 0.9
    rows = model.embed_passages(PASSAGES["en"])
    unrelated = ~np.eye(len(rows), dtype=bool)
    passages = learnt.passage.apply_all(rows)
    assert np.median((rows @ rows.T)[unrelated]) > 0.6
    assert np.median((passages @ passages.T)[unrelated]) < 0.25
    questions = learnt.query.apply_all(model.embed_queries(QUESTIONS["ko"]))
    scores = np.vectorize(lambda cosine: score(float(cosine), learnt.scale))(questions @ passages.T)
    assert (np.percentile(scores[unrelated], 95) < 0.5, np.median(scores[~unrelated]) > 0.5) == (True, True)
    twins = learnt.passage.apply_all(model.embed_passages([edit(text) for text in PASSAGES["en"]]))
    assert np.median([score(float(a @ b), learnt.scale) for a, b in zip(passages, twins, strict=True)]) >= 0.95


def test_a_language_that_the_model_does_not_know_does_not_count() -> None:
    """A model of two languages has one direction between them; one of a single language has none, but a scale."""
    for knows, directions in ((["en", "ko"], 1), (["en"], 0), ([], 0)):
        model = Model(knows)
        learnt = calibrate(model.embed_queries, model.embed_passages)
        assert learnt.query.basis.shape == (directions, DIM)
        cosines, scores = zip(*learnt.scale, strict=True)
        assert sorted(set(cosines)) == list(cosines)
        assert scores == (0.0, 0.5, 0.7, 0.95, 1.0)


def test_a_vector_does_not_depend_on_its_company() -> None:
    """A vector is equal to the last bit alone, among others and in any order, with length one."""
    side = Side.fit({name: Model().embed_passages(PASSAGES[name]) for name in ("en", "ko", "zh")})
    rows = Model().embed_passages(PASSAGES["de"])
    together = side.apply_all(rows)
    assert [side.apply(row).tobytes() for row in rows] == [row.tobytes() for row in together]
    assert side.apply_all(rows[::-1])[::-1].tobytes() == together.tobytes()
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-6)
    assert side.apply_all(rows[:0]).shape == (0, DIM)


def test_a_scale_always_rises() -> None:
    """A higher cosine never gets a lower score."""
    for low, high in ((0.5, 0.5), (-1.0, 1.0), (1.0, 1.0), (0.0, 0.0)):
        told = np.array([[cosine, np.sqrt(1 - cosine**2)] for cosine in (low, high, low)])
        scale = scale_of([(np.tile([[1.0, 0.0]], (3, 1)), told)], [high])
        scores = [score(cosine / 100, scale) for cosine in range(-100, 101)]
        assert (scores, scores[-1]) == (sorted(scores), 1)


# -- kept for a service


def test_a_calibration_is_learnt_once(learnt: Any, tmp_path: Path) -> None:
    """
    A search before calibration gets an error with what to do, instead of waiting a minute. The first background run
    learns the calibration; later processes read it, to half precision, and get the same bits. A damaged calibration is replaced by an equal
    one. If it cannot be stored no vectors are returned, since the next process could not compare them.
    """
    folder, first, second = tmp_path / "kept", Model(), Model()
    with pytest.raises(EmbeddingError, match="not calibrated yet") as caught:
        Calibrated(Model(), folder).embed_query(QUESTIONS["en"][0])
    assert "reindex" in caught.value.hint
    with unhurried():
        before = Calibrated(first, folder).embed_passages(PASSAGES["en"]).tobytes()
    asked, after = first.asked, Calibrated(second, folder)
    assert (after.embed_passages(PASSAGES["en"]).tobytes(), second.asked < asked / 10) == (before, True)
    assert after.scale[1][1] == 0.5
    assert after.fingerprint not in {second.fingerprint, ""}
    [file] = folder.iterdir()
    assert file.suffix == ".npz"
    with file.open("rb") as stored:
        read = Calibration.load(stored)
    assert read.scale == learnt.scale
    for ours, theirs in ((read.query, learnt.query), (read.passage, learnt.passage)):
        np.testing.assert_allclose(ours.basis, theirs.basis, atol=1e-3)
        np.testing.assert_allclose(ours.shift, theirs.shift, atol=1e-3)
    for damage in (b"", b"PK\x03\x04 half an archive", b"\x93NUMPY nothing"):
        file.write_bytes(damage)
        with unhurried():
            assert Calibrated(Model(), folder).embed_passages(PASSAGES["en"]).tobytes() == before
    with unhurried(), pytest.raises(EmbeddingError, match="cannot be written"):
        Calibrated(Model(), file).embed_query(QUESTIONS["en"][0])


# -- the calibration that ships


@pytest.mark.parametrize(("module", "embedder", "most"), [(e5, e5.E5(), 100_000), (use, use.USE(), 130_000)])
def test_a_shipped_calibration_is_named_by_the_fingerprint(module: Any, embedder: Any, most: int) -> None:
    """
    The hash of a shipped calibration is part of the fingerprint: another one makes other vectors. Its directions are
    orthogonal to about half precision, so that removing those of e5 twice changes nothing.
    """
    data = Path(module.__file__).with_name(module.CALIBRATION).read_bytes()
    assert hashlib.sha256(data).hexdigest()[:8] == module.CALIBRATED.partition("-")[2]
    assert module.CALIBRATED in embedder.fingerprint
    assert len(data) < most
    learnt = module.calibration()
    sides = (learnt.query.basis, learnt.passage.basis) if module is e5 else (learnt.directions,)
    for basis in sides:
        assert basis.shape == (256, 512) if module is use else 10 < len(basis) < 40
        np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=5e-3 if module is e5 else 0.02)
    assert use.SUMS["weights.npz"][:8] in use.FINGERPRINT


@pytest.mark.model
def test_a_question_finds_the_note_in_the_other_language() -> None:
    """With the bundled model, a question finds its answer in another language before other notes."""
    model = e5.E5()
    for language, other in (("ko", "en"), ("en", "ko"), ("ja", "de")):
        assert best_of_two(None, model, language, other, 12) >= 10 / 12, (language, other)


def test_the_sample() -> None:
    """Texts of 24 items in 21 languages are those that VERSION names: others would calibrate every service otherwise."""
    data = files("spellbook.models").joinpath("sample.json").read_bytes()
    assert (VERSION, hashlib.sha256(data).hexdigest()[:12]) == ("c1", "3e56ecab4b2a")
    assert {(len(QUESTIONS[each]), len(PASSAGES[each])) for each in LANGUAGES} == {(24, 24)}
    assert len(LANGUAGES) == 21
