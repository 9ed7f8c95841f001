"""
The form in which a verb is declared, once for every door.

It is plain, so that the command line loads nothing for it: the server makes pydantic's types of it, the command line
its options (`cli.app.option`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Kind = Literal["text", "texts", "number", "share", "flag", "choice", "object"]
Right = Literal["read", "write", "admin"]

NEEDED: Any = object()
"""The default of an argument that must be given."""

MOST_ID = 4_000
"""Letters of an id or a path."""

MOST_TEXT = 10_000_000
"""Letters of a text that a program gives."""

MOST_LETTERS = 200_000
"""Letters of a text that a model writes."""


class Argument(NamedTuple):
    """
    One argument of a verb: its kind, its purpose (`about`), its default and its bounds.

    `least` and `most` bound a number, `most` the letters of a text, of each text of a list, or of an object as JSON;
    `items` the texts of a list, `apart` the pattern that divides one text given for it. `of_tools` is another `most`
    for a model's text. `typed` is the help on the command line, where the form differs. `schema` is the JSON Schema of
    an object beyond its type. An `is_asked` argument is listed as required, and the verb says what to do without it. An
    argument that is not `is_listed` is accepted, but models do not see it.
    """

    kind: Kind
    about: str
    default: Any = NEEDED
    least: int = 0
    most: int = 1
    items: int = 0
    choices: tuple[str, ...] = ()
    of_tools: int = 0
    typed: str = ""
    apart: str = ""
    is_asked: bool = False
    is_listed: bool = True
    schema: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_needed(self) -> bool:
        """Whether it must be given."""
        return self.default is NEEDED

    def but(self, **changes: Any) -> Argument:
        """Return the argument with some of its fields changed."""
        return self._replace(**changes)


def text(about: str, most: int = 2_000, default: str | None = "", **more: Any) -> Argument:
    """Return an optional text; with the default None an empty text counts as given."""
    return Argument("text", about, default, most=most, **more)


def needed(about: str, most: int = MOST_ID, **more: Any) -> Argument:
    """Return a text that must be given."""
    return Argument("text", about, least=1, most=most, **more)


def texts(about: str, most: int = 1_000, items: int = 100, default: Any = None, **more: Any) -> Argument:
    """Return an optional list of texts."""
    return Argument("texts", about, default, most=most, items=items, **more)


def number(about: str, default: int | None, least: int, most: int) -> Argument:
    """Return a whole number."""
    return Argument("number", about, default, least, most)


def share(about: str, **more: Any) -> Argument:
    """Return an optional number, from 0 to 1 by default."""
    return Argument("share", about, **{"default": None, **more})


def flag(about: str, *, default: bool = False, typed: str = "") -> Argument:
    """Return a yes or no; on the command line it is off unless it is typed, whatever its default elsewhere."""
    return Argument("flag", about, default, typed=typed)


def choice(about: str, choices: str, default: Any = "", **more: Any) -> Argument:
    """Return one of some words, which `choices` lists with blanks between them."""
    allowed = (*([""] if default == "" else []), *choices.split())
    return Argument("choice", about, default, choices=allowed, **more)


def mapping(
    about: str, most: int, default: Any = None, *, typed: str = "", of_tools: int = 0, **schema: Any
) -> Argument:
    """Return an object of at most `most` characters as JSON."""
    return Argument("object", about, default, most=most, of_tools=of_tools, typed=typed, schema=schema)


class Verb(NamedTuple):
    """A verb: its name, mostly that of its method of `Spellbook`, the right that it needs, and its arguments."""

    name: str
    right: Right
    arguments: Mapping[str, Argument]

    def taken(self, function: Callable[..., Any], names: Mapping[str, str]) -> dict[str, Argument]:
        """Return a door's arguments by its `names` (door's: table's): its parameters, with `**` all others."""
        parameters = inspect.signature(function).parameters.values()
        own = {names.get(parameter.name, parameter.name) for parameter in parameters}
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        called = {name: here for here, name in names.items()}
        return {
            called.get(name, name): argument for name, argument in self.arguments.items() if takes_all or name in own
        }

    def without(self, *names: str) -> Verb:
        """Return the verb for a door that leaves some arguments out."""
        return self._replace(arguments={name: each for name, each in self.arguments.items() if name not in names})

    def unlisted(self, *names: str) -> Verb:
        """Return the verb for a door that takes some arguments without listing them."""
        return self._replace(
            arguments={name: each.but(is_listed=name not in names) for name, each in self.arguments.items()}
        )

    def defaulting(self, **defaults: Any) -> Verb:
        """Return the verb for a door that has other defaults."""
        changed = {name: self.arguments[name].but(default=value) for name, value in defaults.items()}
        return self._replace(arguments={**self.arguments, **changed})


def verb(name: str, right: Right = "read", /, **arguments: Argument) -> Verb:
    """Return a verb that takes these arguments."""
    return Verb(name, right, arguments)
