"""
The versions of one note: from git, snapshots and the journal of changes, whichever has it. It only reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from spellbook.archive import snapshots
from spellbook.archive.snapshots import Snapshots
from spellbook.index.catalog.usage import local
from spellbook.notes.note import MOST_BYTES
from spellbook.settings.limits import MOST_VERSIONS
from spellbook.system.errors import InvalidInput, StorageError, UnreadableNote
from spellbook.system.git import Repository
from spellbook.text.diff import unified
from spellbook.vault.folder import digest
from spellbook.vault.rules import TRASH
from spellbook.vault.vault import Vault

_MOST_PATHS = 5
"""Paths that a note had which git is asked for."""


@dataclass(frozen=True, slots=True)
class Version:
    """
    What a note was from `at` on (seconds since 1970): the sha256 of its text, None once it was deleted.

    `sources` name where it is kept, the earliest first: `commit HASH`, `snapshot NAME`, `entry NUMBER VERB` of the
    journal, or `file`. `difference` is from the version before it, "" for the first one that is known.
    """

    at: float
    path: str
    sources: tuple[str, ...]
    sha256: str | None
    bytes: int
    difference: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as programs see it, with its time in ISO 8601."""
        return {**asdict(self), "at": local(self.at), "sources": list(self.sources)}


@dataclass(frozen=True, slots=True)
class _Seen:
    """A text that a source has of a note; None if it was deleted by then."""

    at: float
    path: str
    source: str
    data: bytes | None


def of(vault: Vault, taken: Snapshots, path: str, most: int) -> tuple[tuple[Version, ...], tuple[str, ...]]:
    """
    Return the versions of the note at `path`, newest first, at most `most`, and why a source was not read.

    Texts that differ in their line ends alone are one version: git keeps others than the disk. Empty if no source has
    it. Raises InvalidInput for a number out of range.
    """
    if not 1 <= most <= MOST_VERSIONS:
        raise InvalidInput(f"limit={most} is out of range.", f"It is 1 to {MOST_VERSIONS}.")
    left: list[str] = []
    seen: list[_Seen] = []
    try:
        seen += _of_journal(vault, path, most)
    except StorageError as error:
        left.append(error.message)
    paths = list(dict.fromkeys([path, *(text.path for text in reversed(seen))]))[:_MOST_PATHS]
    try:
        repository = Repository(vault.root)
        for place in paths:  # git does not know yet what was moved since the last commit
            # An earlier path that went away was moved: only the present one can be deleted.
            seen += (text for text in _of_git(repository, place, most) if place == path or text.data is not None)
    except (InvalidInput, StorageError) as error:
        left.append(error.message)
    seen += _of_snapshots(taken, {*paths, *(text.path for text in seen)}, left)
    # git counts whole seconds: a commit comes after everything that was written in its second.
    seen.sort(key=lambda text: text.at + (0.999 if text.source.startswith("commit ") else 0.0))
    seen += _of_file(vault, path, seen[-1].at if seen else 0.0)
    return _versions(seen)[:most], tuple(left)


def _versions(seen: list[_Seen]) -> tuple[Version, ...]:
    """Return what is `seen`, oldest first, as versions, newest first."""
    versions: list[Version] = []
    before: bytes | None = None
    for entry in seen:
        last = versions[-1] if versions else None
        text = None if entry.data is None else entry.data.replace(b"\r\n", b"\n")
        if last and text == before and (entry.path == last.path or text is None):
            versions[-1] = replace(last, sources=tuple(dict.fromkeys((*last.sources, entry.source))))
            continue
        if not last and text is None:
            continue
        left, right = ((part or b"").decode("utf-8", "replace") for part in (before, text))
        difference = unified(left, right, f"a/{last.path}", f"b/{entry.path}") if last else ""
        sha256 = None if entry.data is None else digest(entry.data)
        versions.append(Version(entry.at, entry.path, (entry.source,), sha256, len(entry.data or b""), difference))
        before = text
    return tuple(reversed(versions))


def _of_git(repository: Repository, path: str, most: int) -> Iterator[_Seen]:
    listed = repository.versions(path, most + 1)  # one more, to tell the difference from
    read = [blob for _, _, blob in listed if blob and blob.size <= MOST_BYTES]
    texts = dict(zip([blob.hash for blob in read], repository.texts(read), strict=True))
    for commit, name, blob in listed:
        if blob is None or blob.hash in texts:
            then = name.decode("utf-8", "replace")
            yield _Seen(commit.at, then, f"commit {commit.hash}", texts[blob.hash] if blob else None)


def _of_journal(vault: Vault, path: str, most: int) -> Iterator[_Seen]:
    for entry in vault.journal.of_note(path)[-most:]:
        source, before = f"entry {entry.id} {entry.verb}", f"before entry {entry.id} {entry.verb}"
        traces = [trace for trace in entry.traces if not trace.path.startswith(f"{TRASH}/")]
        for trace in traces:
            if trace.before and (text := vault.journal.text(trace.before)) is not None:
                # This text was there before the change, whoever wrote it.
                yield _Seen(entry.at - 0.001, trace.path, before, text)
        written = next((trace for trace in traces if trace.after), None)
        if written and written.after and (text := vault.journal.text(written.after)) is not None:
            yield _Seen(entry.at, written.path, source, text)
        elif traces and written is None:
            yield _Seen(entry.at, traces[-1].path, source, None)


def _of_snapshots(taken: Snapshots, paths: set[str], left: list[str]) -> Iterator[_Seen]:
    texts: dict[str, bytes] = {}
    for name in taken.names():
        try:
            files = taken.files(name)
            kept = next((files[path] for path in sorted(paths) if path in files), None)
            if kept and kept.item.stamp.size <= MOST_BYTES:
                text = texts[kept.sha256] = texts.get(kept.sha256) or taken.text(kept)
                yield _Seen(snapshots.taken_at(name) or 0.0, kept.item.path, f"snapshot {name}", text)
        except StorageError as error:
            left.append(error.message)


def _of_file(vault: Vault, path: str, last: float) -> Iterator[_Seen]:
    """
    Yield the file as it is, None if it is gone: the last version, also where it has an older time than `last`.

    A move keeps the time, and clocks differ.
    """
    stamp = vault.stamp(path)
    if stamp is None:
        yield _Seen(last, path, "file", None)
    else:
        with contextlib.suppress(UnreadableNote):
            yield _Seen(max(stamp.mtime_ns / 1e9, last), path, "file", vault.read(path)[0])
