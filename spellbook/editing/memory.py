"""A memory: a finished chunk, checked and made into a note. Errors make it invalid, warnings hard to find."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from spellbook.editing import good_chunks
from spellbook.editing.derived_labels import made_title
from spellbook.index import privacy
from spellbook.index.filters import bound, fold, validity
from spellbook.index.inbox import folder_of
from spellbook.index.opened import Index
from spellbook.notes import labels
from spellbook.notes.dates import VALID
from spellbook.notes.files import MOST_BYTES
from spellbook.notes.frontmatter import LEVELS, compose, known_key, load_value
from spellbook.notes.labels import INBOX, MEMORY
from spellbook.notes.note import blocks
from spellbook.settings.limits import MOST_LINE, MOST_SOURCE
from spellbook.system.lazy import regex
from spellbook.text import credentials
from spellbook.text.terms import STOP_WORDS
from spellbook.vault.names import MOST_WORDS

AGENT: ContextVar[str] = ContextVar("agent", default="")
"""The agent that writes in this context, as `claude-code/2.1.0`, "" for a person."""

CATEGORY = "knowledge"
"""The category of a memory that names none."""

_ODD = regex(r"\W+")
_EDGE = regex(r'^[#:;,|/\\=…"\[-]+|[:;,.?!|/\\=…"\]-]+$')
_ID_LETTERS = 26  # of a ULID


_OWN = {
    *("id", "agent", "created", "updated", "created_at", "updated_at", "rest_session_id"),
    *(privacy.TRUST, *privacy.STANDING),
}
"""Keys that Spellbook sets, without case."""
_KEY = regex(r"[^\s:#{}\[\],&*!|>'\"%@`\x00-\x1f][^:#\x00-\x1f]{0,79}")
"""A key that frontmatter can hold."""

Labels = Literal["given", "derived"]
"""The source of a memory's labels: its writer, or `derived_keywords`, from its tags and its text."""

LISTS = ("keywords", "questions", "tags")
"""Keys that hold texts."""

TEXTS = ("topic", "category", "source", "title")
"""Keys that hold one text, of one line."""

_FIRST = ("id", "topic", "category", "keywords", "questions", "entities", "importance", "tags", "source", "created")
"""Keys with which a note's frontmatter begins, in this order; `updated` follows them."""


@dataclass(frozen=True)
class Memory:
    """A checked chunk: its text and its frontmatter, without `id` and dates."""

    text: str
    meta: Mapping[str, Any]

    def folder_in(self, index: Index) -> str:
        """Return the folder of its note in a vault. Raises InvalidInput for settings that name none."""
        return folder_of(index, self.meta["category"], self.meta["topic"])

    @cached_property
    def given_title(self) -> str:
        """The title in its frontmatter or its first `#` heading, "" if it has neither."""
        headings = (block.text for block in blocks(self.text) if block.kind == "heading" and block.level == 1)
        return str(self.meta.get("title") or next(filter(None, headings), ""))

    @cached_property
    def title(self) -> str:
        """Return the note's title: the given one, else its first sentence or heading, without markup and secrets."""
        given = self.given_title
        return credentials.masked(given) if given else made_title(self.text)

    @property
    def name(self) -> str:
        """The name of its note's file: a few words of its title or first sentence, without digits, codes or secrets."""
        words = [_EDGE.sub("", word) for word in self.title.split()]
        if not self.given_title:
            words = [_ODD.sub("-", word.replace("'", "").replace("’", "")).strip("-_") for word in words]
        words = [word for word in words if any(map(str.isalpha, word)) and not any(map(str.isdigit, word))]
        if self.given_title:
            return " ".join(words[:MOST_WORDS])
        return "-".join(([word for word in words if word.lower() not in STOP_WORDS] or words)[:MOST_WORDS])

    def note(self, id: str, now: dt.datetime) -> str:
        """Return the text of its note."""
        stamp = now.replace(microsecond=0)
        title = {"title": self.title} if self.title and not self.given_title else {}
        meta = {"id": id, **self.meta, **title, "created": stamp, "updated": stamp}
        if by := self.meta.get(privacy.GENERATED):
            meta[privacy.GENERATED] = {**by, "at": stamp}
        order = dict.fromkeys([*_FIRST, "updated", *meta])
        return compose({key: meta[key] for key in order if key in meta}, self.text)


@dataclass(slots=True)
class Findings:
    """The result of a check: `memory` unless there are errors. `secrets` say where one seems to be, never its text."""

    memory: Memory | None = None
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)


def check(
    chunk: object,
    *,
    source: str | None = None,
    category: str | None = None,
    scope: str = "",
    labels: Labels = "given",
    untrusted: bool = False,
) -> Findings:
    """
    Check a chunk `{"text", "metadata": {topic, keywords, …}}`; `source` and `category` stand in for missing ones.

    With `labels` "derived" it may be of any length and have no keywords and no topic, which is then the inbox, and no
    warning asks for labels. An `untrusted` text comes from outside, and its note says so.
    """
    findings = Findings()
    if not isinstance(chunk, Mapping):
        findings.errors.append("the chunk must be an object with text and metadata")
        return findings
    text = _text_of(chunk, findings)
    labelled = chunk.get("metadata", {})
    if not isinstance(labelled, Mapping):
        findings.errors.append("metadata must be an object")
        labelled = {}
    own, topic = (MEMORY, INBOX) if labels == "derived" else (CATEGORY, None)
    defaults = {"category": (category or "").strip() or own, "topic": topic}
    defaults |= {"source": source or None, "scope": scope or None}
    meta = metadata({**defaults, **{key: value for key, value in labelled.items() if value is not None}}, findings)
    meta = {key: value for key, value in meta.items() if value is not None}
    if (valid := validity(meta))[1] < valid[0]:
        findings.errors.append("valid_until is before valid_from")
    meta |= _origin(untrusted=untrusted)
    for key in set(chunk) - {"text", "metadata"}:
        findings.warnings.append(f"{key!r} beside text and metadata was not kept; put it into metadata")
    if not meta.get("topic"):
        findings.errors.append("metadata.topic is missing")
    if labels == "given":
        if not meta.get("keywords"):
            findings.errors.append("metadata.keywords is missing")
        findings.warnings += good_chunks.remarks(text, meta)
    findings.secrets += credentials.in_note(text, meta)
    findings.warnings += findings.secrets
    if not findings.errors:
        findings.memory = Memory(re.sub(r"\r\n?", "\n", text).strip("\n"), meta)
        size = len(findings.memory.note("0" * _ID_LETTERS, dt.datetime.now().astimezone()).encode())
        if size > MOST_BYTES:
            findings.memory = None
            findings.errors.append(_too_large(size))
    return findings


def _origin(*, untrusted: bool) -> dict[str, Any]:
    """Return the keys that say where a text comes from: from outside, and from an agent."""
    trust = {privacy.TRUST: privacy.UNTRUSTED} if untrusted else {}
    agent = AGENT.get()
    return trust | ({privacy.GENERATED: {"by": agent}} if agent else {})


def _text_of(chunk: Mapping[Any, Any], findings: Findings) -> str:
    """Return the text of a chunk; "" with an error in `findings` if it cannot be kept."""
    text = chunk.get("text")
    if not isinstance(text, str) or not text.strip():
        findings.errors.append("text is missing or empty")
        return ""
    if len(text) > MOST_BYTES:
        findings.errors.append(_too_large(len(text)))
        return ""
    if "\0" in text:
        findings.errors.append("text holds NUL")
    return text


def _too_large(size: int) -> str:
    return f"the note would have {size:,} bytes; {MOST_BYTES:,} are the most: divide it"


def metadata(values: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    """Return metadata as it goes into a frontmatter; what cannot be kept is an error in `findings`. None stays None."""
    meta: dict[str, Any] = {}
    for name, value in values.items():
        key = known_key(str(name))
        key = {"question_this_answers": "questions", "topic_id": "topic"}.get(key, key)
        if fold(key) in _OWN:
            findings.warnings.append(f"metadata.{key} is set by Spellbook; yours was not kept")
        elif not _KEY.fullmatch(key):
            findings.errors.append(f"metadata.{key!r:.90} cannot be a frontmatter key")
        elif value is None:
            meta[key] = None
        elif not _plain(value):
            findings.errors.append(f"metadata.{key} holds something that YAML cannot keep")
        else:
            meta[key] = _FORMS[key](key, value, findings) if key in _FORMS else value
    return meta


def _date(key: str, value: Any, findings: Findings) -> object:
    kept = load_value(str(value))
    if bound(str(kept)) is None:
        findings.errors.append(
            f"metadata.{key} is {value!r:.40}, which is not a date such as 2026-11-21, 2026-11 or 2026"
        )
    return kept


def _flag(key: str, value: Any, findings: Findings) -> object:
    is_on = str(value).lower() in {"true", "1"}
    if not is_on and str(value).lower() not in {"false", "0"}:
        findings.errors.append(f"metadata.{key} must be true or false, not {value!r:.40}")
    return is_on


def _list(key: str, value: Any, findings: Findings) -> object:
    listed = labels.tags(value) if key == "tags" else labels.listed(value, labels.COMMAS if key == "keywords" else "")
    if isinstance(listed, Sequence) and all(isinstance(text, str) and text.strip() for text in listed):
        return list(dict.fromkeys(" ".join(str(text).split()) for text in listed))
    findings.errors.append(f"metadata.{key} must be a list of texts, not {value!r:.60}")
    return listed


def _line(key: str, value: Any, findings: Findings) -> object:
    most = MOST_SOURCE if key == "source" else MOST_LINE
    if isinstance(value, str) and value.strip() and len(value) <= most and not re.search(r"[\x00-\x1f]", value):
        return value.strip()
    findings.errors.append(f"metadata.{key} must be one line of at most {most:,} letters, not {value!r:.60}")
    return value


def _importance(key: str, value: Any, findings: Findings) -> object:
    level = value.strip().lower() if isinstance(value, str) else value
    is_share = isinstance(level, int | float) and not isinstance(level, bool) and 0 <= level <= 1
    if not is_share and level not in tuple(LEVELS):
        findings.errors.append(f"metadata.{key} must be high, medium, low, or a number from 0 to 1, not {value!r:.40}")
    return level


def _entities(_: str, value: Any, findings: Findings) -> object:
    result: list[Any] = []
    for entity in value if isinstance(value, list | tuple) else [value]:
        name = entity.get("name") if isinstance(entity, Mapping) else entity
        if not isinstance(name, str) or not name.strip():
            findings.errors.append(f"metadata.entities: {entity!r:.60} has no name")
            continue
        kind = entity.get("type") if isinstance(entity, Mapping) else None
        if kind is not None and kind not in labels.ENTITY_TYPES:
            findings.warnings.append(
                f"entity {name!r} has the unknown type {kind!r:.40}; types are {', '.join(labels.ENTITY_TYPES)}"
            )
        result.append({"name": name.strip(), **({"type": str(kind)} if kind is not None else {})})
    return result


_FORMS: Mapping[str, Callable[[str, Any, Findings], object]] = {
    **dict.fromkeys(LISTS, _list),
    **dict.fromkeys(TEXTS, _line),
    **dict.fromkeys(VALID, _date),
    "entities": _entities,
    "importance": _importance,
    "pinned": _flag,
}
"""Returns the value of a key as it goes into a frontmatter; the findings get an error if it is none for the key."""


def _plain(value: object, depth: int = 0) -> bool:
    if depth > 8:
        return False
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _plain(key) and _plain(item, depth + 1) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(_plain(item, depth + 1) for item in value)
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, int):
        return value.bit_length() <= 64
    return value is None or isinstance(value, float | dt.date)
