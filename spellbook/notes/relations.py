"""Relations: the keys of frontmatter that name other notes, by wikilink, id or path. `links` resolves them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spellbook.notes.frontmatter import fast_loader
from spellbook.system.lazy import yaml

SUPERSEDES = "supersedes"
RELATIONS = (SUPERSEDES, "derived_from", "contradicts")
"""Keys of frontmatter that name other notes. The newer note names the older one, never the reverse."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|mailto:")
_NAMED = re.compile(r"[^#|]*")
_NO_NAMES = frozenset({"", "~", "null", "true", "false"})
_WIKILINK = re.compile(r"!?\[\[([^\[\]#|]++)[^\[\]]*+\]\]")
_MOST_NAMED = 1_000
"""Letters of an id or a path under a key of RELATIONS; longer text is prose."""


def scalars(header: str) -> Iterator[tuple[yaml.ScalarEvent, str]]:
    """Yield the scalars of a header, each with the top key, in small letters, whose value it is, else ""."""
    key, is_key = "", True
    inside: list[bool] = []  # the mappings (True) and lists around an event
    for event in yaml.parse(header, Loader=fast_loader()):
        if isinstance(event, yaml.ScalarEvent):
            if inside == [True] and is_key:
                key = event.value.casefold()
                yield event, ""
            else:
                yield event, key if inside[:1] == [True] and not any(inside[1:]) else ""
        elif isinstance(event, yaml.CollectionStartEvent):
            inside.append(isinstance(event, yaml.MappingStartEvent))
        elif isinstance(event, yaml.CollectionEndEvent):
            inside.pop()
        if inside == [True] and isinstance(event, yaml.ScalarEvent | yaml.AliasEvent | yaml.CollectionEndEvent):
            is_key = not is_key


def id_or_path(text: str) -> tuple[str, str] | None:
    """Return the id or path in a text, and the rest, such as a heading; None if the text names no note."""
    text = text.strip()
    if len(text) > _MOST_NAMED or _ADDRESS.match(text) or text.casefold() in _NO_NAMES:
        return None
    named = text if text.endswith(".md") else (_NAMED.match(text) or [""])[0]
    return (named.rstrip(), text[len(named) :]) if named.strip() else None


def label_of(text: str) -> str:
    """Return the name of the note that a text leads to if it is one wikilink and nothing else, or the text."""
    match = _WIKILINK.fullmatch(text.strip()) if "[[" in text else None
    return (match[1].strip().rstrip("\\/").rpartition("/")[2].removesuffix(".md") if match else "") or text
