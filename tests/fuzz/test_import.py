"""Imports of any exports and zips, with any paths, modes and times, write only into the vault, or nothing."""

import base64
import hashlib
import json
import re
import stat
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spellbook.archive.export import FORMAT, VERSION
from spellbook.archive.importer import RULES
from spellbook.library import book as books
from spellbook.system.errors import SpellbookError
from tests.fuzz import bounded
from tests.helpers import held
from tests.trees import grow

PARTS = st.sampled_from(
    [
        *("a", "b.md", "한글.md", "x", "..", ".", "", "A", "B.md", "b.md.", "link", "x" * 300, "~", "__MACOSX"),
        *(".git", ".GIT", ".git ", ".g\u200cit", "git~1", "hooks", "pre-commit", ".obsidian", ".trash"),
        *(".spellbook", "config.toml", "queries.yaml", ".spellbookignore"),
        *("con.md", "nul", "a:b.md", "a\\b.md", "..\\c.md", "C:", "a\0b", "sync.md\n", "\udce4.md"),
    ]
)
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
MODES = st.sampled_from([None, 0, 0o644, 0o755, 0o4755, 0o777, 0o120777, -1, 2**80, "755", 1.5])
TIMES = st.sampled_from([None, 0, -1, 10**18, 2**63, 2**80, -(2**70), "then", 1.5])
FILES = st.lists(st.tuples(PATHS, st.binary(max_size=40), MODES, TIMES), max_size=6)


@bounded(30)
@given(FILES, st.sampled_from(["json", "zip"]), st.sampled_from(RULES), st.sampled_from(["", "in", "../out", ".git"]))
def test_only_parts_of_a_vault_are_written(files: list[Any], kind: str, rule: str, into: str) -> None:
    """An import writes nothing outside, hidden or executable and leaves a sound index; refused, it changes nothing."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        vault, outside = grow(folder / "vault", {"b.md": b"# Mine\n\nkept\n"}, ("x",)), folder / "outside"
        grow(outside, {"kept.md": b"theirs\n"})
        (vault / "link").symlink_to(outside)
        source = MAKERS[kind](folder, files)
        with books.open(vault, embedder="hash", state=folder / "state") as book:
            before, around = held(vault), held(outside)
            try:
                paths = book.import_(source, on_conflict=rule, into=into).paths
            except SpellbookError:
                assert held(vault) == before
            else:
                hidden = [path for path in paths if re.search(r"(^|/)\.(?!trash/)", path)]
                assert set(hidden) <= {".spellbookignore", ".spellbook/config.toml"}
            assert held(outside) == around
            assert sorted(each.name for each in folder.iterdir() if each != source) == ["outside", "state", "vault"]
            for status in (path.lstat() for path in vault.rglob("*")):
                assert not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o7111
            book.reindex()
            assert book.find("Mine").hits or rule == "overwrite"


def _json(folder: Path, files: list[Any]) -> Path:
    records = []
    for path, data, mode, mtime_ns in files:
        record = {"path": path, "base64": base64.b64encode(data).decode(), "sha256": hashlib.sha256(data).hexdigest()}
        records.append({**record, "mode": mode, "mtime_ns": mtime_ns})
    place = folder / "export.json"
    place.write_text(json.dumps({"format": FORMAT, "version": VERSION, "files": records, "count": len(records)}))
    return place


def _zip(folder: Path, files: list[Any]) -> Path:
    place = folder / "export.zip"
    with warnings.catch_warnings(), zipfile.ZipFile(place, "w") as archive:
        warnings.simplefilter("ignore")  # two entries of one name are meant
        for path, data, mode, _ in files:
            entry = zipfile.ZipInfo(path.encode("utf-8", "replace").decode())
            entry.external_attr = (mode & 0xFFFF) << 16 if isinstance(mode, int) else 0
            archive.writestr(entry, data)
    return place


MAKERS = {"json": _json, "zip": _zip}
