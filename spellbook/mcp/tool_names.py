"""
Toolsets, the names of their tools, and which of them a server lists and answers.

The instructions that an agent reads at the start say which tool is for which wish, for the toolsets that are on. A line
names only tools that are there; of several ways the first that is there is named. For `core` they are five sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from contextvars import ContextVar
from typing import Any

from spellbook.system.errors import InvalidInput, PermissionDenied
from spellbook.system.lazy import regex
from spellbook.text.quoting import agent_name

DEFAULT = "core"
"""The toolsets of a server for which none are named."""

_ROWS = {
    "core": "get_index search memorize find show remember rest scribe rest_end revise erase recent undo",
    "spellbook": "rest rest_end get_index memorize find get_topic scribe scribe_chunk scribe_validate erase revise "
    "stats rebuild_index export import",
    "desk": "merge restore log undo move mend_links",
    "backup": "snapshot snapshots export import",
    "memento": "remember recall pin unpin forget",
    "decisions": "mama_save mama_search mama_update mama_checkpoint",
    "wiki": "wiki_search wiki_index wiki_status",
    "zyflow": "zyflow_wiki_search zyflow_wiki_index zyflow_wiki_status",
    "articles": "save articles_search list get ask delete",
}
TOOLSETS = {name: tuple(tools.split()) for name, tools in _ROWS.items()}
"""
Toolsets, each with its tools in the order in which they are listed; a tool of several sets is the same in each.

`spellbook` are those of the product's first description, `zyflow` those of `wiki` under other names. `articles_search`
is listed as `search` where `core` is off. `instructions` says which tool is for what.
"""

_MOST_NAME = 60
"""Letters of the name or the version of a client."""

_TOOL = regex(r"\b([a-z_]+)\(")

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
    return "".join(each for each in sentences if {*_TOOL.findall(each)} <= listed).rstrip()


def agent_of(context: Any) -> str:
    """Return the name of the agent that makes a call, `Claude Code` for the client `claude-code`; "agent" for none."""
    client = context.session.client_params if context else None
    info = client.client_info if client else None
    return agent_name(info.title or info.name) if info else "agent"


def actor_of(context: Any) -> str:
    """Return the agent that makes a call, as `claude-code/2.1.0`; `mcp/unknown` for one that does not name itself."""
    client = context.session.client_params if context else None
    info = client.client_info if client else None
    named = (info.name, info.version) if info else ("", "")
    name, version = (re.sub(r"[^\w.+-]+", "-", each[:_MOST_NAME]).strip("-") for each in named)
    return f"{name or 'mcp'}/{version or 'unknown'}"


def toolsets_of(names: str) -> tuple[str, ...]:
    """Return the toolsets in a list with commas, `core` first. Raises InvalidInput for an unknown one."""
    listed = dict.fromkeys(name.strip() for name in names.split(",") if name.strip())
    for name in listed:
        if name not in TOOLSETS:
            raise InvalidInput(f"There is no toolset {name!r}.", f"Toolsets are {', '.join(TOOLSETS)}.")
    return tuple(sorted(listed, key=lambda name: name != DEFAULT))


class Names:
    """
    The names of one server's tools: `listed` are offered to clients, in their order; `answered` can be called.

    These are the listed ones and those of `spellbook`, each also by its full name, `<toolset>_<name>`.
    """

    def __init__(self, toolsets: Sequence[str]) -> None:
        own = dict.fromkeys(tool for each in toolsets for tool in TOOLSETS[each])
        self._also = {f"{each}_{tool}": tool for each, tools in TOOLSETS.items() for tool in tools}
        self._also |= dict(zip(TOOLSETS["zyflow"], TOOLSETS["wiki"], strict=True))
        self._also |= {f"core_{tool}": tool for tool in TOOLSETS["spellbook"]}  # core once had them all
        short = {"articles_search": "search"} if "articles_search" in own and "search" not in own else {}
        self._also |= {name: tool for tool, name in short.items()}
        self.listed: Set[str] = dict.fromkeys(short.get(tool, tool) for tool in own).keys()
        self.answered = {*map(self.called, own), *TOOLSETS["spellbook"]}

    def called(self, name: str) -> str:
        """Return the tool that `name` calls; `name` itself if it is no other name of one."""
        return self._also.get(name, name)

    def check(self, name: str) -> None:
        """Raise PermissionDenied, with the toolset's name, for a tool of a toolset that is off."""
        if off := [each for each, tools in TOOLSETS.items() if name in tools and name not in self.answered]:
            raise PermissionDenied(
                f"{name} is a tool of the toolset {off[0]}, which this server does not offer.",
                f"The person adds {off[0]} to its --toolsets.",
            )

    def answer(self) -> None:
        """Phrase the advice in answers of this call for a caller that is offered these tools."""
        _listed.set(self.listed)
