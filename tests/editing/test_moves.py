"""Moving a note or folder: links keep their targets, and nothing else changes."""

import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spellbook.editing import moves
from spellbook.index import sync
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.notes.frontmatter import dump
from spellbook.notes.relations import RELATIONS
from spellbook.system import disk
from spellbook.system.errors import SpellbookError, StorageError
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


def test_the_index_follows_without_embedding(vault: Path, write_note: Write) -> None:
    """After a move all is found by its new path, its id and its uses, and nothing is embedded or pending."""
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
        assert index.catalog.usage.of(["decision/ops/log"])["decision/ops/log"].times == 1
        report = sync.run(index)
        assert (report.unchanged, report.changed, embedder.taken()) == (2, 0, 0)


def test_what_is_saved_meanwhile_is_kept(
    book: Spellbook, vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note saved by an editor while links are updated, or repaired, keeps that text and gets the updated links."""
    write_note("a.md", "a")
    write_note("b.md", "[[a]]\n")
    write_note("c.md", "[[a]]\n")
    own = Vault.move

    def meanwhile(self: Vault, path: str, to: str) -> None:
        own(self, path, to)
        write_note("b.md", "[[a]]\n\nSaved just now, on [[a|A]].\n")
        (vault / "c.md").unlink()

    monkeypatch.setattr(Vault, "move", meanwhile)
    done = book.move("a", "z")
    assert (vault / "b.md").read_text() == "[[z]]\n\nSaved just now, on [[z|A]].\n"
    assert [each.path for each in done.left] == ["c.md"]
    (vault / "z.md").rename(vault / "y.md")
    book.reindex()
    write_all = Vault.write_all

    def saving(self: Vault, texts: Mapping[str, tuple[bytes, str]]) -> dict[str, SpellbookError]:
        monkeypatch.setattr(Vault, "write_all", write_all)
        write_note("b.md", "[[z]]\n\nSaved once more, on [[z|Z]].\n")
        return self.write_all(texts)

    monkeypatch.setattr(Vault, "write_all", saving)
    assert book.mend_links().left == ()
    assert (vault / "b.md").read_text() == "[[y]]\n\nSaved once more, on [[y|Z]].\n"


def test_a_full_disk_moves_nothing(
    book: Spellbook, vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    If the disk fills up half-way, the folder with its attachments goes back, and so do links that were rewritten, also if
    that move is being undone; of a section that could not be erased no copy stays. A canvas that cannot be written, or only be read, is named and stays,
    and the note is moved all the same.
    """
    write_note("f/a.md", "[[b]]")
    write_note("f/p.png", "png")
    for canvas in ("f/x.canvas", "k/x.canvas", "read.canvas"):
        write_note(canvas, '{"nodes": [{"file": "f/a.md"}]}')
    (vault / "read.canvas").chmod(0o444)
    write_note("b.md", "[[f/a]]\n")
    write_note("k/c.md", "[[f/a]]\n")
    write_note("s.md", "## One\n\na\n\n## Two\n\nb\n")
    before, written = held(vault), disk.written
    failing: list[tuple[Path, Exception]] = [(vault, StorageError("the disk is full."))]

    def refusing(folder: Path, *rest: Any) -> Any:
        for place, error in failing:
            if os.path.realpath(folder) == str(place):
                raise error
        return written(folder, *rest)

    monkeypatch.setattr(disk, "written", refusing)
    for fails in (lambda: book.move("f", "x/z"), lambda: book.erase("s#two")):
        with pytest.raises(StorageError, match="the disk is full"):
            fails()
        assert (held(vault), book.log()) == (before, [])
    failing[0] = vault / "k", PermissionError(13, "Permission denied")
    (vault / "k/c.md").unlink()
    done = book.move("f", "x/z")
    assert sorted(fault.path for fault in done.left) == ["k/x.canvas", "read.canvas"]
    assert '"f/a.md"' in (vault / "k/x.canvas").read_text()
    assert (vault / "b.md").read_text() == "[[x/z/a]]\n"
    failing[0] = vault, StorageError("the disk is full.")
    before, log = held(vault), book.log()
    with pytest.raises(StorageError, match="the disk is full"):
        book.undo()
    assert (held(vault), book.log()) == (before, log)


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


@settings(max_examples=20)
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


DEEP = "/".join(["d" * 200] * 6)


@pytest.mark.parametrize(
    ("old", "new"),
    [("x", "y"), ("x → y", "z"), ("x", "y → z"), ("x → y/a.md", "y → z.md"), (f"{DEEP}/x", "y"), ("x", f"{DEEP}/y/z")],
    ids=["plain", "from an arrow", "to an arrow", "a note", "from a long path", "to a long path"],
)
def test_a_move_is_undone_whatever_its_paths_are(
    book: Spellbook, vault: Path, write_note: Write, old: str, new: str
) -> None:
    """A folder or a note goes back and forth with its links, its attachments and edits since, however it is called."""
    folder = old.removesuffix("/a.md")
    write_note(f"{folder}/a.md", "[[b]] [b](b.md)\n")
    write_note(f"{folder}/b.md", f"[[{folder}/a]]\n")
    write_note(f"{folder}/p.png", "png")
    log = write_note("log.md", f"[[{folder}/a]]\n\nnext\n")
    before = held(vault)
    book.move(old, new)
    moved = held(vault)
    book.undo()
    assert held(vault) == before
    log.write_bytes(before["log.md"] + b"since\n")
    book.undo(2)
    assert held(vault) == moved | {"log.md": moved["log.md"] + b"since\n"}
    book.undo(3)
    assert held(vault) == before | {"log.md": before["log.md"] + b"since\n"}


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
