"""What a verb takes is declared once: no door states a bound, a default or a help of its own."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
import click
import pytest

import spellbook
from spellbook.cli import main
from spellbook.http import admin, api
from spellbook.http.api import openapi
from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.mcp.names import TOOLSETS
from spellbook.search import question
from spellbook.verbs import admin as of_servers
from spellbook.verbs import memories, table
from spellbook.verbs.declare import Argument, Verb

ROOT = Path(spellbook.__file__).parent
VERBS = [each for module in (table, memories, of_servers) for each in vars(module).values() if isinstance(each, Verb)]
ARGUMENTS = [each for verb in VERBS for each in verb.arguments.values()]
BOUNDS = {"maximum": "most", "minimum": "least", "maxItems": "items"}

OTHERS = {
    *(("scribe", "category"), ("add", "category"), ("revise", "append"), ("topics", "scope")),
    *(("install", "force"), ("install", "dry_run")),
}
"""Options that are called as an argument and are none: labels, a flag about FILE, whose notes are seen, a client's."""


CALLED = {
    **{"get_index": "contents", "get_topic": "topic", "scribe_chunk": "scribe_all", "scribe_validate": "validate"},
    **{"import": "import_", "unpin": "pin", "rebuild_index": "reindex"},
}
"""Tools that are called otherwise than their verbs."""

OF_DOORS = {"dry_run", "mode", "format"}
"""What differs for a program: its wishes are done, modes have names of their own, a file's ending says its format."""


def fits(schema: dict[str, Any], argument: Argument) -> bool:
    """Whether the schema of a parameter has the bounds and the default of an argument."""
    forms = [form for form in schema.get("anyOf", [schema]) if form != {"type": "null"}]
    told = {key: value for form in forms for key, value in form.items()} | schema
    of_texts, default = told.get("items", {}).get("maxLength"), told.get("default")
    missing = [None] if argument.is_needed else [argument.default, None, "", False, []]
    bounds = {key: getattr(argument, name) for key, name in BOUNDS.items() if key in told and argument.schema == {}}
    return (
        bounds.items() <= told.items()
        and (argument.kind != "text" or told["maxLength"] in {argument.most, argument.of_tools})
        and (of_texts is None or bool(argument.schema) or of_texts == argument.most)
        and (argument.kind != "choice" or set(told["enum"]) == set(argument.choices))
        and (tuple(default) if isinstance(default, list) and default else default) in missing
    )


def stated(name: str, schema: dict[str, Any]) -> bool:
    """Whether a parameter is an argument of the table."""
    about = schema.get("description", "")
    return any(fits(schema, each) for each in ARGUMENTS if about in {each.about, each.schema.get("description")})


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_a_tool_takes_what_the_table_says(book: Spellbook, toolset: str) -> None:
    """
    Each argument of each tool has the description, the bounds and the default of one in the table. A token that may only
    read is offered the tools whose verbs the API gives it too.
    """
    rights = {each.name: each.right for each in VERBS}
    compared = 0
    for tool in anyio.run(build(book, [toolset], live=False).list_tools):
        for name, schema in tool.input_schema["properties"].items():
            assert stated(name, schema), f"{tool.name}.{name}: {schema}"
        if right := rights.get(CALLED.get(tool.name, tool.name)):
            assert tool.annotations
            assert tool.annotations.read_only_hint is (right == "read"), tool.name
            compared += 1
    assert compared >= 3 or toolset == "zyflow"


def test_a_route_takes_what_the_table_says() -> None:
    """So has each parameter of the API, in an address and in a body."""
    document = openapi.document((*api.ENDPOINTS, *admin.ENDPOINTS))
    models = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, each in operations.items():
            given = {one["name"]: one["schema"] for one in each.get("parameters", ()) if one["in"] == "query"}
            if "requestBody" in each:
                reference = each["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                given = models[reference.rpartition("/")[2]].get("properties", {})
            for name, schema in given.items():
                assert stated(name, schema), f"{method} {path} {name}: {schema}"


def calls(folder: str) -> Iterator[tuple[Path, ast.Call, str]]:
    """Every call in the modules of a room, with the name of what it calls."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield path, node, ast.unparse(node.func)


def test_doors_state_nothing_of_their_own() -> None:
    """
    An option of the table is given its form at most: no default, no bound and no help. In the server only the makers of
    the models have pydantic's fields, and the question whether to delete has one.
    """
    form = {"type", "metavar", "multiple", "nargs", "required", "callback", "expose_value"}
    options = [node for _, node, name in calls("cli") if name == "option"]
    assert len(options) > 20
    for node in options:
        assert {each.arg for each in node.keywords if ast.unparse(each.value) != "None"} <= form, ast.unparse(node)
    makers = {"Field", "create_model", "WithJsonSchema"}
    found = {path.name for path, _, name in [*calls("mcp"), *calls("http")] if name in makers}
    assert found <= {"arguments.py", "endpoints.py", "base.py"}


def test_an_option_is_not_declared_beside_the_table() -> None:
    """A command whose verb has an argument of that name takes the table's."""
    called = {"import": "import_", "mv": "move", "topics": "contents", "add": "scribe"}
    context = click.Context(main)
    for name in main.list_commands(context):
        verbs = [verb for verb in VERBS if verb.name == called.get(name, name)]
        known = {key: each for verb in verbs for key, each in verb.arguments.items()}
        for param in main.get_command(context, name).params:
            if isinstance(param, click.Option) and param.name in known and (name, param.name) not in OTHERS:
                kind = known[param.name].kind
                helps = {each.typed or each.about for each in ARGUMENTS if each.kind == kind}
                assert param.help in helps, f"{name} {param.opts}: {param.help}"


def test_python_has_the_same_defaults_and_bounds() -> None:
    """A program that calls a verb without an option gets what the doors give, and is refused what they refuse."""
    compared = 0
    for verb in VERBS:
        function = getattr(Spellbook, verb.name, None)
        known = inspect.signature(function).parameters.values() if inspect.isfunction(function) else ()
        asked = inspect.signature(question.Question).parameters.values() if "max_tokens" in verb.arguments else ()
        for each in chain(known, asked if verb.name in question.VERBS else ()):
            argument = verb.arguments.get(each.name)
            if argument is None or argument.is_needed or each.default is each.empty or each.name in OF_DOORS:
                continue
            assert (each.default or None) == (argument.default or None), f"{verb.name}({each.name})"
            compared += 1
    assert compared > 20
