"""
Libraries, modules of the package and regular expressions that few runs need, each loaded at its first use.

Modules take them from here, at their top. Otherwise a process would wait for libraries that it may never use: 15 ms
for yaml, 25 ms for charset_normalizer, 30 ms for markdown_it, 60 ms for numpy, 90 ms for httpx. The command line starts
in 80 ms, and `spellbook --help`, a `reindex` with nothing to do and the first answer of `spellbook mcp` use none of
them. A `find` uses 14 of the 89 patterns that it imports: to compile all takes an eighth of its time.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, AnyStr

__all__ = ["charset_normalizer", "frontmatter", "httpcore", "httpx", "markdown_it", "np", "npt", "yaml"]
__all__ += ["calendar", "shutil", "tempfile"]


class _Later:
    """The result of `make`, which is called when an attribute of it is first read."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._make(), name)
        setattr(self, name, value)  # found at once the next time
        return value


def _module(name: str) -> Any:
    """Return the module of a full name, imported when one of its attributes is first read."""
    return _Later(partial(import_module, name))


class _LateModule(_Later):
    """A module of the package; an attribute that is set, as by a test, is set in the module."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "_make":
            setattr(self._make(), name, value)
        super().__setattr__(name, value)


def late(package: str, *names: str) -> None:
    """Have `from package import name` give modules that are imported when an attribute of them is first read."""
    modules = {name: _LateModule(partial(import_module, f"{package}.{name}")) for name in names}
    vars(sys.modules[package]).update(modules)


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled when it is first used. Raises `re.error` only then."""
    return _Later(partial(re.compile, pattern, flags))  # type: ignore[return-value]


def regex_in(module: str, name: str) -> re.Pattern[str]:
    """Return the regular expression, with comments, in the file `name` beside a module, read when it is first used."""
    return _Later(lambda: re.compile(_read(module, name), re.X))  # type: ignore[return-value]


@cache
def toml_in(module: str, name: str) -> Mapping[str, Any]:
    """Return the content of the TOML file `name` beside a module."""
    import tomllib

    return tomllib.loads(_read(module, name))


def _read(module: str, name: str) -> str:
    with open(os.path.join(os.path.dirname(module), name), encoding="utf-8") as file:
        return file.read()


if TYPE_CHECKING:
    import calendar
    import shutil
    import tempfile

    import charset_normalizer
    import frontmatter
    import httpcore
    import httpx
    import markdown_it
    import markdown_it.rules_block
    import markdown_it.token
    import numpy as np
    import numpy.typing as npt
    import yaml
else:
    calendar = _module("calendar")
    shutil, tempfile = _module("shutil"), _module("tempfile")
    charset_normalizer, frontmatter = _module("charset_normalizer"), _module("frontmatter")
    httpcore, httpx, markdown_it = _module("httpcore"), _module("httpx"), _module("markdown_it")
    np, npt, yaml = _module("numpy"), _module("numpy.typing"), _module("yaml")
