"""
The git repository of a folder and its name, one for its worktrees and clones. Git is not started.

A repository may be anybody's: a few of its files are read, up to a bound, and no `include`. A `.git` file is followed
only to a place that has the folder in return. A user and a password in an address are never used. Whoever makes a
repository may claim any origin, so its name gives no right.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from spellbook.settings import paths
from spellbook.system import disk
from spellbook.system.errors import StorageError
from spellbook.text.unicode import composed, folded

_RESERVED = {"auto", "shared"}
"""Names that mean something else where a scope is named."""

_SECTION = re.compile(r'(?im)^[ \t]*\[[ \t]*remote[ \t]+"origin"[ \t]*\]')
_URL = re.compile(r'(?im)^[ \t]*url[ \t]*=[ \t]*"?([^"#;\r\n]{1,1000})(?=["#;\r\n]|\Z)')


def find(folder: str) -> tuple[str, list[str]]:
    """
    Return the real path of the repository that has `folder`, its main checkout or a bare one, and its origin in parts.

    Without a repository it is the folder; without an origin there are no parts.
    """
    top = os.path.realpath(paths.upwards(".git", os.path.exists, folder) or folder)
    link = os.path.join(top, ".git")
    git = os.path.realpath(link) if os.path.isdir(link) else _named_in(link, "gitdir: ") or link
    shared = _named_in(f"{git}/commondir")
    around, is_inner, _ = git.partition(f"{os.sep}.git{os.sep}")  # a submodule's lies in that of the repository around
    is_own = Path(git).is_relative_to(top) or bool(is_inner and Path(top).is_relative_to(around))
    if not (_named_in(f"{git}/gitdir") == link if shared else is_own):
        return top, []
    main = os.path.dirname(shared) if os.path.basename(shared) in {".git", ".bare"} else shared or top
    return main, _origin(_text(f"{shared or git}/config", disk.SMALL))


def names(folder: str, chosen: Mapping[str, str]) -> list[str]:
    """
    Return the names of the project at `folder`: the first is written, the others are read too.

    The first is that in `chosen` for its origin (`host/owner/name`) or its folder, else the last part of the origin
    (behind the owner if another repository has that name on this machine), else the name of the folder. The others are
    such names, and those of its folders as of earlier versions; none that another repository has.
    """
    main, parts = find(folder)
    origin = "/".join(parts).casefold()
    wanted = {folded(key): name.strip() for key, name in chosen.items()}.get(folded(origin or main))
    made = ["-".join(parts[-most:])[:100] for most in (1, 2, len(parts)) if parts]
    own = next((name for name in made if folded(name) not in _RESERVED and _has(name, origin, main, take=True)), "")
    folders = [os.path.basename(os.path.abspath(each)) for each in (main, folder)]
    others = [name for name in (*made, *folders) if _has(name, origin, main)]
    listed = [name for name in (wanted, own or folders[0].removesuffix(".git"), *others) if name]
    return [name for at, name in enumerate(listed) if folded(name) not in map(folded, listed[:at])]


def _has(name: str, origin: str, main: str, *, take: bool = False) -> bool:
    """Say whether a name is free, or that of this origin or folder; `take` it if so. Each name taken is a file."""
    file = Path(paths.common("projects"), f"name-{folded(name)}.txt")
    holder = _text(file, disk.SMALL).split("\n")
    is_free, is_former = holder == [""], holder[0] != origin and main in holder[1:]
    if take and (is_free or is_former):
        with contextlib.suppress(OSError, StorageError):  # where nothing can be kept, names may be equal
            file.parent.mkdir(parents=True, exist_ok=True)
            with disk.written(file.parent, os.fsencode(f"{origin}\n{main}")) as made:
                disk.claim(made, file) if is_free else os.replace(made, file)
        return _has(name, origin, main)  # another process may have been first
    return is_free or is_former or holder[0] == origin


def _text(file: str | Path, most: int) -> str:
    try:
        return os.fsdecode(disk.read_small(Path(file), most))
    except (OSError, ValueError):
        return ""


def _named_in(file: str, prefix: str = "") -> str:
    """Return the real path that a small file names after `prefix`, seen from its folder; "" if it names none."""
    text = _text(file, 4_096)
    named = text.removeprefix(prefix).strip() if text.startswith(prefix) and "\0" not in text else ""
    return os.path.realpath(os.path.join(os.path.dirname(file), named)) if named else ""


def _origin(settings: str) -> list[str]:
    """Return host and path of the origin in the settings of a repository: letters, digits, `.`, `_` and `-`."""
    section = (*_SECTION.split(settings, 1), "")[1]
    url = _URL.search(re.split(r"(?m)^[ \t]*\[", section, maxsplit=1)[0])
    rest, is_url = re.subn(r"^[\w+.-]+://", "", url[1] if url else "")
    rest = re.split("[?#]", rest)[0].rpartition("@")[2].replace("\\", "/")  # what is before an @ may be secret
    host, _, path = rest.partition("/")
    host = re.sub(r":\d*$", "", host) if is_url else host.replace(":", "/")
    parts = re.sub(r"(?:/|\.git)+$", "", f"{host}/{path}".strip()).split("/")
    plain = (re.sub(r"[^\w.-]+", "-", composed(unquote(part))).strip("-.") for part in parts)
    return [part for part in plain if part]
