"""A clock that stands still, and ids in a row: the same commands give the same answers on any day."""

from __future__ import annotations

import datetime as dt
import itertools
import pkgutil
import time
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import spellbook
from spellbook.search.searcher import Searcher

BEGIN = dt.datetime(2026, 11, 21, 9, 0, tzinfo=dt.UTC)


class Clock:
    """The time of all modules of Spellbook: BEGIN, and what `$ later` adds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.patch, numbers = BEGIN, patch, itertools.count(1)
        patch.setattr("ulid.ULID", lambda: f"01M9{next(numbers):022}")

        def gmtime(seconds: float | None = None) -> time.struct_time:
            return time.gmtime(self.now.timestamp() if seconds is None else seconds)

        times = _copy(time, time=lambda: self.now.timestamp(), gmtime=gmtime)
        dates = _copy(dt, datetime=self._kind(dt.datetime), date=self._kind(dt.date))
        names = [each.name for each in pkgutil.walk_packages(spellbook.__path__, "spellbook.")]
        for module in [import_module(name) for name in names if not name.endswith("__main__")]:
            for name, own, copy in (("time", time, times), ("dt", dt, dates)):
                if getattr(module, name, None) is own:
                    patch.setattr(module, name, copy)
        patch.setattr(Searcher.__init__, "__defaults__", (times.time,))  # it was bound when the module was loaded

    def _kind(self, real: Any) -> Any:
        """Return a class like `real` that knows the time by this clock, and makes values of `real`."""

        class Meta(type):
            def __instancecheck__(cls, value: object) -> bool:
                return isinstance(value, real)

        own = {
            "__new__": lambda cls, *values, **more: real(*values, **more),
            "now": classmethod(lambda cls, zone=None: dt.datetime.fromtimestamp(self.now.timestamp(), zone)),
            "today": classmethod(lambda cls: real.fromtimestamp(self.now.timestamp())),
        }
        return Meta(real.__name__, (real,), own)


def _copy(module: ModuleType, **changed: Any) -> ModuleType:
    copy = ModuleType(module.__name__)
    copy.__dict__.update(vars(module) | changed)
    return copy
