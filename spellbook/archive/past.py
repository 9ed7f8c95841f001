"""
Earlier states of a vault: which commit or snapshot a date or a name means, and the notes that it holds.

A state holds what was written by then. It misses what was neither committed nor kept in a snapshot.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spellbook.archive import snapshots
from spellbook.archive.snapshots import Snapshots
from spellbook.index.catalog.usage import local
from spellbook.index.filters import end_of
from spellbook.notes.note import MOST_BYTES, Fault, Stamp
from spellbook.settings.limits import MOST_WHEN
from spellbook.system.errors import InvalidInput
from spellbook.system.git import Blob, Commit, Repository
from spellbook.text.quoting import counted, one_line
from spellbook.text.unicode import is_whole
from spellbook.vault import names
from spellbook.vault.folder import Folder
from spellbook.vault.ignored import IGNORE_FILE, compiled, leaves_out, verdict
from spellbook.vault.listing import IsLeftOut, shown
from spellbook.vault.past import PastNotes

_MOST_TEXT = 1_000_000_000
"""Bytes of all notes of one state; more are refused."""

_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d.*)?)?)?")
_POINTER = b"version https://git-lfs.github.com/spec/v1"
_MOST_POINTER = 1_024
_FORMS = "Name a date (2026-03-01), a git revision or a snapshot."


@dataclass(frozen=True, slots=True)
class Moment:
    """What `question` means: a commit by its full hash or a snapshot by its name, and when it was made (since 1970)."""

    question: str
    commit: str
    snapshot: str
    at: float

    @property
    def until(self) -> float:
        """The time to which ages are counted: the end of the date that was asked for, else when the state was made."""
        return min(time.time(), end_of(self.question)) if _DATE.fullmatch(self.question) else self.at

    @property
    def key(self) -> str:
        """The name of the state, however it was asked for."""
        return self.commit or f"snapshot {self.snapshot}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as programs see it, with its time in ISO 8601."""
        source = {"commit": self.commit} if self.commit else {"snapshot": self.snapshot}
        return {"asked": self.question, **source, "at": local(self.at)}

    def __str__(self) -> str:
        question, at = one_line(self.question), local(self.at)
        if self.commit:
            return f"As of {question}: what was written by commit {self.commit[:12]} of {at}."
        return f"As of {question}: what was written by snapshot {self.snapshot} of {at}."


def resolve(folder: Folder, taken: Snapshots, when: str) -> Moment:
    """
    Return what `when` means for the vault in `folder`: a date, a revision of git, or a snapshot.

    A date means its end (a day, a month or a year): then it is the last commit of the current branch, or the last
    snapshot, whichever is newer. Raises InvalidInput for what means nothing, StorageError if git fails.
    """
    question = when.strip()
    if not question or len(question) > MOST_WHEN or not question.isprintable():
        raise InvalidInput(f"{when[:80]!r} names no time.", _FORMS)
    if _DATE.fullmatch(question):
        return _newest_by(folder, taken, question, end_of(question))
    if snapshots.taken_at(question) is not None:
        return _moment_of(question, taken.find(question))
    refusal = InvalidInput(
        f"{question[:80]!r} is not a date, and neither a revision nor a snapshot of this vault.", _FORMS
    )
    try:
        if commit := Repository(folder.root).find(question):
            return Moment(question, commit.hash, "", commit.at)
    except InvalidInput as error:
        refusal = error
    with contextlib.suppress(InvalidInput):
        return _moment_of(question, taken.find(question))
    raise refusal


def _newest_by(folder: Folder, taken: Snapshots, question: str, seconds: float) -> Moment:
    """Return the newest state that was written by a time. Raises InvalidInput if there is none."""
    moments = (_moment_of(question, name) for name in taken.names())
    kept = next((moment for moment in moments if moment.at <= seconds), None)
    try:
        repository = Repository(folder.root)
        commit = repository.before(seconds)
    except InvalidInput as error:
        if kept is None:
            raise InvalidInput(f"{error.message} No snapshot was taken by {question} either.", error.hint) from error
        return kept
    if kept and (commit is None or kept.at > commit.at):
        return kept
    if commit:
        return Moment(question, commit.hash, "", commit.at)
    raise InvalidInput(f"Nothing was written by {question}: {_beginning(repository)}", repository.shallow() or _FORMS)


def _beginning(repository: Repository) -> str:
    first = repository.first()
    if first is None:
        return "the repository has no commit yet."
    if repository.is_shallow:
        return f"this clone is shallow, and begins with {first.hash[:12]} of {local(first.at)}."
    return f"the first commit is {first.hash[:12]} of {local(first.at)}."


def _moment_of(question: str, name: str) -> Moment:
    """Return the moment of the snapshot `name`."""
    return Moment(question, "", name, snapshots.taken_at(name) or 0.0)


# -- what it holds


_Texts = Callable[[Sequence[str]], Iterator[bytes]]
"""Yields the bytes of the files at some paths."""


@dataclass(slots=True)
class _NotesThen:
    """The notes of a state while they are looked through: their stamps, and the faults of the others."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def omit(self, path: str, reason: str) -> None:
        self.stamps.pop(path, None)
        self.faults.append(Fault(shown(path), 0, reason))


def notes_at(folder: Folder, taken: Snapshots, moment: Moment) -> PastNotes:
    """
    Return the notes of an earlier state, as the vault's own rules name notes.

    What `.spellbookignore` left out then, or settings leave out now, is no note. Raises InvalidInput, StorageError.
    """
    then = _NotesThen()
    if moment.commit:
        texts = _read_commit(Repository(folder.root), Commit(moment.commit, int(moment.at)), then)
        pointers = [path for path, stamp in then.stamps.items() if stamp.size <= _MOST_POINTER]
        for path, text in zip(pointers, texts(pointers), strict=True):
            if text.startswith(_POINTER):
                then.omit(path, "a pointer of Git LFS; its text is not in git")
    else:
        texts = _read_snapshot(taken, moment.snapshot, then)
    _choose(folder, texts, then)
    if (size := sum(stamp.size for stamp in then.stamps.values())) > _MOST_TEXT:
        raise InvalidInput(f"{moment}: {size / 1e6:,.0f} MB of notes, which is too much.", "Name another time.")
    return PastNotes(then.stamps, tuple(then.faults), texts)


def _read_commit(repository: Repository, commit: Commit, then: _NotesThen) -> _Texts:
    changed, oldest = repository.changed(commit)
    blobs: dict[str, Blob] = {}
    for name, blob in repository.files(commit.hash).items():
        path = os.fsdecode(name)
        is_note = names.is_note(path)
        if not is_note and path != IGNORE_FILE:
            continue
        if not is_whole(path):
            then.omit(path, "the file's name is not UTF-8; rename it")
        elif blob.is_link:
            then.omit(path, "a link; not read")
        elif not {"", ".", ".."} & set(path.split("/")):
            blobs[path] = blob
            then.stamps[path] = Stamp(blob.size, changed.get(name, oldest) * 1_000_000_000, _number(blob.hash))
    return lambda paths: repository.texts([blobs[path] for path in paths])


def _read_snapshot(taken: Snapshots, name: str, then: _NotesThen) -> _Texts:
    files = taken.files(name)
    for path, kept in files.items():
        then.stamps[path] = kept.item.stamp._replace(inode=_number(kept.sha256), ctime_ns=0)
    return lambda paths: (taken.text(files[path]) for path in paths)


def _choose(folder: Folder, texts: _Texts, then: _NotesThen) -> None:
    """Leave only notes: Markdown that is not too large, and left out neither then nor now."""
    ignored: IsLeftOut | None = None
    if IGNORE_FILE in then.stamps and then.stamps[IGNORE_FILE].size <= MOST_BYTES:
        [text] = texts([IGNORE_FILE])
        lines = text.decode("utf-8-sig", "replace").splitlines()[:1_000]
        ignored = partial(verdict, compiled(lines, is_strict=False))
    for path in [*then.stamps]:
        if not folder.is_note(path) or (ignored and leaves_out(ignored, path)):
            del then.stamps[path]
        elif (size := then.stamps[path].size) > MOST_BYTES:
            then.omit(path, f"{size / 1e6:.1f} MB, and notes are read up to {MOST_BYTES / 1e6:.0f} MB")


def _number(hash: str) -> int:
    """Return a number that two contents do not share, in place of the number that a disk gives to a file."""
    return int(hash[:15], 16)


def left_out(faults: Sequence[Fault]) -> str:
    """Return a sentence about files of a state that are not read, "" if there are none."""
    if not faults:
        return ""
    return f"Not read of then: {counted(len(faults), 'file')}, such as {one_line(str(faults[0]))}."
