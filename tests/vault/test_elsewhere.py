"""Files and folders whose content lies elsewhere: junctions of Windows, and files that iCloud holds back."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spellbook.index import sync
from spellbook.index.reindex_seal import stamps
from spellbook.library.book import Spellbook
from spellbook.system import platform
from spellbook.system.errors import UnreadableNote
from spellbook.vault.backup_files import tree
from spellbook.vault.folder import Folder
from tests.helpers import Write
from tests.trees import grow


def test_a_junction_is_named_and_not_followed(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A folder of Windows that stands for another one is told of and left out of the index and of backups, as a symbolic
    link is, and a change in it breaks no seal. What lies under another folder of its name is read.
    """
    grow(vault, {"a.md": b"a", "to-home/b.md": b"b", "c/to-home.md": b"c"})
    monkeypatch.setattr(platform, "reparse_tag", lambda place: 0xA000_0003 * (place.name == "to-home"))
    monkeypatch.setattr(platform, "HAS_JUNCTIONS", True)
    listing = Folder(vault).walk()
    assert set(listing.files) == {"a.md", "c/to-home.md"}
    assert [(fault.path, fault.reason.partition(",")[0]) for fault in listing.left_out] == [
        ("to-home", "a link to a folder")
    ]
    assert [file.path for file in tree(Folder(vault)).files] == ["a.md", "c/to-home.md"]
    walked = [file for _, _, files in platform.walk_links_left_out(vault) for file in files]
    assert sorted(walked) == ["a.md", "to-home.md"]
    before = stamps(str(vault), str(vault / "c"))
    grow(vault, {"to-home/d.md": b"d"})
    assert stamps(str(vault), str(vault / "c")) == before != b""


def test_a_scan_downloads_nothing(
    book: Spellbook, vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A note whose bytes went to iCloud alone stays findable as it was, and no byte of it is read. One that came so is named
    with what to do. Whatever changes such a note is refused.
    """
    write_note("kept.md", "The quetzal sings.", age=100)
    write_note("here.md", "A heron.", age=100)
    book.reindex()
    write_note("new.md", "A puffin.", age=100)
    os.chmod(vault / "kept.md", 0o600)  # its bytes go: size and time of the text stay
    own, away = os.fstat, {os.stat(vault / name).st_ino for name in ("kept.md", "new.md")}

    def fstat(number: int) -> Any:
        status = own(number)
        fields = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
        return SimpleNamespace(**fields, st_flags=0x4000_0000) if status.st_ino in away else status

    monkeypatch.setattr(os, "fstat", fstat)
    report = sync.run(book.index)
    assert [(fault.path, "iCloud has it" in fault.reason) for fault in report.failed] == [("new.md", True)]
    assert [hit.path for hit in book.find("quetzal").hits] == ["kept.md"]
    with pytest.raises(UnreadableNote, match="iCloud") as caught:
        book.revise("kept", append="More.")
    assert "Download it first" in caught.value.hint
    away.clear()
    assert sync.run(book.index).failed == ()
    assert [hit.path for hit in book.find("puffin").hits] == ["new.md"]
