"""Folders in which nothing is captured: those of `[capture] exclude`, and those that cannot be compared."""

from __future__ import annotations

import glob
import os
import re
import sys
from functools import lru_cache

from spellbook.index.filters import path_glob
from spellbook.system.lazy import regex
from spellbook.text.unicode import composed, folded

_ABSOLUTE = regex(r"[/\\]|[A-Za-z]:[/\\]")


@lru_cache(maxsize=1_000)
def is_excluded(cwd: str, exclude: tuple[str, ...]) -> bool:
    """
    Say whether `cwd`, as a client names it, is one of the folders `exclude`, or lies in one; or is not absolute.

    A folder of `exclude` is a name or a glob, which stands for what it finds on the disk, too; `**` is any folders or
    none. One that is not absolute is anywhere. All are compared as they are written and where their links lead.
    """
    written = {form for name in exclude for form in (name, name.strip(), name.strip().replace("/**", ""))}
    meant = [os.path.expandvars(os.path.expanduser(name)) for name in written]
    anywhere = [name if name.startswith("*") else os.path.join("*", name) for name in meant]
    folders = {form for each in anywhere for found in (each, *glob.iglob(each)) for form in _spellings(found)}
    places = _spellings(cwd)
    is_inside = any(place.startswith(form) or path_glob(place, form) for place in places for form in folders)
    return is_inside or not _ABSOLUTE.match(cwd)


def _spellings(path: str) -> set[str]:
    """Return the forms in which a path is compared, `/` at their ends: as written, without `..`, without links."""
    compared = folded if sys.platform in {"win32", "darwin"} else composed  # whose disks ignore case
    forms = (path, os.path.normpath(path), os.path.realpath(path))
    return {re.sub("/+", "/", compared(form).replace("\\", "/") + "/") for form in forms}
