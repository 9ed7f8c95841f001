"""Transcripts as Claude Code and Codex write them, made line by line."""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BEGIN = dt.datetime(2026, 11, 26, 9, 0, tzinfo=dt.UTC)
SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
ROTATE = ("When do our signing keys rotate?", "Every ninety days.")
DEPLOY = ("배포는 언제 하지?", "화요일 오전에 합니다.")
BILLING = ("Who asks for it?", "Billing does.")
LONG = ("Explain the plan. " * 30, "No.")


def claude(home: Path, session: str = SESSION, project: str = "-work-shop") -> Path:
    """The place of a transcript of Claude Code."""
    place = home / ".claude" / "projects" / project / f"{session}.jsonl"
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def codex(home: Path, session: str = SESSION) -> Path:
    """The place of a transcript of Codex."""
    place = home / ".codex" / "sessions" / "2026" / "11" / "26" / f"rollout-2026-11-26T09-00-00-{session}.jsonl"
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def line(**entry: Any) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def said(text: object, minute: int = 0, /, **more: Any) -> bytes:
    """A line that a person typed."""
    at = (BEGIN + dt.timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")
    common = {"uuid": str(uuid.uuid4()), "timestamp": at, "cwd": "/work/shop", "sessionId": SESSION}
    human = {"origin": {"kind": "human"}, "promptSource": "typed", "entrypoint": "cli", "isSidechain": False}
    return line(**{"type": "user", "message": {"role": "user", "content": text}, **common, **human, **more})


def answered(*texts: str, **more: Any) -> bytes:
    """The lines of an answer: thinking, the use of a tool, and each text, as one message."""
    blocks = [{"type": "thinking", "thinking": "hmm"}, {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}]
    blocks += [{"type": "text", "text": text} for text in texts]
    message = {"role": "assistant", "id": "m1"}
    return b"".join(
        line(type="assistant", uuid=str(uuid.uuid4()), timestamp=BEGIN.isoformat(), message={**message, "content": [block]}, **more)
        for block in blocks
    )  # fmt: skip


def talk(*pairs: tuple[str, str], first: int = 0) -> list[bytes]:
    """The exchanges of a session, one a minute, each as one piece of bytes."""
    return [said(ask, first + number) + answered(answer) for number, (ask, answer) in enumerate(pairs)]


def asked(notes: dict[str, str]) -> list[str]:
    """What the person asked in all sections of notes, one line each."""
    return [ask for text in notes.values() for ask in re.findall(r"\*\*You:\*\*\n\n> (.*)", text)]


def of_codex(*pairs: tuple[str, str], source: object = "cli", cwd: str = "/work/shop") -> bytes:
    """A rollout of Codex with its mirror, its context and its instructions."""

    def item(role: str, text: str, kind: str, minute: int) -> bytes:
        at = (BEGIN + dt.timedelta(minutes=minute)).isoformat()
        content = [{"type": kind, "text": text}]
        return line(timestamp=at, type="response_item", payload={"type": "message", "role": role, "content": content})

    def lines() -> Iterator[bytes]:
        meta = {"id": SESSION, "cwd": cwd, "source": source, "instructions": "Be brief."}
        yield line(timestamp=BEGIN.isoformat(), type="session_meta", payload=meta)
        yield item("developer", "Obey the sandbox.", "input_text", 0)
        yield item("user", "# AGENTS.md instructions for /work/shop", "input_text", 0)
        yield item("user", "<environment_context>secret place</environment_context>", "input_text", 0)
        for minute, (ask, answer) in enumerate(pairs):
            yield item("user", ask, "input_text", minute)
            yield line(timestamp=BEGIN.isoformat(), type="event_msg", payload={"type": "user_message", "message": ask})
            yield item("assistant", answer, "output_text", minute)
        yield line(timestamp=BEGIN.isoformat(), type="compacted", payload={"message": "A summary."})

    return b"".join(lines())
