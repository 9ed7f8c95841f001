"""
Import files into the vault, all of them or none.

Everything is read, checked and staged in the state folder first. Then a journal is written. From then on the import
is committed: if a process is killed, the next import completes it first. Existing files are replaced only on
request, and kept in the trash.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from spellbook import config
from spellbook.archive import sources
from spellbook.archive.formats.incoming import Incoming
from spellbook.archive.tree import is_note, is_setting
from spellbook.errors import Conflict, InvalidInput, MemoryNotFound, PathOutsideVault, SpellbookError, StorageError
from spellbook.index.embed import Progress
from spellbook.index.opened import Index
from spellbook.notes.note import Fault
from spellbook.paths import MARKER
from spellbook.system import disk
from spellbook.system.processes import is_locked
from spellbook.vault import rules
from spellbook.vault.folder import Folder
from spellbook.vault.ignored import IGNORE_FILE
from spellbook.vault.listing import shown
from spellbook.vault.names import numbered, safe_name
from spellbook.vault.vault import Vault

RULES = ("skip", "overwrite", "rename")
"""What happens if the file already exists: the new file is skipped, replaces it, or gets a number after its name."""

_FOLDER, _JOURNAL, _STAGE = "import", "journal.json", "files"
_SETTINGS = f"{MARKER}/config.toml"
_KEEP_OUT = "keep out"
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|[ .](?=/|$)')
_PIECE = 1 << 20
LARGE, RESERVE = 100_000_000, 200_000_000
"""Bytes: an import larger than the first number leaves the second free on the disk, as snapshots do."""
_TRIES = 20


@dataclass(slots=True)
class Imported:
    """
    What an import did, or with `dry_run` would do, in paths of the vault.

    `unchanged` files existed already, byte for byte. `skipped` files differ from the existing ones, which stayed.
    `renamed` maps paths of the source to paths of the vault. `trash` is where replaced files are.
    """

    added: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    unchanged: int = 0
    trash: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    dry_run: bool = False
    finished: int = 0
    """Files of an earlier import that was interrupted; they were placed first."""

    @property
    def paths(self) -> list[str]:
        """All that was written."""
        return [*self.added, *self.overwritten, *self.renamed.values()]

    def as_dict(self) -> dict[str, Any]:
        """Return counts and paths as the command line's JSON shows them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Asked:
    """
    Options of an import: the rule for existing files (`RULES`), the target folder, and which files to import.

    With `dry_run` nothing is written. Without `attachments` only notes and settings are imported.
    """

    on_conflict: str = "skip"
    dry_run: bool = False
    into: str = ""
    attachments: bool = True


@dataclass(frozen=True, slots=True)
class _Staged:
    """A staged file: its wanted name, a valid path for it, and the position of its bytes in the stage."""

    name: str
    path: str
    rule: str
    start: int
    size: int
    sha256: str
    mode: int | None = None
    mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What happens to a file (as `Imported` calls it), its `path`, and the hash of the bytes that it replaces."""

    what: str
    path: str
    over: str | None = None

    @property
    def writes(self) -> bool:
        return self.what in {"added", "renamed", "overwritten"}


_Placed = tuple[_Staged, _Verdict, str]
"""A file, what became of it, and where in the trash the one is that it replaced."""


def run(index: Index, place: Path, asked: Asked, progress: Progress | None = None) -> Imported:
    """
    Import a source (see `sources`) and return what was done. The caller updates the index.

    Raises InvalidInput or PathOutsideVault for a source that cannot be imported, StorageError, Conflict; the vault
    is then unchanged.
    """
    if asked.on_conflict not in RULES:
        raise InvalidInput(f"There is no rule {asked.on_conflict!r:.80}.", f"Rules are {', '.join(RULES)}.")
    _check_place(index.vault, place)
    if asked.into:
        index.vault.admitted(_into(asked, "x.md"))
    report = Imported(dry_run=asked.dry_run)
    with _locked(index.config.state) as folder:
        if asked.dry_run:
            with tempfile.TemporaryFile(dir=index.config.state) as stage:
                _stage(index, place, stage, asked, report, progress)
            return report
        report.finished = len(_finish(index, folder, Imported()).paths)
        folder.mkdir(exist_ok=True)
        try:
            with (folder / _STAGE).open("w+b") as stage:
                staged, folders = _stage(index, place, stage, asked, report, progress)
                stage.flush()
                os.fsync(stage.fileno())
            with disk.replacing(folder / _JOURNAL) as file:  # from here on the import is done, by whomever
                file.write(json.dumps({"files": [asdict(each) for each in staged], "folders": folders}).encode())
            # What is told in the end is what was done, not what was planned.
            report.added, report.overwritten, report.renamed = [], [], {}
            return _finish(index, folder, report, str(place), progress)
        finally:
            _discard(folder)


def finish(index: Index) -> Imported:
    """Complete an import that was interrupted after staging; the result is empty if there is none."""
    with _locked(index.config.state) as folder:
        return _finish(index, folder, Imported())


INTERRUPTED = "an import was cut short: `spellbook import` finishes it, without a source or before the next one"


def is_interrupted(state: Path) -> bool:
    """Say whether an interrupted import waits to be completed."""
    lock = state / "import.lock"
    return (state / _FOLDER / _JOURNAL).exists() and not (lock.exists() and is_locked(lock))


def _finish(
    index: Index, folder: Path, report: Imported, what: str = "(finished)", progress: Progress | None = None
) -> Imported:
    """Place what the journal lists, if there is one; add to `report` what was done, and return it."""
    if (folder / _JOURNAL).exists() and (folder / _STAGE).exists():
        journal = json.loads((folder / _JOURNAL).read_bytes())
        staged = [_Staged(**each) for each in journal["files"]]
        with (folder / _STAGE).open("rb") as stage, index.vault.journal.entry("import", what):
            done = _place_all(index.vault, staged, stage, progress)
        for each, verdict, trash in done:
            _note_down(report, each, verdict)
            report.trash += [trash] if trash else []
        for empty in journal["folders"]:
            with contextlib.suppress(OSError, PathOutsideVault):  # an empty folder is nothing to fail for
                index.vault.admitted(empty).mkdir(parents=True, exist_ok=True)
    _discard(folder)
    return report


@contextlib.contextmanager
def _locked(state: Path) -> Iterator[Path]:
    """Hold the lock of imports; yield the folder for what is staged. Raises StorageError, for an OSError too."""
    busy = StorageError("Another import into this vault is under way.", "Wait until it is done.")
    try:
        with disk.alone(state / "import.lock", 5, busy):
            yield state / _FOLDER
    except OSError as error:
        raise disk.storage_error(str(state / _FOLDER), error) from error


def _check_place(vault: Vault, place: Path) -> None:
    if not os.path.exists(place):
        raise InvalidInput(f"{place}: there is no such file or folder.", "Name an export, a folder or a zip of notes.")
    real = place.resolve()
    if place.is_dir() and (real.is_relative_to(vault.root) or vault.root.is_relative_to(real)):
        raise InvalidInput(
            f"{place} and the vault {vault.root} lie in one another.", "What is in the vault needs no import."
        )


# -- reading and checking


def _stage(
    index: Index, place: Path, stage: BinaryIO, asked: Asked, report: Imported, progress: Progress | None
) -> tuple[list[_Staged], list[str]]:
    """Read a source; store what is to be written in `stage`, add the results to `report`; return files and folders."""
    staged: list[_Staged] = []
    seen: dict[str, str] = {}
    taken = rules.Paths(disk.folds(index.vault.root))
    with sources.opened(place) as source:
        for number, incoming in enumerate(source.files, 1):
            if progress:
                progress("reading", number, number)  # how many there are, only the end of the source says
            start, pieces = stage.tell(), disk.Hashed(incoming.pieces)
            for piece in pieces:
                stage.write(piece)
                _check_room(index.config.state, stage.tell())
            size = stage.tell() - start
            if reason := rules.refusal(incoming.path):
                report.faults.append(Fault(shown(incoming.path), 0, reason))
                stage.seek(start)
                stage.truncate()
                continue
            each = _Staged(
                *_destination(index, incoming, asked), start, size, pieces.sha256, incoming.mode, incoming.mtime_ns
            )
            # Settings are of a whole vault.
            is_wanted = not asked.into if is_setting(incoming.path) else asked.attachments or is_note(incoming.path)
            key = incoming.id or each.path  # conversations of one title are several all the same
            if is_wanted and key not in seen:
                seen[key] = each.sha256
                verdict = _verdict(index.vault, each, taken)
                _note_down(report, each, verdict)
                if verdict.writes:
                    _check_path(index.vault, verdict.path, taken)
                    taken.add(verdict.path)
                    staged.append(each)
                    if is_setting(each.path):
                        _check_settings(each.path, b"".join(_bytes(stage, each)))
                    continue
            elif seen.get(key, each.sha256) != each.sha256:
                raise InvalidInput(f"{key} is in it twice, and not the same.", "Nothing was imported.")
            stage.seek(start)
            stage.truncate()
        report.faults += source.faults
        return staged, [_into(asked, folder) for folder in source.folders]


def _check_room(folder: Path, staged: int) -> None:
    """Raise StorageError before an import fills the disk, as an endless or sparse file would."""
    if staged > LARGE and shutil.disk_usage(folder).free < RESERVE:
        raise StorageError(
            f"{folder}: the disk is nearly full, and there is more to import.", "Make room; nothing was imported."
        )


def _check_path(vault: Vault, path: str, taken: rules.Paths) -> None:
    """Raise InvalidInput or PathOutsideVault if `path` is taken, or is not allowed by `rules`."""
    if reason := taken.clash(path):
        raise InvalidInput(f"{reason}.", "Rename one of them in the source; nothing was imported.")
    vault.admitted(path)
    for blocked in rules.folders_of(path):
        if os.path.lexists(vault.root / blocked) and not (vault.root / blocked).is_dir():
            raise InvalidInput(
                f"{path} needs a folder where the vault has the file {blocked}.",
                "Rename that file, or import with --into another folder; nothing was imported.",
            )


def _destination(index: Index, incoming: Incoming, asked: Asked) -> tuple[str, str, str]:
    """Return the wanted name of a file, a valid path, and the rule if the path is taken."""
    if is_setting(incoming.path):
        # Nobody reads settings under another name. What hides notes or forgets what can be undone is not taken unasked
        # into a vault that has notes already.
        rule = "skip" if asked.on_conflict == "rename" else asked.on_conflict
        return incoming.path, incoming.path, _KEEP_OUT if rule == "skip" and index.catalog.counts().notes else rule
    if incoming.id and (known := index.catalog.note(incoming.id)):
        return known[0].path, known[0].path, asked.on_conflict
    name = _into(asked, incoming.path)
    if incoming.id:  # two conversations of one title are no conflict, and any name will do
        return "", _fitting(index.vault, name), "rename"
    return name, _fitting(index.vault, name), asked.on_conflict


def _fitting(vault: Vault, path: str) -> str:
    """Return `path`, or the nearest path that is valid on every system. Raises PathOutsideVault."""
    if os.name == "nt" and _NOT_ON_WINDOWS.search(path):
        path = "/".join(map(safe_name, path.split("/")))
    try:
        vault.locate(path)
    except PathOutsideVault:
        parts = path.split("/")
        if ".." in parts or path.startswith("/"):
            raise
        path = "/".join(map(safe_name, parts))  # CON.md, C:x.md
        vault.locate(path)
    return path


def _verdict(vault: Vault, staged: _Staged, taken: Container[str] = ()) -> _Verdict:
    """Apply the file's rule. `taken` are the paths of other files of this import."""
    for path in numbered(staged.path):
        there = "" if path in taken else _there(vault, path)
        if there is None and staged.rule != _KEEP_OUT:
            return _Verdict("added" if staged.name in {path, ""} else "renamed", path)
        if there == staged.sha256:
            return _Verdict("unchanged", path)
        if staged.rule in {"skip", _KEEP_OUT}:
            return _Verdict("skipped", path)
        if staged.rule == "overwrite" and there:
            return _Verdict("overwritten", path, there)
        if staged.rule == "overwrite":
            if path in taken:
                return _Verdict("added", path)  # which is refused, with the name of the other file
            raise InvalidInput(
                f"{path}: the vault has a folder there, a link that leads nowhere, or a pipe.",
                "Move it away; nothing was imported.",
            )
    raise StorageError(f"{staged.path}: 10,000 files are called so.", "Import into a folder of its own with --into.")


def _there(vault: Vault, path: str) -> str | None:
    """Return the hash of the file at a path, "" for anything else there, None if the path is free."""
    place = vault.locate(path, known=True)
    if not os.path.lexists(place):
        return None
    try:
        return vault.hash(path) if place.is_file() else ""
    except MemoryNotFound:
        return None


def _note_down(report: Imported, staged: _Staged, verdict: _Verdict) -> None:
    if verdict.what == "unchanged":
        report.unchanged += 1
    elif verdict.what == "renamed":
        report.renamed[staged.name] = verdict.path
    else:
        getattr(report, verdict.what).append(verdict.path)


def _check_settings(path: str, data: bytes) -> None:
    """Raise InvalidInput for settings with which the vault could not be opened."""
    try:
        if path == _SETTINGS:
            config.check(path, data.decode("utf-8-sig"))
        elif path == IGNORE_FILE:
            with tempfile.TemporaryDirectory() as scratch:
                (Path(scratch) / IGNORE_FILE).write_bytes(data)
                Folder(Path(scratch)).ignores("x.md")
    except (InvalidInput, UnicodeDecodeError) as error:
        raise InvalidInput(f"The settings in it cannot be read: {error}", "Nothing was imported.") from error


# -- writing


def _place_all(vault: Vault, staged: Sequence[_Staged], stage: BinaryIO, progress: Progress | None) -> list[_Placed]:
    """Place every file; if that fails, take back those that were placed."""
    done: list[_Placed] = []
    try:
        for number, each in enumerate(staged, 1):
            done.append((each, *_place(vault, each, stage)))
            if progress:
                progress("importing", number, len(staged))
    except BaseException:
        for each, verdict, trash in reversed(done):
            with contextlib.suppress(SpellbookError, OSError):  # what somebody has changed since is theirs
                _take_back(vault, each, verdict, trash)
        raise
    for folder in {vault.locate(verdict.path, known=True).parent for _, verdict, _ in done if verdict.writes}:
        disk.sync_folder(folder)
    return done


def _place(vault: Vault, staged: _Staged, stage: BinaryIO) -> tuple[_Verdict, str]:
    for _ in range(_TRIES):
        verdict = _verdict(vault, staged)
        if not verdict.writes:
            return verdict, ""
        path, over, pieces = verdict.path, verdict.over, _bytes(stage, staged)
        with contextlib.suppress(Conflict, MemoryNotFound):  # somebody wrote there just now: the rule is asked again
            trash = vault.trash.copy(path, over) if over else ""
            vault.place(path, pieces, mode=staged.mode, mtime_ns=staged.mtime_ns, expected=over, sync=False)
            return verdict, trash
    raise Conflict(
        f"{staged.path}: the file keeps changing.", "Wait until whoever writes it is done; nothing was imported."
    )


def _take_back(vault: Vault, staged: _Staged, verdict: _Verdict, trash: str) -> None:
    if trash and verdict.over:
        old, pieces = vault.locate(trash).stat(), vault.pieces(trash)
        expected = staged.sha256
        vault.place(verdict.path, pieces, mode=old.st_mode, mtime_ns=old.st_mtime_ns, expected=expected, own=True)
        vault.remove(trash, verdict.over, hard=True)
    elif verdict.writes:
        vault.remove(verdict.path, staged.sha256, hard=True)
        for folder in rules.folders_of(verdict.path):
            (vault.root / folder).rmdir()  # until one is not empty


def _bytes(stage: BinaryIO, staged: _Staged) -> Iterator[bytes]:
    stage.seek(staged.start)
    sha256, left = hashlib.sha256(), staged.size
    while piece := stage.read(min(_PIECE, left)):
        sha256.update(piece)
        left -= len(piece)
        yield piece
    if sha256.hexdigest() != staged.sha256:
        raise StorageError(
            f"{staged.path}: what was read of it is damaged; the state folder's disk fails.", "Import it again."
        )


def _into(asked: Asked, path: str) -> str:
    return f"{asked.into.strip('/')}/{path}".strip("/")


def _discard(folder: Path) -> None:
    with contextlib.suppress(OSError):
        (folder / _JOURNAL).unlink()  # first: without it nobody goes on
    shutil.rmtree(folder, ignore_errors=True)
