"""
The process that captures: it does the jobs that hooks left, one process at a time, and ends.

It loads no model, indexes nothing, and reads no file but transcripts in the folders of their clients. A note is written
before the ledger; a job that a kill cut short is done again.

A session is captured at a job of its own, or at the start of another one if it has a mark: one of its own hooks ran
while capture was allowed. Sessions that are off are read first: their exchanges are known again in forks and copies.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from spellbook.archive.formats.conversations import on_one_line
from spellbook.capture import session_note
from spellbook.capture.excluded import is_excluded
from spellbook.capture.hook import END, START, CaptureJob
from spellbook.capture.ledger import LOCK, Ledger, SessionNote
from spellbook.capture.private import taken_out
from spellbook.capture.transcript import Exchange, located, read, session_of, transcripts
from spellbook.index.opened import Index
from spellbook.settings.config import Config, load
from spellbook.system import disk
from spellbook.system.errors import InvalidInput
from spellbook.system.lock import held
from spellbook.text.sentences import MOSTLY

_SETTLE = 0.5  # seconds that a client has to write its last lines
_QUIET = 21_600.0  # seconds without a new line after which a session counts as over, by hand
_LEAST_LETTERS = 400  # of the person, that make a note where there is one exchange
_MOST_PROMPT = 4_000  # letters
_MOST_ANSWER = 2_000  # letters

_CAPTURED, _OFF = 1, "-"
"""The ledger's values for an exchange that was captured, and for one of a session that is off."""


def serve() -> None:
    """Be the process that a hook starts: do all jobs, unless another process is at it."""
    time.sleep(_SETTLE)
    config = load()
    ledger = Ledger(str(config.vault))
    while ledger.jobs():
        with held(ledger.folder / LOCK) as is_ours:
            if not is_ours:
                return
            for key, job in ledger.jobs().items():
                _do(config, ledger, key, job)


def _do(config: Config, ledger: Ledger, key: str, job: CaptureJob | None) -> None:
    """Do the job of a row, then delete the row, and keep how it ended for `Ledger.problems`."""
    failures = list[str]()
    count = 0
    with _kept(failures):
        if job is None:
            raise InvalidInput("A job that a hook left is damaged.", "It is deleted, and nothing was captured for it.")
        index = Index.open(config)
        if job.is_off:
            ledger.forbid(job.session)
        for place in _unread(ledger):
            capture(index, ledger, place, is_over=True)
        for place, is_over in _wanted(ledger, job):
            with _kept(failures):
                count += capture(index, ledger, place, is_over)
    failed = {"failed": failures[-1]} if failures else {}
    rows: list[tuple[str, str, object]] = [("run", "", {"at": time.time(), "exchanges": count, **failed})]
    # A session that goes on needs a mark of its next run, which may be off, or on another machine.
    if job and job.event == END and not failures and ledger.numbers("mark").get(job.session, 0) <= job.at:
        rows.append(("mark", job.session, 0))
    ledger.put(*rows, job=key)


@contextlib.contextmanager
def _kept(failures: list[str]) -> Iterator[None]:
    """Keep an error, whatever it is, and go on: other transcripts should not wait for one."""
    try:
        yield
    except Exception as error:
        failures.append(on_one_line(str(error) or type(error).__name__)[:500])


def _unread(ledger: Ledger) -> Iterator[str]:
    """Yield the transcripts of sessions that are off and have lines that were not read."""
    known = ledger.numbers("size")
    for _, file, _ in transcripts():
        if file.stat().st_size != known.get(str(file)) and ledger.is_off(session_of(file)):
            yield str(file)


def _wanted(ledger: Ledger, job: CaptureJob) -> Iterator[tuple[str, bool]]:
    """Yield the transcripts that a job is about, each with whether its session is over."""
    _, event, session, place, is_off = job
    if not ledger.switch().is_on or is_off:
        return
    if event != START:
        if place and located(place)[1].exists():  # a session without a word has none, and clients delete old ones
            yield place, event == END
        return
    # Codex keeps all projects together, and may name no transcript.
    folder = place and located(place)[0] == "claude-code" and Path(os.path.realpath(place)).parent
    marks = ledger.numbers("mark")
    for client, file, changed in transcripts():
        is_here = file.parent == folder if folder else client == "codex"
        is_other = session_of(file) != session and changed >= ledger.switch().at
        if is_here and is_other and marks.get(session_of(file)):
            yield str(file), time.time() - changed > _QUIET


def left_out(ledger: Ledger) -> tuple[int, int]:
    """Return how many sessions since the yes were left out: those that are off, and those without a mark."""
    since = {session_of(file) for _, file, changed in transcripts() if changed >= ledger.switch().at}
    off = {session for session in since if ledger.is_off(session)}
    return len(off), len(since - off - ledger.all("mark").keys() - ledger.all("session").keys())


def capture(index: Index, ledger: Ledger, place: str, is_over: bool) -> int:
    """
    Add a transcript's new exchanges to its session's notes; return their number. Raises OSError, SpellbookError.

    The exchanges of a session that is off are only noted, to know them again in a fork.
    """
    client, real = located(place)
    session = session_of(real)
    known = ledger.note(client, session)
    is_off = known is None
    note = known or SessionNote(client, session)
    count = 0
    new = dict[str, Exchange]()
    with disk.regular(real) as file:
        size = os.fstat(file.fileno()).st_size
        offset = ledger.numbers("transcript").get(str(real), 0)
        offset = offset if offset <= size else 0  # it was cut
        is_end = False
        while not is_end:
            exchanges, offset, is_end = read(file, offset, is_over=is_over or is_off)
            _clean(index, ledger, session, exchanges)
            new |= {each.key: each for each in exchanges if each.is_kept or is_off}
            if new and not is_off:
                letters = sum(len(each.prompt) for each in new.values())
                if not note.stem and len(new) == 1 and letters < _LEAST_LETTERS:
                    continue
                note = session_note.write(index, note, [*new.values()])
                count += len(new)
            rows = _rows_of(new.values(), _OFF if is_off else _CAPTURED)
            if note.stem:
                rows.append(("session", session, [note.stem, note.part]))
            if is_off and is_end:
                rows.append(("size", str(real), size))
            ledger.put(*rows, ("transcript", str(real), offset))
            new = {}
    return count


def _clean(index: Index, ledger: Ledger, session: str, exchanges: Sequence[Exchange]) -> None:
    """Take out of exchanges what is not to be kept, and say of each whether it is kept; count those erased before."""
    barred = {each.turn for each in exchanges if not _is_harmless(index, ledger, each)}
    for each in exchanges:
        each.answer, removed = taken_out("" if each.turn in barred else each.answer, _MOST_ANSWER)
        each.removed += removed
    erased = [each for each in exchanges if each.is_kept and _is_erased(index, each)]
    if erased:
        ledger.put(("erased", session, len(erased) + ledger.numbers("erased").get(session, 0)))
    for each in erased:
        each.is_kept = False


def _rows_of(exchanges: Iterable[Exchange], value: object) -> list[tuple[str, str, object]]:
    """Return the ledger's rows by which exchanges are known again: by their keys, and by the ids of their lines."""
    return [("key", key, value) for each in exchanges for key in (each.key, each.asked.uuid) if key]


def _is_erased(index: Index, exchange: Exchange) -> bool:
    """Say whether an exchange mostly says what was erased. Raises StorageError if nobody can know."""
    texts = (exchange.prompt, exchange.answer) if index.vault.has_tombstones else ()
    return any(index.vault.tombstones.over_text(text, MOSTLY) for text in texts)


def _is_harmless(index: Index, ledger: Ledger, exchange: Exchange) -> bool:
    """
    Take secrets and private parts out of a prompt, and say whether its answer can repeat nothing that is not kept.

    It is kept if it is new, and of a time, a folder and sessions that a person lets be captured.
    """
    exchange.prompt, exchange.removed = taken_out(exchange.prompt, _MOST_PROMPT)
    exchange.key = sha256(f"{exchange.asked.at.isoformat()}\n{exchange.prompt}".encode()).hexdigest()[:16]
    keys = filter(None, (exchange.key, exchange.asked.uuid))
    known = [value for key in keys if (value := ledger.get("key", key)) is not None]
    is_of_off = any(not each or ledger.is_off(each) for each in exchange.asked.sessions)
    is_off = is_of_off or any(value != _CAPTURED for value in known)
    is_late = exchange.asked.at.timestamp() >= ledger.switch().since
    exclude = tuple(index.config.capture.get("exclude", ()))
    is_allowed = is_late and not is_off and not is_excluded(exchange.asked.folder, exclude)
    exchange.is_kept &= is_allowed and not known and bool(exchange.prompt)
    return is_allowed and not exchange.removed and not any(is_excluded(each, exclude) for each in exchange.folders)
