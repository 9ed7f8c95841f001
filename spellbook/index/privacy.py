"""
Privacy, trust, standing and scope of a note: one rule for each, by the keys of its frontmatter.

A limited token sees the notes that say so by `privacy_scope`. A note without the key is private, and one with several
values is shown only where each of them would be. Text is untrusted if `trust` or `source` says that it comes from
outside; `trust: trusted`, which only a person writes, ends that. `trust: agent` is in between: a captured session,
which nobody kept on purpose. Text made of several notes is as private as the most private of them, and as untrusted as
the least trusted. Keys and values are compared without case.

The standing is by keys of the Open Knowledge Format (OKF 0.2): who wrote the text (`generated`), who confirmed it
(`verified`), and whether it still holds (`status`, `stale_after`). A stranger's note that names a person in `verified`
is imported with CLAIMED, which only Keep takes out: until then no person of this vault confirmed it.

A scope says to which project a note belongs: by its frontmatter, else by the vault's settings for its path, else it is
NAME in `scopes/NAME/`. A note without one, or with `shared`, is everybody's. A scope is a view, not a lock: an id opens
any note.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spellbook.index.filters import (
    CHANGED,
    MACHINE,
    NO_GUIDES,
    PERSON,
    STABLE,
    TIERS,
    Condition,
    bound,
    flat,
    fold,
    path_glob,
)
from spellbook.notes import note as notes
from spellbook.notes.frontmatter import TOML, header_in, label_of, load
from spellbook.settings import paths
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import regex

if TYPE_CHECKING:
    from spellbook.notes.note import Note

KEY = "privacy_scope"
TRUST = "trust"
SOURCES = frozenset({"source", "sources", "source_url", "source-url", "url", "origin"})
"""Keys that say where a text is from."""
RULED = frozenset({KEY, TRUST})
"""Keys whose value in a text that was made of several notes `needed` decides."""

STANDING = GENERATED, VERIFIED, CLAIMED = "generated", "verified", "claimed"
"""Keys that nobody sets but who writes or keeps a note."""
HUMAN = "human:"
"""The beginning of an actor that is a person."""
DRAFT = "draft"
DEPRECATED = "deprecated"
_CLOCKS = 86_400.0
"""Seconds that the clocks of two machines may differ: a confirmation after that does not count."""

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

Meta = Mapping[str, Any]
_folded = lru_cache(maxsize=1_000)(fold)  # a search asks for the keys of all its candidates

AUTO = "auto"
"""Stands for the project that a process was started in."""

SHARED = "shared"
"""The scope of notes for everybody; also written as none."""

_FOLDER = "scopes/"
_KEY = "scope"


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


class Standing(NamedTuple):
    """
    A note's own words about itself.

    `by` is who wrote its text, "" if nobody is named; `tier` is one of TIERS, or CHANGED; `status` is a word of its
    writer, `stable` without one; `stale` is since when it is not to be relied on, "" while it is. `person` is who
    confirmed the text last, on which `day`, "" for nobody. `changed` is when the text was, as seconds since 1970, -inf
    if nothing says so.
    """

    by: str
    tier: str
    status: str
    stale: str
    person: str
    day: str
    changed: float

    def as_dict(self) -> dict[str, str]:
        """Return what JSON shows of it."""
        return {"by": self.by, "tier": self.tier, "status": self.status, "stale": self.stale}


def standing(meta: Meta, updated: str | None = None, now: float | None = None) -> Standing:
    """Return the standing of a note, now or at a time; its frontmatter without `generated` was `updated` last."""
    now, generated = time.time() if now is None else now, meta.get(GENERATED)
    at = generated.get("at") if isinstance(generated, Mapping) else None
    confirmed = [(actor, _at(each, now), each) for actor, each in verifications(meta)]
    persons = [row for row in confirmed if row[0].startswith(HUMAN) and CLAIMED not in meta]
    changed = _at(at, now) if bound(str(at)) is not None else _at(updated, now)
    actor, last, day = max(persons or confirmed, key=lambda row: row[1], default=("", 0.0, ""))
    tier = PERSON if persons else MACHINE if confirmed else TIERS[0]
    status = meta.get("status")
    return Standing(
        writer_of(meta),
        CHANGED if confirmed and last < changed else tier,
        fold(status) if isinstance(status, str) and status.strip() else STABLE,
        stale_since(meta, now),
        actor.removeprefix(HUMAN) if persons else "",
        day[:10] if persons and last > 0 else "",
        changed,
    )


def writer_of(meta: Meta) -> str:
    """Return the actor that wrote a note's text, "" if it names none; earlier versions wrote `agent: Claude Code`."""
    generated = meta.get(GENERATED)
    by = generated.get("by") if isinstance(generated, Mapping) else meta.get("agent")
    return "" if by is None else str(by).strip()


def verifications(meta: Meta) -> Iterator[tuple[str, str]]:
    """Yield the actors that confirmed a note, each with its time as it is written; a mapping is a list of one."""
    written = meta.get(VERIFIED)
    for each in written if isinstance(written, list) else [written]:
        if isinstance(each, Mapping) and isinstance(each.get("by"), str) and each["by"].strip():
            yield each["by"].strip(), str(each.get("at") or "")


def stale_since(meta: Meta, now: float) -> str:
    """Return `stale_after` of a note if it has come, else ""."""
    if not (after := str(meta.get("stale_after") or "")):
        return ""
    begins = bound(after)
    return after if begins is not None and begins <= now else ""


def waits(meta: Meta) -> bool:
    """Return whether a note is a draft of an agent, which counts once the person keeps it, where that is asked for."""
    by, status = writer_of(meta), meta.get("status")
    return by != "" and not by.startswith(HUMAN) and isinstance(status, str) and fold(status) == DRAFT


def lapsed(meta: Meta, now: float) -> str:
    """Say in a few words why a note does not hold any more by its own keys, "" if it may."""
    status = meta.get("status")
    if status is not None and fold(status) == DEPRECATED:
        return DEPRECATED
    since = stale_since(meta, now)
    return f"stale since {since[:10]}" if since else ""


def _at(time: object, now: float) -> float:
    """Return a time in seconds since 1970, the year 1 for what is none or yet to come."""
    at = bound(str(time))
    return at if at is not None and at <= now + _CLOCKS else -math.inf


def claims_of(meta: Meta) -> tuple[bool, bool]:
    """Return whether a stranger's note claims that it is trusted, and that a person confirmed it."""
    persons = (by for by, _ in verifications(meta) if by.startswith(HUMAN))
    return TRUSTED in _values(meta, TRUST), CLAIMED not in meta and any(persons)


def distrusted(path: str, data: bytes) -> bytes:
    """Return a stranger's note with its claims taken back. Raises InvalidInput if one of them stays."""
    meta = meta_of(path, data)
    trusts, confirms = claims_of(meta)
    if not (trusts or confirms):
        return data
    note = notes.parse(path, data)
    header = _CALLS_ITSELF.sub(r"\1untrusted", note.text[: note.body_at])
    if confirms:
        line = f'{CLAIMED} = "{VERIFIED}"' if TOML.match(header) else f"{CLAIMED}: {VERIFIED}"
        header = re.sub(r"(\r\n|\n|\r)", rf"\1{line}\1", header, count=1)
    changed = note.encode(header + note.body)
    after = meta_of(path, changed)
    if TRUSTED in _values(after, TRUST):
        raise InvalidInput(f"{path}: it calls itself trusted.", "Take the key trust out of it; nothing was imported.")
    if after.keys() != {*meta, *([CLAIMED] * confirms)}:
        what = f"{path}: it says that a person confirmed it."
        raise InvalidInput(what, "Take the key verified out of it; nothing was imported.")
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


# -- the repository of a folder: git is not started, its files may be anybody's, and few and small ones are read
