"""
Hooks of an agent's sessions: which command runs when, and how a client's settings get and lose it.

Each command gets a group behind the existing ones. Its line ends with a mark, a comment in every shell, by which it is
found again; other hooks stay. Codex trusts a hook by its text: a changed line does not run until its person trusts it
again. A line whose program is gone ends with 0 and stays silent, but for a hint at the start of a session.

On Windows Claude Code takes Git's bash, or PowerShell where `shell` says so or that bash is missing (hooks.md of its
documentation); Codex takes PowerShell, the shell of its session (shell_detect.rs of openai/codex). One line runs in
both.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spellbook.cli.clients import jsonc, known_clients, settings_entry
from spellbook.cli.clients.changes import FileChange
from spellbook.cli.clients.git_hooks import shell_line
from spellbook.system.errors import InvalidInput
from spellbook.text.unicode import is_whole

_KEY = "hooks"
_JSON = known_clients.CLIENTS["claude-code"]
"""The client whose rules for reading settings hold for every file of hooks: JSON without comments."""

_SECONDS = 5
"""After this time a client ends a hook, which ends by itself after one second."""

Groups = Sequence[tuple[str, Any]]
"""The key of the events, each of which has groups of hooks."""

_START = ("SessionStart", "context --session-start", "startup|resume|clear|compact", _SECONDS)
_PROMPT = ("UserPromptSubmit", "context --prompt", "", _SECONDS)
_SUMMARY = ("PreCompact", "context --reminder", "manual|auto", _SECONDS)  # it leaves a job for capture, too
_COMPACT = ("PreCompact", "capture hook", "manual|auto", _SECONDS)

RUNS = {
    # Without seconds of one of them, Claude Code gives all hooks of SessionEnd together one and a half.
    "claude-code": (_START, _PROMPT, _SUMMARY, ("SessionEnd", "capture hook", "", _SECONDS)),
    "codex": (_START, _PROMPT, _COMPACT, ("SessionEnd", "capture hook", "", 3)),  # it allows no more
}
"""For each client with hooks: event, command of Spellbook, matcher where an event has kinds, seconds until its end."""


_HINT = json.dumps(
    {"systemMessage": "Spellbook was not found, so this session has no notes. Install it again, or remove its hooks."}
)


def posix_line(command: Sequence[str], env: Mapping[str, str], hint: str) -> str:
    """Return a line for a POSIX shell that runs a command in `env`, or else says `hint`; it always succeeds."""
    is_there = f"command -v {shell_line(command[:1], {})} >/dev/null 2>&1"
    return f"{is_there} && {shell_line(command, env)} || {f'echo {shlex.quote(hint)}' if hint else 'true'}"


def power_line(command: Sequence[str], env: Mapping[str, str], hint: str) -> str:
    """Return the same for PowerShell, which every Windows has, without a backtick."""
    is_there = f"Get-Command {_in_power(command[0])} -ErrorAction SilentlyContinue"
    settings = "".join(f"$env:{name} = {_in_power(value)}; " for name, value in env.items())
    run = f"{settings}& {' '.join(map(_in_power, command))}"
    return f"if ({is_there}) {{ {run} }} else {{ {hint and _in_power(hint)} }}; exit 0"


def _in_power(text: str) -> str:
    quoted = "'" + re.sub("['\u2018-\u201b]", r"\g<0>\g<0>", text) + "'"  # it takes curly quotes for straight ones
    return "(" + quoted.replace("`", "'+[char]96+'") + ")" if "`" in quoted else quoted


def any_line(command: Sequence[str], env: Mapping[str, str], hint: str) -> str:
    """
    Return the same for a POSIX shell and for PowerShell.

    To PowerShell "x`#" is a word, and its part ends with `exit`. To the other shell that part is a comment between two
    backticks, whatever it holds beside them.
    """
    return f"echo x`# >$null; {power_line(command, env, hint)} # ` >/dev/null; {posix_line(command, env, hint)}"


def groups(
    client: str,
    command: Sequence[str],
    env: Mapping[str, str],
    scope: str = "",
    recall: bool = False,
    mark: str = "",
    system: str = "",
) -> Groups:
    """
    Return the groups that run `command` in `env` on `system`, as in `sys.platform`; "" is each of them.

    Raises InvalidInput if a line is not UTF-8.
    """
    made = []
    line = any_line if system in {"", "win32"} else posix_line
    # Git's bash shows a window for a moment.
    shell = {"shell": "powershell"} if system == "win32" and client == "claude-code" else {}
    for event, run, matcher, seconds in RUNS[client]:
        if event == _PROMPT[0] and not recall:
            continue
        scoped = ["--scope", scope] if scope and run.startswith("context") else []
        written = line((*command, *run.split(), *scoped), env, _HINT if event == _START[0] else "") + mark
        if not is_whole(written):
            raise InvalidInput("A path of the hooks is not UTF-8, and settings are.", "Rename the folder.")
        ran = {"type": "command", "command": written, **shell, "timeout": seconds}
        made.append((event, {**({"matcher": matcher} if matcher else {}), "hooks": [ran]}))
    return made


def mark(name: str) -> str:
    """Return the end of a command's line by which the hooks of the server `name` are found again."""
    return f" # spellbook hook of {json.dumps(name)}"


def add(file: Path, name: str, wanted: Groups) -> FileChange:
    """Return the change that makes the hooks of `name` be `wanted`. Raises InvalidInput as `settings_entry.add`."""
    before, text = settings_entry.read(file, _JSON)
    with settings_entry.shaped(file):
        return FileChange(file, before, _put(text, name, wanted).encode())


def events(file: Path, name: str) -> set[str]:
    """Return the events that have a hook of `name`. Raises InvalidInput as `settings_entry.add` does."""
    with settings_entry.shaped(file):
        return {event for event, _, _ in _ours(settings_entry.read(file, _JSON)[1], name)}


def take_out(file: Path, name: str) -> FileChange | None:
    """
    Return the change that removes the hooks of `name`, None if there are none.

    Raises InvalidInput as `settings_entry.add` does.

    Where its owner only added to the file, the rest is as before, to the byte.
    """
    before, text = settings_entry.read(file, _JSON)
    with settings_entry.shaped(file):
        places = list(_ours(text, name))
        if not places:
            return None
        there = [(event, jsonc.get(text, (_KEY, event, number))) for event, number, _ in places]

        def cut(earlier: list[str]) -> str:
            after = _remove(text, places)
            is_bare = jsonc.get(after, (_KEY,)) == {} and all(jsonc.get(old, (_KEY,)) is None for old in earlier)
            return jsonc.remove(after, (_KEY,)) if is_bare else after

        return settings_entry.without_ours(
            file, before, lambda old: any(_ours(old, name)), lambda old: _put(old, name, there) == text, cut
        )


def _put(text: str, name: str, wanted: Groups) -> str:
    """Return the settings with these hooks of `name` and no others of it."""
    places = list(_ours(text, name))
    for event, group in wanted:
        if first := next((place for place in places if place[0] == event), None):
            # Brought up to date where it differs; what its owner added to the group stays.
            places.remove(first)
            for key, value in group["hooks"][0].items():
                text = jsonc.put(text, (_KEY, event, first[1], "hooks", first[2], key), value)
        else:
            listed = jsonc.get(text, (_KEY, event))
            text = jsonc.put(text, (_KEY, event, len(listed) if isinstance(listed, list) else 0), group)
    return _remove(text, places)


def _remove(text: str, places: Sequence[tuple[str, int, int]]) -> str:
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
