"""The cache of answers to `memory://search`, one for each book, so that the admin API can show and clear it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from threading import Lock
from weakref import WeakKeyDictionary

from spellbook.library.reader import Reader

Key = tuple[object, ...]
"""A query, and what else its answer depends on."""

MOST = 64
_guard = Lock()
_caches: WeakKeyDictionary[Reader, OrderedDict[Key, tuple[float, str]]] = WeakKeyDictionary()


def get(book: Reader, key: Key) -> tuple[float, str]:
    """Return until when an answer is good (seconds since 1970), and the answer; 0 and "" if there is none."""
    with _guard:
        return _caches.get(book, OrderedDict()).get(key, (0.0, ""))


def put(book: Reader, key: Key, until: float, text: str) -> None:
    """Keep an answer; the oldest one goes."""
    with _guard:
        cache = _caches.setdefault(book, OrderedDict())
        cache[key] = until, text
        while len(cache) > MOST:
            cache.popitem(last=False)


def sizes(book: Reader) -> dict[str, int]:
    """Return the queries that are cached, with the bytes of their answers."""
    cached: dict[str, int] = {}
    with _guard:
        for key, (_, text) in _caches.get(book, OrderedDict()).items():
            cached[str(key[0])] = cached.get(str(key[0]), 0) + len(text.encode())
    return cached


def forget(book: Reader, queries: Collection[str]) -> int:
    """Drop the answers to these queries; return how many queries had one."""
    with _guard:
        cache = _caches.get(book, OrderedDict())
        gone = [key for key in cache if str(key[0]) in set(queries)]
        for key in gone:
            del cache[key]
        return len({str(key[0]) for key in gone})
