"""The name of the project at a folder, by its git repository: the scope `auto`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from spellbook.index.filters import fold
from spellbook.index.privacy import AUTO, SHARED
from spellbook.settings import paths
from spellbook.system import disk
from spellbook.system.errors import StorageError
from spellbook.system.lazy import regex
from spellbook.text.unicode import composed

_SECTION = regex(r'(?im)^[ \t]*\[[ \t]*remote[ \t]+"origin"[ \t]*\]')
_URL = regex(r'(?im)^[ \t]*url[ \t]*=[ \t]*"?([^"#;\r\n]{1,1000})(?=["#;\r\n]|\Z)')


def project_names(
    chosen: Mapping[str, str], environment: Mapping[str, str] = os.environ, folder: str = ""
) -> list[str]:
    """
    Return the names of the project at `folder`, else of this process (see `paths.project`): one to write, then others.

    The first is that in `chosen` for the origin of its repository (`host/owner/name`) or its folder; else the last part
    of the origin, after the owner if another repository has that name on this machine; else the folder's. The others,
    for reading, are such names and those of its folders, as in earlier versions; none of another repository.
    """
    if not (folder := paths.project(environment, folder)):
        return []
    main, parts = repository(folder)
    origin = "/".join(parts).casefold()
    wanted = {fold(key): name.strip() for key, name in chosen.items()}.get(fold(origin or main))
    made = ["-".join(parts[-most:])[:60] for most in (1, 2, len(parts)) if parts]
    free = (name for name in made if fold(name) not in {AUTO, SHARED} and _has(name, origin, main, reserve=True))
    folders = [os.path.basename(os.path.abspath(each)) for each in (main, folder)]
    others = [name for name in (*made, *folders) if _has(name, origin, main)]
    listed = [name for name in (wanted, next(free, folders[0].removesuffix(".git")), *others) if name]
    return [name for at, name in enumerate(listed) if fold(name) not in map(fold, listed[:at])]


def _has(name: str, origin: str, main: str, *, reserve: bool = False) -> bool:
    """Say whether a name is free or belongs to this origin or folder; `reserve` it if so. A reserved name is a file."""
    file = Path(paths.common("projects"), f"name-{fold(name)}.txt")
    holder = _text(file).split("\n")
    if reserve and holder[0] != origin and (holder == [""] or main in holder[1:]):
        with contextlib.suppress(OSError, StorageError):  # where nothing can be kept, names may be equal
            file.parent.mkdir(parents=True, exist_ok=True)
            disk.put(file, os.fsencode(f"{origin}\n{main}"))
    return holder == [""] or main in holder[1:] or holder[0] == origin


def repository(folder: str) -> tuple[str, list[str]]:
    """
    Return the real path of the main checkout, or the bare repository, of `folder`, and the host and path of its origin.

    Without a repository it is the folder, without an origin the list is empty. A `.git` file is followed only to a
    place that names the folder in return. A user or a password in an address is left out, and an `include` ignored.
    """
    top = os.path.realpath(paths.upwards(".git", os.path.exists, folder) or folder)
    link = os.path.join(top, ".git")
    git = os.path.realpath(link) if os.path.isdir(link) else _named_in(link, "gitdir: ") or link
    shared = _named_in(f"{git}/commondir")
    around, is_inner, _ = git.partition(f"{os.sep}.git{os.sep}")  # a submodule's lies in that of the repository around
    is_own = Path(git).is_relative_to(top) or bool(is_inner and Path(top).is_relative_to(around))
    is_worktree = _named_in(f"{git}/gitdir") == link and Path(git).is_relative_to(shared or top)
    if not (is_worktree if shared else is_own):
        return top, []
    main = os.path.dirname(shared) if os.path.basename(shared) in {".git", ".bare"} else shared or top
    return main, _origin(_text(f"{shared or git}/config"))


def _text(file: str | Path) -> str:
    try:
        return os.fsdecode(disk.read_small(Path(file)))
    except (OSError, ValueError):
        return ""


def _named_in(file: str, prefix: str = "") -> str:
    """Return the real path that a file names after `prefix`, seen from its folder; "" if it names none."""
    named = _text(file)[:4_096]
    is_path = named.startswith(prefix) and named != prefix and "\0" not in named
    return os.path.realpath(os.path.join(os.path.dirname(file), named.removeprefix(prefix).strip())) if is_path else ""


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
