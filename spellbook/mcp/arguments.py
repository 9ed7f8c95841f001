"""
The types of a tool's arguments, made of the table of verbs, which accept what clients really send.

Some clients send a missing argument as null or as the text "null", and a list or an object as JSON text. The schemas
stay plain: every argument has a description and bounds, and every array names its items.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from spellbook.notes.labels import listed
from spellbook.system.errors import InvalidInput
from spellbook.verbs.arguments import is_absent
from spellbook.verbs.declare import Argument, Verb


def signature(tool: Callable[..., str], verb: Verb, names: Mapping[str, str]) -> inspect.Signature:
    """
    Return the signature of a tool over a verb, without the reader that its function gets first.

    What the verb does not know is the server's own, as a context is.
    """
    taken = verb.taken(tool, names)
    own = [*inspect.signature(tool, eval_str=True).parameters.values()][1:]
    others = [each for each in own if each.name not in taken and each.kind is not each.VAR_KEYWORD]
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=_type_of(argument),
            default=inspect.Parameter.empty if argument.is_needed else _default(argument),
        )
        for name, argument in taken.items()
    ]
    parameters += [each.replace(kind=each.KEYWORD_ONLY) for each in others]
    return inspect.Signature(parameters, return_annotation=str)


def _default(of: Argument) -> Any:
    # Not None for a text: with `str | None` the SDK would take a text like `[x]` for JSON.
    return "" if of.kind == "text" else of.default


def bounded(of: Argument, most: int = 0) -> Any:
    """Return the type of an argument's value within its bounds; of a text or of each text, `most` letters."""
    if of.kind == "flag":
        return bool
    if of.kind == "choice":
        return Literal[of.choices]
    if of.kind in {"number", "share"}:
        number: Any = Annotated[int if of.kind == "number" else float, Field(ge=of.least, le=of.most)]
        return number | Literal[of.choices] if of.choices else number
    if of.kind == "texts" and of.choices:
        return Literal[of.choices]
    return Annotated[str, Field(min_length=of.least or None, max_length=most or of.most)]


def _type_of(of: Argument) -> Any:
    """Return the type of a tool's argument."""
    about = Field(description=of.about, json_schema_extra={"asked": of.is_asked, "told": of.is_listed})
    default = _default(of)
    missing: tuple[BeforeValidator, ...] = (
        () if of.is_needed else (BeforeValidator(lambda value: default if _absent(value) is None else value),)
    )
    if of.kind == "object":
        schema = {**({} if "anyOf" in of.schema else {"type": "object"}), "description": of.about, **of.schema}
        if not of.is_needed:
            schema = {"anyOf": [schema, {"type": "null"}], "description": of.about, "default": None}
        return Annotated[Any, _decoder(of.of_tools or of.most), WithJsonSchema(schema)]
    value = bounded(of, of.of_tools)
    if of.kind == "texts":
        value = Annotated[GenericAlias(list, value), Field(min_length=1 if of.is_needed else 0, max_length=of.items)]
        missing = (BeforeValidator(lambda value: listed(_absent(value), of.apart)),)
    if of.kind == "choice":
        missing = (BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value), *missing)
    return Annotated[(value | None if default is None else value, about, *missing)]


def _absent(value: object) -> object:
    return None if is_absent(value) else value


def _decoder(most: int) -> BeforeValidator:
    """Decode JSON text, and refuse a value of more than `most` characters."""

    def decode(value: object) -> object:
        value = _absent(value)
        try:
            if isinstance(value, str) and value.strip()[:1] in {"[", "{"}:
                value = json.loads(value)
            size = len(json.dumps(value, ensure_ascii=False))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        except ValueError:
            return value  # text that looks like JSON; the verb reports what it expects
        if size > most:
            raise ValueError(f"too large: {size:,} characters as JSON, at most {most:,} are allowed")
        return value

    return BeforeValidator(decode)


def phrase(value: object) -> tuple[tuple[str, str] | None, bool]:
    """Return the old and the new text of an argument `replace`, and whether to replace all. Raises InvalidInput."""
    if value is None:
        return None, False
    given = value if isinstance(value, Mapping) else {}
    old = given.get("old")
    new = given.get("new")
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        raise InvalidInput(
            "replace must be an object of old and new texts.", 'For example {"old": "3 ms", "new": "5 ms"}.'
        )
    return (old, new), given.get("all") is True


def lean(schema: dict[str, Any]) -> dict[str, Any]:
    """
    Return a tool's input schema without what says nothing to a model.

    That is pydantic's titles, empty defaults, "or null" beside an argument that may be left out (null stays accepted),
    that what must be given is not empty, and arguments that are taken unlisted. No name of an argument is changed.
    """
    silent = {"title", "default", "minLength", "minItems", "told"}
    kept = {key: value for key, value in schema.items() if key not in silent}
    if kept.get("additionalProperties") is True:  # as JSON Schema has it without being told
        del kept["additionalProperties"]
    if schema.get("default") not in (None, "", False):
        kept["default"] = schema["default"]
    either = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(either) == 1:
        kept = {**either[0], **{key: value for key, value in kept.items() if key != "anyOf"}}
        return lean(kept)
    if either:
        kept["anyOf"] = [lean(each) for each in either]
    if isinstance(schema.get("properties"), dict):
        shown = {name: lean(each) for name, each in schema["properties"].items() if each.get("told", True)}
        kept["properties"] = shown
        if asked := [name for name, each in shown.items() if each.pop("asked", False)]:
            kept["required"] = [*kept.get("required", ()), *asked]
    if isinstance(schema.get("items"), dict):
        kept["items"] = lean(schema["items"])
    return kept
