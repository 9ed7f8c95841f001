"""Chroma's files are damaged, or the disk is full: it is built anew, and no process ends in it for ever."""

import contextlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook.index.vectors import chroma as chromas
from spellbook.index.vectors.chroma import Chroma, Unavailable
from tests.blocks import units
from tests.helpers import finished, python
from tests.index.test_chroma import Store, garble
from tests.trees import grow


def formless(folder: Path) -> None:
    """Leave out of what form the folder is."""
    file = folder.with_name("chroma.json")
    file.write_text(json.dumps({name: value for name, value in json.loads(file.read_text()).items() if name != "form"}))


def test_a_broken_folder_is_given_up_and_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A broken folder or one of another form raises only Unavailable; the next catch-up writes all rows into a new one.

    A broken folder is deleted at once: it may be what fills the disk. Nothing is added to a disk that is nearly full.
    """
    block = units(20)
    for number, break_it in enumerate[Callable[[Path], object]]((garble, shutil.rmtree, formless)):
        place = tmp_path / str(number)
        place.mkdir()
        with contextlib.closing(Chroma(place, "f")) as first:
            first.catch_up(Store(block), 100)
        break_it(place / "chroma-1")
        with contextlib.closing(Chroma(place, "f")) as chroma:
            with pytest.raises(Unavailable):
                chroma.nearest(block[0], 1)
            assert break_it is formless or sys.platform == "win32" or not [*place.glob("chroma-*")]
            with monkeypatch.context() as full:
                full.setattr(chromas, "RESERVE", 1 << 60)
                with pytest.raises(Unavailable, match="the disk is nearly full"):
                    chroma.catch_up(Store(block), 100)
            assert (chroma.seq, chroma.catch_up(Store(block), 100)) == (0, 20)
            assert chroma.nearest(block[7], 1)[0] == "k7"
        folder = json.loads((place / "chroma.json").read_text())["folder"]
        assert [path.name for path in place.glob("chroma-*")] == [folder]
        assert break_it is shutil.rmtree or folder == "chroma-2"


@pytest.mark.parametrize("name", [".", "..", "../other", "chroma-1/../../other", "chroma-²", "5"])
def test_a_folder_that_is_not_its_own_is_neither_read_nor_deleted(tmp_path: Path, name: str) -> None:
    """A chroma.json that names another folder counts as none: nothing is written there, and nothing is deleted."""
    state, block = tmp_path / "state", units(20)
    grow(tmp_path, {"other/a.md": b"a", "state/journal.db": b"journal"})
    with contextlib.closing(Chroma(state, "f")) as chroma:
        chroma.catch_up(Store(block), 100)
    (state / name).mkdir(exist_ok=True)
    file = state / "chroma.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"folder": name}))
    with contextlib.closing(Chroma(state, "f")) as chroma:
        with pytest.raises(Unavailable):
            chroma.nearest(block[7], 1)
        assert chroma.catch_up(Store(block), 100) == 20
        assert chroma.nearest(block[7], 1)[0] == "k7"
    assert [*map(Path.read_bytes, (tmp_path / "other/a.md", state / "journal.db"))] == [b"a", b"journal"]
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["a.md"]


DYING = """
import os, sys, pathlib
from spellbook.index.vectors.chroma import Chroma
import chromadb.config
for _ in range(3):
    if (child := os.fork()) == 0:
        chroma = Chroma(pathlib.Path(sys.argv[1]), "f")
        with chroma.reading(chroma.current()):
            os._exit(1)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_files_that_end_the_processes_which_ask_are_built_anew(tmp_path: Path) -> None:
    """An index in which three processes ended, one after another, is given up, as is one whose rows are gone."""
    block = units(20)
    with contextlib.closing(Chroma(tmp_path, "f")) as chroma:
        chroma.catch_up(Store(block), 100)
        finished(python(DYING, tmp_path))
        with pytest.raises(Unavailable, match="ended"):
            chroma.nearest(block[7], 1)
        assert (chroma.seq, [*tmp_path.glob("chroma-*")]) == (0, [])
        assert chroma.catch_up(Store(block), 100) == 20
        assert chroma.nearest(block[7], 1)[0] == "k7"
        chroma.close()
        (tmp_path / "chroma-2" / "chroma.sqlite3").unlink()
        with pytest.raises(Unavailable, match="its rows are gone"):
            chroma.nearest(block[7], 1)
