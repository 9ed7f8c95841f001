"""
The hooks of Claude Code's sessions: what is run when, and how that is put into its settings and taken out again.

Each event gets one group of its own, behind those that are there. Its command ends with a mark, a comment for the
shell, by which it is found again; whatever has no such mark is not touched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spellbook.cli.clients import clients, jsonc
from spellbook.cli.clients.changes import FileChange
from spellbook.cli.clients.hooks import shell_line
from spellbook.system.errors import InvalidInput
from spellbook.text.unicode import is_whole

FILE = ".claude/settings.local.json"
"""A project's settings of one person, which Claude Code keeps out of git: commands have paths of this machine."""

CLIENT = "claude-code"
_KEY = "hooks"
_SECONDS = 5
"""After this time Claude Code ends a hook; it ends by itself after one second."""

EVENTS: Mapping[str, tuple[str, str]] = {
    "SessionStart": ("--session-start", "startup|resume|clear|compact"),
    "UserPromptSubmit": ("--prompt", ""),
    "PreCompact": ("--reminder", "manual|auto"),
    "Stop": ("--reminder", ""),
}
"""For each event the option of `spellbook context`, and the matcher where an event has kinds."""

_RECALL = "UserPromptSubmit"


def settings(environ: Mapping[str, str], home: Path) -> Path:
    """Return the file of a person's settings of Claude Code."""
    return Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "settings.json"


def groups(
    command: Sequence[str], env: Mapping[str, str], *, scope: str = "", recall: bool = False, mark: str = ""
) -> dict[str, dict[str, Any]]:
    """
    Return the group of each event that runs `command` with `context`, in the environment `env`.

    Raises InvalidInput for a path that is not UTF-8.
    """
    made: dict[str, dict[str, Any]] = {}
    for event, (option, matcher) in EVENTS.items():
        if event == _RECALL and not recall:
            continue
        line = shell_line((*command, "context", option, *(["--scope", scope] if scope else [])), env) + mark
        if not is_whole(line):
            raise InvalidInput("A path of the hooks is not UTF-8, and settings are.", "Rename the folder.")
        run = {"type": "command", "command": line, "timeout": _SECONDS}
        made[event] = {**({"matcher": matcher} if matcher else {}), "hooks": [run]}
    return made


def mark(name: str) -> str:
    """Return the end of a command's line by which the hooks of the server `name` are found again."""
    return f" # spellbook hook of {json.dumps(name)}"


def add(file: Path, name: str, wanted: Mapping[str, Mapping[str, Any]]) -> FileChange:
    """Return the change that makes the hooks of `name` be `wanted`. Raises InvalidInput as `clients.add` does."""
    client = clients.CLIENTS[CLIENT]
    before, text = clients.read(file, client)
    with clients.shaped(file, client):
        return FileChange(file, before, _put(text, name, wanted).encode())


def take_out(file: Path, name: str) -> FileChange | None:
    """
    Return the change that takes the hooks of `name` out again; None if there are none.

    What has only been added to since is as it was before, to the byte. Raises InvalidInput as `clients.add` does.
    """
    client = clients.CLIENTS[CLIENT]
    before, text = clients.read(file, client)
    with clients.shaped(file, client):
        places = list(_ours(text, name))
        if not places:
            return None
        there = {event: jsonc.get(text, (_KEY, event, number)) for event, number, _ in places}
        earlier = clients.texts_before(file, lambda old: any(_ours(old, name)))
        if change := clients.restored(file, before, earlier, lambda old: _put(old, name, there) == text):
            return change
        after = _remove(text, name, places)
        if jsonc.get(after, (_KEY,)) == {} and all(jsonc.get(old, (_KEY,)) is None for old in earlier):
            after = jsonc.remove(after, (_KEY,))
    return FileChange(file, before, after.encode())


def _put(text: str, name: str, wanted: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the settings with these hooks of `name` and no others of it."""
    places = list(_ours(text, name))
    text = _remove(text, name, [place for place in places if place[0] not in wanted])
    for event, group in wanted.items():
        first = next((place for place in places if place[0] == event), None)
        if first:  # brought up to date where it differs; what its owner added to the group stays
            _, number, run = first
            for key, value in group["hooks"][0].items():
                text = jsonc.put(text, (_KEY, event, number, "hooks", run, key), value)
        else:
            listed = jsonc.get(text, (_KEY, event))
            text = jsonc.put(text, (_KEY, event, len(listed) if isinstance(listed, list) else 0), group)
    return text


def _remove(text: str, name: str, places: Sequence[tuple[str, int, int]]) -> str:
    """Return the settings without the hooks at `places`, and without groups and lists that only held them."""
    for event, number, run in reversed(places):
        group = (_KEY, event, number)
        runs = jsonc.get(text, (*group, "hooks"))
        text = jsonc.remove(text, (*group, "hooks", run) if len(runs) > 1 else group)
        if jsonc.get(text, (_KEY, event)) == []:
            text = jsonc.remove(text, (_KEY, event))
    return text


def _ours(text: str, name: str) -> Iterator[tuple[str, int, int]]:
    """Yield the hooks of `name`: event, number of the group, number in it. What has another shape is not ours."""
    events = jsonc.get(text, (_KEY,))
    for event, listed in events.items() if isinstance(events, dict) else ():
        for number, group in enumerate(listed if isinstance(listed, list) else ()):
            runs = group.get("hooks") if isinstance(group, dict) else None
            for place, run in enumerate(runs if isinstance(runs, list) else ()):
                if isinstance(run, dict) and str(run.get("command")).endswith(mark(name)):
                    yield event, number, place
