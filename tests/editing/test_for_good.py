"""Erasing for good: after it no file that Spellbook keeps has the text, or the bytes of one of its vectors."""

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spellbook.archive import export
from spellbook.editing import erase, erase_for_good, revise
from spellbook.editing.revise import Revision
from spellbook.index import embed, sync
from spellbook.index.opened import Index
from spellbook.index.vectors import follow
from spellbook.index.vectors.chroma import Chroma
from spellbook.models.embedders import HashEmbedder
from spellbook.settings import paths
from spellbook.system.errors import StorageError
from tests.helpers import Small, opened, until

WORD = "Quillonbrass"
TEXT = f"# Keeper\n\nThe {WORD} is hidden under the third stair of the house.\n"
SIBLING = "# Ferry\n\nThe Lissavik ferry leaves pier nine at dawn.\n"


def vectors(index: Index, path: str) -> dict[str, list[bytes]]:
    """The vectors of a note in each form in which they are kept: packed in the catalog, int8 in it, float32 in Chroma."""
    keys = index.catalog.vectors.keys_of([path])
    marks = ", ".join("?" * len(keys))
    with contextlib.closing(sqlite3.connect(index.config.state / "catalog.db")) as database:
        read = {
            table: [row[0] for row in database.execute(f"SELECT vector FROM {table} WHERE key IN ({marks})", [*keys])]
            for table in ("vectors", "second")
        }
    texts = [chunk.key for chunk in index.catalog.at(path)]
    return {**read, "chroma": [*index.catalog.vectors.of(texts).values()]}


def pieces(vector: bytes) -> list[bytes]:
    """Parts of a vector by which it is known."""
    found = [vector[start : start + 96] for start in range(0, len(vector) - 96, 48)]
    return [each for each in found if len({*each}) > 4]


def files(*places: Path) -> Iterator[tuple[Path, bytes]]:
    for place in places:
        for file in sorted(place.rglob("*")):
            if file.is_file():
                yield file, file.read_bytes()


def where(index: Index, parts: list[bytes]) -> set[str]:
    """The files of the vault, the state, the data and the snapshots' folder that hold one of these bytes."""
    places = (
        index.config.vault,
        index.config.state,
        Path(paths.data(str(index.config.vault))),
        index.config.snapshot_folder,
    )
    return {file.name for file, data in files(*places) if any(part in data for part in parts)}


def kept_blobs(index: Index) -> bytes:
    with contextlib.closing(sqlite3.connect(index.config.state / "journal.db")) as database:
        return b"".join(zlib.decompress(row[0]) for row in database.execute("SELECT data FROM blobs"))


def test_nothing_of_it_is_left(vault: Path, tmp_path: Path) -> None:
    """
    Neither text nor vector is in any file of vault, state, data and exports: not in trash, journal, catalog, Chroma,
    logs and exports. A sibling stays in all of them.
    """
    vault = vault.resolve()
    for name, text in {"gone": TEXT, "stays": SIBLING}.items():
        (vault / f"{name}.md").write_text(f"---\nid: {name}-1\n---\n{text}", "utf-8")
    for number in range(30):
        (vault / f"h{number}.md").write_text(f"# Harbour {number}\n\nA note about cranes, number {number}.\n", "utf-8")
    with opened(vault, HashEmbedder()) as index:
        index = replace(index, second=Small())
        index.catalog.second.adopt("small:1")
        sync.run(index)
        embed.embed_texts(index)
        embed.embed_second(index, None)
        follow.complete(index)
        for name in ("gone", "stays"):
            revise.revise(index, f"{name}-1", Revision(append="And more of it."))
            data = index.vault.read(f"{name}.md")[0]
            with index.vault.change("import", "folder"):
                index.vault.trash.copy(f"{name}.md", index.vault.hash(f"{name}.md"))
                index.vault.write(f"{name}.md", data + b"And the end.\n", index.vault.hash(f"{name}.md"))
            with (index.config.state / "git-hooks.log").open("a") as log:
                log.write(f"2026-11-29 {name}.md: the line 3 is odd\n")
        sync.run(index)
        embed.embed_second(index, None)
        follow.complete(index)
        (index.config.snapshot_folder / "exports").mkdir(parents=True)
        export.run(index.vault, index.config.snapshot_folder / "exports" / "all.zip", "markdown")
        export.run(index.vault, index.config.snapshot_folder / "exports" / "all.json", "json")
        export.run(index.vault, index.config.snapshot_folder / "exports" / "one.zip", "markdown", only={"stays.md"})
        mine, other = vectors(index, "gone.md"), vectors(index, "stays.md")
        for form, each in {**mine}.items():
            assert where(index, [part for vector in each for part in pieces(vector)]), form
        assert WORD.encode() in kept_blobs(index)
        assert {"gone.md", "all.json"} <= where(index, [WORD.encode()])
        assert "git-hooks.log" in where(index, [b"gone.md"])

        erase.erase(index, "gone-1", hard=True)
        follow.complete(index)
        exports = {file.name for file in (index.config.snapshot_folder / "exports").iterdir()}
        assert exports == {"one.zip"}
        for form, each in mine.items():
            assert not where(index, [part for vector in each for part in pieces(vector)]), form
            assert where(index, [part for vector in other[form] for part in pieces(vector)]), form
        assert not where(index, [WORD.encode(), WORD.lower().encode(), b"gone.md"])
        assert WORD.encode() not in kept_blobs(index)
        assert "Lissavik" in kept_blobs(index).decode()
        assert {"stays.md", "git-hooks.log"} <= where(index, [b"stays.md", b"Lissavik"])
        assert [trace.path for trace in index.vault.journal.entries(1)[0].traces] == ["gone-1"]


def test_a_step_that_fails_stops_no_other(vault: Path) -> None:
    """If one of the places cannot be cleaned, all others are, and the error says what to do."""
    (vault / "gone.md").write_text(f"---\nid: gone-1\n---\n{TEXT}", "utf-8")
    with opened(vault.resolve(), HashEmbedder()) as index:
        sync.run(index)
        exports = index.config.snapshot_folder / "exports"
        (exports / "a folder.zip").mkdir(parents=True)
        (exports / "none.zip").write_text("none", "utf-8")
        (exports / "kept.json").write_text(f"gone.md: {TEXT}", "utf-8")
        (index.config.state / "odd.log").mkdir()
        with pytest.raises(StorageError, match="may still hold text that was erased"):
            erase.erase(index, "gone-1", hard=True)
        assert {file.name for file in exports.iterdir()} == {"a folder.zip", "none.zip"}
    assert next(step.__name__ for step in erase_for_good.STEPS) == "_trash"


def test_no_process_with_texts_fills_chroma(
    vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chroma_follows: None
) -> None:
    """
    Neither a command that embedded much nor an export of the vectors writes Chroma's files itself: they keep scraps of
    the memory of the process that writes them. A child does it.
    """
    monkeypatch.setattr(Chroma, "catch_up", lambda *_: pytest.fail("this process filled Chroma"))
    with opened(vault.resolve(), HashEmbedder(), exact_most=1) as index:
        for name, text in {"one": TEXT, "two": SIBLING}.items():
            (index.config.vault / f"{name}.md").write_text(text, "utf-8")
            sync.run(index)
            until(lambda: not follow.is_due(index))
        assert index.chroma.rows == index.catalog.counts().chunks > 1
        (index.config.vault / "new.md").write_text("Lanterns hang in the tower.", "utf-8")
        sync.run(index)
        assert follow.copy(index, tmp_path / "copy") == index.catalog.counts().chunks
