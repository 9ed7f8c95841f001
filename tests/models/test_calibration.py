"""
Calibration: vectors without their language, and cosines on a common scale; learned once for each model and stored.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from spellbook.models.base import score, unhurried
from spellbook.models.calibration import Calibration, Side, calibrate, edit, sample, scale_of
from spellbook.models.e5 import e5
from spellbook.models.services.embed import Calibrated
from spellbook.system.errors import EmbeddingError

DIM = 64
QUESTIONS, PASSAGES = sample()
LANGUAGES = list(QUESTIONS)


def direction(*names):
    """A fixed random unit vector for a name."""
    seed = int.from_bytes(hashlib.sha256("/".join(map(str, names)).encode()).digest()[:8], "little")
    vector = np.random.default_rng(seed).normal(size=DIM)
    return vector / np.linalg.norm(vector)


def whose(text):
    """The language and item number of a sample text, and whether it was edited."""
    for side in (QUESTIONS, PASSAGES):
        for language, texts in side.items():
            for i, each in enumerate(texts):
                if text in {each, edit(each)}:
                    return language, i, text != each
    raise KeyError(text)


class Model:
    """
    A simulated model: its vectors mix meaning, wording, language and a part that all texts share.

    `knows` limits its languages.
    """

    name = "model"
    fingerprint = "model:1"
    scale = ((0.0, 0.0), (1.0, 1.0))

    def __init__(self, knows=LANGUAGES):
        self.knows = knows
        self.asked = 0

    def _vector(self, text):
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

    def embed_query(self, text):
        return self._vector(text)

    def embed_passages(self, texts):
        return np.array([self._vector(text) for text in texts], dtype=np.float32)

    embed_queries = embed_passages


def best_of_two(calibration, model, language, other, most=None):
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
def learnt():
    model = Model()
    return calibrate(model.embed_queries, model.embed_passages)


@pytest.mark.parametrize(("language", "other"), [("ko", "en"), ("en", "ar"), ("ja", "de")])
def test_a_question_finds_the_answer_in_another_language(learnt, language, other):
    """Raw vectors prefer texts in the question's language; calibrated ones find the answer."""
    assert best_of_two(None, Model(), language, other) < 0.5
    assert best_of_two(learnt, Model(), language, other) > 0.9


def test_the_scale_tells_kinds_of_pairs_apart(learnt):
    """Unrelated pairs score below related ones, answers higher, and an edited copy as a duplicate."""
    model = Model()
    asked = learnt.query.apply_all(model.embed_queries(QUESTIONS["ko"]))
    told = learnt.passage.apply_all(model.embed_passages(PASSAGES["en"]))
    scores = np.vectorize(lambda cosine: score(float(cosine), learnt.scale))(asked @ told.T)
    own = np.eye(len(asked), dtype=bool)
    assert (np.percentile(scores[~own], 95) < 0.5, np.median(scores[own]) > 0.5) == (True, True)
    twins = learnt.passage.apply_all(model.embed_passages([edit(text) for text in PASSAGES["en"]]))
    assert np.median([score(float(a @ b), learnt.scale) for a, b in zip(told, twins, strict=True)]) >= 0.95


def test_what_all_texts_share_is_taken_off_in_part(learnt):
    """Unrelated texts are nearly orthogonal; their raw vectors point the same way."""
    rows = Model().embed_passages(PASSAGES["en"])
    unrelated = ~np.eye(len(rows), dtype=bool)
    left = learnt.passage.apply_all(rows)
    assert np.median((rows @ rows.T)[unrelated]) > 0.6
    assert np.median((left @ left.T)[unrelated]) < 0.25


def test_a_language_that_the_model_does_not_know_does_not_count():
    """A model of two languages has one direction between them; one of a single language has none, but a scale."""
    for knows, directions in ((["en", "ko"], 1), (["en"], 0), ([], 0)):
        model = Model(knows)
        learnt = calibrate(model.embed_queries, model.embed_passages)
        assert learnt.query.basis.shape == (directions, DIM)
        cosines, scores = zip(*learnt.scale, strict=True)
        assert sorted(set(cosines)) == list(cosines)
        assert scores == (0.0, 0.5, 0.7, 0.95, 1.0)


def test_a_vector_does_not_depend_on_its_company():
    """A vector is equal to the last bit alone, among others and in any order, with length one."""
    side = Side.fit({name: Model().embed_passages(PASSAGES[name]) for name in ("en", "ko", "zh")})
    rows = Model().embed_passages(PASSAGES["de"])
    together = side.apply_all(rows)
    assert [side.apply(row).tobytes() for row in rows] == [row.tobytes() for row in together]
    assert side.apply_all(rows[::-1])[::-1].tobytes() == together.tobytes()
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-6)
    assert side.apply_all(rows[:0]).shape == (0, DIM)


def test_what_is_saved_is_read_again(learnt):
    """A stored calibration reads back equal to half precision, and writing it again gives the same file."""

    def again(calibration):
        file = io.BytesIO()
        calibration.save(file)
        file.seek(0)
        return Calibration.load(file)

    read = again(learnt)
    assert read.scale == learnt.scale
    np.testing.assert_allclose(read.query.basis, learnt.query.basis, atol=1e-3)
    assert again(read).passage.shift.tobytes() == read.passage.shift.tobytes()


@pytest.mark.parametrize("cosines", [(0.5, 0.5), (-1.0, 1.0), (1.0, 1.0), (0.0, 0.0)])
def test_a_scale_always_rises(cosines):
    """A higher cosine never gets a lower score."""
    asked = np.tile([[1.0, 0.0]], (3, 1))
    told = np.array([[cosine, np.sqrt(1 - cosine**2)] for cosine in (cosines[0], cosines[1], cosines[0])])
    scale = scale_of([(asked, told)], [cosines[1]])
    scores = [score(cosine / 100, scale) for cosine in range(-100, 101)]
    assert scores == sorted(scores)
    assert scores[-1] == 1


# -- kept for a service


def test_a_calibration_is_learnt_once(tmp_path):
    """The first background run learns the calibration; later processes read it and get the same bits."""
    first, second = Model(), Model()
    with unhurried():
        before = Calibrated(first, tmp_path).embed_passages(PASSAGES["en"])
    asked = first.asked
    after = Calibrated(second, tmp_path)
    assert (after.embed_passages(PASSAGES["en"]).tobytes(), second.asked < asked / 10) == (before.tobytes(), True)
    assert after.scale[1][1] == 0.5
    assert after.fingerprint not in {second.fingerprint, ""}
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]


def test_nobody_waits_for_a_calibration(tmp_path):
    """A search before calibration gets an error with what to do, instead of waiting a minute."""
    with pytest.raises(EmbeddingError, match="not calibrated yet") as caught:
        Calibrated(Model(), tmp_path).embed_query(QUESTIONS["en"][0])
    assert "reindex" in caught.value.hint


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half an archive", b"\x93NUMPY nothing"])
def test_a_damaged_calibration_is_learnt_again(tmp_path, damage):
    """A damaged calibration is replaced by an equal one."""
    with unhurried():
        before = Calibrated(Model(), tmp_path).embed_passages(PASSAGES["ko"])
        [file] = tmp_path.iterdir()
        file.write_bytes(damage)
        assert Calibrated(Model(), tmp_path).embed_passages(PASSAGES["ko"]).tobytes() == before.tobytes()


def test_a_calibration_that_cannot_be_kept_is_none(tmp_path):
    """If the calibration cannot be stored no vectors are returned, since the next process could not compare them."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with unhurried(), pytest.raises(EmbeddingError, match="cannot be written"):
        Calibrated(Model(), blocked).embed_query(QUESTIONS["en"][0])


# -- the calibration that ships


def test_the_shipped_calibration_is_named_by_the_fingerprint():
    """
    The hash of the shipped calibration is part of the fingerprint. Its directions are orthogonal to half precision, so that
    removing them twice changes nothing.
    """
    data = Path(e5.__file__).with_name(e5.CALIBRATION).read_bytes()
    assert hashlib.sha256(data).hexdigest()[:8] == e5.CALIBRATED.removeprefix("c1-")
    assert e5.CALIBRATED in e5.E5().fingerprint
    assert len(data) < 100_000
    for side in (e5.calibration().query, e5.calibration().passage):
        assert (10 < len(side.basis) < 40, side.basis.shape[1]) == (True, 384)
        np.testing.assert_allclose(side.basis @ side.basis.T, np.eye(len(side.basis)), atol=5e-3)


@pytest.mark.model
def test_a_question_finds_the_note_in_the_other_language():
    """With the bundled model, a question finds its answer in another language before other notes."""
    model = e5.E5()
    for language, other in (("ko", "en"), ("en", "ko"), ("ja", "de")):
        assert best_of_two(None, model, language, other, 12) >= 10 / 12, (language, other)
