"""
Import files into the vault, all of them or none.

Everything is read, checked and staged in the state folder first. Then a journal is written, and the files are placed.
If a process is killed meanwhile, a person decides whether the import goes on or is dropped; until then no other
begins. Existing files are replaced only on request, and kept in the trash.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from spellbook.archive import placing, sources
from spellbook.archive.formats.incoming import Incoming
from spellbook.archive.tree import is_note, is_setting
from spellbook.index import sync
from spellbook.index.embed import Progress
from spellbook.index.opened import Index
from spellbook.notes.note import Fault
from spellbook.settings import config
from spellbook.settings.paths import MARKER
from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, PathOutsideVault, StorageError
from spellbook.system.processes import is_locked
from spellbook.text.quoting import counted
from spellbook.vault import rules
from spellbook.vault.ignored import IGNORE_FILE, patterns_of
from spellbook.vault.listing import shown
from spellbook.vault.names import safe_name
from spellbook.vault.vault import Vault

RULES = ("skip", "overwrite", "rename")
"""What happens if the file already exists: the new file is skipped, replaces it, or gets a number after its name."""

_FOLDER = "import"
_JOURNAL = "journal.json"
_STAGE = "files"
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|[ .](?=/|$)')
LARGE = 100_000_000
"""Bytes; a larger import leaves `RESERVE` free on the disk."""

RESERVE = 200_000_000
"""Bytes, as many as snapshots leave free."""

_log = logging.getLogger(__name__)


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
    """Files of an interrupted import that were placed by this call."""

    @property
    def paths(self) -> list[str]:
        """All that was written."""
        return [*self.added, *self.overwritten, *self.renamed.values()]

    def as_dict(self) -> dict[str, Any]:
        """Return counts and paths as the command line's JSON shows them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """
    Options of an import: the rule for existing files (`RULES`), the target folder, and which files to import.

    With `dry_run` nothing is written. Without `attachments` only notes and settings are imported. `drop` forgets what
    is left of an interrupted import, and imports nothing.
    """

    on_conflict: str = "skip"
    dry_run: bool = False
    into: str = ""
    attachments: bool = True
    drop: bool = False


def run(index: Index, place: Path | None, options: ImportOptions, progress: Progress | None = None) -> Imported:
    """
    Import a source (see `sources`), or without one go on with an interrupted import; return what was done.

    Raises InvalidInput or PathOutsideVault for a source that cannot be imported, StorageError, Conflict; the vault
    is then unchanged. A StorageError of the index alone says that the files are in the vault.
    """
    done = _resume(index, options, progress) if place is None else _begin(index, place, options, progress)
    try:
        if not options.dry_run:
            sync.scan(index)
    except StorageError as error:
        if not done.paths:
            raise
        raise StorageError(
            f"{counted(len(done.paths), 'file')} imported, but the index could not be updated: {error.message}",
            f"Nothing was lost. {error.hint}",
        ) from error
    return done


def _begin(index: Index, place: Path, options: ImportOptions, progress: Progress | None) -> Imported:
    if options.drop:
        raise InvalidInput("An import cannot be made and dropped at once.", "Drop the interrupted one first.")
    if options.on_conflict not in RULES:
        raise InvalidInput(f"There is no rule {options.on_conflict!r:.80}.", f"Rules are {', '.join(RULES)}.")
    _check_place(index.vault, place)
    if options.into:
        index.vault.admitted(_into(options, "x.md"))
    report = Imported(dry_run=options.dry_run)
    with _lock(index.config.state) as folder:
        if interrupted := _read_journal(folder):
            raise Conflict(
                f"The import of {interrupted.source} was cut short, and not all of it is in the vault.",
                "`spellbook import` goes on with it, `spellbook import --drop` forgets the rest. Nothing was imported.",
            )
        if options.dry_run:
            with tempfile.TemporaryFile(dir=index.config.state) as stage:
                _stage(index, place, stage, options, report, progress)
            return report
        folder.mkdir(exist_ok=True)
        try:
            with (folder / _STAGE).open("w+b") as stage:
                files, folders = _stage(index, place, stage, options, report, progress)
                stage.flush()
                os.fsync(stage.fileno())
            begun = _Pending(str(place), tuple(files), tuple(folders))
            with disk.replacing(folder / _JOURNAL) as file:
                file.write(json.dumps(asdict(begun)).encode())
        except BaseException:
            _discard(folder)
            raise
        # The report tells what was done, not what was planned.
        report.added, report.overwritten, report.renamed = [], [], {}
        return _finish(index, folder, begun, report, progress)


def _resume(index: Index, options: ImportOptions, progress: Progress | None) -> Imported:
    """
    Go on with an import that was interrupted, or drop what is left of it; the result is empty if there is none.

    What was dropped is `skipped` in the result, and what the import had placed is `unchanged`.
    """
    report = Imported(dry_run=options.dry_run)
    with _lock(index.config.state) as folder:
        begun = _read_journal(folder)
        if begun is None:
            _discard(folder)
        elif options.drop:
            for staged in begun.files:
                is_placed = False
                with contextlib.suppress(InvalidInput):  # something that is no file is there
                    is_placed = placing.verdict(index.vault, staged).what == "unchanged"
                _add(report, staged, placing.Verdict("unchanged" if is_placed else "skipped", staged.path))
            if not options.dry_run:
                _discard(folder)
        elif options.dry_run:
            for staged in begun.files:
                _add(report, staged, placing.verdict_now(index.vault, staged))
        else:
            _finish(index, folder, begun, report, progress, resumes=True)
            report.finished = len(report.paths)
    return report


def is_interrupted(state: Path) -> bool:
    """Say whether an interrupted import waits for a decision."""
    lock = state / "import.lock"
    return (state / _FOLDER / _JOURNAL).exists() and not (lock.exists() and is_locked(lock))


@dataclass(frozen=True, slots=True)
class _Pending:
    """An import as its journal has it: its source, and the files and empty folders that it places."""

    source: str
    files: tuple[placing.Staged, ...]
    folders: tuple[str, ...]


def _read_journal(folder: Path) -> _Pending | None:
    """Return the import that was interrupted, None if there is none."""
    if not (folder / _JOURNAL).exists() or not (folder / _STAGE).exists():
        return None
    try:
        journal = json.loads((folder / _JOURNAL).read_bytes())
        files = tuple(placing.Staged(**entry) for entry in journal["files"])
        return _Pending(str(journal.get("source", "(finished)")), files, tuple(journal["folders"]))
    except (ValueError, KeyError, TypeError):
        _log.warning("%s is damaged: what an import that was cut short had left is forgotten.", folder / _JOURNAL)
        return None


def _finish(
    index: Index, folder: Path, begun: _Pending, report: Imported, progress: Progress | None, *, resumes: bool = False
) -> Imported:
    """Place the files of an import; add to `report` what was done, and return it."""
    done: list[placing.Placed] = []
    with index.vault.journal.entry("import", begun.source):
        try:
            with (folder / _STAGE).open("rb") as stage:
                placing.place_all(index.vault, begun.files, stage, done, progress)
        except BaseException as error:
            if left := placing.take_back_all(index.vault, done):
                files = counted(left, "file")
                raise StorageError(
                    f"The import stopped half-way ({error}), and {files} of it could not be taken back.",
                    "`spellbook import` goes on with it, `spellbook import --drop` forgets the rest.",
                ) from error
            if not resumes:
                _discard(folder)  # on a full disk, this makes room for the end of the entry
            raise
    for staged, verdict, trash in done:
        _add(report, staged, verdict)
        report.trash += [trash] if trash else []
    for empty in begun.folders:
        with contextlib.suppress(OSError, PathOutsideVault):  # an empty folder is nothing to fail for
            index.vault.admitted(empty)
            index.vault.make(empty)
    _discard(folder)
    return report


@contextlib.contextmanager
def _lock(state: Path) -> Iterator[Path]:
    """Hold the lock of imports; yield the folder of the stage. Raises StorageError, for an OSError too."""
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
    index: Index, place: Path, stage: BinaryIO, options: ImportOptions, report: Imported, progress: Progress | None
) -> tuple[list[placing.Staged], list[str]]:
    """Read a source into `stage`, and add the results to `report`; return the files to place, and empty folders."""
    files: list[placing.Staged] = []
    seen: dict[str, str] = {}
    taken = rules.Paths(disk.ignores_case(index.vault.root))
    with sources.opened(place) as source:
        for number, incoming in enumerate(source.files, 1):
            if progress:
                progress("reading", number, number)  # only the end of the source says how many there are
            start, pieces = stage.tell(), disk.Hashed(incoming.pieces)
            for piece in pieces:
                stage.write(piece)
                _check_room(index.config.state, stage.tell())
            size = stage.tell() - start
            if reason := rules.refusal(incoming.path):
                report.faults.append(Fault(shown(incoming.path), 0, reason))
                _cut(stage, start)
                continue
            staged = placing.Staged(
                *_destination(index, incoming, options), start, size, pieces.sha256, incoming.mode, incoming.mtime_ns
            )
            # Settings are of a whole vault.
            is_wanted = not options.into if is_setting(incoming.path) else options.attachments or is_note(incoming.path)
            key = incoming.id or staged.path  # conversations of one title are several all the same
            if is_wanted and key not in seen:
                seen[key] = staged.sha256
                verdict = placing.verdict(index.vault, staged, taken)
                _add(report, staged, verdict)
                if verdict.writes:
                    _check_path(index.vault, verdict.path, taken)
                    taken.add(verdict.path)
                    files.append(replace(staged, over=verdict.over))
                    if is_setting(staged.path):
                        _check_settings(staged.path, b"".join(placing.bytes_of(stage, staged)))
                    continue
            elif seen.get(key, staged.sha256) != staged.sha256:
                raise InvalidInput(f"{key} is in it twice, and not the same.", "Nothing was imported.")
            _cut(stage, start)
        report.faults += source.faults
        return files, [_into(options, folder) for folder in source.folders]


def _cut(stage: BinaryIO, start: int) -> None:
    stage.seek(start)
    stage.truncate()


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


def _destination(index: Index, incoming: Incoming, options: ImportOptions) -> tuple[str, str, str]:
    """Return the wanted name of a file, a valid path, and the rule if the path is taken."""
    if is_setting(incoming.path):
        # Nobody reads settings under another name. Settings can hide notes or shorten the history of changes, so a
        # vault that has notes takes them only with the rule `overwrite`.
        rule = "skip" if options.on_conflict == "rename" else options.on_conflict
        rule = placing.KEEP_OUT if rule == "skip" and index.catalog.counts().notes else rule
        return incoming.path, incoming.path, rule
    if incoming.id and (known := index.catalog.note(incoming.id)):
        return known[0].path, known[0].path, options.on_conflict
    name = _into(options, incoming.path)
    if incoming.id:  # two conversations of one title are no conflict, and any name will do
        return "", _fitting(index.vault, name), "rename"
    return name, _fitting(index.vault, name), options.on_conflict


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


def _add(report: Imported, staged: placing.Staged, verdict: placing.Verdict) -> None:
    """Add to a report what became of a file."""
    if verdict.what == "unchanged":
        report.unchanged += 1
    elif verdict.what == "renamed":
        report.renamed[staged.name] = verdict.path
    else:
        getattr(report, verdict.what).append(verdict.path)


def _check_settings(path: str, data: bytes) -> None:
    """Raise InvalidInput for settings with which the vault could not be opened."""
    try:
        if path == f"{MARKER}/config.toml":
            config.check(path, data.decode("utf-8-sig"))
        elif path == IGNORE_FILE:
            if len(data) > disk.SMALL:
                raise InvalidInput(f"{path}: it is over {disk.SMALL // 1_000_000} MB.", "Make it shorter.")
            patterns_of(path, data, "Mend the line; patterns are as in .gitignore.")
    except (InvalidInput, UnicodeDecodeError) as error:
        raise InvalidInput(f"The settings in it cannot be read: {error}", "Nothing was imported.") from error


def _into(options: ImportOptions, path: str) -> str:
    return f"{options.into.strip('/')}/{path}".strip("/")


def _discard(folder: Path) -> None:
    with contextlib.suppress(OSError):
        (folder / _JOURNAL).unlink()  # first: without it nobody goes on
    shutil.rmtree(folder, ignore_errors=True)
