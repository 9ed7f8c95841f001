"""
Import files into the vault, all of them or none.

Each file is read once, checked, and placed, in one entry of the vault's journal: an error takes everything back, and so
does `spellbook undo`, also after a kill. Existing files are replaced only on request, and kept in the trash. A file of
the vault that changes meanwhile ends the import.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from spellbook.archive import import_sources
from spellbook.archive.erased_notes import is_erased
from spellbook.archive.formats.conversations import Incoming
from spellbook.archive.snapshots import check_room
from spellbook.index import privacy, sync
from spellbook.index.inbox import folder_of
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
"""Bytes; a larger import leaves `snapshots.RESERVE` free on the disk."""


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


class _Wanted(NamedTuple):
    """The name that a file should have, "" for any, a valid path for it, and the rule if that is taken."""

    name: str
    path: str
    rule: str


class _HeldFile(NamedTuple):
    """A file of a source, distrusted, and its bytes; its hash, and that before it was; and warnings of it."""

    file: IO[bytes]
    size: int
    hashes: tuple[str, str]
    warnings: list[Fault]

    def pieces(self) -> Iterator[bytes]:
        """Yield the content of the file."""
        self.file.seek(0)
        yield from disk.pieces_of(self.file)


def run(index: Index, place: Path, options: ImportOptions, progress: Progress | None = None) -> Imported:
    """
    Import a source (see `import_sources`), and return what was done.

    Raises InvalidInput or PathOutsideVault for a source that cannot be imported, StorageError, Conflict; the vault
    is then unchanged. A StorageError of the index alone says that the files are in the vault.
    """
    if options.on_conflict not in RULES:
        raise InvalidInput(f"There is no rule {options.on_conflict!r:.80}.", f"Rules are {', '.join(RULES)}.")
    if not os.path.exists(place):
        raise InvalidInput(f"{place}: there is no such file or folder.", "Name an export, a folder or a zip of notes.")
    vault = index.vault
    real = place.resolve()
    if place.is_dir() and (real.is_relative_to(vault.root) or vault.root.is_relative_to(real)):
        raise InvalidInput(
            f"{place} and the vault {vault.root} lie in one another.", "What is in the vault needs no import."
        )
    importing = _Importing(index, options)
    report = importing.report
    if options.into:
        vault.admitted(importing.into("x.md"))
    if options.dry_run:
        importing.take_all(place, progress)
        return report
    with vault.change("import", str(place)):
        folders = importing.take_all(place, progress)
        for folder in {vault.locate(path, known=True).parent for path in report.paths}:
            disk.sync_folder(folder)
    for empty in folders:
        with contextlib.suppress(OSError, PathOutsideVault):  # an empty folder is nothing to fail for
            vault.admitted(empty)
            vault.make(empty)
    imported = sync.telling(f"{counted(len(report.paths), 'file')} imported")
    with imported if report.paths else contextlib.nullcontext():
        sync.scan(index)
    return report


class _Importing:
    """An import under way, and the report of it so far."""

    def __init__(self, index: Index, options: ImportOptions) -> None:
        self.report = Imported(dry_run=options.dry_run)
        self._index = index
        self._vault = index.vault
        self._options = options
        self._seen: dict[str, str] = {}
        """The hash of each file so far, by its id or path."""
        self._taken = names.Paths(disk.ignores_case(index.vault.root))
        self._size = 0
        self._is_hinted = False

    def into(self, path: str) -> str:
        """Return a path of the source as one of the vault."""
        return f"{self._options.into.strip('/')}/{path}".strip("/")

    def take_all(self, place: Path, progress: Progress | None) -> list[str]:
        """Check and place the files of a source, and add them to the report; return its empty folders."""
        stage = "reading" if self._options.dry_run else "importing"
        with import_sources.opened(place, self._options.kind) as source:
            for number, incoming in enumerate(source.files, 1):
                with self._hold(incoming) as held:
                    self._take(incoming, held)
                if progress:
                    progress(stage, number, number)  # only the end of the source says how many there are
            self.report.faults += source.faults
            return [self.into(folder) for folder in source.folders]

    @contextlib.contextmanager
    def _hold(self, incoming: Incoming) -> Iterator[_HeldFile]:
        """Hold a file of the source while it is checked and placed."""
        state = self._index.config.state
        pieces = disk.Hashed(incoming.pieces)
        with tempfile.SpooledTemporaryFile(MOST_BYTES, dir=str(state)) as file:
            for piece in pieces:
                with disk.explain_errors(str(state)):
                    file.write(piece)
                    self._check_room(file.tell())
            sha256 = pieces.sha256
            warnings = list[str]()
            if is_note(incoming.path) and not self._options.keep_trust and file.tell() <= MOST_BYTES:
                file.seek(0)
                data = file.read()
                if privacy.is_foreign_guide(incoming.path, data):
                    warnings.append("a guide: agents that write memories are told it")
                trusts, confirms = privacy.claims_of(privacy.meta_of(incoming.path, data))
                if trusts or confirms:
                    own = privacy.distrusted(incoming.path, data)
                    file.seek(0)
                    file.truncate()
                    file.write(own)
                    sha256 = digest(own)
                if trusts:
                    warnings.append("it calls itself trusted: imported as untrusted; see --keep-trust")
                if confirms:
                    warnings.append("it says that a person confirmed it: that counts once you keep it")
            faults = [Fault(incoming.path, 0, reason) for reason in warnings]
            yield _HeldFile(file, file.tell(), (sha256, pieces.sha256), faults)

    def _take(self, incoming: Incoming, held: _HeldFile) -> None:
        """Decide what becomes of a file, write it if it is to be written, and report it."""
        if reason := names.refusal(incoming.path):
            self.report.faults.append(Fault(shown(incoming.path), 0, reason))
            return
        wanted = self._destination(incoming)
        # Settings are of a whole vault.
        is_notable = self._options.attachments or is_note(incoming.path)
        is_wanted = not self._options.into if is_setting(incoming.path) else is_notable
        key = incoming.id or wanted.path  # conversations of one title are several all the same
        if self._seen.get(key, held.hashes[0]) != held.hashes[0]:
            raise InvalidInput(f"{key} is in it twice, and not the same.", "Nothing was imported.")
        if not is_wanted or key in self._seen:
            return
        self._seen[key] = held.hashes[0]
        verdict = self._decide(incoming, wanted, held)
        if verdict.what in _WRITTEN:
            self._write(incoming, verdict, held)
        if verdict.what == "unchanged":
            self.report.unchanged += 1
        elif verdict.what == "renamed":
            self.report.renamed[wanted.name] = verdict.path
        else:
            getattr(self.report, verdict.what).append(verdict.path)

    def _decide(self, incoming: Incoming, wanted: _Wanted, held: _HeldFile) -> _Verdict:
        """Return the fate of a file, also by what the vault knows of its memory, and of what was erased."""
        verdict = _verdict(self._vault, wanted, held.hashes, self._taken)
        known = self._index.catalog.note(incoming.id) if incoming.sha256 else []
        if known and known[0].meta.get("source_hash") == incoming.sha256:
            return replace(verdict, what="unchanged")  # whatever the note says by now
        if known and verdict.what == "skipped":
            return replace(verdict, what="proposed")
        if verdict.what in _WRITTEN:
            is_there = verdict.over is not None
            if is_erased(self._vault, verdict.path, held.size, held.pieces(), is_there=is_there):
                return replace(verdict, what="erased")
        return verdict

    def _write(self, incoming: Incoming, verdict: _Verdict, held: _HeldFile) -> None:
        """Check a file that is to be written, and place it unless this is a dry run."""
        path, over = verdict.path, verdict.over
        _check_path(self._vault, path, self._taken)
        self._taken.add(path)
        self._size += held.size
        self.report.warnings += held.warnings
        if is_setting(path):
            _check_settings(path, b"".join(held.pieces()))
        elif not self._is_hinted and is_note(path) and _BASIC_MEMORY.match(next(held.pieces(), b"")[:_HEAD]):
            self._is_hinted = True  # one line is enough
            self.report.warnings.append(Fault(incoming.path, 0, _HINT))
        if self._options.dry_run:
            return
        self.report.trash += [self._vault.trash.copy(path, over)] if over else []
        self._vault.place(
            path, held.pieces(), mode=incoming.mode, mtime_ns=incoming.mtime_ns, expected=over, sync=False
        )

    def _check_room(self, held: int) -> None:
        """Raise StorageError before an import fills a disk, as an endless or sparse file would."""
        if self._size + held > LARGE:
            of_vault = self._size if self._options.dry_run else 0
            for folder, needed in ((self._index.config.state, 0), (self._vault.root, of_vault)):
                check_room(folder, needed, "the import", "Make room, and import again.")

    def _destination(self, incoming: Incoming) -> _Wanted:
        """Return where a file should go, and the rule if that is taken. Raises PathOutsideVault."""
        index, options = self._index, self._options
        if is_setting(incoming.path):
            # Nobody reads settings under another name. Settings can hide notes or shorten the history of changes, so a
            # vault that has notes takes them only with the rule `overwrite`.
            rule = "skip" if options.on_conflict == "rename" else options.on_conflict
            rule = _KEEP_OUT if rule == "skip" and index.catalog.counts().notes else rule
            return _Wanted(incoming.path, incoming.path, rule)
        if incoming.id and (known := index.catalog.note(incoming.id)):
            return _Wanted(known[0].path, known[0].path, options.on_conflict)
        name = self.into(incoming.path)
        if incoming.sha256 and not options.into:
            category, topic, file = name.split("/")
            name = f"{folder_of(index, category, topic)}/{file}"
        path = _fitting(self._vault, name)
        # Two conversations of one title are no conflict, and any name will do.
        return _Wanted("", path, "rename") if incoming.id else _Wanted(name, path, options.on_conflict)


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


def _verdict(vault: Vault, wanted: _Wanted, hashes: Collection[str], taken: names.Paths) -> _Verdict:
    """Apply the rule of a file; one of its `hashes` says that it is there. `taken` are the paths of files before it."""
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
