"""What a verb takes is declared once: no door states a bound, a default or a help of its own."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import anyio
import click

from spellbook.cli import main
from spellbook.http import admin, api
from spellbook.http.api import openapi
from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.mcp.tool_names import TOOLSETS
from spellbook.search import question
from spellbook.verbs import memories, table
from spellbook.verbs.declare import Verb
from tests.house.rooms import MODULES, room

VERBS = [each for module in (table, memories, admin) for each in vars(module).values() if isinstance(each, Verb)]
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

OF_MEMENTO = "episodic"
"""The type of a memory without one where the toolset `memento` is on, as its document says."""


def stated(schema: dict[str, Any]) -> bool:
    """Whether the schema of a parameter has the description, the bounds and the default of an argument of the table."""
    forms = [form for form in schema.get("anyOf", [schema]) if form != {"type": "null"}]
    told = {key: value for form in forms for key, value in form.items()} | schema
    of_texts, default = told.get("items", {}).get("maxLength"), told.get("default")
    default = tuple(default) if isinstance(default, list) and default else default
    about = schema.get("description", "")
    for each in (each for each in ARGUMENTS if about in {each.about, each.schema.get("description")}):
        bounds = {key: getattr(each, name) for key, name in BOUNDS.items() if key in told and each.schema == {}}
        if (
            bounds.items() <= told.items()
            and (each.kind != "text" or told["maxLength"] in {each.most, each.of_tools})
            and (of_texts is None or bool(each.schema) or of_texts == each.most)
            and (each.kind != "choice" or set(told["enum"]) == set(each.choices))
            and default in ([None] if each.is_needed else [each.default, None, "", False, [], OF_MEMENTO])
        ):
            return True
    return False


def test_tools_and_routes_take_what_the_table_says(book: Spellbook) -> None:
    """
    Each argument of each tool and parameter of the API, in an address and in a body, has the description, the bounds and the
    default of one in the table. A token that may only read is offered the tools whose verbs the API gives it too.
    """
    rights, compared = {each.name: each.right for each in VERBS}, 0
    for tool in anyio.run(build(book, list(TOOLSETS), live=False).list_tools):
        for name, schema in tool.input_schema["properties"].items():
            assert stated(schema), f"{tool.name}.{name}: {schema}"
        if right := rights.get(CALLED.get(tool.name, tool.name)):
            assert tool.annotations
            assert tool.annotations.read_only_hint is (right == "read"), tool.name
            compared += 1
    assert compared > 20
    document = openapi.document((*api.ENDPOINTS, *admin.ENDPOINTS))
    for path, operations in document["paths"].items():
        for method, each in operations.items():
            given = {one["name"]: one["schema"] for one in each.get("parameters", ()) if one["in"] == "query"}
            if "requestBody" in each:
                reference = each["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                given = document["components"]["schemas"][reference.rpartition("/")[2]].get("properties", {})
            for name, schema in given.items():
                assert stated(schema), f"{method} {path} {name}: {schema}"


def test_doors_state_nothing_of_their_own() -> None:
    """
    An option of the table is given its form at most: no default, no bound and no help. In the server only the makers of
    the models have pydantic's fields, and the question whether to delete has one. A command whose verb has an argument of
    that name takes the table's.
    """
    form = {"type", "metavar", "multiple", "nargs", "required", "callback", "expose_value"}
    makers, options = {"Field", "create_model", "WithJsonSchema"}, 0
    for path, tree in MODULES.items():
        for node in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            if room(path) == "cli" and ast.unparse(node.func) == "option":
                assert {each.arg for each in node.keywords if ast.unparse(each.value) != "None"} <= form, ast.unparse(
                    node
                )
                options += 1
            if room(path) in {"mcp", "http"} and ast.unparse(node.func) in makers:
                assert path.name in {"arguments.py", "endpoints.py", "asking.py"}
    assert options > 20
    called = {"import": "import_", "mv": "move", "topics": "contents", "add": "scribe"}
    context = click.Context(main)
    for name in main.list_commands(context):
        verbs = [verb for verb in VERBS if verb.name == called.get(name, name)]
        known = {key: each for verb in verbs for key, each in verb.arguments.items()}
        command = main.get_command(context, name)
        assert command is not None
        for param in command.params:
            if isinstance(param, click.Option) and param.name in known and (name, param.name) not in OTHERS:
                kind = known[param.name].kind
                helps = {each.typed or each.about for each in ARGUMENTS if each.kind == kind}
                assert param.help in helps, f"{name} {param.opts}: {param.help}"


def test_python_has_the_same_defaults_and_bounds() -> None:
    """
    A program that calls a verb without an option gets what the doors give, and is refused what they refuse. Every verb names
    its keywords: none takes `**name: Any`, which would hide a misspelt one.
    """
    verbs = {name: verb for name, verb in inspect.getmembers(Spellbook, inspect.isfunction) if name[0] != "_"}
    parameters = {name: inspect.signature(verb).parameters.values() for name, verb in verbs.items()}
    assert len(verbs) > 40
    every = [(name, each) for name, listed in parameters.items() for each in listed]
    assert not [name for name, each in every if each.kind is each.VAR_KEYWORD and each.annotation == "Any"]
    compared = 0
    for verb in VERBS:
        asked = inspect.signature(question.Question).parameters.values() if verb.name in question.VERBS else ()
        for each in (*parameters.get(verb.name, ()), *(asked if "max_tokens" in verb.arguments else ())):
            argument = verb.arguments.get(each.name)
            if argument is None or argument.is_needed or each.default is each.empty or each.name in OF_DOORS:
                continue
            assert (each.default or None) == (argument.default or None), f"{verb.name}({each.name})"
            compared += 1
    assert compared > 20
