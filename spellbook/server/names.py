"""
Names of tools: a tool is listed under its short name, and can always be called by its full one, `<toolset>_<name>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from contextvars import ContextVar

from spellbook.system.errors import InvalidInput

SHARED = {"undo"}
"""Tools that several toolsets have, and that are the same in each."""

TOOLSETS = ("core", "desk", "backup", "memento", "decisions", "wiki", "articles")
"""
Toolsets by name, which is that of the module that registers it.

A module may have ALSO_CALLED, other names of its tools. `server.instructions` says which tool is for what.
"""


_TOOL = re.compile(r"\b([a-z_]+)\(")

_OF_COMMAND = {"`spellbook log`": "log", "`spellbook reindex`": "rebuild_index"}
"""The tool that does what a command does."""

_listed: ContextVar[Set[str] | None] = ContextVar("listed", default=None)
"""Names of the tools that the caller is offered; None outside of a tool call."""


def way_on(text: str) -> str:
    """
    Return what Spellbook says to an agent without the sentences that name a tool, as `show(id)`, which is not listed.

    A command is said to be one for the person, unless a listed tool does the same.
    """
    if (listed := _listed.get()) is None:
        return text
    commands = {each: f"{tool}()" for each, tool in _OF_COMMAND.items() if tool in listed}
    text = re.sub(r"`spellbook [^`]*`", lambda each: commands.get(each[0], f"{each[0]} (for the person)"), text)
    sentences = re.findall(r"(?s).+?(?:(?<=\.)\s+|$)", text)
    return "".join(said for said in sentences if {*_TOOL.findall(said)} <= listed).rstrip()


def toolsets_of(names: str) -> tuple[str, ...]:
    """Return the toolsets in a list with commas. Raises InvalidInput for an unknown one."""
    listed = tuple(name.strip() for name in names.split(",") if name.strip())
    for name in listed:
        if name not in TOOLSETS:
            raise InvalidInput(f"There is no toolset {name!r}.", f"Toolsets are {', '.join(TOOLSETS)}.")
    return listed


class Names:
    """The names of one server's tools."""

    def __init__(self) -> None:
        self.listed: set[str] = set()
        self._also: dict[str, str] = {}

    def add(self, toolset: str, name: str) -> str:
        """
        Return the name under which a tool is listed: its short name, or its full one if the short one is taken; "" if
        another toolset has listed this very tool.

        It can be called by its full name, too. A name that begins with the toolset's own is both.
        """
        full = name if name.startswith(f"{toolset}_") else f"{toolset}_{name}"
        is_listed = name in SHARED and name in self.listed
        self._also[full] = listed = full if name in self.listed and not is_listed else name
        self.listed.add(listed)
        return "" if is_listed else listed

    def alias(self, also: Mapping[str, str]) -> None:
        """Let tools be called by other names, too; these are not listed."""
        self._also.update(also)

    def called(self, name: str) -> str:
        """Return the listed name of the tool that `name` calls; `name` itself if it is none of these."""
        return name if name in self.listed else self._also.get(name, name)

    def answer(self) -> None:
        """Phrase the advice in answers of this call for a caller that is offered these tools."""
        _listed.set(self.listed)
