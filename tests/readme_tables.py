"""
The tables of docs/reference.md that are drawn from the code: MCP tools, commands, verbs in Python, error codes, the API.

    python -m tests.readme_tables      rewrites docs/reference.md between its markers
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import anyio
import click

from spellbook import SpellbookError
from spellbook.cli import main as cli
from spellbook.http import admin, api
from spellbook.library import book as books
from spellbook.mcp.app import build
from spellbook.mcp.names import TOOLSETS
from spellbook.memories.articles import Articles
from spellbook.memories.decisions import Decisions
from spellbook.memories.memories import Memories
from spellbook.memories.wikis import Wikis
from spellbook.verbs import memories
from spellbook.verbs import table as verbs
from spellbook.verbs.declare import Argument, Verb

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
KOREAN = ROOT / "README.ko.md"
REFERENCE = ROOT / "docs" / "reference.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
"""All pages in English, README.md first."""
KOREAN_PAGES = (KOREAN, *sorted((ROOT / "docs" / "ko").glob("*.md")))
"""All pages in Korean, README.ko.md first."""


def tables() -> dict[str, str]:
    """Return each table by the name of its markers."""
    return {
        "tools": _table(("Tool", "What it does", "Toolset"), _tools()),
        "commands": _table(("Command", "What it does"), _commands()),
        "arguments": _table(("Verb", "What it takes", "Right"), _arguments()),
        "python": _table(("Verb", "What it does"), _verbs()),
        "errors": _table(("Code", "What it means"), _errors(SpellbookError)),
        "api": _table(("Address", "What it does", "Right"), _addresses()),
    }


def filled(text: str) -> str:
    """Return a page with its tables as the code is now. Raises ValueError if a marker is missing."""
    for name, table in tables().items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
        text, count = marked.subn(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
        if count != 1:
            raise ValueError(f"{REFERENCE.name} has <!-- {name} -->…<!-- /{name} --> {count} times, not once.")
    return text


def _tools() -> Iterable[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder, books.open(folder, embedder="hash", state=folder) as book:
        toolsets = [name for name in TOOLSETS if name != "zyflow"]  # which has the tools of wiki
        for tool in anyio.run(build(book, toolsets, live=False).list_tools):
            of = ", ".join(f"`{name}`" for name in toolsets if tool.name in TOOLSETS[name])
            yield tool.name, _first_sentence(tool.description or ""), of


def _commands() -> Iterable[tuple[str, ...]]:
    cli.list_commands(click.Context(cli, help_option_names=["-h", "--help"]))  # which imports all
    for name, command in cli.commands.items():
        context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
        usage = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
        yield " ".join(["spellbook", name, *usage]), _first_sentence(command.help or "")


def _arguments() -> Iterable[tuple[str, ...]]:
    declared = {
        id(each): each for module in (verbs, memories) for each in vars(module).values() if isinstance(each, Verb)
    }
    for verb in declared.values():
        if verb.arguments:
            yield verb.name, ", ".join(_told(*each) for each in verb.arguments.items()), verb.right


def _told(name: str, argument: Argument) -> str:
    """An argument with its default and its bounds."""
    bounds = {
        "number": f"{argument.least:,} to {argument.most:,}",
        "share": f"{argument.least} to {argument.most}",
        "text": f"{argument.most:,} letters",
        "texts": f"{argument.items} of {argument.most:,} letters",
        "choice": " or ".join(filter(None, argument.choices)),
    }
    has_default = not argument.is_needed and str(argument.default) not in {"", "None", "False"}
    default = f"{argument.default:,}" if argument.kind == "number" and has_default else str(argument.default).lower()
    facts = "; ".join(filter(None, (default if has_default else "", bounds.get(argument.kind, ""))))
    return f"`{name}`" + (f" ({facts})" if facts else "")


def _verbs() -> Iterable[tuple[str, ...]]:
    kinds = {"": books.Spellbook, "memories.": Memories, "memories.decisions.": Decisions}
    kinds |= {"memories.articles.": Articles, "wikis.": Wikis}
    for place, kind in kinds.items():
        for name, verb in {name: verb for each in reversed(kind.__mro__) for name, verb in vars(each).items()}.items():
            if not name.startswith("_") and inspect.isfunction(verb):
                yield f"{place}{name}", _first_sentence(inspect.getdoc(verb) or "")


def _errors(error: type[SpellbookError]) -> Iterable[tuple[str, ...]]:
    for each in error.__subclasses__():
        if each.code != error.code:  # what has its parent's code is told by it
            yield each.code, _first_sentence(inspect.getdoc(each) or "")
        yield from _errors(each)


def _addresses() -> Iterable[tuple[str, ...]]:
    for each in (*api.ENDPOINTS, *admin.ENDPOINTS):
        yield f"{each.method} {each.path}", _first_sentence(inspect.getdoc(each.verb) or ""), each.right


def _first_sentence(text: str) -> str:
    found = re.match(r".+?\.(?=\s|$)", " ".join(text.split()))
    return found[0] if found else text


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    lines += [f"| `{name}` | {' | '.join(said)} |".replace("|…", "\\|…") for name, *said in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    REFERENCE.write_text(filled(REFERENCE.read_text("utf-8")), "utf-8")
