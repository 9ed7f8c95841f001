"""Export and import: every byte comes back, all of it or none, and no existing file is lost."""

import base64
import hashlib
import io
import json
import os
import random
import re
import stat
import tempfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spellbook.archive import importer, snapshots
from spellbook.archive.import_sources import members
from spellbook.index import privacy
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.disk import ignores_case
from spellbook.system.errors import Conflict, InvalidInput, PathOutsideVault, StorageError
from spellbook.vault import names
from tests.helpers import Write
from tests.trees import TREES, contents, grow, state_of

ODD = {
    "a.md": b"# A\n\ntext\n",
    "bom.md": b"\xef\xbb\xbf---\r\ntopic: x\r\n---\r\n# B\r\n",
    "latin.md": b"caf\xe9\n",
    "utf16.md": b"\xff\xfe#\x00 \x00A\x00",
    "zeros.md": b"\x00\xff\x00",
    "empty.md": b"",
    "한글 폴더/노트 #1 [x] 'y' \"z\".md": "# 제목\n\u2028\x0c끝".encode(),
    "deep/er/still/n.MD": b"no newline at the end",
    "img/p.png": bytes(range(256)),
    "back\\slash.md": b"a name like any other here",
    ".spellbook/config.toml": b"chunk_tokens = 300\n",
    ".spellbook/queries.yaml": b"[]\n",
    ".spellbookignore": b"drafts/\n",
}


@pytest.mark.parametrize("form", ["json", "markdown"])
@example(files=ODD, mode=0o640, mtime_ns=1_700_000_000_123_456_700)
@example(files={"clip.mov": random.Random(1).randbytes(7_000_001), "z.md": b"after it"}, mode=0o755, mtime_ns=1)
@settings(max_examples=20)
@given(
    files=TREES,
    mode=st.sampled_from([0o644, 0o600, 0o775]),
    mtime_ns=st.integers(0, 1 << 60).map(lambda ns: ns // 100 * 100),
)
def test_a_vault_comes_back_as_it_was(form: str, files: dict[str, bytes], mode: int, mtime_ns: int) -> None:
    """
    Export and import into an empty vault restore every file with its bytes, time and permissions except executable
    bits, and empty folders. A file of many megabytes comes back whole, also from JSON, whose lines stay a few megabytes
    long.
    """
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        vault, other = grow(here / "v", files, ("empty", "x-empty/in")), here / "w"
        other.mkdir()
        for path in files:
            os.chmod(vault / path, mode)
            os.utime(vault / path, ns=(mtime_ns, mtime_ns))
        with books.open(vault, embedder="hash", state=here / "s") as book:
            done = book.export(here / "out", form)
            assert not done.faults
            assert done.notes + done.attachments == len(files)
        if form == "json":
            assert max(map(len, (here / "out").read_bytes().split(b"\n"))) < 5_000_000
        before = state_of(vault)
        with books.open(other, embedder="hash", state=here / "s") as book:
            assert sorted(book.import_(here / "out").added) == sorted(files)
            assert state_of(vault) == before
            assert state_of(other) == {
                path: held and (held[0], held[1] & ~0o111, held[2]) for path, held in before.items()
            }
            again = book.import_(here / "out", on_conflict="rename")
            assert (again.paths, again.unchanged) == ([], len(files))


def test_an_export(book: Spellbook, vault: Path, tmp_path: Path, write_note: Write) -> None:
    """
    Two zips of one vault are equal, byte for byte. The JSON is one object for any program: text as text, other bytes as
    base64. A backup leaves out other dot-folders, the trash, ignored files and system files; it follows only links
    inside the vault. A filter exports only matching notes, and attachments can be left out.
    """
    write_note("a.md", "항구", category="decision")
    out = (".git/config", ".obsidian/app.json", ".trash/t.md", "drafts/d.md", "sub/.DS_Store")
    grow(vault, dict.fromkeys(out, b"x") | {".spellbookignore": b"drafts/\n", "b.bin": b"\xff\x00", "c.md": b"c"})
    grow(tmp_path, {"secret.md": b"s"})
    (vault / "in.md").symlink_to("c.md")
    (vault / "out.md").symlink_to(tmp_path / "secret.md")
    (vault / os.fsdecode(b"caf\xe9.md")).write_bytes(b"x")
    for name in ("a.zip", "b.zip", "out.json"):
        done = book.export(tmp_path / name)
        assert {(fault.path, fault.reason.split(";")[0]) for fault in done.faults} == {
            ("out.md", "a link that leads out of the vault, or nowhere"),
            ("caf\\xe9.md", "the file's name is not UTF-8"),
        }
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    files = {file["path"]: file for file in json.loads((tmp_path / "out.json").read_bytes())["files"]}
    assert list(files) == [".spellbookignore", "a.md", "b.bin", "c.md", "in.md"]
    assert base64.b64decode(files["b.bin"]["base64"]) == b"\xff\x00"
    assert files["a.md"]["text"].encode() == (vault / "a.md").read_bytes()
    assert files["a.md"]["sha256"] == hashlib.sha256((vault / "a.md").read_bytes()).hexdigest()
    for options, expected in (
        ({}, list(files)),
        ({"filter": {"category": "decision"}}, ["a.md"]),
        ({"attachments": False}, [".spellbookignore", "a.md", "c.md", "in.md"]),
    ):
        book.export(tmp_path / "o.zip", **options)
        with zipfile.ZipFile(tmp_path / "o.zip") as archive:
            assert (archive.testzip(), archive.namelist()) == (None, expected)


# -- conflicts


@pytest.mark.parametrize("rule", ["skip", "overwrite", "rename"])
def test_what_stands_in_the_place_of_an_import(book: Spellbook, vault: Path, tmp_path: Path, rule: str) -> None:
    """
    A file in the place of a folder is refused by name; a folder, pipe or broken link in the place of a file follows the
    conflict rule. There is no other rule.
    """
    with pytest.raises(InvalidInput, match="rule"):
        book.import_(grow(tmp_path / "source", {"a.md": b"theirs"}), on_conflict="merge")
    grow(vault, {"n": b"mine", "f.md/in.md": b"mine"})
    os.mkfifo(vault / "pipe.md")
    (vault / "dead.md").symlink_to("nowhere.md")
    before = contents(vault)
    with pytest.raises(InvalidInput, match=r"n/c\.md needs a folder where the vault has the file n"):
        book.import_(grow(tmp_path / "s", {"b.md": b"1", "n/c.md": b"3"}), on_conflict=rule)
    assert contents(vault) == before
    for name in ("f.md", "pipe.md", "dead.md"):
        place = grow(tmp_path, {name: b"x"}) / name
        if rule == "overwrite":
            with pytest.raises(InvalidInput, match=f"{name}: the vault has a folder there"):
                book.import_(place, on_conflict=rule)
        else:
            done = book.import_(place, on_conflict=rule)
            assert (done.skipped, done.renamed) == (
                ([name], {}) if rule == "skip" else ([], {name: f"{name[:-3]}-2.md"})
            )


def test_imported_notes_are_found_at_once(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    Imported notes are findable, in their new folder, when the import returns. Settings, which can hide notes, are
    imported only into a vault without notes or with `overwrite`; otherwise they are named. A zip of an Obsidian vault
    is imported without Obsidian's settings and trash, with all names unchanged. Names of devices and drives are
    imported under names that every system allows.
    """
    source = grow(tmp_path / "s", {"n.md": b"the crane lifts", "p.png": b"p", ".spellbookignore": b"old/\n"})
    assert sorted(book.import_(source, into="old/notes").added) == ["old/notes/n.md", "old/notes/p.png"]
    assert [hit.path for hit in book.find("crane").hits] == ["old/notes/n.md"]
    done = book.import_(source)
    assert (sorted(done.added), done.skipped) == (["n.md", "p.png"], [".spellbookignore"])
    assert {hit.path for hit in book.find("crane").hits} == {"n.md", "old/notes/n.md"}
    obsidian = ("Vault/.obsidian/app.json", "Vault/Note one.md", "Vault/Daily/2026-01-01.md", "Vault/.trash/x.md")
    for paths, expected in (
        ((*obsidian, "__MACOSX/Vault/._Note one.md"), ["Daily/2026-01-01.md", "Note one.md"]),
        (("Plain/a.md",), ["Plain/a.md"]),
    ):
        (tmp_path / "in.zip").write_bytes(zipped(*((path, path.encode()) for path in paths)))
        assert sorted(book.import_(tmp_path / "in.zip").added) == expected
    if os.name != "nt":  # such files cannot be made there
        odd = grow(tmp_path / "odd", {"con.md": b"1", "C:x.md": b"2", "~/y.md": b"3"})
        assert book.import_(odd).renamed == {"con.md": "con-.md", "C:x.md": "C-x.md", "~/y.md": "note/y.md"}
        assert not book.import_(odd).paths
    assert book.import_(source, on_conflict="overwrite").added == [".spellbookignore"]


@pytest.mark.parametrize("said", ["TRUST: ' Trusted '", "trust:\n- me\n- trusted", "trust: >-\n  trusted"])
def test_a_stranger_s_note_does_not_call_itself_trusted(
    book: Spellbook, vault: Path, tmp_path: Path, said: str
) -> None:
    """What comes in is untrusted if its address says so, whatever it says of itself; and the report names it."""
    text = f"---\nsource: https://e.test\n{said}\nx: trusted\n---\nI trusted the crane.\n"
    source = grow(
        tmp_path / "s", {"n.md": text.encode(), "g.md": b"---\nguide: chunking\ncategory: system\n---\nDo.\n"}
    )
    done = book.import_(source)
    warned = {warning.path: warning.reason[:12] for warning in done.warnings}
    assert (warned, done.faults) == ({"n.md": "it calls its", "g.md": "a guide: age"}, [])
    assert privacy.is_untrusted(book.show("n.md")[0].meta)
    assert (vault / "n.md").read_text().endswith("\nx: trusted\n---\nI trusted the crane.\n")
    assert book.import_(source).unchanged == 2
    kept = book.import_(source, on_conflict="overwrite", keep_trust=True)
    assert (kept.overwritten, kept.warnings, (vault / "n.md").read_text()) == (["n.md"], [], text)
    assert book.import_(source, on_conflict="overwrite").unchanged == 2, "it is there, byte for byte"
    odd = grow(tmp_path / "odd", {"o.md": b'---\n"tr\\u0075st": trusted\n---\nx\n'})
    with pytest.raises(InvalidInput, match="calls itself trusted"):
        book.import_(odd)


# -- what is refused


def zipped(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries:
            archive.writestr(entry, content)
    return data.getvalue()


def exported(*files: dict[str, Any], count: int | None = None, version: int = 1) -> bytes:
    count = len(files) if count is None else count
    head = {"format": "spellbook-export", "version": version, "folders": [], "files": files, "count": count}
    return json.dumps(head).encode()


def record(path: str, text: str = "x", sha256: str | None = None) -> dict[str, Any]:
    return {"path": path, "text": text, "sha256": sha256 or hashlib.sha256(text.encode()).hexdigest()}


GOOD = ("good.md", b"good")
WRONG = {
    "zip, upwards": (zipped(GOOD, ("a/../../evil.md", b"x")), "lead out"),
    "zip, upwards as Windows has it": (zipped(GOOD, ("..\\evil.md", b"x")), "lead out"),
    "zip, absolute": (zipped(GOOD, ("/tmp/evil.md", b"x")), "lead out"),
    "zip, cut off": (zipped(GOOD, ("b.md", os.urandom(5000)))[:-60], "damaged"),
    "zip, a byte changed": (zipped(("a.md", b"some text")).replace(b"\x2b\xce\xcf\x4d", b"\x2b\xce\xcf\x4f", 1), "damaged"),
    "zip, a bomb": (zipped(("big.md", bytes(30_000_000))), "not a vault"),
    "zip, broken settings": (zipped(GOOD, (".spellbook/config.toml", b"nonsense = 1")), "settings"),
    "json, upwards": (exported(record("good.md"), record("../../evil.md")), "lead out"),
    "json, cut off": (exported(record("good.md"), record("b.md"))[:-30], "not the JSON"),
    "json, a file missing": (exported(record("good.md"), count=2), "its count of files is 2, but it holds 1"),
    "json, other bytes": (exported(record("good.md"), record("b.md", sha256="0" * 64)), "do not match"),
    "json, no path": (exported(record("good.md"), {"text": "x"}), "no path"),
    "json, half letters": (exported(record("good.md"), {"path": "b.md", "text": "\ud800", "sha256": ""}), "neither text nor"),
    "json, the same path twice": (exported(record("good.md"), record("good.md", "y")), "twice"),
    "a file that is a folder, too": (exported(record("good.md"), record("A"), record("A/b.md")), "A is a file in it, and A/b.md needs"),
    "a folder that is a file, too": (zipped(GOOD, ("A/c/b.md", b"x"), ("A/c", b"y")), "A/c is a file in it, and A/c/b.md needs"),
    "settings that send notes away": (exported(record(".spellbook/config.toml", 'embedder = "openai:m@https://evil.test"')), "would send"),
    "settings that start a million threads": (zipped((".spellbook/config.toml", b"threads = 1000000")), "from 1 to 256"),
    "settings beyond any number": (zipped((".spellbook/config.toml", b"cache_mb = %d" % 10**30)), "from 1 to"),
    "patterns without sense": (zipped(GOOD, (".spellbookignore", b"a/\n!\n")), r"read: \.spellbookignore, line 2: Invalid git pattern"),
    "more patterns than are read": (zipped((".spellbookignore", b"# note\n" * 150_000)), "over 1 MB"),
    "json, newer": (exported(record("good.md"), version=2), "newer"),
    "json of another kind": (b'{"a": 1}', "not an export"),
    "json, empty list": (b"[]", "not an export"),
    "a note program's": (b"<?xml version='1.0'?><en-export/>", "not the JSON.*docs/moving-in.md"),
    "nothing": (b"", "not the JSON"),
}  # fmt: skip


def test_what_is_damaged_or_dangerous_is_refused_whole(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    If one part of a source is damaged or dangerous, nothing of it is imported and nothing is written. The vault, its
    parent folders and its own parts are refused as sources. A source that is, leads to or contains a pipe or device is
    refused or skipped by name, and nothing blocks.
    """
    (vault / "sub").mkdir()

    def everything() -> list[Path]:
        return sorted(path for path in tmp_path.rglob("*") if "state" not in path.parts)

    for name, (data, reason) in WRONG.items():
        (tmp_path / "in").write_bytes(data)
        before = everything()
        with pytest.raises((InvalidInput, PathOutsideVault)) as refused:
            book.import_(tmp_path / "in", on_conflict="overwrite")
        assert re.search(reason, str(refused.value)), name
        assert everything() == before, name
    assert not Path("/tmp/evil.md").exists()
    for part in ("..", ".", "sub"):
        with pytest.raises(InvalidInput, match="lie in one another"):
            book.import_(vault / part)
    for name in ("note.md", "export.json", "chats/conversations.json", "folder/note.md"):
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        for make in (os.mkfifo, lambda place: place.symlink_to("/dev/zero")):
            make(place)
            if name.startswith("folder/"):
                assert [fault.path for fault in book.import_(place.parent).faults] == ["note.md"]
            else:
                with pytest.raises(InvalidInput, match="not a regular file"):
                    book.import_(place if place.parent == tmp_path else place.parent)
            place.unlink()
    assert not contents(vault)


HIDDEN = (
    *(".git/hooks/pre-commit", "a/.obsidian/plugins/p/main.js", "GIT~1/hooks/post-checkout", "\u200c.git/config"),
    *(".spellbook/run.sh", ".trash/x.md", "a/.b.md"),
)


@pytest.mark.parametrize("form", ["json", "zip", "folder"])
def test_nothing_that_a_walk_would_not_read_is_imported(
    book: Spellbook, vault: Path, tmp_path: Path, form: str
) -> None:
    """
    No dot-folder, under any name, and no executable file is imported from any source; the rest is, and files hidden in
    JSON are named.
    """
    (vault / ".git/hooks").mkdir(parents=True)
    if form == "json":
        files = [{**record(path), "mode": 0o100755} for path in (*HIDDEN, "good.md", "run.sh")]
        data = json.loads(exported(*files)) | {"folders": [".git/hooks/empty", "empty"]}
        (tmp_path / "in").write_text(json.dumps(data), "utf-8")
    elif form == "zip":
        entries = [zipfile.ZipInfo(path) for path in (*HIDDEN, "good.md", "run.sh")]
        for entry in entries:
            entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o4755) << 16
        (tmp_path / "in").write_bytes(zipped(*((entry, b"x") for entry in entries)))
    else:
        grow(tmp_path / "in", dict.fromkeys((*HIDDEN, "good.md", "run.sh"), b"x"))
        (tmp_path / "in/run.sh").chmod(0o755)
    for dry_run in (True, False):
        done = book.import_(tmp_path / "in", on_conflict="overwrite", dry_run=dry_run)
        assert sorted(done.added) == ["good.md", "run.sh"]
        named = {fault.path for fault in done.faults}
        assert named == (set(HIDDEN) if form == "json" else {"GIT~1/hooks/post-checkout", "\u200c.git/config"})
    assert contents(vault) == {"good.md": b"x", "run.sh": b"x"}
    assert sorted(path.name for path in vault.rglob("*")) == sorted(
        [".git", "hooks", "good.md", "run.sh"] + ["empty"] * (form == "json")
    )
    assert not any((vault / name).stat().st_mode & 0o7113 for name in ("good.md", "run.sh"))
    with pytest.raises(PathOutsideVault, match="dot-folders"):
        book.import_(tmp_path / "in", into=".git")
    assert sorted(book.import_(tmp_path / "in", into="old/").added) == ["old/good.md", "old/run.sh"]


def test_nothing_is_imported_through_a_link(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    An import writes nothing through a link to a folder of the vault, into a dot-folder, or out of the vault. A link in
    a zip is reported and skipped. Undo restores no erased file through a link that replaced its folder, and none as an
    executable.
    """
    grow(vault, {".git/config": b"[core]", "real/a.md": b"mine", "n/erased.md": b"text"})
    book.erase("n/erased.md")
    (vault / "n").rmdir()
    (tmp_path / "outside").mkdir()
    for name, target in (("link", "real"), ("note.md", ".git/config"), ("out", tmp_path / "outside"), ("n", ".git")):
        (vault / name).symlink_to(target)
    before = contents(vault)
    for path in ("link/a.md", "link/b.md", "note.md", "out/x.md"):
        (tmp_path / "in").write_bytes(exported(record("good.md"), record(path)))
        with pytest.raises(PathOutsideVault):
            book.import_(tmp_path / "in", on_conflict="overwrite")
    with pytest.raises(PathOutsideVault):
        book.undo()
    assert (contents(vault), [path.name for path in (vault / ".git").iterdir()]) == (before, ["config"])
    (vault / "real/a.md").chmod(0o755)
    book.erase("real/a.md")
    (vault / ".trash/real/a.md").unlink()
    book.undo()
    assert stat.S_IMODE((vault / "real/a.md").stat().st_mode) == 0o644
    link = zipfile.ZipInfo("link.md")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    (tmp_path / "in.zip").write_bytes(zipped(GOOD, (link, b"/etc/passwd")))
    done = book.import_(tmp_path / "in.zip")
    assert (done.added, [fault.path for fault in done.faults]) == (["good.md"], ["link.md"])
    assert not list((tmp_path / "outside").iterdir())


def test_names_that_only_some_disks_have_or_tell_apart(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    Names that differ only by case or Unicode form are two files if the disk allows it, and are reported if it does not.
    No file has half a letter in its name: what is imported without it names it, and an export to it is refused. A time
    that no disk has is the nearest.
    """
    one, two = "Caf\u00e9.md", "CAFE\u0301.md"
    halves = [record(f"b{letter}.md") for letter in (chr(0xD800), chr(0xDCFF))]
    (tmp_path / "in").write_bytes(
        exported(record(one, "1") | {"mtime_ns": 2**80}, *halves, *([] if ignores_case(vault) else [record(two)]))
    )
    done = book.import_(tmp_path / "in", on_conflict="overwrite")
    assert done.added == [one, two][: len(done.added)]
    assert (vault / one).stat().st_mtime_ns > 2**62
    assert [(fault.path.isprintable(), fault.path[:2]) for fault in done.faults] == [(True, "b\\")] * 2
    for form in ("json", "markdown"):
        with pytest.raises(InvalidInput, match="half a character"):
            book.export(tmp_path / "out\ud800", form)
    assert not list(tmp_path.glob("*out*"))
    paths = names.Paths(folds=True)
    paths.add(one)
    paths.add("A/b.md")
    assert two in paths
    assert paths.clash(two) == f"{one} and {two} are one name on this disk"
    assert paths.clash("a") == "a is a file in it, and A/b.md needs a folder of that name"
    assert paths.clash(f"{two}/x.md") == f"{two} is a file in it, and {two}/x.md needs a folder of that name"
    assert not paths.clash("a/c.md")


# -- all or nothing


def test_all_or_nothing(book: Spellbook, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If one file cannot be placed, those before it are removed, replaced files are restored, and no folder is left. A
    large import stops before the disk is full and leaves nothing behind.
    """
    grow(vault, {"a.md": b"mine"})
    (vault / "a.md").chmod(0o755)
    source = grow(tmp_path / "s", {"a.md": b"theirs", "new/deep/b.md": b"2", "x.md": b"3"})

    def fail(stage: str, done: int, count: int) -> None:
        if stage == "importing" and done == count == 3:
            raise StorageError("The disk fails.")

    def grows(stage: str, done: int, count: int) -> None:
        monkeypatch.setattr(importer, "LARGE", 1_000_000)
        monkeypatch.setattr(snapshots, "RESERVE", 1 << 60)
        os.truncate(source / "x.md", 1 << 40)

    for progress, reason in ((fail, "The disk fails"), (grows, "the import needs")):
        with pytest.raises(StorageError, match=reason):
            book.import_(source, on_conflict="overwrite", progress=progress)
        assert {path: held[:2] for path, held in state_of(vault).items()} == {"a.md": (b"mine", 0o755)}
        assert (contents(vault / ".trash"), book.log()) == ({}, [])


def test_an_import_can_be_undone(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    An import is one entry of the log; undo restores every byte, of attachments too, and can be undone itself. If an
    attachment was changed since, it is named, and nothing is undone. A replaced file keeps its permissions.
    """
    grow(vault, {"a.md": b"mine", "p.png": b"old"})
    os.chmod(vault / "a.md", 0o640)
    before = state_of(vault)["a.md"][:2]
    (tmp_path / "in").write_bytes(exported(record("a.md", "theirs"), record("p.png", "new"), record("n/b.md", "b")))
    theirs = {"a.md": b"theirs", "p.png": b"new", "n/b.md": b"b"}
    book.import_(tmp_path / "in", on_conflict="overwrite")
    assert [entry.verb for entry in book.log()] == ["import"]
    assert stat.S_IMODE((vault / "a.md").stat().st_mode) == 0o640
    for _ in range(2):
        book.undo(1)
        assert contents(vault) == {"a.md": b"mine", "p.png": b"old"}
        assert state_of(vault)["a.md"][:2] == before
        assert not (vault / "n").exists()
        book.undo(book.log(1)[0].id)
        assert contents(vault) == theirs
    grow(vault, {"p.png": b"edited"})
    with pytest.raises(Conflict, match=r"p\.png: the file was changed since entry 1"):
        book.undo(1)
    assert contents(vault) == theirs | {"p.png": b"edited"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)  # fmt: skip


@given(
    value=st.lists(VALUES, max_size=4) | st.dictionaries(st.text(), VALUES, max_size=4),
    indent=st.sampled_from([None, 2]),
)
def test_json_is_read_by_members_and_items(value: Any, indent: Any) -> None:
    """Each member of an object is read, and each item of a list, in order."""
    found = list(members(io.BytesIO(json.dumps(value, indent=indent).encode()), "x"))
    pairs = value.items() if isinstance(value, dict) else [("", value)]
    assert found == [(key, item) for key, inner in pairs for item in (inner if isinstance(inner, list) else [inner])]


def test_an_export_may_be_larger_than_memory(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """
    Of an export no more than a line is held. It is read as any JSON is if a program wrote it anew. One that was cut off
    between two lines, or goes on behind its end, is refused.
    """
    grow(vault, {f"{number}.md": b"word " * 100_000 for number in range(40)})
    book.export(tmp_path / "out.json")
    tracemalloc.start()
    with (tmp_path / "out.json").open("rb") as file:
        assert sum(key == "files" for key, _ in members(file, "x")) == 40
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    whole = (tmp_path / "out.json").read_bytes()
    with (tmp_path / "out.json").open("rb") as file:
        assert list(members(io.BytesIO(json.dumps(json.loads(whole), indent=1).encode()), "x")) == list(
            members(file, "x")
        )
    (vault / "0.md").unlink()
    for data, reason in ((whole[: whole.rindex(b"]")], "its count of files is None"), (whole + b"{}", "not the JSON")):
        (tmp_path / "in.json").write_bytes(data)
        with pytest.raises(InvalidInput, match=reason):
            book.import_(tmp_path / "in.json")
    assert not (vault / "0.md").exists()
