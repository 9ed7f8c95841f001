"""
The process that captures: it does the jobs that hooks left, one process at a time, and ends.

It loads no model, indexes nothing, and reads no file but transcripts in the folders of their clients. A note is written
before the ledger; a job that a kill cut short is done again.

A session's note has a section for each exchange, which is appended once and never written again. Text of a transcript
is quoted, so that no heading, fence or comment in it ends its section. A comment under the heading has the day and the
key of the exchange, which is known by it if a kill came between the note and the ledger.

Of a transcript it reads what a person typed, and the last text of the answer. Both forms, of Claude Code and of Codex,
are internal to their clients: a line of another shape is skipped. What tools, other agents, summaries and the client
itself say does not count.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from spellbook.archive.formats.conversations import cleaned, moment, on_one_line
from spellbook.capture.ledger import FORGOTTEN, Ledger
from spellbook.editing.edits import with_meta
from spellbook.editing.revise import erase_notes
from spellbook.index import privacy
from spellbook.index.filters import conditions, path_glob
from spellbook.index.lookup import named
from spellbook.index.opened import Index
from spellbook.notes.frontmatter import compose
from spellbook.notes.note import Note, newline, parse
from spellbook.settings.config import load
from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound
from spellbook.system.lazy import regex
from spellbook.system.lock import held
from spellbook.text import credentials
from spellbook.text.unicode import composed
from spellbook.vault.journal import BY_ITSELF
from spellbook.vault.names import safe_name
from spellbook.vault.vault import Vault, digest

_CLIENTS = {
    "claude-code": ("Claude Code", "CLAUDE_CONFIG_DIR", "~/.claude", "projects"),
    "codex": ("Codex", "CODEX_HOME", "~/.codex", "sessions"),
}
"""For each client: its name, the variable with its folder, the usual folder, and the folder of transcripts in it."""

_SETTLE = 0.5  # seconds that a client has to write its last lines
_QUIET = 21_600.0  # seconds without a new line after which a session counts as over, by hand
_MOST_TRANSCRIPTS = 50  # that are caught up at a time
_LEAST_LETTERS = 400  # of the person, that make a note where there is one exchange
_MOST_TITLE = 80  # letters
_LONG_ID = 36  # letters of the id that a client gives a session
_MOST_PROMPT, _MOST_ANSWER, _MOST_WORDS = 4_000, 2_000, 60  # letters
_MOST_SECTIONS, _MOST_BYTES = 200, 400_000  # of one note
_KEY = regex(r"(?m)^<!-- \d{4}-\d\d-\d\d ([0-9a-f]{16}) -->\r?$")
_MARKS = regex(r"[#\[\]<>%|`*_]+")

_OMITTED = "\0"
"""Stands in a text for what was `<private>`."""

_MOST_OF_LINE = 4_000_000  # bytes; a longer line is skipped without being held
_MOST_EXCHANGES = 200  # of one reading
_MOST_LETTERS = 12_000  # of a text: more than a note keeps, as secrets are masked before it is cut

_LINE = regex(rb'"type"\s*:\s*"(?:user|assistant|queued_command|response_item|session_meta|turn_context)"')
_PRIVATE = regex(r"(?i)<(/?)private\b[^<>]{0,200}>")
_OF_EDITOR = regex(r"(?s)\A\s*(?:<(ide_\w+)>.*?</\1>\s*|# Context from my IDE.*?\n## My request for Codex:)")
_TYPED = (None, "typed", "queued")
_FLAGS = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_ADDED = (  # how a text begins that a client adds in the person's name
    *("<command-", "<local-command", "<bash-", "<system-reminder", "<task-notification", "<user-prompt-submit-hook"),
    *("<user_shell_command", "<skill>", "<subagent_notification", "<recommended_plugins", "<hook_prompt"),
    *("<goal_context", "<codex_internal_context", "<permissions"),
    *("# AGENTS.md", "<environment_context>", "<user_instructions>", "<turn_aborted>", "[Request interrupted by user"),
)


@dataclass(slots=True)
class Exchange:
    """A person's words, their time (UTC) and folder, and the last text of the answer; `run` adds the key."""

    prompt: str
    at: dt.datetime
    uuid: str
    cwd: str
    answer: str = ""
    key: str = ""
    removed: int = 0


def serve() -> None:
    """Be the process that a hook starts: do all jobs, unless another process is at it."""
    time.sleep(_SETTLE)
    config = load()
    ledger = Ledger(str(config.vault))
    while ledger.all("job"):
        with held(ledger.folder / "capture.lock") as is_ours:
            if not is_ours:
                return
            for number, job in ledger.all("job").items():
                ended = {"at": time.time(), "exchanges": 0}
                with _telling(ended):
                    index = Index.open(config)
                    for place, is_over in _wanted(ledger, job):
                        with _telling(ended):
                            ended["exchanges"] += capture(index, ledger, place, is_over)
                ledger.put(("run", "", ended), job=number)


@contextlib.contextmanager
def _telling(ended: dict[str, Any]) -> Iterator[None]:
    """Keep an error for `Ledger.problems`, whatever it is, and go on: other transcripts should not wait for one."""
    try:
        yield
    except Exception as error:
        ended["failed"] = on_one_line(str(error) or type(error).__name__)[:500]


def _wanted(ledger: Ledger, job: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the transcripts that a job is about, each with whether its session is over."""
    place, session, event = (str(job[key] or "") for key in ("transcript_path", "session_id", "hook_event_name"))
    if not ledger.switch.get("on"):
        return
    if job["is_off"]:  # its exchanges are read, to know them again in a fork, and none is written
        ledger.put(("session", session, FORGOTTEN))
    if event != "SessionStart":
        yield from [(place, event == "SessionEnd")] if place else []
    elif not job["is_off"]:  # Codex keeps all projects together, and may name no transcript
        is_claude = place and _located(place)[0] == "claude-code"
        found = Path(place).parent.glob("*.jsonl") if is_claude else _folder("codex").glob("*/*/*/*.jsonl")
        files = (file for file in found if file.stem[-_LONG_ID:] != session and not file.is_symlink())
        times = {file: file.stat().st_mtime for file in files}
        for file in sorted(times, key=lambda file: -times[file])[:_MOST_TRANSCRIPTS]:
            if times[file] >= ledger.switch["at"]:
                yield str(file), time.time() - times[file] > _QUIET


def _located(place: str) -> tuple[str, Path]:
    """Return the client and the path of a transcript. Raises InvalidInput for a link, and for what lies elsewhere."""
    real = Path(os.path.realpath(place))
    for client in _CLIENTS:
        if real.suffix == ".jsonl" and real.is_relative_to(_folder(client)) and not os.path.islink(place):
            return client, real
    raise InvalidInput(f"{place:.200}: this is no transcript of Claude Code or Codex.", "Nothing was read.")


def _folder(client: str) -> Path:
    _, variable, usual, below = _CLIENTS[client]
    return Path(os.path.realpath(os.path.join(os.path.expanduser(os.environ.get(variable) or usual), below)))


def capture(index: Index, ledger: Ledger, place: str, is_over: bool) -> int:
    """Add a transcript's new exchanges to its session's notes; return their number. Raises OSError, SpellbookError."""
    client, real = _located(place)
    session, count, new = real.stem[-_LONG_ID:], 0, dict[str, Exchange]()
    stem, part = ledger.get("session", session) or ("", 0)
    with disk.regular(real) as file:
        offset, is_end = ledger.get("transcript", str(real)) or 0, False
        offset = offset if offset <= os.fstat(file.fileno()).st_size else 0  # it was cut
        while not is_end:
            exchanges, offset, is_end = read(file, offset, is_over=is_over)
            wanted = [_clean(each) for each in exchanges if _is_wanted(index, ledger, each)]
            new |= {each.key: each for each in wanted if each.prompt and not ledger.get("key", each.key)}
            if new and not (stem or len(new) > 1 or sum(len(each.prompt) for each in new.values()) >= _LEAST_LETTERS):
                continue
            if new and [stem, part] != FORGOTTEN:
                stem, part = _write(index, (client, session, stem, part), [*new.values()])
                count += len(new)
            keys = [("key", key, 1) for each in new.values() for key in (each.key, each.uuid) if key]
            known = [("session", session, [stem, part])] if stem else []
            ledger.put(*keys, *known, ("transcript", str(real), offset))
            new = {}
    return count


def _is_wanted(index: Index, ledger: Ledger, exchange: Exchange) -> bool:
    """Say whether an exchange is not known by its id, and of a time and a folder that a person lets be captured."""
    globs = [os.path.expanduser(glob).rstrip("/\\") for glob in index.config.capture.get("exclude", ())]
    globs += [os.path.realpath(glob) for glob in globs]  # a client may name a folder by its link or by its place
    cwd = exchange.cwd.replace("\\", "/")
    is_excluded = any(path_glob(cwd, glob.replace("\\", "/")) for glob in globs)
    is_late = exchange.at.timestamp() >= ledger.switch["since"]
    return is_late and not is_excluded and not ledger.get("key", exchange.uuid)


def _write(index: Index, known: tuple[str, str, str, int], new: list[Exchange]) -> tuple[str, int]:
    """Write exchanges of a session, of which the client, the id, the note and the last part of that are `known`."""
    client, session, stem, part = known
    begun, number = new[0].at.astimezone(), sha256(session.encode()).hexdigest()[:8]
    project = next(iter(privacy.project_names(index.config.projects, folder=new[0].cwd)), "")
    scope = credentials.masked(project, likely=True)
    stem = stem or f"{begun:%Y-%m-%d}-{safe_name(scope or client, 40)}-{number}"
    meta = {
        **{"id": f"session-{number}", "session": session, "title": on_one_line(new[0].prompt)[:_MOST_TITLE]},
        **{"category": "session", "type": "episodic", "importance": "low", "trust": "agent"},
        **{"privacy_scope": "private", **({"scope": scope} if scope else {}), "source": client},
        **{"created": begun, "updated": new[-1].at.astimezone()},
    }
    with index.vault.change(BY_ITSELF, stem):
        return stem, _append(index.vault, stem, part, _CLIENTS[client][0], new, meta)


def _clean(exchange: Exchange) -> Exchange:
    """Take secrets and private parts out of an exchange, count them, cut its texts, and give it its key."""
    exchange.prompt, removed = _cleaned(exchange.prompt, _MOST_PROMPT)
    exchange.answer, more = _cleaned("" if removed else exchange.answer, _MOST_ANSWER)  # it may say it again
    exchange.removed = removed + more
    exchange.key = sha256(f"{exchange.at.isoformat()}\n{exchange.prompt}".encode()).hexdigest()[:16]
    return exchange


def _cleaned(text: str, most: int) -> tuple[str, int]:
    """Return at most so many letters of a text without secrets and private parts, and how many of these there were."""
    masked = credentials.masked(text, likely=True)
    kept = masked.replace(_OMITTED, "").strip()
    removed = masked.count("…") - composed(text).count("…") + text.count(_OMITTED)
    return kept if len(kept) <= most else f"{kept[: most - 2]} …", removed


def _section(exchange: Exchange, name: str) -> str:
    """Return the text of an exchange with the client `name`; its times are those of this machine's zone."""
    at, words = exchange.at.astimezone(), on_one_line(_MARKS.sub(" ", exchange.prompt[: 4 * _MOST_WORDS]))[:_MOST_WORDS]
    turns = (("You", exchange.prompt), (name, exchange.answer))
    quoted = ((who, re.sub(r"(?m)^", "> ", text)) for who, text in turns if text)
    turned = "\n".join(f"**{who}:**\n\n{text}\n" for who, text in quoted)
    return f"## {at:%H:%M} {words}\n<!-- {at:%Y-%m-%d} {exchange.key} -->\n\n{turned}"


def _append(vault: Vault, stem: str, last: int, name: str, new: Sequence[Exchange], meta: Mapping[str, Any]) -> int:
    """
    Append the exchanges with the client `name` that a session's note lacks, and return the last part.

    There are `-2` and so on where a part is full or gone; `last` is the one that was written last, 0 for none. Raises
    Conflict if somebody saves the note meanwhile.
    """
    left, part = [(each, _section(each, name)) for each in new], max(1, last)
    while left:
        end, note = f"-{part}" if part > 1 else "", None
        with contextlib.suppress(MemoryNotFound):
            note = parse(path := f"sessions/{stem}{end}.md", vault.read(path)[0])
        is_ours = note is not None and note.meta.get("session") == meta["session"]
        known = set(_KEY.findall(note.text)) if note and is_ours else set()
        left = [row for row in left if row[0].key not in known]
        sizes = accumulate((len(text.encode()) for _, text in left), initial=len(note.encode()) if note else 0)
        room = left[: max(0, _MOST_SECTIONS - len(known))]
        fits = sum(size < _MOST_BYTES for _, size in zip(room, sizes, strict=False))
        if fits and (is_ours or (note is None and part > last)):
            removed = sum(each.removed for each, _ in left[:fits])
            own = {**meta, "id": f"{meta['id']}{end}", "removed": removed}
            _put(vault, path, note, "\n".join(text for _, text in left[:fits]), own)
            left = left[fits:]
        part += bool(left)
    return part


def _put(vault: Vault, path: str, note: Note | None, body: str, meta: dict[str, Any]) -> None:
    if note is None:
        vault.place(path, [compose(meta, body).encode()])
        return
    text, end = note.text, newline(note.text)
    with contextlib.suppress(InvalidInput, Conflict, TypeError, ValueError):  # frontmatter that a person changed stays
        removed = meta["removed"] + int(note.meta.get("removed", 0))
        text = with_meta(note, {"updated": meta["updated"], "removed": removed})
    gap = end if text.endswith(("\n", "\r")) else end * 2
    vault.write(path, note.encode(text + gap + body.replace("\n", end)), digest(note.encode()))


def forget(index: Index, session: str, project: str, since: str, *, dry_run: bool) -> list[str]:
    """Move sessions' notes to the trash for good: by session, scope or day of change; return their paths."""
    index.vault.check_there()
    with contextlib.suppress(MemoryNotFound):
        session = session and str(named(index, session)[0][0].meta.get("session") or session)
    chosen = {"session": session, "scope": project, "updated": since and f"{since}.."}
    wanted = conditions({"source": [*_CLIENTS], **{key: value for key, value in chosen.items() if value}})
    chunks = []
    with contextlib.suppress(InvalidInput):  # no note has one of these keys yet
        found = (index.catalog.at(path)[0] for path in index.catalog.paths(wanted))
        chunks = [chunk for chunk in found if chunk.meta.get("session") and chunk.note.startswith("session-")]
    ledger = Ledger(str(index.config.vault))
    if session and not chunks and len(session) < _LONG_ID:  # the id of one that has no note yet is taken
        raise InvalidInput(f"No session {session!r:.80} is known.", "Give its id, or the name of its note.")
    if not dry_run:
        sessions = {session, *(str(chunk.meta["session"]) for chunk in chunks)} - {""}
        ledger.put(*(("session", each, FORGOTTEN) for each in sessions))
        if chunks:
            erase_notes(index, chunks, "sessions", session or project, "forget")
    return [chunk.path for chunk in chunks]


# -- transcripts


def read(stream: BinaryIO, offset: int, *, is_over: bool) -> tuple[list[Exchange], int, bool]:
    """
    Return some exchanges from a byte offset on, the offset at which to read on, and whether they are the last.

    A cut last line is left for the next time, and so is the last exchange unless the session `is_over`: its answer may
    go on. Lines that compaction repeats, with their uuid, are one exchange.
    """
    stream.seek(0)
    head: Mapping[str, Any] = next((entry for _, _, entry in _entries(stream, 0)), {})
    cwd = _cwd(head)  # Codex names it there alone
    source = _mapping(head.get("payload")).get("source")
    if source in ("exec", "mcp") or _mapping(source):  # a program, or another agent, speaks in the person's name
        return [], offset, True
    stream.seek(offset)
    found: dict[str, Exchange] = {}
    current, begin, end = "", offset, offset
    for start, stop, entry in _entries(stream, offset):
        end, cwd = stop, _cwd(entry) or cwd
        role, text = _spoken(entry)
        at = moment(entry.get("timestamp"))
        if role == "assistant" and text and current:
            found[current].answer = text
        elif role == "user" and not (text and current and (text, "") == (found[current].prompt, found[current].answer)):
            current = ""  # a command, or a picture alone, has an answer of its own
            if text and at and 2000 < at.year < 2100:
                uuid = str(entry.get("uuid") or "")
                current, begin = uuid or f"{at} {text}", start
                if current not in found and len(found) == _MOST_EXCHANGES:
                    return [*found.values()], start, False
                found.setdefault(current, Exchange(text, at, uuid, cwd))
    if current and not is_over:
        del found[current]
        end = begin
    return [*found.values()], end, True


def _entries(stream: BinaryIO, at: int) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Yield the start and end of each whole line with its object, an empty one if it is of no use."""
    while line := stream.readline(_MOST_OF_LINE):
        start, at, entry = at, at + len(line), {}
        if line.endswith(b"\n") and _LINE.search(line):
            with contextlib.suppress(ValueError, RecursionError):
                entry = _mapping(json.loads(line))
        while not line.endswith(b"\n"):
            if not (line := stream.readline(1 << 16)):
                return
            at += len(line)
        yield start, at, entry


def _spoken(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return who speaks in a line (user, assistant or "") and the text, "" if it does not count."""
    if entry.get("type") == "response_item":  # Codex
        entry = {**entry, "type": _mapping(entry.get("payload")).get("role"), "message": entry.get("payload")}
    queued = _mapping(entry.get("attachment"))  # typed while the agent works; a line `user` may say it again
    if queued.get("type") == "queued_command" and queued.get("commandMode") == "prompt":
        entry = {**entry, "type": "user", "message": {"content": queued.get("prompt")}}
    message = _mapping(entry.get("message"))
    role, content = entry.get("type"), message.get("content")
    is_human = entry.get("origin") is None or _mapping(entry["origin"]).get("kind") == "human"
    is_sdk = str(entry.get("entrypoint")).startswith("sdk-") or entry.get("promptSource") not in _TYPED
    if any(map(entry.get, _FLAGS)) or role not in ("user", "assistant") or message.get("model") == "<synthetic>":
        return "", ""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = [*map(_mapping, blocks)] if isinstance(blocks, list) else []
    if entry.get("toolUseResult") or any(block.get("type") == "tool_result" for block in blocks):
        return "", ""
    if role == "user" and (is_sdk or not is_human):  # its answer is not one to the question before
        return "user", ""
    texts = [block.get("text") for block in blocks if block.get("type") in ("text", "input_text", "output_text")]
    asked = [_OF_EDITOR.sub("", text) for text in texts if isinstance(text, str)]
    typed = [text for text in asked if not text.lstrip().startswith(_ADDED)]
    return str(role), _without_private(cleaned("\n\n".join(typed))).strip()[:_MOST_LETTERS]


def _without_private(text: str) -> str:
    """Return a text with _OMITTED in place of each private part; one that is not closed reaches to the end."""
    kept, depth, at = [], 0, 0
    for tag in _PRIVATE.finditer(text):
        kept += [] if depth else [text[at : tag.start()]]
        kept += [] if depth or tag[1] else [_OMITTED]
        depth, at = max(0, depth + (-1 if tag[1] else 1)), tag.end()
    return "".join([*kept, "" if depth else text[at:]])


def _cwd(entry: Mapping[str, Any]) -> str:
    return str(entry.get("cwd") or _mapping(entry.get("payload")).get("cwd") or "")


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
