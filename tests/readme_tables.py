"""
The tables of docs/reference.md that are drawn from the code: MCP tools, commands, verbs in Python, error codes, the API.
The READMEs' address of the repository is that of pyproject.toml. docs/design.md has the sizes of mechanisms.

    python -m tests.readme_tables      rewrites them between their markers
"""

import inspect
import re
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import anyio
import click

from spellbook import SpellbookError
from spellbook.cli import main as cli
from spellbook.http import admin, api
from spellbook.library import book as books
from spellbook.mcp.app import build
from spellbook.mcp.tool_names import TOOLSETS
from spellbook.memories.articles import Articles
from spellbook.memories.decisions import Decisions
from spellbook.memories.memories import Memories
from spellbook.memories.project_documentation import Wikis
from spellbook.verbs import memories
from spellbook.verbs import table as verbs
from spellbook.verbs.declare import Argument, Verb
from tests.mechanisms import DESIGN, sized

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
        "several": _table(("Argument", "Default and bounds"), (row for row in _common().items() if row[1])),
        "arguments": _table(("Verb", "What it takes", "Right"), _arguments()),
        "python": _table(("Object", "Verbs"), _verbs()),
        "errors": _table(("Code", "What it means"), _errors(SpellbookError)),
        "api": _table(
            ("Address", "Verb", "Right"),
            ((f"{each.method} {each.path}", f"`{each.declared.name}`", each.right) for each in api.ENDPOINTS),
        ),
        "admin": _table(
            ("Address", "What it does"),
            (
                (f"{each.method} {each.path}", _first_sentence(inspect.getdoc(each.verb) or ""))
                for each in admin.ENDPOINTS
            ),
        ),
    }


ADDRESS = re.compile(r"(?<=git\+)https://\S+|(?<=marketplace add )https://\S+")
"""The address of the repository in the first lines of a README."""


def installed(text: str) -> str:
    """Return a README whose first lines install from the address in the settings of the project, if it has one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "https://ADDRESS.example")
    head, mark, rest = text.partition("<!-- /install -->")
    if not mark or not ADDRESS.search(head):
        raise ValueError("A README has no lines that install it before <!-- /install -->.")
    return ADDRESS.sub(address, head) + mark + rest


def filled(text: str) -> str:
    """Return a page with its tables as the code is now. Raises ValueError if a marker is missing."""
    for name, table in tables().items():
        marked = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.S)
        text, count = marked.subn(f"{table}\n".replace("\\", r"\\"), text)
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


def _declared() -> list[Verb]:
    found = (each for module in (verbs, memories) for each in vars(module).values() if isinstance(each, Verb))
    return list({id(each): each for each in found}.values())


def _common() -> dict[str, str]:
    """The facts of each argument that several verbs take, by its name: the most frequent ones."""
    facts: dict[str, Counter[str]] = {}
    for verb in _declared():
        for name, argument in verb.arguments.items():
            facts.setdefault(name, Counter())[_facts(argument)] += 1
    return {name: counts.most_common(1)[0][0] for name, counts in facts.items() if counts.total() > 1}


def _arguments() -> Iterable[tuple[str, ...]]:
    common = _common()
    for verb in _declared():
        if verb.arguments:
            facts = {name: _facts(argument) for name, argument in verb.arguments.items()}
            own = {name: f" ({told})" for name, told in facts.items() if told not in {"", common.get(name)}}
            yield verb.name, ", ".join(f"`{name}`{own.get(name, '')}" for name in facts), verb.right


def _facts(argument: Argument) -> str:
    """The default of an argument and its bounds."""
    bounds = {
        "number": f"{argument.least:,} to {argument.most:,}",
        "share": f"{argument.least} to {argument.most}",
        "text": f"{argument.most:,} letters",
        "texts": f"{argument.items} of {argument.most:,} letters",
        "choice": " or ".join(filter(None, argument.choices)),
    }
    has_default = not argument.is_needed and str(argument.default) not in {"", "None", "False"}
    default = f"{argument.default:,}" if argument.kind == "number" and has_default else str(argument.default).lower()
    return "; ".join(filter(None, (default if has_default else "", bounds.get(argument.kind, ""))))


def _verbs() -> Iterable[tuple[str, ...]]:
    known = {verb.name for verb in _declared()}  # the table of arguments has these
    kinds = {"book": books.Spellbook, "book.memories": Memories, "book.memories.decisions": Decisions}
    kinds |= {"book.memories.articles": Articles, "book.wikis": Wikis}
    for place, kind in kinds.items():
        members = {name: verb for each in reversed(kind.__mro__) for name, verb in vars(each).items()}
        others = set() if kind in {Decisions, Articles, Wikis} else known
        names = [name for name, verb in members.items() if inspect.isfunction(verb) and name not in others]
        yield place, ", ".join(f"`{name}`" for name in names if not name.startswith("_"))


def _errors(error: type[SpellbookError]) -> Iterable[tuple[str, ...]]:
    for each in error.__subclasses__():
        if each.code != error.code:  # what has its parent's code is told by it
            yield each.code, _first_sentence(inspect.getdoc(each) or "")
        yield from _errors(each)


def _first_sentence(text: str) -> str:
    found = re.match(r".+?\.(?=\s|$)", " ".join(text.split()))
    return found[0] if found else text


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    lines += [f"| `{name}` | {' | '.join(said)} |".replace("|…", "\\|…") for name, *said in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    for page in (README, KOREAN):
        page.write_text(installed(page.read_text("utf-8")), "utf-8")
    REFERENCE.write_text(filled(REFERENCE.read_text("utf-8")), "utf-8")
    DESIGN.write_text(sized(DESIGN.read_text("utf-8")), "utf-8")
