"""The vault: what is a note, where it may be, and atomic writes."""

import os
import stat
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spellbook.editing import new_vault
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.disk import regular
from spellbook.system.errors import (
    Conflict,
    InvalidInput,
    MemoryNotFound,
    PathOutsideVault,
    StorageError,
    UnreadableNote,
)
from spellbook.vault.folder import digest
from spellbook.vault.listing import stamp_of
from spellbook.vault.names import MOST_NEW
from spellbook.vault.vault import Vault
from tests.helpers import Write, finished, python

as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="modes stop neither root nor Windows")
links = pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")


@pytest.fixture
def notes(vault: Path, tmp_path: Path) -> Vault:
    """The vault as the code sees it."""
    return Vault(vault, tmp_path / "locks")


def temporaries(vault: Path) -> Any:
    return [path for path in vault.rglob(".spellbook-*")]


# -- walking


def test_walk_lists_notes_and_nothing_else(notes: Vault, vault: Path, write_note: Write) -> None:
    """
    Dot-folders, other files, conflict copies, bins and locks are no notes; `.MD` files are, and persons' own names. A
    replaced file with the same size and time has another stamp. Inode numbers beyond 2^63 and dates beyond 64-bit
    nanoseconds can be stored.
    """
    for path in ("a.md", "b.MD", "deep/er/c.md", "한글 노트.md", "#a#.md", "a~.md"):
        write_note(path, "x")
    for path in (
        ".git/a.md", ".obsidian/a.md", ".trash/a.md", ".spellbook/a.md", "deep/.hidden/a.md", ".dot.md", "a.txt", "a.md.swp", "md",
        "~$a.md", "#recycle/a.md", "logseq/bak/a.md", "a.sync-conflict-20260101-120000-ABC.md", "a (Kim's conflicted copy 2026-01-01).md", "a (case conflict).md",
    ):  # fmt: skip
        write_note(path, "x")
    listing = notes.walk()
    assert set(listing.files) == {"a.md", "b.MD", "deep/er/c.md", "한글 노트.md", "#a#.md", "a~.md"}
    assert (listing.faults, listing.hidden) == ([], [])
    assert [fault.path for fault in listing.left_out] == ["a (Kim's conflicted copy 2026-01-01).md"]
    assert all(notes.stamp(path) == stamp for path, stamp in listing.files.items())
    file = write_note("a.md", "old")
    before = notes.walk().files["a.md"]
    other = write_note("b.tmp", "new")
    os.utime(other, ns=(before.mtime_ns, before.mtime_ns))
    other.replace(file)
    after = notes.walk().files["a.md"]
    assert (after.size, after.mtime_ns, after != before) == (before.size, before.mtime_ns, True)
    for size, mtime_ns in ((5, 10**30), (2**70, -(10**30))):
        times = {"st_mtime_ns": mtime_ns, "st_ctime_ns": mtime_ns}
        status = os.stat_result((0o100644, 2**64 - 1, 0, 1, 0, 0, size, 0, 0, 0), times)
        assert all(-(2**63) <= number < 2**63 for number in stamp_of(status))


@pytest.mark.parametrize("make", [lambda file: file.write_text("!\n"), Path.mkdir], ids=["no sense", "a folder"])
def test_a_spellbookignore_that_cannot_be_followed_stops_the_walk(
    notes: Vault, vault: Path, write_note: Write, make: Any
) -> None:
    """A pattern that git would refuse, or no file, is INVALID_INPUT with its name: ignored files are never indexed."""
    write_note("secret.md", "x")
    make(vault / ".spellbookignore")
    with pytest.raises(InvalidInput, match="spellbookignore"):
        notes.walk()


@links
def test_links_never_lead_out_of_the_vault_or_in_circles(
    notes: Vault, vault: Path, tmp_path: Path, write_note: Write
) -> None:
    """
    Links to notes inside are read, links out or to nothing are reported, linked folders are not entered. `init` and a
    migration refuse settings that would lie elsewhere.
    """
    write_note("real.md", "x")
    (tmp_path / "secret.md").write_text("secret")
    (vault / "inside.md").symlink_to("real.md")
    (vault / "outside.md").symlink_to(tmp_path / "secret.md")
    (vault / "nowhere.md").symlink_to("missing.md")
    (vault / "loop").symlink_to(".")
    (vault / "away").symlink_to(tmp_path)
    listing = notes.walk()
    assert set(listing.files) == {"real.md", "inside.md"}
    assert {fault.path for fault in listing.faults} == {"outside.md", "nowhere.md"}
    assert {fault.path for fault in listing.left_out} == {"loop", "away"}
    assert [notes.stamp(path) for path in ("outside.md", "nowhere.md", "loop/real.md", "away/secret.md")] == [None] * 4
    (away := tmp_path / "away").mkdir()
    for name in (".spellbook", "system"):
        (vault := tmp_path / f"vault of {name}").mkdir()
        (vault / name).symlink_to(away)
        with pytest.raises(PathOutsideVault):
            new_vault.make(vault, with_guides=True)
        with pytest.raises(PathOutsideVault):
            Vault(vault, tmp_path / "state").place(f"{name}/config.toml", [b"x"])
        assert [*away.iterdir(), *(place for place in vault.rglob("*") if place.is_file())] == []


NAMES = (
    *(
        "line\nbreak.md",
        "🧙‍♂️ spell.md",
        unicodedata.normalize("NFD", "한글 é.md"),
        "가" * 84 + ".md",
        "aux.md",
        "C: drive.md",
    ),
    *("~home.md", "back\\slash.md", "quo'te\".md"),
)
if sys.platform == "win32":
    NAMES = tuple(name for name in NAMES if not set(name) & set('\n:\\"') and name != "aux.md")


def test_a_file_of_any_name_is_a_note_that_can_be_written(notes: Vault, vault: Path) -> None:
    """Any name that the system allows is listed, read, replaced, trashed and restored, under its spelling alone."""
    for name in NAMES:
        (vault / name).write_bytes(b"old")
        assert name in notes.walk().files
        assert notes.read(name)[0] == b"old"
        notes.write(name, b"new", digest(b"old"))
        assert [bool(notes.spelled(each)) for each in (name, name.swapcase())] == [True, False]
        assert notes.trash.restore(str(notes.trash.remove(name, digest(b"new")))) == name
        assert (vault / name).read_bytes() == b"new"


def test_names_that_are_no_utf8_are_reported_in_print(notes: Vault, vault: Path) -> None:
    """A name that is not UTF-8 is a printable fault, and its file is not indexed."""
    root = os.fsencode(vault)
    try:
        os.mkdir(root + b"/d\xff")
        for path in (b"/f\xff.md", b"/d\xff/inner.md"):
            open(root + path, "wb").close()
        os.symlink("/etc/hostname", root + b"/d\xff/link.md")
    except (OSError, UnicodeDecodeError):
        pytest.skip("this disk refuses such names")
    listing = notes.walk()
    assert listing.files == {}
    assert {fault.path for fault in listing.faults} == {"f\\xff.md", "d\\xff/inner.md", "d\\xff/link.md"}
    assert all(fault.path.encode("utf-8") for fault in listing.faults)


@as_root
def test_what_cannot_be_read_is_reported_and_not_gone(
    notes: Vault, vault: Path, write_note: Write
) -> None:  # pragma: no cover
    """An unreadable folder counts as hidden, not empty; an unreadable file is UnreadableNote."""
    write_note("closed/a.md", "x")
    file = write_note("b.md", "x")
    (vault / "closed").chmod(0)
    file.chmod(0)
    try:
        listing = notes.walk()
        assert (set(listing.files), listing.hidden) == ({"b.md"}, ["closed/"])
        with pytest.raises(UnreadableNote, match=r"b\.md"):
            notes.read("b.md")
    finally:
        (vault / "closed").chmod(0o755)


# -- places


@pytest.mark.parametrize(
    "path",
    ["", "..", "../a.md", "a/../../b.md", "a/./b.md", "/etc/passwd", "//host/share/a.md", "\\\\host\\a.md", "C:\\a.md", "c:a.md", "~/a.md",
     "a\0.md", "con.md", "a/NUL.md", "aux", "com1.txt", "LPT9/a.md", "conin$.md", "a//b.md", "a/", pytest.param("out/a.md", marks=links), pytest.param("out.md", marks=links),
     "가" * 90 + ".md", "a/" * 2_500 + "a.md"],
)  # fmt: skip
def test_no_path_leaves_the_vault(notes: Vault, vault: Path, tmp_path: Path, path: str) -> None:
    """Absolute paths, `..`, drive letters, NUL, device names, names too long for a disk and links that lead out are PATH_OUTSIDE_VAULT to every verb."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.md").write_text("x")
    if sys.platform != "win32":
        (vault / "out").symlink_to(tmp_path / "elsewhere")
        (vault / "out.md").symlink_to(tmp_path / "elsewhere" / "a.md")
    for verb in (
        notes.locate,
        notes.read,
        lambda path: notes.trash.remove(path, digest(b"x")),
        lambda path: notes.write(path, b"", digest(b"x")),
    ):
        with pytest.raises(PathOutsideVault):
            verb(path)
    assert (tmp_path / "elsewhere" / "a.md").read_text() == "x"


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", ".GIT/a.md", ".git /a.md", ".git./a.md", "git~1/hooks/a.md", "GIT~2", "\u200c.git/a.md", ".g\u200cit/a.md",
     "a/.obsidian/plugins/x.js", ".hidden.md", ".trash/a.md", ".spellbook/hooks/a.md", ".spellbook/.git/config", ".Spellbook/config.toml",
     "VSCODE~1/tasks.json", "a/Desktop.ini", "\udc80.md", pytest.param("folder/a.md", marks=links), pytest.param("file.md", marks=links)],
)  # fmt: skip
def test_nothing_is_written_where_a_walk_does_not_look(notes: Vault, vault: Path, path: str) -> None:
    """No verb writes into dot-folders (under any of their names), hidden files, or linked folders."""
    (vault / ".git/hooks").mkdir(parents=True)
    (vault / "real").mkdir()
    (vault / ".git/hooks/pre-commit").write_text("x")
    (vault / "a.md").write_text("x")
    if sys.platform != "win32":
        (vault / "folder").symlink_to("real")
        (vault / "file.md").symlink_to(".git/hooks/pre-commit")
    before = sorted(vault.rglob("*"))
    verbs: list[Callable[[], object]] = [lambda: notes.place(path, [b"new"])]
    verbs.append(lambda: notes.place(path, [b"new"], expected=digest(b"x")))
    if not path.startswith(".trash/"):  # an undo may fill it again
        verbs += [lambda: notes.put(path, b"new", None), lambda: notes.put(path, b"new", digest(b"x"))]
        verbs += [lambda: notes.move("a.md", path, digest(b"x")), lambda: notes.move("a.md", path)]
    for verb in verbs:
        with pytest.raises(PathOutsideVault):
            verb()
    assert sorted(vault.rglob("*")) == before
    assert (vault / ".git/hooks/pre-commit").read_text() == "x"


@pytest.mark.skipif(sys.platform == "win32", reason="modes and pipes of POSIX")
def test_what_is_placed_can_never_be_run(notes: Vault, vault: Path) -> None:
    """
    No placed file is executable, setuid or world-writable, whatever the source or the old file was. Spellbook's own
    settings can be placed. A pipe or device is refused at once, without opening it.
    """
    for path in (".spellbookignore", ".spellbook/config.toml", ".spellbook/queries.yaml"):
        notes.place(path, [b"x"])
        assert (vault / path).read_bytes() == b"x"
    notes.place("a.sh", [b"x"], mode=0o7777)
    notes.put("b.md", b"x", None, 0o777)
    (vault / "c.sh").write_bytes(b"x")
    (vault / "c.sh").chmod(0o755)
    notes.place("c.sh", [b"new"], expected=digest(b"x"))
    assert [stat.S_IMODE((vault / name).stat().st_mode) for name in ("a.sh", "b.md", "c.sh")] == [0o664, 0o664, 0o644]
    os.mkfifo(vault / "pipe.md")
    with pytest.raises(UnreadableNote, match="not a regular file"):
        notes.write("pipe.md", b"", digest(b""))
    with pytest.raises(OSError, match="not a regular file"), regular(Path("/dev/zero")):
        pass


# -- writing


def test_a_write_keeps_the_mode_and_leaves_nothing_else(
    notes: Vault, vault: Path, tmp_path: Path, write_note: Write
) -> None:
    """
    The file, or that to which a link inside the vault leads, has the new bytes and its old permissions; the link stays,
    and no temporary file is left. Unexpected contents are CONFLICT; they stay. A state folder that cannot hold a lock
    is a StorageError, and nothing is written.
    """
    file = write_note("a.md", "old")
    file.chmod(0o640)
    mode = stat.S_IMODE(file.stat().st_mode)  # as Windows takes it
    link = "a.md" if sys.platform == "win32" else "link.md"
    if sys.platform != "win32":
        (vault / link).symlink_to("a.md")
    for path, before, text in (("a.md", b"old", b"new"), (link, b"new", b"newer")):
        notes.write(path, text, digest(before))
        assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (text, mode)
    assert (vault / link).is_symlink() == (sys.platform != "win32")
    (tmp_path / "file").write_text("")
    with pytest.raises(Conflict):
        notes.write("a.md", b"mine", digest(b"what I saw"))
    with pytest.raises(StorageError):
        Vault(vault, tmp_path / "file").write("a.md", b"mine", digest(b"newer"))
    assert (file.read_bytes(), {path.name for path in vault.iterdir()}) == (b"newer", {"a.md", link})
    file.unlink()
    with pytest.raises(MemoryNotFound):
        notes.write("a.md", b"mine", digest(b"newer"))
    assert {path.name for path in vault.iterdir()} == {link} - {"a.md"}


def test_whoever_creates_one_name_at_once_gets_a_file(vault: Path, tmp_path: Path) -> None:
    """Two processes of four threads, even with separate locks, never overwrite each other; names get numbers."""
    code = """
import sys, pathlib
from concurrent.futures import ThreadPoolExecutor
from spellbook.vault.vault import Vault
root, locks, mark = sys.argv[1:]
vault = Vault(pathlib.Path(root), pathlib.Path(locks))
with ThreadPoolExecutor(4) as pool:
    print(*pool.map(lambda _: vault.create("t", "same", mark.encode()), range(20)), sep="\\n")
"""
    outputs = finished(*(python(code, vault, tmp_path / f"locks{i}", i) for i in range(2)))
    paths = [(path, str(i)) for i, output in enumerate(outputs) for path in output.splitlines()]
    assert len({path for path, _ in paths}) == 40
    assert {"t/same.md", "t/same 2.md", "t/same 40.md"} <= {path for path, _ in paths}
    assert all((vault / path).read_text() == mark for path, mark in paths)
    assert temporaries(vault) == []


def test_trash_and_restore_keep_what_is_there(notes: Vault, vault: Path, write_note: Write) -> None:
    """
    A note goes to `.trash/` under its path and back, with a number if the place is taken. With `hard` nothing goes to
    the trash; a second time is MEMORY_NOT_FOUND. `restore` moves only notes, from `.trash/` into the vault.
    """
    for text in ("one", "two"):
        write_note("a/b.md", text)
        notes.trash.remove("a/b.md", digest(text.encode()))
    assert (vault / ".trash/a/b.md").read_text() == "one"
    assert (vault / ".trash/a/b-2.md").read_text() == "two"
    write_note("a/b.md", "three")
    assert notes.trash.restore(".trash/a/b.md") == "a/b-2.md"
    assert ((vault / "a/b.md").read_text(), (vault / "a/b-2.md").read_text()) == ("three", "one")
    assert not (vault / ".trash/a/b.md").exists()
    assert notes.trash.remove("a/b.md", digest(b"three"), hard=True) is None
    assert sorted(path.name for path in vault.rglob("*.md")) == ["b-2.md", "b-2.md"]
    for hard in (True, False):
        with pytest.raises(MemoryNotFound):
            notes.trash.remove("a/b.md", digest(b"three"), hard=hard)
    (vault / ".trash" / ".git").mkdir()
    for name in (".git/config", "notes.txt"):
        (vault / ".trash" / name).write_text("x")
    for path in (".trash/../../x.md", ".trash/.git/config", ".trash/notes.txt", "a.md", ".trash/"):
        with pytest.raises((InvalidInput, PathOutsideVault, MemoryNotFound)):
            notes.trash.restore(path)
    assert (vault / ".trash" / ".git" / "config").exists()


def test_names_that_differ_in_case_alone_do_not_meet_on_another_disk(
    notes: Vault, vault: Path, book: Spellbook
) -> None:
    """
    A name is taken if another one is the same on a disk that ignores case or composes letters. With its number and
    ending a name has at most 100 bytes. A memory that `.spellbookignore` would hide by its title is refused, and
    nothing is written.
    """
    (vault / "t").mkdir()
    (vault / "t" / unicodedata.normalize("NFD", "한글.md")).write_text("there")
    assert [notes.create("t", name, b"x") for name in ("Keys", "KEYS", "keys", "한글", "Straße", "STRASSE")] == [
        "t/Keys.md", "t/KEYS 2.md", "t/keys 3.md", "t/한글 2.md", "t/Straße.md", "t/STRASSE 2.md",
    ]  # fmt: skip
    paths = [notes.create("t", "가" * 60, b"%d" % number) for number in range(11)]
    assert all(len(path.removeprefix("t/").encode()) <= MOST_NEW == 100 for path in paths)
    assert paths[10].endswith(" 11.md")
    (vault / ".spellbookignore").write_text("Draft *.md\n")
    chunk = {"text": "The harbour opens at six.", "metadata": {"topic": "t", "keywords": ["a"], "title": "Draft one"}}
    with pytest.raises(InvalidInput, match=r"leaves out 'knowledge/t/Draft one\.md'.*topic or title"):
        book.scribe(chunk)
    assert not (vault / "knowledge").exists()


# -- disks that fail


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Any]:
    """A vault of 64 kB on its own disk, and a function that mounts it read-only."""
    root = tmp_path / "mounted"
    root.mkdir()

    def mount(options: Any) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(root)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")

    try:
        mount("size=64k")
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    try:
        yield root, lambda: mount("remount,ro")
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def test_a_full_disk_loses_nothing(mounted: Any, tmp_path: Path) -> None:
    """
    On a full disk every write is a StorageError; the old bytes stay and no partial file is left. A read-only vault can
    be indexed and searched; each write is a StorageError.
    """
    root, make_read_only = mounted
    notes = Vault(root, tmp_path / "locks")
    (root / "a.md").write_bytes(b"the lighthouse keeper")
    (root / "fill.bin").write_bytes(b"x" * 56_000)
    for verb in (
        lambda: notes.write("a.md", b"y" * 30_000, digest(b"the lighthouse keeper")),
        lambda: notes.create("t", "new", b"y" * 30_000),
    ):
        with pytest.raises(StorageError, match="full"):
            verb()
    assert sorted(path.name for path in root.rglob("*") if path.is_file()) == ["a.md", "fill.bin"]
    make_read_only()
    with books.open(root, embedder="hash") as book:
        assert book.reindex().embedded == 1
        for write in (
            lambda: book.revise("a", "something else"),
            lambda: book.erase("a"),
            lambda: book.erase("a", hard=True),
            lambda: book.scribe({"text": "new", "metadata": {"topic": "t", "keywords": ["k"]}}),
        ):
            with pytest.raises(StorageError, match="read-only"):
                write()
        assert [hit.text for hit in book.find("lighthouse").hits] == ["the lighthouse keeper"]
    assert (root / "a.md").read_text() == "the lighthouse keeper"


def test_an_editor_between_truncating_and_writing_loses_nothing(book: Spellbook, vault: Path) -> None:
    """A note that is empty because an editor is just saving it is replaced after the save; one that stays empty is."""
    note = vault / "a.md"
    note.write_text("# A\n\nBefore.\n")
    book.reindex()
    with open(note, "w") as saving:
        saving.write("# A\n\nSaved.\n")  # it is on disk once the file is closed
        later = threading.Timer(0.1, saving.close)
        later.start()
        book.revise("a", append="Added.")
        later.join()
    assert note.read_text() == "# A\n\nSaved.\n\nAdded.\n"
    note.write_text("")
    book.revise("a", append="Alone.")
    assert "Alone." in note.read_text()


# -- what a link beneath the vault carries out: nothing


@links
def test_no_link_beneath_the_trash_leads_out(notes: Vault, vault: Path, tmp_path: Path, write_note: Write) -> None:
    """
    Neither an erased note nor one that is put back, moved or made, nor what stands in the way of a restore; nor where
    `.trash` itself is a link, or a folder's leads nowhere yet.
    """
    away = tmp_path / "away"
    away.mkdir()
    (vault / ".trash").mkdir()
    for place in (vault / ".trash" / "d", vault / "out"):
        place.symlink_to(away)
    (vault / "inner").symlink_to("elsewhere")
    file = write_note("d/a.md", "x")
    write_note("b.md", "x")
    (vault / ".trash" / "b.md").write_text("erased")
    changes: list[Callable[[], object]] = [
        lambda: notes.trash.remove("d/a.md", digest(b"x")),
        lambda: notes.trash.set_aside("d/a.md"),
        lambda: notes.trash.copy("d/a.md", digest(b"x")),
        lambda: notes.trash.keep("d/a.md", "part", b"x"),
        lambda: notes.move("b.md", "out/b.md", digest(b"x")),
        lambda: notes.move("b.md", "out/sub/b.md"),
        lambda: notes.place("out/sub/b.md", [b"x"]),
        lambda: notes.create("out", "b", b"x"),
        lambda: notes.create("inner", "b", b"x"),
        lambda: notes.make("out/sub"),
        lambda: notes.make(".trash/d/sub"),
    ]
    for change in changes:
        with pytest.raises(PathOutsideVault):
            change()
    (vault / ".trash").rename(vault / "trash")
    (vault / ".trash").symlink_to(away)
    with pytest.raises(PathOutsideVault):
        notes.trash.remove("b.md", digest(b"x"))
    assert (list(away.iterdir()), file.read_text(), (vault / "b.md").read_text()) == ([], "x", "x")


# -- what a killed writer left


def test_old_leftovers_are_deleted_wherever_spellbook_writes(vault: Path, write_note: Write, book: Spellbook) -> None:
    """Also in the trash and beside the settings; one of a writer at work, and what a link leads to, stays."""
    write_note("d/a.md", "x")
    name = ".spellbook-0123456789abcdef.tmp"
    places = [vault / folder / name for folder in ("d", ".trash", ".trash/deep", ".spellbook")]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("half")
        os.utime(place, (1, 1))
    away = vault.parent / "away"
    away.mkdir()
    (away / name).write_text("not ours")
    (vault / ".trash" / "out").symlink_to(away)
    book.reindex()
    assert all(place.exists() for place in places), "they were made just now, whatever their times say"
    book.index.vault.sweep([*book.index.vault.litter(), *book.index.vault.walk().litter], age=-1)
    assert not any(place.exists() for place in places)
    assert (away / name).exists()
