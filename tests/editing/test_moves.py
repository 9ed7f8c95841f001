"""Moving a note or folder: links keep their targets, and nothing else changes."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spellbook.editing import moves
from spellbook.index import sync
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.notes.frontmatter import RELATIONS, dump
from spellbook.system import disk
from spellbook.system.errors import (
    Conflict,
    InvalidInput,
    MemoryNotFound,
    PathOutsideVault,
    SpellbookError,
    StorageError,
)
from spellbook.vault.vault import Vault
from tests.helpers import Counting, Write, held, leads, note_writer, opened

SOURCE = """\
---
up: "[[keys|the keys]]"
see: ['[[ops/keys.md#Rotation]]']
---
A [[keys]], [[Keys#Rotation|rotation]], ![[ops/keys]] and [[ops/keys#^b1]].\r
Relative: [a](../ops/keys.md#rotation "Keys"), ![b](<../ops/keys.md>), [c](../ops/keys), [d](/ops/keys.md).\r
[e][k], `[[keys]]`, [[nothing]], [f](https://x/ops/keys.md), [g](../ops/a%20plan.png)

[k]: ../ops/keys.md 'Keys'
"""


def test_links_keep_their_form(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Every kind of link to a renamed note is updated in its own form, and no other byte changes."""
    write_note("log/monday.md", SOURCE)
    write_note("ops/keys.md", "# Keys\n\n[[monday]] [m](../log/monday.md) [p](a%20plan.png) [self](keys.md#x)\n")
    (vault / "ops/a plan.png").write_bytes(b"png")
    done = book.move("ops/keys.md", "vault/deep/Key Rotation.md")
    assert done.new == "vault/deep/Key Rotation.md"
    assert [(each.path, each.links) for each in done.changed] == [
        ("log/monday.md", 11),
        ("vault/deep/Key Rotation.md", 3),
    ]
    assert (vault / "log/monday.md").read_bytes().decode() == (
        SOURCE.replace('"[[keys|', '"[[Key Rotation|')
        .replace("[[ops/keys.md#Rotation]]", "[[vault/deep/Key Rotation.md#Rotation]]")
        .replace("A [[keys]], [[Keys#Rotation|", "A [[Key Rotation]], [[Key Rotation#Rotation|")
        .replace(
            "![[ops/keys]] and [[ops/keys#^b1]]", "![[vault/deep/Key Rotation]] and [[vault/deep/Key Rotation#^b1]]"
        )
        .replace("(../ops/keys.md#", "(../vault/deep/Key%20Rotation.md#")
        .replace("(<../ops/keys.md>)", "(<../vault/deep/Key Rotation.md>)")
        .replace("(../ops/keys)", "(../vault/deep/Key%20Rotation)")
        .replace("(/ops/keys.md)", "(/vault/deep/Key%20Rotation.md)")
        .replace("[k]: ../ops/keys.md", "[k]: ../vault/deep/Key%20Rotation.md")
    )
    assert (vault / done.new).read_text() == (
        "# Keys\n\n[[monday]] [m](../../log/monday.md) [p](../../ops/a%20plan.png) [self](Key%20Rotation.md#x)\n"
    )
    assert not (vault / "ops/keys.md").exists()


def test_what_looks_like_a_link_stays(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    A formula, and code that ends with its cell, stay as they are; a link in the next cell is updated. A note with
    broken frontmatter is not changed, and the answer names it.
    """
    text = "| ` | $[[code]]$ |\n| - | - |\n| x` | [[code]] |\n| `[[code]]` | $[[code]]^2$ |\n\n$$\n[[code]]\n$$\n"
    write_note("a.md", text)
    write_note("code.md", "Code.")
    broken = write_note("b.md", "---\nx: [\n---\n[[code]]\n").read_bytes()
    done = book.move("code.md", "new.md")
    assert (vault / "a.md").read_text() == text.replace("x` | [[code]]", "x` | [[new]]")
    assert (vault / "b.md").read_bytes() == broken
    [left] = done.left
    assert (left.path, "line 4" in left.reason) == ("b.md", True)


BESIDE = {
    "A.md": "# A\n",
    "sub/C.md": "c",
    "pic.png": "png",
    ".obsidian/templates.json": '{"folder": "Templates"}',
    ".obsidian/app.json": '{"userIgnoreFilters": ["private/"]}',
    ".obsidian/bookmarks.json": '{"items": [{"type": "file", "path": "A.md"}]}',
    ".spellbookignore": "old/\n",
    "Templates/t.md": '---\ndate: {{date}}\nup: "[[A]]"\n---\nsee [[A|a]] [[{{yesterday}}]]\r\n',
    "old/x.md": "[[A]] a secret",
    "private/y.md": "[a](../A.md#x)",
    "view.base": 'filters:\n  - file.hasLink("A")\n',
    "bad.canvas": '{"nodes": [[A]]',
    "new.canvas": "",
    "board.canvas": """{
\t"nodes":[
\t\t{"id":"1", "type":"file","file":"A.md","subpath":"#x","k":1.0},{"file":"sub\\/C.md"},
\t\t{"text":"\\"file\\": \\"A.md\\" [[A#x|\\u00e9]]\\n[m](A.md) `[[A]]` [[sub/C]]", "label": "A.md"},
\t\t{"type":"group","background":"pic.png"}
\t],   "edges":[]
}
""",
}
"""A vault with files that link to notes and are none themselves."""


def test_canvases_templates_and_excluded_notes_follow(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Their links are rewritten and no other byte; what cannot be is named; undo restores all, and tells no text."""
    for path, text in BESIDE.items():
        write_note(path, text)
    (vault / "link.canvas").symlink_to("/etc/hostname")
    before = held(vault)
    done = book.move("A.md", "new/한글 B.md")
    assert {each.path: each.links for each in done.changed} == {
        "Templates/t.md": 2,
        "board.canvas": 3,
        "old/x.md": 1,
        "private/y.md": 1,
    }
    assert sorted(fault.path for fault in done.left) == [".obsidian/bookmarks.json", "bad.canvas", "view.base"]
    now = {path: data.decode() for path, data in held(vault).items()}
    assert now["Templates/t.md"] == BESIDE["Templates/t.md"].replace("[[A", "[[한글 B")
    assert now["old/x.md"] == "[[한글 B]] a secret"
    assert now["private/y.md"] == "[a](../new/한글%20B.md#x)"
    board = BESIDE["board.canvas"].replace('"file":"A.md"', '"file":"new/한글 B.md"')
    assert now["board.canvas"] == board.replace("[[A#x", "[[\\ud55c\\uae00 B#x").replace(
        "(A.md)", "(new/\\ud55c\\uae00%20B.md)"
    )
    book.move("sub", "deep/sub")
    book.move("pic.png", "pics/p.png")
    board = (vault / "board.canvas").read_text()
    assert all(part in board for part in ('{"file":"deep/sub/C.md"}', "[[sub/C]]", '"background":"pics/p.png"'))
    told = [book.undo().difference for _ in range(3)]
    assert held(vault) == before
    assert not [text for text in (*told, *(each.difference for each in done.changed)) if "secret" in text]


def test_nothing_is_written_over(book: Spellbook, vault: Path, write_note: Write) -> None:
    """A move onto an existing file, or one that makes no sense, is refused; a preview changes nothing."""
    for path, text in {"a.md": "[[b]]", "b.md": "b", "f/c.md": "c", ".spellbookignore": "drafts/\n"}.items():
        write_note(path, text)
    before = held(vault)
    refused: list[tuple[str, str, type[SpellbookError]]] = [
        ("a.md", "b", Conflict),
        ("f", "f/g", InvalidInput),
        ("a.md", "a.md", InvalidInput),
        ("a.md", "/tmp/a.md", PathOutsideVault),
        ("a.md", ".hidden/a.md", InvalidInput),
        ("a.md", "drafts/a.md", InvalidInput),
        ("a.md", "a#b.md", InvalidInput),
        (".spellbookignore", "x", InvalidInput),
    ]
    for old, new, error in refused:
        with pytest.raises(error):
            book.move(old, new)
    assert book.move("b", "f/new", dry_run=True).changed[0].difference.endswith("-[[b]]\n+[[new]]")
    assert held(vault) == before
    assert book.move("a", "f").new == "f/a.md"


def test_the_index_follows_without_embedding(vault: Path, write_note: Write) -> None:
    """
    After a move everything is found at its new path and by its id, with the number of times it was opened, and nothing
    is embedded or pending.
    """
    write_note("ops/keys.md", "# Keys\n\nRotate them.\n", id="KEYS")
    write_note("ops/log.md", "# Log\n\n[[ops/keys]] [k](keys.md)\n")
    embedder = Counting()
    with opened(vault, embedder) as index:
        sync.run(index)
        index.catalog.usage.opened(["ops/log"])
        embedder.taken()

        moves.move(index, "ops", "decision/ops")
        assert (embedder.taken(), index.catalog.counts().pending) == (0, 0)
        assert [found.path for found in index.catalog.note("KEYS")] == ["decision/ops/keys.md"]
        assert [found.path for found in index.catalog.note("decision/ops/log")] == ["decision/ops/log.md"]
        assert index.catalog.usage.of(["decision/ops/log"])["decision/ops/log"].count == 1
        report = sync.run(index)
        assert (report.unchanged, report.changed, embedder.taken()) == (2, 0, 0)


def test_what_is_saved_meanwhile_is_kept(
    book: Spellbook, vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note saved by an editor while links are updated keeps that text and gets the updated links."""
    write_note("a.md", "a")
    write_note("b.md", "[[a]]\n")
    write_note("c.md", "[[a]]\n")
    relocate = Vault.relocate

    def meanwhile(self: Vault, path: str, to: str) -> None:
        relocate(self, path, to)
        write_note("b.md", "[[a]]\n\nSaved just now, on [[a|A]].\n")
        (vault / "c.md").unlink()

    monkeypatch.setattr(Vault, "relocate", meanwhile)
    done = book.move("a", "z")
    assert (vault / "b.md").read_text() == "[[z]]\n\nSaved just now, on [[z|A]].\n"
    assert [each.path for each in done.left] == ["c.md"]


def test_a_full_disk_moves_nothing(
    book: Spellbook, vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    If the disk fills up half-way, the folder with its attachments goes back, and so do links that were rewritten. A
    canvas that cannot be written, or only be read, is named and stays, and the note is moved all the same.
    """
    write_note("f/a.md", "[[b]]")
    write_note("f/p.png", "png")
    for canvas in ("f/x.canvas", "k/x.canvas", "read.canvas"):
        write_note(canvas, '{"nodes": [{"file": "f/a.md"}]}')
    (vault / "read.canvas").chmod(0o444)
    write_note("b.md", "[[f/a]]\n")
    write_note("k/c.md", "[[f/a]]\n")
    before, written = held(vault), disk.written
    failing: list[tuple[Path, Exception]] = [(vault, StorageError("the disk is full."))]

    def refusing(folder: Path, *rest: Any) -> Any:
        for place, error in failing:
            if folder == place:
                raise error
        return written(folder, *rest)

    monkeypatch.setattr(disk, "written", refusing)
    with pytest.raises(StorageError, match="the disk is full"):
        book.move("f", "x/z")
    assert (held(vault), book.log()) == (before, [])
    failing[0] = vault / "k", PermissionError(13, "Permission denied")
    (vault / "k/c.md").unlink()
    done = book.move("f", "x/z")
    assert sorted(fault.path for fault in done.left) == ["k/x.canvas", "read.canvas"]
    assert '"f/a.md"' in (vault / "k/x.canvas").read_text()
    assert (vault / "b.md").read_text() == "[[x/z/a]]\n"


def test_undo_goes_back_over_moves(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    A move that changes no note is logged too, so that undo reverts it and not the change before. Nothing is written
    over: if something is at the old path, undo is refused. A move that was reverted by hand counts as undone; if the
    file is gone, the error says so. After a move and its undo, a broken link that the new path happened to match is
    unchanged; so is a new link. Undo is refused while a note with rewritten links is elsewhere, and works once it is
    back.
    """
    write_note("a.md", "one")
    write_note("b.md", "[[c]] is still to be written, [[a]] is")
    write_note("p.png", "png")
    book.revise("a", "two")
    book.move("p.png", "q.png")
    before = held(vault)
    write_note("p.png", "another")
    with pytest.raises(Conflict, match=r"p\.png: something is there already"):
        book.undo()
    assert held(vault) == {**before, "p.png": b"another"}
    (vault / "p.png").unlink()
    assert book.undo().entry.what == "p.png → q.png"
    book.move("a.md", "x.md")
    (vault / "x.md").rename(vault / "a.md")
    write_note("b.md", before["b.md"].decode())
    assert [book.undo().entry.verb, book.undo().entry.verb] == ["mv", "revise"]
    start = {"a.md": b"one", "b.md": before["b.md"], "p.png": b"png"}
    assert held(vault) == start
    book.move("a.md", "c.md")
    book.undo()
    assert held(vault) == start
    book.move("a.md", "c.md")
    number = book.log(1)[0].id
    write_note("d.md", "since: [[c]]")
    book.move("b", "far/off/b")
    with pytest.raises(Conflict, match=r"was moved since, to far/off/b\.md"):
        book.undo(number)
    book.undo()
    book.undo(number)
    assert held(vault) == {**start, "d.md": b"since: [[c]]"}
    book.move("a.md", "x.md")
    (vault / "x.md").unlink()
    with pytest.raises(MemoryNotFound, match="not there any more"):
        book.undo()


def test_undo_keeps_what_was_edited_since(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    An edit in other lines stays; one in the line of a rewritten link is a conflict, and nothing is undone. Attachments
    of a folder move with it and come back, and so does what was written in it since; short names stay.
    """
    write_note("f/x.md", "# X\n\n[[y]] ![p](img/p.png) [out](../c.md)\n\nend\n")
    write_note("f/img/p.png", "png")
    write_note("b.md", "[[f/X]], [it](f/x.md) [[x]] ![m](f/img/p.png)\n\nmore\n")
    write_note("c.md", "[[f/x]]\n")
    before = held(vault)
    done = book.move("f/", "g/h/k")
    assert done.moved == (("f/img/p.png", "g/h/k/img/p.png"), ("f/x.md", "g/h/k/x.md"))
    assert not (vault / "f").exists()
    assert (vault / "b.md").read_text() == "[[g/h/k/x]], [it](g/h/k/x.md) [[x]] ![m](g/h/k/img/p.png)\n\nmore\n"
    assert (vault / "g/h/k/x.md").read_text() == "# X\n\n[[y]] ![p](img/p.png) [out](../../../c.md)\n\nend\n"
    write_note("g/h/k/x.md", "# X\n\n[[y]] ![p](img/p.png) [out](../../../c.md)\n\nend\nand new\n")
    write_note("g/h/k/new.md", "new")
    write_note("b.md", f"{(vault / 'b.md').read_text()}since\n")
    moved = write_note("c.md", "[[g/h/k/x]] or not\n")
    now = held(vault)
    with pytest.raises(Conflict, match=r"c\.md: the file was changed since entry 1"):
        book.undo()
    assert held(vault) == now
    moved.write_text("[[g/h/k/x]]\n")
    book.undo()
    since = {"f/x.md": before["f/x.md"] + b"and new\n", "f/new.md": b"new", "b.md": before["b.md"] + b"since\n"}
    assert held(vault) == {**before, **since}


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links take rights there")
def test_a_symbolic_link_stays_as_it_is(book: Spellbook, vault: Path, write_note: Write) -> None:
    """A link that is moved, and one to a moved note, keep their words; the note behind a moved link keeps its text."""
    text = write_note("a/real.md", "[x](x.md) [[x]]\n").read_bytes()
    write_note("a/x.md", "x")
    (vault / "a/link.md").symlink_to("./real.md")
    (vault / "to.md").symlink_to("a/x.md")
    book.move("a/link.md", "b/c/link.md")
    assert os.readlink(vault / "b/c/link.md") == "./real.md"
    assert (vault / "a/real.md").read_bytes() == text
    book.move("a/x.md", "y.md")
    assert os.readlink(vault / "to.md") == "a/x.md"
    book.undo()
    book.undo()
    assert (os.readlink(vault / "a/link.md"), (vault / "to.md").read_text()) == ("./real.md", "x")


# -- there and back

NAMES = st.sampled_from(["a", "b", "Note", "note", "한 글", "x.y", "c d", "it's"])
ABSENT = ("a", "b", "note", "x.y", "a/b/Note", "no such")
FOLDERS = st.sampled_from(["", "a/", "b/", "a/b/", "한/"])
PATHS = st.builds(lambda folder, name: f"{folder}{name}.md", FOLDERS, NAMES)


@st.composite
def vaults(draw: st.DrawFn) -> Mapping[str, str]:
    """Notes with links of every form to each other, in every spelling that resolves."""
    paths = draw(st.lists(PATHS, min_size=2, max_size=6, unique_by=str.casefold))
    notes = {}
    for path in paths:
        parts = []
        for target in draw(st.lists(st.sampled_from([*paths, "pic.png"]), max_size=5)):
            bare = target.removesuffix(".md")
            relative = os.path.relpath(target, os.path.dirname(path) or ".")
            encoded = relative.replace(" ", "%20")
            forms = [
                f"[[{bare}]]",
                f"[[{target}#h|t]]",
                f"![[{bare.rpartition('/')[2].upper()}]]",
                f"[[/{bare}]]",
                f"[t]({encoded}#h)",
                f"![t](<./{relative}>)",
                f"[t]({target.replace(' ', '%20')})",
                f"[t]({encoded.replace('e', '%65')})",
                f"`[[{bare}]]`",
            ]
            parts.append(draw(st.sampled_from(forms)))
        notes[path] = "\n".join(parts)
    return notes


@st.composite
def ways(draw: st.DrawFn, notes: Mapping[str, str]) -> tuple[str, str]:
    """A note or folder of these, and a place to which it can be moved."""
    source = draw(st.sampled_from(sorted({*notes, *(path.rpartition("/")[0] for path in notes if "/" in path)})))
    target = draw(st.one_of(PATHS, st.sampled_from(["new.md", "a/new.md", "new/deep.md"])))
    target = target if source.endswith(".md") else target.removesuffix(".md")
    taken = {str(place).casefold() for path in notes for place in (Path(path), *Path(path).parents)}
    assume(target.casefold() not in taken and not f"{target}/".casefold().startswith(f"{source}/".casefold()))
    return source, target


@st.composite
def headers(draw: st.DrawFn, paths: Sequence[str]) -> str:
    """Frontmatter with relations to some of the notes at `paths`, or none."""
    named = [
        draw(
            st.sampled_from(
                [f"[[{path.removesuffix('.md')}]]", f"[[{path}|t]]", path, path.removesuffix(".md"), f"{path[:-3]}#h"]
            )
        )
        for path in draw(st.lists(st.sampled_from([*paths, "no such.md"]), max_size=3))
    ]
    style = draw(st.sampled_from([None, "'", '"']))
    rows = "".join(f"\n- {dump(each, style)} # why" for each in named)
    value = draw(st.sampled_from([f" {dump(named, style)}", rows, f" {dump(named[0], style)}"])) if named else ""
    return f"---\n{draw(st.sampled_from(RELATIONS))}:{value}\n---\n" if named else ""


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(vaults(), st.lists(st.sampled_from([*ABSENT, "new", "a/new"]), max_size=6), st.data())
def test_there_and_back(notes: Mapping[str, str], absent: Sequence[str], data: st.DataObject) -> None:
    """
    After a move every link keeps its target, also in frontmatter. After edits and undo, everything but the edits is as
    before, also with broken links and similar names; so it is after an undo of the undo.
    """
    source, target = data.draw(ways(notes))
    bare = target.removesuffix(".md")
    nowhere = [f"[[{name}]]" for name in (*absent, bare, bare.rpartition("/")[2])]
    nowhere.append(f"[t]({bare.replace(' ', '%20')}.md)")
    with TemporaryDirectory() as folder:
        vault = Path(folder) / "vault"
        for path, text in notes.items():
            parts = [*text.splitlines(), *data.draw(st.lists(st.sampled_from(nowhere), max_size=3))]
            rows = data.draw(st.lists(st.lists(st.sampled_from(parts or ["-"]), min_size=1, max_size=4), max_size=4))
            body = "".join(f"{number} ¦ {' ¦ '.join(row)}\n" for number, row in enumerate(rows))
            note_writer(vault)(path, f"{data.draw(headers(sorted(notes)))}{body}\nend\n")
        (vault / "pic.png").write_bytes(b"png")
        before, led = held(vault), leads(vault)
        with books.open(vault, embedder="hash", state=Path(folder) / "state") as book:
            moved = dict(book.move(source, target).moved)
            told = {(moved.get(path, path), number): moved.get(to, to) for (path, number), to in led.items()}
            assert told.items() <= leads(vault).items()
            expected = dict(before)
            for path in data.draw(st.sets(st.sampled_from(sorted(notes)))):
                with (vault / moved.get(path, path)).open("a") as file:
                    file.write("since\n")
                expected[path] += b"since\n"
            book.undo()
            assert held(vault) == expected
            book.undo(2)
            book.undo(3)
            assert held(vault) == expected


# -- many notes


def test_a_folder_among_many_linked_notes(vault: Path) -> None:
    """Moving a folder of 30 notes among 600 with links from everywhere takes less than a second of CPU time."""
    chance = random.Random(1)
    paths = [f"area{i % 20}/note {i}.md" for i in range(600)]
    for path in paths:
        a, b, c = (each.removesuffix(".md") for each in chance.sample(paths, 3))
        links = f"[[{a}]] [[{b.rpartition('/')[2]}|x]] [a](../{c.replace(' ', '%20')}.md)"
        note_writer(vault)(path, f"# Note\n\n{links}\n\n## More\n\n{'granite meadow ' * 10}\n")
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        begun = time.process_time()  # other tests run beside this one
        done = book.move("area7", "archive/2026/area7")
        seconds = time.process_time() - begun
    assert (len(done.moved), done.left) == (30, ())
    assert seconds < 1, f"{seconds:.1f} s for {len(done.changed)} notes"
