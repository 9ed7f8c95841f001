"""
Where capture is allowed: SPELLBOOK_CAPTURE of a session, and the folders of `[capture] exclude`.

What cannot be decided is not allowed.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import sys
from collections.abc import Sequence

from spellbook.text.unicode import composed, folded

_ALLOWING = {"", "1", "true", "on", "yes"}
"""Values of SPELLBOOK_CAPTURE that leave a session to the switch of the machine."""


def is_switched_off(value: str) -> bool:
    """Say whether this value of SPELLBOOK_CAPTURE switches capture off; each that is not known does."""
    return value.strip().casefold() not in _ALLOWING


def is_excluded(cwd: str, exclude: Sequence[str]) -> bool:
    """
    Say whether `cwd`, as a client names it, is one of the folders `exclude`, or lies in one.

    A folder of `exclude` is a name or a glob, which stands for what it finds on the disk, too. All are compared as they
    are written and where their links lead. A `cwd` that is not absolute is excluded if anything is.
    """
    if not os.path.isabs(cwd):
        return bool(exclude)
    spelled = _spellings(cwd)
    for written in exclude:
        pattern = os.path.expandvars(os.path.expanduser(written))
        if not os.path.isabs(pattern) and not pattern.startswith("*"):  # it names folders anywhere
            pattern = f"*/{pattern}"
        for folder in (pattern, *glob.iglob(pattern)):
            for form in _spellings(folder):
                if any(place.startswith(form) or fnmatch.fnmatchcase(place, f"{form}*") for place in spelled):
                    return True
    return False


def _spellings(path: str) -> set[str]:
    """Return the forms in which a path is compared, `/` at their ends: as written, without `..`, without links."""
    compared = folded if sys.platform in {"win32", "darwin"} else composed  # whose disks ignore case
    forms = (path, os.path.normpath(path), os.path.realpath(path))
    return {re.sub("/+", "/", compared(form).replace("\\", "/") + "/") for form in forms}
