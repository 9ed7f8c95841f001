"""
A hook of a client, and the job that it leaves.

Both are read from JSON: the client's, and that of a ledger which may be damaged or of another version. Nothing is
captured for a hook or a job that cannot be read. Pure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from spellbook.text.json_values import name_of, parsed

START, END = "SessionStart", "SessionEnd"
EVENTS = (START, END, "PreCompact")
"""Events whose hooks leave jobs."""


class HookInput(NamedTuple):
    """
    The values that a client gives a hook; "" is one that is missing, or that can be none.

    `also` are further texts for a search, which checks them. It `is_sound` unless a value that names its event, its
    session or its transcript can be none.
    """

    event: str = ""
    session: str = ""
    transcript: str = ""
    prompt: str = ""
    source: str = ""
    also: tuple[Any, ...] = ()
    is_sound: bool = True

    @classmethod
    def read(cls, data: bytes) -> HookInput:
        """Return the values of a client's JSON; a text that is no JSON is a prompt."""
        text = data.decode("utf-8-sig", "replace")
        given = parsed(text)
        if not isinstance(given, dict):
            return cls(prompt="" if text.lstrip().startswith("{") else text)
        keys = ("hook_event_name", "session_id", "transcript_path", "prompt", "also")
        event, session, transcript, prompt, also = map(given.get, keys)
        return cls(
            name_of(event),
            name_of(session),
            name_of(transcript),
            prompt if isinstance(prompt, str) else "",
            name_of(given.get("source")),
            tuple(also) if isinstance(also, list) else () if also is None else (also,),
            is_sound=all(value in (None, name_of(value)) for value in (event, session, transcript)),
        )


class CaptureJob(NamedTuple):
    """
    A job for the process that captures, left by a hook at the time `at` (nanoseconds since 1970).

    `transcript` is "" if the client named none, and `is_off` says whether the session is never to be captured.
    """

    at: int
    event: str
    session: str
    transcript: str
    is_off: bool

    @classmethod
    def read(cls, key: str, value: object) -> CaptureJob | None:
        """Return the job of a row of the ledger, None for a row that can be none."""
        is_time = key.isascii() and key.isdigit() and len(key) < 20
        match value:
            case {
                "hook_event_name": event,
                "session_id": session,
                "transcript_path": place,
                "is_off": bool(is_off),
            } if is_time and event in EVENTS and name_of(session) and place in (None, name_of(place)):
                return cls(int(key), event, session, place or "", is_off)
        return None

    def as_json(self) -> dict[str, object]:
        """Return the value of its row in the ledger."""
        return {
            "hook_event_name": self.event,
            "session_id": self.session,
            "transcript_path": self.transcript or None,
            "is_off": self.is_off,
        }
