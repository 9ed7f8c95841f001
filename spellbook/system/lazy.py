"""
Libraries that take long to import, each imported at the first use of one of its names.

Every module that uses one imports it from here, at its top. An ordinary import of numpy costs 60 ms, of httpx 90 ms and
of yaml 15 ms, and `spellbook --help`, a `reindex` with nothing to do and the first answer of `spellbook mcp` need none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["httpx", "np", "npt", "yaml"]


class _Module:
    """A module by its full name, imported when an attribute is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)  # found at once the next time
        return value


def lazy(package: str, *names: str) -> list[Any]:
    """Return the modules `names` of `package`, each imported when one of its attributes is first read."""
    return [_Module(f"{package}.{name}") for name in names]


if TYPE_CHECKING:
    import httpx
    import numpy as np
    import numpy.typing as npt
    import yaml
else:
    httpx, np, npt, yaml = map(_Module, ("httpx", "numpy", "numpy.typing", "yaml"))
