"""Suggest notes where no note has a name: those that a reader may see and that are called nearly so."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

from spellbook.index import privacy
from spellbook.index.filters import alike
from spellbook.index.opened import Index
from spellbook.text.quoting import exact, flat, shortened
from spellbook.text.unicode import folded, without_ending

_MOST = 3
_LEAST_LETTERS = 2  # of a name that others may contain
_MOST_LETTERS = 80  # of a title that is shown


def suggested(index: Index, name: str) -> list[str]:
    """
    Return the titles of at most three notes that `name` may mean, the shortest first; instead of a title that several
    have, or that comes from outside, the note's id.

    They are notes whose title, file name or alias contains it, else those of which one is spelled like it.
    """
    wanted = folded(without_ending(PurePosixPath(name.partition("#")[0]).name)).strip()
    if len(wanted) < _LEAST_LETTERS:
        return []
    called = index.catalog.links.called()
    seen = index.catalog.among({path for path, _ in called}, index.visible)
    names = sorted(((value, path) for path, value in called if path in seen), key=lambda each: (len(each[0]), each))
    held = [path for value, path in names if wanted in value]
    close = held or [at for near in alike(wanted, dict(names), _MOST) for value, at in names if value == near]
    paths = list(dict.fromkeys(close))[:_MOST]
    notes = [chunks[0] for path in paths if (chunks := index.catalog.at(path))]
    titles = Counter(note.title for note in notes)
    return [
        exact(note.note)
        if titles[note.title] > 1 or privacy.is_untrusted(note.meta)
        else flat(shortened(note.title, _MOST_LETTERS))
        for note in notes
    ]
