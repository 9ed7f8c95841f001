"""Conflict copies and bins by the programs that make them, and names of people that are like them."""

import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.text.markdown_endings import ENDINGS
from spellbook.vault.names import belongs, is_note, safe_name

COPIES = {
    "ownCloud": "a_conflict-20260101-101010",
    "ownCloud with a user": "a_conflict-ann-20260101-101010",
    "Nextcloud": "a (conflicted copy ann 2026-01-01 101010)",
    "OpenCloud": "a (conflicted copy 2026-01-01 101010)",
    "Obsidian Sync": "a (Conflicted copy iPhone 202601011010)",
    "Dropbox": "a (Ann's conflicted copy 2026-01-01)",
    "Dropbox in Italian": "a (versione in conflitto di Ann 2026-01-01)",
    "Dropbox in Danish": "a (Anns modstridende kopi 2026-01-01)",
    "Dropbox in Norwegian": "a (Kopi i konflikt fra Ann 2026-01-01)",
    "Dropbox in Ukrainian": "a (Конфліктна копія Ann 2026-01-01)",
    "Dropbox in Indonesian": "a (salinan yang berkonflik milik Ann 2026-01-01)",
    "Dropbox in Thai": "a (สำเนาที่ขัดแย้งของ Ann 2026-01-01)",
    "Dropbox in Polish": "a (Kopia w konflikcie Ann 2026-01-01)",
    "Box": "a (Ann Smith conflict 2026-01-05-10-10-10)",
    "Unison": "a (copy: conflict #1 on 2026-01-05)",
    "another language": "a (Ann Konflikt 2026-01-05)",
    "Seafile": "a (SFConflict ann@example.org 2026-Jan-5-10-10-10)",
    "Nutstore": "a(NSConflict-Ann-v2)",
    "pCloud": "a [conflicted]",
    "Google Drive": "a [Conflict 2]",
    "Syncthing": "a.sync-conflict-20260101-101010-ABCDEFG",
    "rclone": "a.conflict2",
    "Resilio Sync": "a.Conflict",
    "Synology": "a_nas_Jan-05-1010-2026_Conflict",
    "git mergetool": "a_REMOTE_4711",
}
OWN_COPIES = [
    "a (1)", "a 2", "a-LAPTOP", "a (conflicted)", "a (conflict of 2026)", "a (non-conflicting 2026-01-01)", "v1.conflict",
    "Conflict", "a_conflict-plan", "conflict-2026-01-01", "a (the Balkan conflict)", "a [1]", "a_conflict", "a [conflicting]",
    "copy (2026-01-01)", "(Konflikt)", "a_REMOTE", "충돌 사본", "a (copy)", "a (Conflictos 2026)",
]  # fmt: skip
BINS = [
    "$RECYCLE.BIN/S-1", "RECYCLER/S-1", "System Volume Information", "FOUND.000", "found.012", "lost+found", "#recycle",
    "#snapshot/daily", "@eaDir", "@Recycle", "@Recently-Snapshot", "~snapshot", "_gsdata_", "__MACOSX", "@sharesnap",
    "Network Trash Folder", "Temporary Items", "logseq/bak", ".Trash-1000", ".Trashes", ".stversions", ".dropbox.cache",
    ".dtrash", ".AppleDouble", ".snapshot",
]  # fmt: skip
OWN_FOLDERS = [
    "Recycler", "recycler", "Lost and found", "my lost+found", "lost+found box", "snapshot", "Snapshots", "found", "FOUND.00",
    "FOUND.0000", "temporary items", "gsdata", "Trash", "recycle", "# recycle", "eaDir", "System", "bak", "network trash folder",
]  # fmt: skip


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("name", COPIES.values(), ids=COPIES)
def test_a_copy_is_no_note_and_no_new_note_looks_like_one(name: str, form: Literal["NFC", "NFD"]) -> None:
    """A copy is left out under every ending, by its name alone; a title that reads like one makes a name of a note."""
    name = unicodedata.normalize(form, name)
    assert not any(is_note(f"folder/{name}{ending}") for ending in ENDINGS)
    assert is_note(f"{safe_name(name)}.md")


@given(st.sampled_from(OWN_COPIES), st.sampled_from(["", "folder/"]), st.sampled_from(ENDINGS))
def test_names_that_a_person_gives_are_notes(name: str, folder: str, ending: str) -> None:
    """Numbers, machines and words about conflicts in a name do not make a copy."""
    assert is_note(f"{folder}{name}{ending}")


@given(st.sampled_from(BINS), st.sampled_from(OWN_FOLDERS), st.booleans(), st.sampled_from(ENDINGS))
def test_bins_at_any_depth_are_left_out_and_alike_folders_are_not(
    name: str, own: str, is_deep: bool, ending: str
) -> None:
    """What lies in a bin is no note and belongs to no vault; a folder or a note of a name like a bin's is a person's."""
    inside = f"{own}/{name}/b{ending}" if is_deep else f"{name}/b{ending}"
    assert not is_note(inside)
    assert not belongs(inside)
    assert is_note(f"{own}/b{ending}")
    assert is_note(f"{own}{ending}")
    assert is_note(f"x/{name.rpartition('/')[2].lstrip('.')} too{ending}")
