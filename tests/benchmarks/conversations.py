"""Conversations of the public benchmarks LoCoMo and BEAM, read from the files that their authors publish. README.md names the forms."""

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMS = "a file locomo*.json, folders with chat.json and probing_questions/probing_questions.json, or a file beam*.json"


@dataclass(frozen=True, slots=True)
class Turn:
    """What somebody says; `id` names it among the turns of its chat."""

    id: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a kind, and the ids of the turns that answer it."""

    kind: str
    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation: the day of each session, None if it is not said, with its turns; and its questions."""

    name: str
    sessions: Sequence[tuple[dt.date | None, Sequence[Turn]]]
    questions: Sequence[Asked]


class Malformed(Exception):
    """A file is not in the form that its name says."""


def read(folder: Path) -> dict[str, list[Chat]]:
    """Return the conversations in a folder by benchmark. Raises Malformed for a file of a known name and another form."""
    files = sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]
    found: dict[str, list[Chat]] = {}
    for file in files:
        name = file.name.lower()
        try:
            if name.startswith("locomo"):
                found.setdefault("LoCoMo", []).extend(map(_locomo, _listed(_json(file))))
            elif name == "chat.json":
                probing = file.parent / "probing_questions" / "probing_questions.json"
                found.setdefault("BEAM", []).append(_beam(file.parent.name, _json(file), _json(probing)))
            elif name.startswith("beam"):
                rows = _listed(_json(file))
                found.setdefault("BEAM", []).extend(_beam("", row["chat"], row["probing_questions"]) for row in rows)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError, OSError) as error:
            raise Malformed(f"{file}: not in the form that is read ({error!r:.120}). Forms: {FORMS}.") from error
    return found


def _json(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _locomo(sample: Mapping[str, Any]) -> Chat:
    """Read a sample of LoCoMo: sessions by number, turns with `dia_id`, questions with `evidence`."""
    talk, sessions = sample["conversation"], []
    for key in sorted((key for key in talk if re.fullmatch(r"session_\d{1,4}", key)), key=lambda key: int(key[8:])):
        said = [Turn(str(row["dia_id"]), str(row["speaker"]), _with_picture(row)) for row in talk[key]]
        sessions.append((_day(talk.get(f"{key}_date_time"), "%I:%M %p on %d %B, %Y"), said))
    asked = [
        Asked(f"category {row.get('category')}", str(row["question"]), _named(row.get("evidence")))
        for row in sample["qa"]
    ]
    return Chat(str(sample.get("sample_id", "")), sessions, asked)


def _with_picture(row: Mapping[str, Any]) -> str:
    shown = f"(image: {row['blip_caption']})" if row.get("blip_caption") else ""
    return "\n\n".join(filter(None, (str(row.get("text") or ""), shown)))


def _named(evidence: Any) -> frozenset[str]:
    """Return the ids in LoCoMo's evidence: some texts hold several, and some ids have zeros before a number."""
    listed = re.findall(r"D(\d{1,4}):(\d{1,4})", " ".join(map(str, _listed(evidence or []))))
    return frozenset(f"D{int(session)}:{int(turn)}" for session, turn in listed)


def _beam(name: str, chat: Any, probing: Any) -> Chat:
    """Read a chat of BEAM: batches of turns with `id`, `role` and `content`; questions by ability with `source_chat_ids`."""
    rows = [[*_messages(batch)] for batch in _batches(chat)]
    often = Counter(str(row["id"]) for batch in rows for row in batch)
    sessions = []
    for batch in rows:
        said = [Turn(str(row["id"]), str(row["role"]).title(), _without_mark(str(row["content"]))) for row in batch]
        sessions.append(
            (_day(next((row["time_anchor"] for row in batch if row.get("time_anchor")), None), "%B-%d-%Y"), said)
        )
    asked = [
        # An id that several messages have names none.
        Asked(ability, str(row["question"]), frozenset(id for id in _ids(row.get("source_chat_ids")) if often[id] == 1))
        for ability, listed in (json.loads(probing) if isinstance(probing, str) else probing).items()
        for row in listed
    ]
    return Chat(name, sessions, asked)


def _without_mark(text: str) -> str:
    """Return a text without the number that BEAM leaves behind what a person says: `->-> 1,2`."""
    said, mark, number = text.rpartition("->->")
    return said if mark and not number.strip(" ,0123456789\n") else text


def _batches(chat: Any) -> Iterator[Any]:
    """Yield what holds the messages of a session: a mapping with `turns`, or a list of messages."""
    if (isinstance(chat, Mapping) and "turns" in chat) or (isinstance(chat, list) and any(map(_is_message, chat))):
        yield chat
    elif isinstance(chat, Mapping | list):
        for part in chat.values() if isinstance(chat, Mapping) else chat:
            yield from _batches(part)


def _messages(part: Any) -> Iterator[Mapping[str, Any]]:
    if _is_message(part):
        yield part
    elif isinstance(part, Mapping | list):
        for inner in part.values() if isinstance(part, Mapping) else part:
            yield from _messages(inner)


def _is_message(part: Any) -> bool:
    return isinstance(part, Mapping) and {"role", "id", "content"} <= part.keys()


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _ids(inner)
    elif value is not None:
        yield str(value)


def _day(text: object, form: str) -> dt.date | None:
    try:
        return dt.datetime.strptime(str(text), form).date()
    except ValueError:
        return None
