"""Modules that are imported at their first use, so that what does not need them starts faster."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Module:
    """A module by its full name; every attribute is looked up in the imported one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


def lazy(package: str, *names: str) -> list[Any]:
    """Return the modules `names` of `package`, each imported when one of its attributes is first read."""
    return [_Module(f"{package}.{name}") for name in names]
