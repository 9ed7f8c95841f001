"""Two atomic renames that Python's `os` lacks: exchange, and only to a free name; False where unsupported."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

_EXCHANGE = 2
"""The flag of `renameat2` of Linux and of `renamex_np` of macOS."""

_FREE = 4 if sys.platform == "darwin" else 1
"""The flag of the same two for a name that must be free."""

_HERE = -100
"""Linux: paths count from the working folder."""


def exchange(one: Path, other: Path) -> bool:
    """Let two files, which are both there, change places. Raises FileNotFoundError."""
    # Watchers are told of `one` that it went and came; in the other order some would take it for gone.
    return _rename(one, other, _EXCHANGE)


def rename(source: Path, target: Path) -> bool:
    """Move a file to a name. Raises FileExistsError if that is taken, FileNotFoundError."""
    return _rename(source, target, _FREE)


def _rename(source: Path, target: Path, flag: int) -> bool:
    call = system_call()
    sys.audit("os.rename", source, target, -1, -1)  # as Python's own
    if call is None or call(os.fsencode(source), os.fsencode(target), flag) != 0:
        code = ctypes.get_errno() if call else errno.ENOSYS
        if code in {errno.EEXIST, errno.ENOENT}:
            raise OSError(code, os.strerror(code), str(source), None, str(target))
        return False
    return True


@cache
def system_call() -> Callable[[bytes, bytes, int], int] | None:
    try:
        if sys.platform == "darwin":
            swap = ctypes.CDLL(None, use_errno=True).renamex_np
            return lambda source, target, flags: int(swap(source, target, ctypes.c_uint(flags)))
        if sys.platform == "linux":
            rename2 = ctypes.CDLL(None, use_errno=True).renameat2
            return lambda source, target, flags: int(rename2(_HERE, source, _HERE, target, ctypes.c_uint(flags)))
    except (OSError, AttributeError):
        pass
    return None
