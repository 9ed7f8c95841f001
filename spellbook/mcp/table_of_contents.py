"""The table of contents within a number of tokens, as text for a model and as JSON."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from spellbook.index.catalog.rows import Topic
from spellbook.index.filters import fold
from spellbook.mcp import render
from spellbook.mcp.tool_names import way_on
from spellbook.search import note_marks, toc
from spellbook.search.question import State
from spellbook.search.toc import Category, TopicSummary
from spellbook.text.quoting import counted, flat, json_of

_MOST_KEYWORDS = 4

_INTO = (
    'get_topic(topic) reads a topic. recent(filter={"topic": name}) lists its notes. search(query) finds across all.'
)


def as_text(
    categories: Sequence[Category], state: State, max_tokens: int, about: Callable[[Topic], TopicSummary]
) -> str:
    """
    Return the table of contents within `max_tokens`: categories with their topics, largest first.

    Names come first, as many as fit. The remaining room is for sizes, dates and summaries of topics, the largest first,
    and descriptions of their categories.
    """
    topics = sum(len(each.topics) for each in categories)
    whole = f"{counted(state.notes, 'note')}, {counted(state.chunks, 'chunk')}"
    lines = [f"{whole}, {counted(topics, 'topic')} in {counted(len(categories), 'category', 'categories')}."]
    last = ["", way_on(_INTO)]
    room = max_tokens - render.tokens_of([*lines, *last])
    named, is_all = _names(categories, room)
    held = [[each] for each in named]
    if is_all:
        _pick_out(held, categories, room - render.tokens_of(named), about)
    return "\n".join([*lines, *(line for each in held for line in each), *last])


def as_json(categories: Sequence[Category], max_tokens: int, about: Callable[[Topic], TopicSummary]) -> dict[str, Any]:
    """
    Return the table of contents for JSON within `max_tokens`: categories with their topics, largest first.

    Each category gives a topic in turn, with all of its fields, while there is room. `topic_count` and the totals count
    all topics; with `truncated`, `left_out` counts the missing ones.
    """
    listing: dict[str, Any] = {"categories": [], **toc.totals(categories)}
    room = max_tokens - render.size_of({**listing, "truncated": True, "left_out": {"categories": 0, "topics": 0}})
    rows = [_category_row(category) for category in categories]
    shown = render.first_that_fit(rows, room // 2) or rows[:1]
    room -= render.size_of(shown)
    missing = {"categories": len(rows) - len(shown), "topics": listing["total_topics"]}
    turns = sorted(_largest(categories[: len(shown)]), key=lambda each: each[1])
    for at, _, topic in turns[: max_tokens // render.MORE_TOKENS]:  # no topic takes less
        if (cost := render.size_of(row := _topic_row(topic, about(topic)))) <= room:
            room -= cost
            missing["topics"] -= 1
            shown[at]["topics"].append(row)
    cut = {"truncated": True, "left_out": missing} if any(missing.values()) else {}
    return {**listing, "categories": shown, **cut}


def _category_row(category: Category) -> dict[str, Any]:
    return {
        "id": category.name,
        "name": category.name,
        "description": category.description,
        "topic_count": len(category.topics),
        "topics": [],
    }


def _topic_row(topic: Topic, main: TopicSummary) -> dict[str, Any]:
    return {
        "id": note_marks.filed(topic.category, topic.topic),
        "title": (note_marks.cut(main.title) if main.is_outside else main.title) or topic.topic,
        "summary": note_marks.cut(main.summary) if main.is_outside else main.summary,
        "category": topic.category,
        "chunk_count": topic.chunks,
        "keywords": [*topic.keywords[:_MOST_KEYWORDS]],
        "last_updated": topic.updated,
        **({"untrusted": True} if main.is_outside or topic.is_outside else {}),
    }


def _pick_out(
    lines: list[list[str]], categories: Sequence[Category], left: int, about: Callable[[Topic], TopicSummary]
) -> None:
    """Give the largest topics lines of their own, with summaries, while they fit; the others stay in one line."""
    for at, number, topic in _largest(categories):
        if left < render.MORE_TOKENS:
            return
        rest = "; ".join(f"{_topic_name(each)} ({each.chunks})" for each in categories[at].topics[number:])
        full = [
            *(lines[at][:number] if number > 1 else [_heading(categories[at])]),
            _row_about(topic, about),
            *([f"- {rest}"] if rest else []),
        ]
        left -= render.tokens_of(full) - render.tokens_of(lines[at])
        if left < 0:
            return
        lines[at] = full


def _largest(categories: Sequence[Category]) -> list[tuple[int, int, Topic]]:
    """Return all topics, largest first, each with the index of its category and its own number in it, from 1."""
    topics = [(at, number, topic) for at, each in enumerate(categories) for number, topic in enumerate(each.topics, 1)]
    return sorted(topics, key=lambda each: -each[2].chunks)


def _names(categories: Sequence[Category], room: int) -> tuple[list[str], bool]:
    """Return a line for each category with as many names of topics as fit, in turn, and whether all of them fit."""
    whole = [_names_line(each, len(each.topics)) for each in categories]
    if render.tokens_of(whole) <= room:
        return whole, True

    def lines(shown: int, names: int) -> list[str]:
        each = [
            _names_line(category, (names + shown - 1 - at) // shown) for at, category in enumerate(categories[:shown])
        ]
        # A name may be shorter than how to list the others.
        return [min(pair, key=len) for pair in zip(whole, each, strict=False)]

    shown = len(categories)
    rest = []
    if render.tokens_of(lines(shown, 0)) > room:
        room -= render.MORE_TOKENS
        shown = bisect_right(range(1, shown), room, key=lambda count: render.tokens_of(lines(count, 0)))
        left_out = len(categories) - shown
        rest = [f"\n… {left_out} smaller categories: search, or get_index with a larger max_tokens"]
    most = shown * max((len(each.topics) for each in categories), default=0)
    return lines(
        shown, bisect_right(range(1, most), room, key=lambda names: render.tokens_of(lines(shown, names)))
    ) + rest, False


def _names_line(category: Category, names: int) -> str:
    """Return the line of a category with the names of its largest topics, and how to list the others."""
    listed = [_topic_name(each) for each in category.topics[:names]]
    if (rest := len(category.topics) - names) > 0:
        scope = (
            f"(scope={json_of(category.name)})" if category.name else " with a folder as scope, or a larger max_tokens"
        )
        listed.append(f"… {rest} {'smaller ' if names else ''}topics: get_index{scope}")
    return f"\n{_category_name(category)}: {'; '.join(listed)}"


def _category_name(category: Category) -> str:
    return note_marks.category_of(category.name, category.is_outside) or "(no category)"


def _heading(category: Category) -> str:
    what = f" ({flat(category.description)})" if category.description else ""
    count = f"{counted(len(category.topics), 'topic')}, {counted(category.chunks, 'chunk')}"
    return f"\n{_category_name(category)}{what}: {count}, last update {category.updated[:10]}"


def _topic_name(topic: Topic) -> str:
    named = note_marks.stated(topic.topic, topic.is_outside) or "(top folder)"
    return f"{named}{note_marks.UNTRUSTED if topic.is_outside else ''}"


def _row_about(topic: Topic, about: Callable[[Topic], TopicSummary]) -> str:
    """Return the line of a topic with its title, summary and keywords."""
    main = about(topic)
    title = main.title if fold(main.title) not in fold(topic.topic) else ""
    stated = (note_marks.stated(text, main.is_outside) for text in (title, main.summary))
    words = [note_marks.stated(word, topic.is_outside) for word in topic.keywords[:_MOST_KEYWORDS]]
    mark = note_marks.UNTRUSTED if main.is_outside and not topic.is_outside else ""
    row = f"- {_topic_name(topic)} ({topic.chunks}, {topic.updated[:10]}){mark}"
    return ": ".join(filter(None, (row, *stated))) + (f" [{', '.join(words)}]" if words else "")
