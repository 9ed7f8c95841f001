"""Bundles of the Open Knowledge Format: what is written conforms, private notes stay, and faults are named."""

import zipfile
from pathlib import Path

import pytest

from spellbook.archive import open_knowledge
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput
from tests.commands import spellbook_in

PUBLIC = "privacy_scope: public\n"
NOTES = {
    "plain.md": "---\nprivacy_scope: [\n---\n\nNobody sees this.\n",
    "secret.md": "---\nprivacy_scope: private\ntype: Note\n---\n\nNobody sees this.\n",
    "typed.md": f"---\ntype: Metric  # kept\n{PUBLIC}description: What [it] is\n---\n\n![[a.png]] [[plain]]\n",
    "sub/untyped.md": f"---\r\n{PUBLIC.strip()}\r\ncategory: decision\r\n---\r\n\r\nWe decided.\r\n",
    "sub/toml.md": '+++\nprivacy_scope = "public"\ntitle = "A [b]"\n+++\n\nText.\n',
    "sub/deep/list.md": "---\ntype: [a, b]\n---\n\nText.\n",
    "sub/deep/index.md": f"---\n{PUBLIC}---\n\nA note, not a listing.\n",
    "sub/log.md": "# Log\n\n## 2026-05-22\n* **Creation**: made.\n",
}


@pytest.fixture
def filled(vault: Path, book: Spellbook) -> Spellbook:
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_bytes(text.encode())
    for name in ("a.png", "other.png"):
        (vault / name).write_bytes(b"\x89PNG\r\n\x1a\n")
    return book


def test_a_bundle_conforms_and_hides_what_is_private(filled: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    Each note has a type, each folder a listing, and the top names the version; the rest of a note stays as it is.

    Without --private there are the notes that do not call themselves private, and the files that these lead to.
    """
    before = {path: path.read_bytes() for path in vault.rglob("*.md")}
    done, hidden = filled.export_bundle(tmp_path / "out")
    out = tmp_path / "out"
    files = {
        path.relative_to(out).as_posix(): path.read_bytes().decode("utf-8", "replace") for path in out.rglob("*.*")
    }
    listings = {"index.md", "sub/index.md", "sub/deep/index.md"}
    notes = {"typed.md", "sub/untyped.md", "sub/toml.md", "sub/deep/list.md", "sub/deep/index-note.md", "sub/log.md"}
    assert files.keys() == listings | notes | {"a.png"}
    assert (done.notes, done.attachments, hidden) == (6, 1, 2)
    assert files["typed.md"] == NOTES["typed.md"]
    assert files["sub/untyped.md"] == NOTES["sub/untyped.md"].replace("---\r\n", "---\r\ntype: decision\r\n", 1)
    assert files["index.md"].startswith('---\nokf_version: "0.2"\n---\n\n# ')
    assert "* [typed](typed.md) - What [it] is\n" in files["index.md"]
    assert "* [sub](sub/index.md)" in files["index.md"]
    assert "* [A \\[b\\]](toml.md)" in files["sub/index.md"]
    with books.open(out, embedder="hash", state=tmp_path / "of-it") as made:
        assert [*open_knowledge.faults(made.index.vault)] == []
        assert {each.target for each in made.broken_links()} == {"plain"}
    spellbook_in(vault, "export", tmp_path / "all.zip", "--okf", "--private")
    assert {*NOTES, "other.png"} - {"sub/deep/index.md"} <= {*zipfile.ZipFile(tmp_path / "all.zip").namelist()}
    assert {path: path.read_bytes() for path in vault.rglob("*.md")} == before


def test_where_a_bundle_goes(filled: Spellbook, vault: Path, tmp_path: Path) -> None:
    """Not into the vault, nor into a folder that holds something; the command says how many notes were left out."""
    for place, wrong in ((vault / "x", "lies in the vault"), (tmp_path, "is not empty")):
        with pytest.raises(InvalidInput, match=wrong):
            filled.export_bundle(place)
    assert "2 private notes left out: --private" in spellbook_in(vault, "export", tmp_path / "b.zip", "--okf").stderr
    assert spellbook_in(vault, "export", "-", "--okf", code=2)


@pytest.mark.parametrize(
    ("path", "text", "fault"),
    [
        ("a.md", "Text.\n", "no frontmatter"),
        ("a.md", "---\ntype: [\n---\nText.\n", "no frontmatter that can be read"),
        ("a.md", "---\ntype: ' '\n---\nText.\n", "no type"),
        ("a.md", "---\ntype: X\ngenerated: me\n---\n", "generated"),
        ("a.md", "---\ntype: X\nverified: [{by: human:a, at: 2026-01-01}, human:b]\n---\n", "verified"),
        ("a.md", "---\ntype: X\nstale_after: soon\n---\n", "stale_after"),
        ("a.md", "---\ntype: X\nsources: [{title: T}]\n---\n", "sources"),
        ("sub/index.md", '---\nokf_version: "0.2"\n---\n', "listing"),
        ("log.md", "## Yesterday\n* x\n", "day"),
        ("index.md", '---\nokf_version: "0.2"\n---\n# A\n', ""),
        ("log.md", "# Log\n\n## 2026-05-22\n* x\n", ""),
        ("a.md", "---\ntype: X\nverified: {by: process:n, at: 2026-01-01}\nodd: 1\n---\n[no](no.md)\n", ""),
    ],
)
def test_what_does_not_conform_is_named(vault: Path, path: str, text: str, fault: str) -> None:
    """`doctor --okf` names each fault at its file and exits with 1; no note is refused for it."""
    (vault / path).parent.mkdir(exist_ok=True)
    (vault / path).write_text(text)
    done = spellbook_in(vault, "doctor", "--okf", code=1 if fault else 0)
    assert (path in done.stderr) is bool(fault)
    assert fault in done.stderr
