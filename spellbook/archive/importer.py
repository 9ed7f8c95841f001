"""
Import files into the vault, all of them or none.

Each file is read once, checked, and placed, in one entry of the vault's journal: an error takes everything back, and so
does `spellbook undo`, also after a kill. Existing files are replaced only on request, and kept in the trash. A file of
the vault that changes meanwhile ends the import.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from spellbook.archive import sources
from spellbook.archive.formats.conversations import Incoming
from spellbook.archive.snapshots import RESERVE
from spellbook.index import privacy, sync
from spellbook.index.lookup import folder_of
from spellbook.index.opened import Index, Progress
from spellbook.notes.files import MOST_BYTES, Fault
from spellbook.settings import config
from spellbook.settings.paths import MARKER
from spellbook.system import disk
from spellbook.system.errors import InvalidInput, PathOutsideVault, StorageError
from spellbook.system.lazy import regex
from spellbook.text.quoting import counted
from spellbook.vault import names
from spellbook.vault.backup_files import is_note, is_setting
from spellbook.vault.folder import digest
from spellbook.vault.listing import patterns_of, shown
from spellbook.vault.names import IGNORE_FILE, numbered, safe_name
from spellbook.vault.vault import Vault

RULES = ("skip", "overwrite", "rename")
"""Rules for a file that already exists: the new file is skipped, replaces it, or gets a number after its name."""

_KEEP_OUT = "keep out"
"""The rule of settings for a vault that has notes: they are not imported."""

_NOT_ON_WINDOWS = regex(r'[<>:"|?*]|[ .](?=/|$)')
_BASIC_MEMORY = regex(rb"(?m)---\s*\n(?![\s\S]*^(?:id|layout):)(?=[\s\S]*^type:)[\s\S]*^permalink:")
"""The frontmatter of a note that basic-memory wrote; a page of a web site also has a layout."""

_HEAD = 2_000
"""Bytes of a note in which basic-memory is recognised."""

_HINT = "a note of basic-memory, without an id; scripts/import_memories.py gives such notes ids (docs/moving-in.md)"
LARGE = 100_000_000
"""Bytes; a larger import leaves `RESERVE` free on the disk."""


@dataclass(slots=True)
class Imported:
    """
    The result of an import, or with `dry_run` the result that it would have, in paths of the vault.

    `unchanged` files existed already, byte for byte. `skipped` files differ from the existing ones, which stayed.
    `proposed` notes stayed, though their memories have changed since. `erased` notes were erased here before, and are
    left out. `renamed` maps paths of the source to paths of the vault. `trash` is where replaced files are. `faults`
    are files that were not imported; `warnings` are of files that were.
    """

    added: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)
    unchanged: int = 0
    trash: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    dry_run: bool = False

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

    With `dry_run` nothing is written. Without `attachments` only notes and settings are imported. With `keep_trust`
    notes that call themselves trusted stay so. `kind` is claude-memory for the folder of Claude Code's memory.
    """

    on_conflict: str = "skip"
    dry_run: bool = False
    into: str = ""
    attachments: bool = True
    keep_trust: bool = False
    kind: str = ""


_WRITTEN = {"added", "renamed", "overwritten"}
"""Fates of files that are written, as `Imported` calls them."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The fate of a file (as `Imported` calls it), its path in the vault, and the hash of the file it replaces."""

    what: str
    path: str
    over: str | None = None


def run(index: Index, place: Path, options: ImportOptions, progress: Progress | None = None) -> Imported:
    """
    Import a source (see `sources`), and return what was done.

    Raises InvalidInput or PathOutsideVault for a source that cannot be imported, StorageError, Conflict; the vault
    is then unchanged. A StorageError of the index alone says that the files are in the vault.
    """
    if options.on_conflict not in RULES:
        raise InvalidInput(f"There is no rule {options.on_conflict!r:.80}.", f"Rules are {', '.join(RULES)}.")
    if not os.path.exists(place):
        raise InvalidInput(f"{place}: there is no such file or folder.", "Name an export, a folder or a zip of notes.")
    root, real = index.vault.root, place.resolve()
    if place.is_dir() and (real.is_relative_to(root) or root.is_relative_to(real)):
        raise InvalidInput(f"{place} and the vault {root} lie in one another.", "What is in the vault needs no import.")
    if options.into:
        index.vault.admitted(_into(options, "x.md"))
    report = Imported(dry_run=options.dry_run)
    if options.dry_run:
        _take_all(index, place, options, report, progress)
        return report
    with index.vault.change("import", str(place)):
        folders = _take_all(index, place, options, report, progress)
        for folder in {index.vault.locate(path, known=True).parent for path in report.paths}:
            disk.sync_folder(folder)
    for empty in folders:
        with contextlib.suppress(OSError, PathOutsideVault):  # an empty folder is nothing to fail for
            index.vault.admitted(empty)
            index.vault.make(empty)
    imported = sync.telling(f"{counted(len(report.paths), 'file')} imported")
    with imported if report.paths else contextlib.nullcontext():
        sync.scan(index)
    return report


@contextlib.contextmanager
def _held(
    index: Index, incoming: Incoming, options: ImportOptions, before: int
) -> Iterator[tuple[IO[bytes], tuple[str, str], list[Fault]]]:
    """Hold a file of a source, after `before` bytes; yield it, distrusted, with its hash, that before, and warnings."""
    state, pieces = index.config.state, disk.Hashed(incoming.pieces)
    with tempfile.SpooledTemporaryFile(MOST_BYTES, dir=str(state)) as file:
        for piece in pieces:
            with disk.explain_errors(str(state)):
                file.write(piece)
                _check_room(index, before, file.tell(), options)
        sha256, warnings = pieces.sha256, []
        if is_note(incoming.path) and not options.keep_trust and file.tell() <= MOST_BYTES:
            file.seek(0)
            data = file.read()
            if privacy.is_foreign_guide(incoming.path, data):
                warnings.append(Fault(incoming.path, 0, "a guide: agents that write memories are told it"))
            trusts, confirms = privacy.claims_of(privacy.meta_of(incoming.path, data))
            if trusts or confirms:
                own = privacy.distrusted(incoming.path, data)
                file.seek(0)
                file.truncate()
                file.write(own)
                sha256 = digest(own)
            if trusts:
                warnings.append(
                    Fault(incoming.path, 0, "it calls itself trusted: imported as untrusted; see --keep-trust")
                )
            if confirms:
                warnings.append(
                    Fault(incoming.path, 0, "it says that a person confirmed it: that counts once you keep it")
                )
        yield file, (sha256, pieces.sha256), warnings


# -- checking and placing


def _take_all(
    index: Index, place: Path, options: ImportOptions, report: Imported, progress: Progress | None
) -> list[str]:
    """Check and place the files of a source, and add them to `report`; return its empty folders."""
    seen: dict[str, str] = {}
    taken = names.Paths(disk.ignores_case(index.vault.root))
    size = 0
    is_hinted = False
    with sources.opened(place, options.kind) as source:
        for number, incoming in enumerate(source.files, 1):
            with _held(index, incoming, options, size) as (file, hashes, warnings):
                if reason := names.refusal(incoming.path):
                    report.faults.append(Fault(shown(incoming.path), 0, reason))
                    continue
                name, path, rule = _destination(index, incoming, options)
                # Settings are of a whole vault.
                is_notable = options.attachments or is_note(incoming.path)
                is_wanted = not options.into if is_setting(incoming.path) else is_notable
                key = incoming.id or path  # conversations of one title are several all the same
                if is_wanted and key not in seen:
                    seen[key] = hashes[0]
                    verdict = _verdict(index.vault, (name, path, rule), hashes, taken)
                    known = index.catalog.note(incoming.id) if incoming.sha256 else []
                    if known and known[0].meta.get("source_hash") == incoming.sha256:
                        verdict = replace(verdict, what="unchanged")  # whatever the note says by now
                    elif known and verdict.what == "skipped":
                        verdict = replace(verdict, what="proposed")
                    if verdict.what in _WRITTEN and _is_erased(index.vault, verdict, file):
                        verdict = replace(verdict, what="erased")
                    if verdict.what in _WRITTEN:
                        _check_path(index.vault, verdict.path, taken)
                        taken.add(verdict.path)
                        size += file.tell()
                        report.warnings += warnings
                        file.seek(0)
                        if not is_hinted and is_note(path) and _BASIC_MEMORY.match(file.read(_HEAD)):
                            is_hinted = True  # one line is enough
                            report.warnings.append(Fault(incoming.path, 0, _HINT))
                        if is_setting(path):
                            file.seek(0)
                            _check_settings(path, file.read())
                        if not options.dry_run:
                            _place(index.vault, incoming, verdict, file, report)
                    if verdict.what == "unchanged":
                        report.unchanged += 1
                    elif verdict.what == "renamed":
                        report.renamed[name] = verdict.path
                    else:
                        getattr(report, verdict.what).append(verdict.path)
                elif seen.get(key, hashes[0]) != hashes[0]:
                    raise InvalidInput(f"{key} is in it twice, and not the same.", "Nothing was imported.")
            if progress:
                stage = "reading" if options.dry_run else "importing"
                progress(stage, number, number)  # only the end of the source says how many there are
        report.faults += source.faults
        return [_into(options, folder) for folder in source.folders]


def _place(vault: Vault, incoming: Incoming, verdict: _Verdict, file: IO[bytes], report: Imported) -> None:
    path, over = verdict.path, verdict.over
    report.trash += [vault.trash.copy(path, over)] if over else []
    file.seek(0)
    mode, mtime_ns = incoming.mode, incoming.mtime_ns
    vault.place(path, disk.pieces_of(file), mode=mode, mtime_ns=mtime_ns, expected=over, sync=False)


def _is_erased(vault: Vault, verdict: _Verdict, file: IO[bytes]) -> bool:
    """Say whether a file is a note that mostly says what was erased."""
    if not vault.has_tombstones or not is_note(verdict.path) or file.tell() > MOST_BYTES:
        return False
    file.seek(0)
    old = [vault.read(verdict.path)[0]] if verdict.over else []
    return vault.tombstones.found(verdict.path, file.read(), old) is not None


def _check_room(index: Index, before: int, held: int, options: ImportOptions) -> None:
    """Raise StorageError before an import fills a disk, as an endless or sparse file would."""
    if before + held > LARGE:
        for folder, needed in ((index.config.state, 0), (index.vault.root, before if options.dry_run else 0)):
            if shutil.disk_usage(folder).free < RESERVE + needed:
                hint = "Make room; nothing was imported."
                raise StorageError(f"{folder}: the disk is nearly full, and there is more to import.", hint)


def _check_path(vault: Vault, path: str, taken: names.Paths) -> None:
    """Raise InvalidInput or PathOutsideVault if `path` is taken, or is not allowed by `names`."""
    if reason := taken.clash(path):
        raise InvalidInput(f"{reason}.", "Rename one of them in the source; nothing was imported.")
    vault.admitted(path)
    for blocked in names.folders_of(path):
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
        rule = _KEEP_OUT if rule == "skip" and index.catalog.counts().notes else rule
        return incoming.path, incoming.path, rule
    if incoming.id and (known := index.catalog.note(incoming.id)):
        return known[0].path, known[0].path, options.on_conflict
    name = _into(options, incoming.path)
    if incoming.sha256 and not options.into:
        category, topic, file = name.split("/")
        name = f"{folder_of(index, category, topic)}/{file}"
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


def _verdict(vault: Vault, wanted: tuple[str, str, str], hashes: Collection[str], taken: names.Paths) -> _Verdict:
    """
    Apply the rule of a file, `wanted` as `_destination` returns it; one of its `hashes` says that it is there.

    `taken` are the paths of files before it.
    """
    name, first, rule = wanted
    for path in numbered(first):
        there: str | None = ""  # the hash of the file there, "" for anything else, None if the path is free
        if path not in taken:
            place = vault.locate(path, known=True)
            if taken.clash(path) or not os.path.lexists(place):  # `_check_path` refuses a clash
                vault.check_here(path)
                there = None
            elif place.is_file():
                there = vault.hash(path)
        if there is None and rule != _KEEP_OUT:
            return _Verdict("added" if name in {path, ""} else "renamed", path)
        if there in hashes:
            return _Verdict("unchanged", path)
        if rule in {"skip", _KEEP_OUT}:
            return _Verdict("skipped", path)
        if rule == "overwrite" and there:
            return _Verdict("overwritten", path, there)
        if rule == "overwrite":
            if path in taken:
                return _Verdict("added", path)  # which is refused, with the name of the other file
            raise InvalidInput(
                f"{path}: the vault has a folder there, a link that leads nowhere, or a pipe.",
                "Move it away; nothing was imported.",
            )
    raise StorageError(f"{first}: 10,000 files are called so.", "Import into a folder of its own with --into.")


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
