"""The entries of the journal: the changes of one command or tool, with the states of each file."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spellbook.text.quoting import flat

INODE = "inode:"
"""The beginning of the state of a file that is only moved."""


class Change(NamedTuple):
    """A file's bytes before and after (None: no file; a text: sha256 or `inode_of`), and its mode before."""

    path: str
    before: bytes | str | None
    after: bytes | str | None
    mode: int = 0o644


def moved(path: str, to: str, state: bytes | str, mode: int = 0o644) -> tuple[Change, Change]:
    """Return the changes of a move of a file that has these bytes, or this state."""
    return Change(path, state, None, mode), Change(to, None, state)


class Trace(NamedTuple):
    """A recorded change: sha256 of texts, which `Journal.text` returns while they are kept, or states of `inode_of`."""

    path: str
    before: str | None
    after: str | None
    mode: int

    @property
    def kind(self) -> str:
        """The fate of the file: added, changed or removed."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


class Entry(NamedTuple):
    """
    The changes of one command or tool; `at` is in seconds since 1970.

    `traces` has one item a file, from its first state to its last. `undoes` is the entry that this one undid.
    `is_whole` is false while the command runs, and for good if it was killed. `session` is the client's, "" for none.
    `caller` is the CALLER that made them, "" for none.
    """

    id: int
    at: float
    verb: str
    what: str
    undoes: int | None
    is_undone: bool
    is_whole: bool
    traces: tuple[Trace, ...]
    session: str = ""
    caller: str = ""

    @property
    def state(self) -> str:
        """`undone` or `unfinished`; "" for most."""
        return "undone" if self.is_undone else "" if self.is_whole else "unfinished"

    @property
    def described(self) -> str:
        """The entry in a sentence, with the session that made it as far as the log knows it."""
        who = flat(self.caller or self.session) or "a person, or a program without a session"
        return f"entry {self.id} ({self.verb} {flat(self.what)}), by {who}"

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as programs see it, with its time in ISO 8601."""
        at = dt.datetime.fromtimestamp(int(self.at)).astimezone().isoformat()
        fields = {"entry": self.id, "at": at, "verb": self.verb, "what": self.what, "undoes": self.undoes}
        files = [{"path": trace.path, "change": trace.kind} for trace in self.traces]
        return {
            **fields,
            "state": self.state,
            **({"session": self.session} if self.session else {}),
            "files": files,
        }


@dataclass(slots=True)
class EntryDraft:
    """
    An entry being written; `id` is None until something changed.

    With `again` it may write what was erased; `lifted` are the hashes of the tombstones that it takes away. `moves` are
    the old and new paths of whole files and folders. While it `reverts`, a failed change is taken back, even if the
    journal cannot be written.
    """

    verb: str
    what: str
    undoes: int | None = None
    for_good: bool = False
    session: str = ""
    again: bool = False
    id: int | None = None
    made: dict[int, Trace] = field(default_factory=dict)
    lifted: set[bytes] = field(default_factory=set)
    moves: list[tuple[str, str]] = field(default_factory=list)
    reverts: bool = False
