"""
Transcripts of Claude Code and Codex: where they lie, and which exchanges they hold.

The words that a person typed count, and the last text of the answer. Both forms are internal to their clients: a line
of another shape is skipped, and costs no other exchange. Tools, other agents, summaries and the client's own words do
not count.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from spellbook.capture.entry import CONTEXT, UNREADABLE, TranscriptEntry
from spellbook.capture.ledger import LONG_ID
from spellbook.system.errors import InvalidInput

CLIENTS = {
    "claude-code": ("Claude Code", "CLAUDE_CONFIG_DIR", "~/.claude", "projects", "*/*.jsonl"),
    "codex": ("Codex", "CODEX_HOME", "~/.codex", "sessions", "*/*/*/*.jsonl"),
}
"""For each client: its name, the variable with its folder, the usual folder, that of transcripts, and their places."""

_MOST_OF_LINE = 4_000_000  # bytes; a longer line is skipped without being held
_MOST_EXCHANGES = 200  # of one reading


@dataclass(slots=True)
class Exchange:
    """
    A person's words, as the line in which they `asked` has them, and the last text of the answer.

    `turn` is the byte at which the first prompt with the same answer begins. Words that were taken back or have no time
    are not kept. The caller adds the key, and how many secrets and private parts were taken out. `folders` are those of
    the answer, and `version` is the client's.
    """

    asked: TranscriptEntry
    prompt: str
    turn: int
    is_kept: bool
    answer: str = ""
    version: str = ""
    folders: set[str] = field(default_factory=set)
    key: str = ""
    removed: int = 0


def located(place: str) -> tuple[str, Path]:
    """Return the client and the path of a transcript. Raises InvalidInput for a link, and for what lies elsewhere."""
    real = Path(os.path.realpath(place))
    for client in CLIENTS:
        if real.suffix == ".jsonl" and real.is_relative_to(_folder(client)) and not os.path.islink(place):
            return client, real
    raise InvalidInput(f"{place:.200}: this is no transcript of Claude Code or Codex.", "Nothing was read.")


def session_of(place: Path) -> str:
    """Return the id of a transcript's session."""
    return place.stem[-LONG_ID:]


def transcripts() -> Iterator[tuple[str, Path, float]]:
    """Yield the client, the path and the time of change (seconds since 1970) of all transcripts."""
    for client, (*_, places) in CLIENTS.items():
        for file in _folder(client).glob(places):
            with contextlib.suppress(OSError):  # it is gone
                if not file.is_symlink():
                    yield client, file, file.stat().st_mtime


def _folder(client: str) -> Path:
    _, variable, usual, below, _ = CLIENTS[client]
    return Path(os.path.realpath(os.path.join(os.path.expanduser(os.environ.get(variable) or usual), below)))


def read(stream: BinaryIO, offset: int, *, is_over: bool) -> tuple[list[Exchange], int, bool]:
    """
    Return some exchanges from a byte offset on, the offset at which to read on, and whether they are the last.

    A cut last line is left for the next time, and so are the last prompts unless the session `is_over`: their answer
    may go on. Lines that compaction repeats, with their uuid, are one exchange. An answer belongs to all prompts since
    the answer before it, which share a `turn`; the last turn is read again, as a session may go on after its end.
    """
    stream.seek(0)
    head = next((entry for _, entry in _entries(stream, 0) if entry != UNREADABLE), TranscriptEntry())
    if head.is_foreign:  # a program, or another agent, may speak
        return [], offset, True
    reading = _Reading(offset)
    first = 0 if head.speaker == "context" else offset  # Codex names folder and sessions in lines of their own
    stream.seek(first)
    is_full = False
    for start, entry in _entries(stream, first, offset):
        reading.take(start, entry)
        if is_full := len(reading.found) > _MOST_EXCHANGES and reading.begin == start:
            break
    is_last = is_over and not is_full
    found = [each for each in reading.found.values() if is_last or each.turn != reading.begin]
    return found, reading.begin, not is_full


@dataclass(slots=True)
class _Reading:
    """
    The exchanges `found` so far, by uuid.

    Those that share an answer with the last begin at the byte `begin`. `current` is None after a command, whose answer
    does not count.
    """

    begin: int
    found: dict[str, Exchange] = field(default_factory=dict)
    current: Exchange | None = None
    is_answered: bool = True
    context: TranscriptEntry = field(default_factory=TranscriptEntry)

    def take(self, start: int, entry: TranscriptEntry) -> None:
        """Take the line that begins at the byte `start`."""
        entry = entry.within(self.context)
        if entry.speaker == "context":
            self.context = entry
        elif entry.speaker == "unfinished":
            self.is_answered = False
            if self.current:
                self.current.prompt += entry.text  # at most OMITTED
        elif entry.speaker == "printed":
            if self.current and not self.current.answer:
                self.current.is_kept = False
            self.current = None
        elif entry.speaker == "assistant" and entry.text and self.current:
            self.is_answered = True
            self.current.answer = entry.text
            self.current.version = entry.version
            self.current.folders |= {entry.folder} - {""}
        elif entry.speaker == "user" and not (
            entry.text and self.current and not self.is_answered and entry.text == self.current.prompt
        ):
            self.current = self._asked(start, entry)

    def _asked(self, start: int, entry: TranscriptEntry) -> Exchange | None:
        key = f"{entry.uuid or entry.at} {entry.text}"
        asked = entry if entry.parent is not None else entry._replace(parent=key)
        known = self.found.get(key)
        for each in () if known else self.found.values():
            if each.turn == self.begin and each.asked.parent == asked.parent and not each.answer:
                each.is_kept = False
        if not entry.text or (known and known.turn != self.begin):  # a command, or a copy of an old line
            return None
        if self.is_answered and not known and not entry.is_queued:
            self.begin = start
        self.is_answered = False
        return self.found.setdefault(key, Exchange(asked, entry.text, self.begin, 2000 < entry.at.year < 2100))


def _entries(stream: BinaryIO, at: int, spoken: int = 0) -> Iterator[tuple[int, TranscriptEntry]]:
    """Yield the start and the entry of each whole line of use; before the byte `spoken`, of CONTEXT alone."""
    while line := stream.readline(_MOST_OF_LINE):
        start = at
        at += len(line)
        entry = TranscriptEntry.read(line) if start >= spoken or CONTEXT.search(line) else None
        while not line.endswith(b"\n"):
            if not (line := stream.readline(1 << 16)):
                return
            at += len(line)
        if entry and (start >= spoken or entry.speaker == "context"):
            yield start, entry
