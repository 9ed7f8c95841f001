"""
Copy what a file has beside its bytes and permissions: owner, group, extended attributes and access lists.

A file that replaces another one gets them too, as far as the system allows it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys
from pathlib import Path

_COPY_ACL_AND_XATTR = 1 << 0 | 1 << 2
"""Flags of `copyfile` of macOS."""


def copy(source: Path, target: Path) -> list[str]:
    """Copy attributes of `source` but permissions to `target`; return the names of those refused. Raises OSError."""
    mode = stat.S_IMODE(os.stat(target).st_mode)
    lost = [
        *_copy_owners(source, target),
        *(_copy_attributes(source, target) if sys.platform == "linux" else _copy_with_system(source, target)),
    ]
    # A new owner takes away some permissions, and an access list sets those of the group.
    if stat.S_IMODE(os.stat(target).st_mode) != mode:
        os.chmod(target, mode)
    return lost


def _copy_owners(source: Path, target: Path) -> list[str]:
    if sys.platform == "win32":
        return []
    lost = []
    wanted, has = os.stat(source), os.stat(target)
    # The group first: who gives a file away may not change it any more.
    for name, is_same, ids in (
        ("group", wanted.st_gid == has.st_gid, (-1, wanted.st_gid)),
        ("owner", wanted.st_uid == has.st_uid, (wanted.st_uid, -1)),
    ):
        try:
            if not is_same:
                os.chown(target, *ids)
        except OSError:
            lost.append(f"its {name}")
    return lost


def _copy_attributes(source: Path, target: Path) -> list[str]:
    """Copy extended attributes, which hold Linux's access lists, and remove those that `target` got from its folder."""
    if sys.platform != "linux":
        return []
    try:
        wanted = {name: os.getxattr(source, name) for name in os.listxattr(source)}
        has = {name: os.getxattr(target, name) for name in os.listxattr(target)}
    except OSError:  # this disk has none
        return []
    for name in has.keys() - wanted.keys():
        with contextlib.suppress(OSError):
            os.removexattr(target, name)
    lost = []
    for name, value in wanted.items():
        try:
            if has.get(name) != value:
                os.setxattr(target, name, value)
        except OSError:
            lost.append(f"its attribute {name}")
    return lost


def _copy_with_system(source: Path, target: Path) -> list[str]:
    if sys.platform != "darwin":
        return []
    try:
        done = ctypes.CDLL(None, use_errno=True).copyfile(
            os.fsencode(source), os.fsencode(target), None, _COPY_ACL_AND_XATTR
        )
    except (OSError, AttributeError):
        done = -1
    return ["its extended attributes"] if done else []
