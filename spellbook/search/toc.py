"""The table of contents: categories, their topics, and a summary of each, made of notes alone. It only reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from spellbook.index.catalog.rows import StoredChunk, Topic
from spellbook.index.filters import NO_GUIDES, alike, conditions, fold, with_suggestions
from spellbook.index.opened import Index
from spellbook.index.privacy import is_untrusted
from spellbook.notes.splitter import sentences
from spellbook.notes.titles import without_signs
from spellbook.notes.where_links_lead import key as link_key
from spellbook.system.errors import MemoryNotFound
from spellbook.system.lazy import markdown_it, regex
from spellbook.text.quoting import shortened
from spellbook.text.unicode import composed

DESCRIBES = "category.md"
"""The note that describes a category: the one in its frontmatter, else that of its folder's name."""

_MOST_SUMMARY = 120
"""Letters of a summary."""
_WIKILINK = regex(r"!?\[\[(?:[^\]|]*\|)?([^\]]*)\]\]")
_NO_PROSE = regex(r"\{/\*.*?\*/\}|%%.*?%%|\[!\w+\][+-]?.*|(?<=[-*+] )\[[ xX]\] ")
OURS = {
    "article": "pages, PDFs and texts of others that were saved",
    "checkpoint": "where work stood, and its next steps",
    "conversation": "chats that were imported",
    "decision": "what was decided, why, and how it turned out",
    "knowledge": "what was learned",
    "memory": "what was told and is to be remembered",
    "preference": "what the person prefers",
    "project": "facts of projects",
    "system": "how Spellbook is used",
}
"""Descriptions of Spellbook's own categories; a vault and its settings may say otherwise."""

_LEAST_LETTERS = 12
"""Letters of a sentence that says something."""
_MARKS = {"strong_open", "strong_close", "em_open", "em_close", "link_open", "link_close", "html_inline"}


@dataclass(frozen=True, slots=True)
class Category:
    """A category with its topics, largest first; `description` comes from category.md or the settings."""

    name: str
    description: str
    topics: tuple[Topic, ...]

    @property
    def chunks(self) -> int:
        """The number of chunks in its topics."""
        return sum(topic.chunks for topic in self.topics)

    @property
    def is_outside(self) -> bool:
        """Whether all of its notes come from outside."""
        return all(topic.is_outside for topic in self.topics)

    @property
    def updated(self) -> str:
        """The date of its latest update."""
        return max(topic.updated for topic in self.topics)


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic's title and a one-line summary, from its main note; whether that note `is_outside` text."""

    title: str
    summary: str
    is_outside: bool = False


def topics_of(index: Index, scope: str) -> list[Topic]:
    """Return the topics of one scope: a frontmatter `scope`, a category, or a folder. Raises MemoryNotFound."""
    for filter in ({"scope": scope}, {"category": scope}, {"path": scope.rstrip("/") + "/"}):
        if topics := index.catalog.topics((*conditions(filter), *index.visible)):
            return topics
    there = sorted({topic.category for topic in index.catalog.topics(index.visible) if topic.category})
    raise index.missing(
        MemoryNotFound(
            with_suggestions(f"There is no scope, category or folder {scope[:200]!r}", alike(scope, there)),
            "get_index shows what there is.",
        )
    )


def chunks_of(index: Index, name: str) -> list[StoredChunk]:
    """Return all chunks of the topic that `name` means, in reading order. Raises MemoryNotFound."""
    category, topic = category_and_topic(index, name)
    chunks = index.catalog.topic(topic, category, index.visible)
    if not chunks:
        there = index.catalog.topics(index.visible)
        names = {f"{each.category}/{each.topic}" if "/" in name and each.category else each.topic for each in there}
        raise index.missing(
            MemoryNotFound(
                with_suggestions(f"There is no topic {name[:200]!r}", alike(name, sorted(names))),
                "get_index lists the topics.",
            )
        )
    return chunks


def category_and_topic(index: Index, name: str) -> tuple[str | None, str]:
    """Split `category/topic`; a topic may contain a slash itself."""
    name = composed(name)  # as the catalog has labels
    if index.catalog.topic(name):
        return None, name
    category, slash, topic = name.partition("/")
    return (category, topic) if slash else (None, name)


def categories(index: Index, topics: Sequence[Topic], settings: Mapping[str, str]) -> tuple[Category, ...]:
    """Return `topics` by category, the largest first; descriptions in `settings` override those of the vault."""
    described = descriptions(index, settings)
    grouped: dict[str, list[Topic]] = defaultdict(list)
    for topic in sorted(topics, key=lambda topic: (-topic.chunks, topic.topic)):
        grouped[topic.category].append(topic)
    listed = [Category(name, described.get(fold(name), ""), tuple(held)) for name, held in grouped.items()]
    return tuple(sorted(listed, key=lambda category: (-category.chunks, category.name)))


def totals(listed: Sequence[Category]) -> dict[str, Any]:
    """Return how many topics and chunks a table of contents has, and the date of its latest update, None if empty."""
    return {
        "total_topics": sum(len(category.topics) for category in listed),
        "total_chunks": sum(category.chunks for category in listed),
        "last_updated": max((category.updated for category in listed), default=None),
    }


def folders(index: Index) -> Counter[str]:
    """Return how many notes, without guides, are in each folder and the folders in it; under "" those in none."""
    held = Counter[str]()
    for path in index.catalog.paths((NO_GUIDES, *index.visible)):
        folder = path.rpartition("/")[0]
        held[folder] += 1
        while folder := folder.rpartition("/")[0]:
            held[folder] += 1
    return held


def about(index: Index, topic: Topic) -> TopicSummary:
    """Return the title and the summary of a topic by the first note that says something, "" where none does."""
    openings = index.catalog.openings(topic.category, topic.topic, index.visible)
    first = next(openings, None)
    if not first:
        return TopicSummary("", "")
    opening = next(filter(_summary, chain([first], openings)), first)
    stem, name = opening[0].path.rpartition("/")[2].rpartition(".")[0], topic.topic
    stands_for_it = fold(stem) in {"index", "readme", fold(name), fold(name.rpartition("/")[2])}
    title = opening[0].title if topic.notes == 1 or stands_for_it else ""
    summary = _summary(opening)
    if summary.startswith(title.removesuffix("…")):  # as that of a memory, whose title is its first sentence
        title = ""
    return TopicSummary(title, summary, is_untrusted(opening[0].meta))


def descriptions(index: Index, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the descriptions of categories, by their folded names; `settings` override those of notes."""
    described: dict[str, str] = {}
    for path in sorted(index.catalog.among(index.catalog.links.named([link_key(DESCRIBES)]), index.visible)):
        if chunks := index.catalog.at(path):
            name = chunks[0].category or path.rpartition("/")[0].rpartition("/")[2]
            described.setdefault(fold(name), _summary(chunks))
    return OURS | described | {fold(name): text for name, text in settings.items()}


def _summary(chunks: Sequence[StoredChunk]) -> str:
    for key in ("summary", "description"):
        summary = chunks[0].meta.get(key)
        if isinstance(summary, str) and summary.strip():
            return shortened(" ".join(summary.split()), _MOST_SUMMARY, to_a_word=True)
    return next((line for chunk in chunks if (line := first_sentence(chunk.text))), "")


def first_sentence(text: str) -> str:
    """Return the first sentence of prose in Markdown, without markup, "" if there is none."""
    tokens = (
        markdown_it.MarkdownIt("commonmark")
        .enable("table")
        .parse(without_signs(_NO_PROSE.sub("", _WIKILINK.sub(r"\1", text))))
    )
    listed: list[str] = []
    for before, inline in pairwise(tokens):
        if before.type == "paragraph_open" and inline.type == "inline":
            parts = [part for part in inline.children or () if part.type not in _MARKS]
            words = "".join(part.content if part.type in {"text", "code_inline"} else " " for part in parts)
            paragraph = " ".join(words.split())
            listed += [paragraph[start:end] for start, end in sentences(paragraph)]
    whole = [sentence for sentence in listed if sum(map(str.isalpha, sentence)) >= _LEAST_LETTERS]
    return shortened(next(iter(whole or listed), "").strip(), _MOST_SUMMARY, to_a_word=True)
