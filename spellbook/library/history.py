"""The versions of one note: from git, the journal of changes, and the file as it is. It only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from spellbook.index import lookup
from spellbook.index.catalog.usage import local
from spellbook.notes.files import MOST_BYTES
from spellbook.notes.note import parse
from spellbook.settings.limits import MOST_VERSIONS
from spellbook.system.errors import InvalidInput, MemoryNotFound, StorageError, UnreadableNote
from spellbook.system.git import Repository
from spellbook.text.diff import unified
from spellbook.text.unicode import is_markdown
from spellbook.vault.folder import digest
from spellbook.vault.names import TRASH
from spellbook.vault.vault import Vault

if TYPE_CHECKING:
    from spellbook.library.limited import Seen

Compare = Callable[[str, str, str, str], Any]
"""Returns the difference of two texts of a file under two names, in the form that a door shows."""

_MOST_PATHS = 5
"""Former paths of a note for which git is asked."""


class _KeptText(NamedTuple):
    """A text that a source has of the note, None if the note was deleted; `at` is in seconds since 1970."""

    at: float
    path: str
    source: str
    text: bytes | None


def versions(book: Seen, id: str, most: int = 20, compare: Compare = unified) -> dict[str, Any]:
    """
    Return the versions of a note (its id or path, or a chunk's id), newest first, each with its difference.

    `compare` makes it of two texts and their names.

    `sources` name where each is kept, the earliest first: `commit HASH`, `entry NUMBER VERB` of the journal, or `file`.
    A missing note needs its path. Raises MemoryNotFound if neither git nor the journal has it, InvalidInput for a
    number out of range, PermissionDenied for a book that does not show all notes.
    """
    if not 1 <= most <= MOST_VERSIONS:
        raise InvalidInput(f"limit={most} is out of range.", f"It is 1 to {MOST_VERSIONS}.")
    whole, missing = book.whole, None
    try:
        path = whole.resolve(id).path
    except MemoryNotFound as error:
        path, missing = lookup.bare(whole.index, id), error
        path += "" if is_markdown(path) else ".md"
    vault, not_read = whole.index.vault, list[str]()
    if missing and not vault.is_note(path):
        raise missing
    entries, commits = list[_KeptText](), list[_KeptText]()
    try:
        entries = [*_of_journal(vault, path, most)]
    except StorageError as error:
        not_read.append(error.message)
    try:  # git does not know yet what was moved since the last commit
        paths = dict.fromkeys([path, *(entry.path for entry in reversed(entries))])
        commits = [*_of_git(Repository(vault.root), [*paths][:_MOST_PATHS], most)]
    except (InvalidInput, StorageError) as error:
        not_read.append(error.message)
    # git counts whole seconds: a commit comes after what was written in its second. Commits keep their order.
    times = [*(entry.at for entry in entries), *accumulate((commit.at + 0.999 for commit in commits), max)]
    found = [kept for _, kept in sorted(zip(times, [*entries, *commits], strict=True), key=itemgetter(0))]
    found += _of_file(vault, path, found[-1].at if found else 0.0)
    listed = _distinct(found, compare)[:most]
    if missing and not listed:
        raise missing
    return {"id": id, "path": path, "versions": listed, "not_read": not_read}


def _distinct(texts: Iterable[_KeptText], compare: Compare) -> list[dict[str, Any]]:
    """Return `texts`, oldest first, as versions, newest first; texts that differ only in line ends are one version."""
    listed: list[dict[str, Any]] = []
    before: bytes | None = None
    for at, path, source, data in texts:
        last = listed[-1] if listed else None
        text = None if data is None else data.replace(b"\r\n", b"\n")
        if last and text == before and (path == last["path"] or text is None):
            last["sources"] = [*dict.fromkeys([*last["sources"], source])]
        elif last or text is not None:
            left, right = ((part or b"").decode("utf-8", "replace") for part in (before, text))
            difference = compare(left, right, f"a/{last['path']}", f"b/{path}") if last else ""
            version = {
                "at": local(at),
                "path": path,
                "sources": [source],
                "sha256": None if data is None else digest(data),
                "bytes": len(data or b""),
                "difference": difference,
            }
            listed.append(version)
            before = text
    return listed[::-1]


def _of_git(repository: Repository, paths: Sequence[str], most: int) -> Iterator[_KeptText]:
    """Yield the texts that commits have, oldest first: one more than `most`, to tell the difference from."""
    # Where a path ends that is not the present one, the note was moved.
    found = {
        commit.hash: commit
        for path in reversed(paths)
        for commit in repository.commits_of(path, most + 1)
        if commit.blob or path == paths[0]
    }
    ordered = [found[name] for name in repository.commits() if name in found] if found else []
    for name, at, path, blob in reversed(ordered[: most + 1]):
        with suppress(InvalidInput):  # too large for a note
            yield _KeptText(at, path, f"commit {name}", repository.text(blob, MOST_BYTES) if blob else None)


def is_corrected(vault: Vault, path: str) -> bool:
    """Say whether a person edited the text of the note at `path` and left it so, as far as the journal keeps that."""
    for entry in vault.journal.of_note(path):
        if entry.verb == "edit" and not (entry.caller or entry.is_undone):
            for trace in entry.traces:
                before, after = (vault.journal.text(state or "") for state in (trace.before, trace.after))
                if before and after and parse(path, before).body != parse(path, after).body:
                    return True
    return False


def _of_journal(vault: Vault, path: str, most: int) -> Iterator[_KeptText]:
    for entry in vault.journal.of_note(path)[-most:]:
        source, before = f"entry {entry.id} {entry.verb}", f"before entry {entry.id} {entry.verb}"
        traces = [trace for trace in entry.traces if not trace.path.startswith(f"{TRASH}/")]
        for trace in traces:
            if trace.before and (text := vault.journal.text(trace.before)) is not None:
                # This text was there before the change, whoever wrote it.
                yield _KeptText(entry.at - 0.001, trace.path, before, text)
        written = next((trace for trace in traces if trace.after), None)
        if written and written.after and (text := vault.journal.text(written.after)) is not None:
            yield _KeptText(entry.at, written.path, source, text)
        elif traces and written is None:
            yield _KeptText(entry.at, traces[-1].path, source, None)


def _of_file(vault: Vault, path: str, last: float) -> Iterator[_KeptText]:
    """Yield the file as it is: the last version, also where its time is before `last`, as a move keeps it."""
    stamp = vault.stamp(path)
    with suppress(UnreadableNote):
        text = vault.read(path)[0] if stamp else None
        yield _KeptText(max(stamp.mtime_ns / 1e9, last) if stamp else last, path, "file", text)
