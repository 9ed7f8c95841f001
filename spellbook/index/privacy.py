"""
Privacy, trust and scope of a note: one rule for each, by the keys of its frontmatter.

A limited token sees the notes that say so by `privacy_scope`. A note without the key is private, and one with several
values is shown only where each of them would be. Text is untrusted if `trust` or `source` says that it comes from
outside; `trust: trusted`, which only a person writes, ends that. `trust: agent` is in between: a captured session,
which nobody kept on purpose. Text made of several notes is as private as the most private of them, and as untrusted as
the least trusted. Keys and values are compared without case.

A scope says to which project a note belongs: by its frontmatter, else by the vault's settings for its path, else it is
NAME in `scopes/NAME/`. A note without one, or with `shared`, is everybody's. A scope is a view, not a lock: an id opens
any note.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from spellbook.index.filters import NO_GUIDES, Condition, flat, fold, path_glob
from spellbook.notes.frontmatter import header_in, label_of, load
from spellbook.settings import paths
from spellbook.system import disk
from spellbook.system.errors import InvalidInput, StorageError
from spellbook.system.lazy import lazy, regex
from spellbook.text.unicode import composed

if TYPE_CHECKING:
    from spellbook.notes import note as notes
    from spellbook.notes.note import Note
else:  # imported when the bytes of a note are read
    (notes,) = lazy("spellbook.notes", "note")

KEY = "privacy_scope"
TRUST = "trust"
SOURCES = frozenset({"source", "sources", "source_url", "source-url", "url", "origin"})
"""Keys that say where a text is from."""
RULED = frozenset({KEY, TRUST})
"""Keys whose value in a text that was made of several notes `needed` decides."""

TRUSTED, AGENT, UNTRUSTED = TRUSTS = "trusted", "agent", "untrusted"
"""Levels of trust in the text of a note, the least trusted last."""

ON_PURPOSE = Condition(TRUST, (AGENT,), negated=True)
"""Leaves out the sessions that were captured."""

SHOWN: Mapping[str, frozenset[str]] = {"team": frozenset({"team", "public"}), "public": frozenset({"public"})}
"""For each scope that limits a token, the values of `privacy_scope` that it sees."""

SCOPES = ("public", "team", "private")
"""Scopes of a note, the most private last."""

_OUTSIDE = regex(
    r"[^\w/]*(?:(?:https?|ftp|file|data|javascript):|www\.|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}/)|.*(?:://|\.pdf\b)"
)
"""An address, with or without its scheme, in brackets or behind invisible letters; or a PDF."""

_CALLS_ITSELF = regex(r"""(?is)((?:^|\n)["']?trust["']?[ \t]*[:=](?:(?!\n[^\s-]).)*?)\btrusted\b""")
"""The key `trust`, with its further lines, up to the word `trusted`."""

_SAYS = regex(rb"(?i)t\0?r\0?u\0?s\0?t\0?e\0?d")

Meta = Mapping[str, Any]
_folded = lru_cache(maxsize=1_000)(fold)  # a search asks for the keys of all its candidates

AUTO = "auto"
"""Stands for the project that a process was started in."""

SHARED = "shared"
"""The scope of notes for everybody; also written as none."""

_FOLDER = "scopes/"
_KEY = "scope"
_SECTION = regex(r'(?im)^[ \t]*\[[ \t]*remote[ \t]+"origin"[ \t]*\]')
_URL = regex(r'(?im)^[ \t]*url[ \t]*=[ \t]*"?([^"#;\r\n]{1,1000})(?=["#;\r\n]|\Z)')


def shows(sees: str, path: str, data: bytes) -> bool:
    """Return whether a token that sees `sees` may see a note, by the bytes of its file."""
    return privacy_of(meta_of(path, data)) in SHOWN[sees]


def meta_of(path: str, data: bytes) -> Meta:
    """Return the frontmatter of a note by the bytes of its file: empty, so private, if it cannot be read."""
    with contextlib.suppress(Exception):
        if match := header_in(notes.decode(path, data)[0]):
            return load(match[0])[0]
    return {}


def privacy_of(meta: Meta) -> str:
    """Return which of `SCOPES` a note is, by its frontmatter."""
    values = _values(meta, KEY)
    return next((scope for scope in SCOPES[:-1] if values and values <= SHOWN[scope]), SCOPES[-1])


def trust_of(meta: Meta) -> str:
    """Return which of `TRUSTS` a note's text is, by its frontmatter: the least that it says of itself."""
    levels = _values(meta, TRUST)
    is_outside = TRUSTED not in levels and any(map(_OUTSIDE.match, _values(meta, *SOURCES)))
    return UNTRUSTED if is_outside or UNTRUSTED in levels else AGENT if AGENT in levels else TRUSTED


def is_untrusted(meta: Meta) -> bool:
    """Return whether a note's text comes from outside, by its frontmatter."""
    return trust_of(meta) == UNTRUSTED


def is_session(meta: Meta) -> bool:
    """Return whether a note's text is of a captured session, by its frontmatter."""
    return "session" in meta and trust_of(meta) == AGENT  # most notes have no such key: that is quick


def distrusted(path: str, data: bytes) -> bytes:
    """Return a stranger's note as untrusted if it calls itself trusted. Raises InvalidInput if it stays so."""
    if not _SAYS.search(data) or TRUSTED not in _values(meta_of(path, data), TRUST):
        return data
    note = notes.parse(path, data)
    header = note.text[: len(note.text) - len(note.body)]
    changed = note.encode(_CALLS_ITSELF.sub(r"\1untrusted", header) + note.body)
    if TRUSTED in _values(meta_of(path, changed), TRUST):
        raise InvalidInput(f"{path}: it calls itself trusted.", "Take the key trust out of it; nothing was imported.")
    return changed


def is_foreign_guide(path: str, data: bytes) -> bool:
    """Say whether a note is a guide, which tells agents how to write memories, and did not come with Spellbook."""
    if b"guide" not in data or _values(meta_of(path, data), "guide").isdisjoint(NO_GUIDES.values):
        return False
    return all(file.read_bytes() != data for file in Path(paths.starter()).rglob("*.md"))


def needed(meta: Meta, *parts: Meta) -> dict[str, str]:
    """Return the keys that the frontmatter `meta` lacks for a text made of notes with the frontmatter of `parts`."""
    scope = max(map(privacy_of, parts), key=SCOPES.index)
    wanted = {KEY: scope} if SCOPES.index(privacy_of(meta)) < SCOPES.index(scope) else {}
    return wanted | kept_label(meta, *parts)


def kept_label(meta: Meta, *parts: Meta) -> dict[str, str]:
    """Return the label that `meta` lacks to be as untrusted as the least trusted of `parts`: no edit raises that."""
    least = max(map(trust_of, parts), key=TRUSTS.index)
    return {TRUST: least} if TRUSTS.index(trust_of(meta)) < TRUSTS.index(least) else {}


def _values(meta: Meta, *keys: str) -> set[str]:
    # What is in a mapping is under `key.name`, and no key asked for has a dot.
    named = ((key, written) for name, written in meta.items() if (key := _folded(name)) in keys)
    return {value for key, written in named for at, value in flat(key, written) if at == key}


def scopes_of(note: Note, rules: Mapping[str, str]) -> tuple[str, ...]:
    """Return a note's scopes, folded, none if everybody sees it; of `rules`, by glob of path, the first holds."""
    written = note.meta.get(_KEY)
    if written is not None:
        named = [label_of(str(each)) for each in (written if isinstance(written, list) else [written])]
    elif (ruled := next((scope for glob, scope in rules.items() if path_glob(note.path, glob)), None)) is not None:
        named = [ruled]
    elif note.path.startswith(_FOLDER) and note.path.count("/") > 1:
        named = [note.path.split("/", 2)[1]]
    else:
        named = []
    folded = tuple(fold(each) for each in named)
    return () if SHARED in folded else tuple(each for each in folded if each)


def category_of(note: Note, rules: Mapping[str, str]) -> str:
    """Return the category of a note: its own, else of the first rule, a tag (`#decision`) or a glob, that holds."""
    if note.category or not rules:
        return note.category
    tags = [f"#{fold(tag)}/" for tag in note.tags] if any(rule.startswith("#") for rule in rules) else []
    for rule, category in rules.items():
        tagged = any(tag.startswith(f"{fold(rule).rstrip('/')}/") for tag in tags) if rule.startswith("#") else None
        if path_glob(note.path, rule) if tagged is None else tagged:
            return category.strip()
    return ""


def visible(scope: str, *others: str) -> tuple[Condition, ...]:
    """Return the condition for a scope, its `others` and shared notes; nothing if there is no scope."""
    named = tuple(map(fold, (scope, *others)))
    return (Condition(_KEY, named, or_absent=True),) if scope and named[0] != SHARED else ()


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


# -- the repository of a folder: git is not started, its files may be anybody's, and few and small ones are read


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
