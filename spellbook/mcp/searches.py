"""The cache of answers to `memory://search`, which each reader has, so that the admin API can show and clear it."""

from __future__ import annotations

from collections.abc import Collection

from spellbook.library.reader import Reader

MOST = 64


def put(book: Reader, key: tuple[object, ...], until: float, text: str) -> None:
    """Keep the answer to a query, the first of `key`, until a time in seconds since 1970; the oldest one goes."""
    book.searches[key] = until, text
    for old in [*book.searches][:-MOST]:
        book.searches.pop(old, None)


def sizes(book: Reader) -> dict[str, int]:
    """Return the queries that are cached, with the bytes of their answers."""
    cached: dict[str, int] = {}
    for key, (_, text) in [*book.searches.items()]:
        cached[str(key[0])] = cached.get(str(key[0]), 0) + len(text.encode())
    return cached


def forget(book: Reader, queries: Collection[str]) -> int:
    """Drop the answers to these queries; return how many queries had one."""
    gone = [key for key in [*book.searches] if str(key[0]) in queries]
    for key in gone:
        book.searches.pop(key, None)
    return len({str(key[0]) for key in gone})
