"""
Synonyms and kinds of things, from Spellbook's own tables and the vault's `.spellbook/synonyms.yaml`.

A file is a YAML list of rows. A row is a list of words that mean the same, or two lists: what a kind of things is
called, and its members. A vault may come from anybody: what is read of its file is bounded, and what makes no sense is
a fault with its line. The other rows still count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from spellbook.notes.frontmatter import fast_loader
from spellbook.notes.note import Fault, Stamp
from spellbook.settings.paths import MARKER
from spellbook.system import disk
from spellbook.system.lazy import yaml
from spellbook.text import korean, terms
from spellbook.vault.listing import stamp_of

NAME = "synonyms.yaml"
_KINDS = "kinds.yaml"

# Of a vault's file, which may come from anybody. By hand.
_MOST_BYTES = 200_000
_MOST_ROWS = 2_000
_MOST_WORDS = 12  # of a row
_MOST_MEMBERS = 60  # of a kind, with its names
_MOST_LETTERS = 60  # of a word
_MOST_FAULTS = 20
_MOST_DEPTH = 20
_MOST_NAMED = 3  # words of a kind's name


class Kind(NamedTuple):
    """A kind of things: what it is called, the most common name first, and its members, in lower case."""

    called: tuple[str, ...]
    members: tuple[str, ...]


_Rows = tuple[tuple[str, ...] | Kind, ...]
_Faults = tuple[tuple[int, str], ...]


class Table(NamedTuple):
    """For each word, in lower case, the words that mean the same, and the kinds of things that it calls."""

    same: Mapping[str, tuple[str, ...]]
    kinds: Mapping[str, tuple[Kind, ...]]


NONE = Table(MappingProxyType({}), MappingProxyType({}))
"""No synonyms."""

_INFLECTIONS = (("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"))


def of(vault: Path) -> Table:
    """Return the synonyms that hold in a vault. A file that cannot be read has no rows."""
    return _table(*_file_of(vault))


def faults(vault: Path) -> list[Fault]:
    """Return what is wrong with a vault's own synonyms."""
    file, stamp = _file_of(vault)
    return [Fault(f"{MARKER}/{NAME}", line, reason) for line, reason in _read_file(file, stamp)[1]] if stamp else []


def same(table: Table, word: str) -> tuple[str, tuple[str, ...]]:
    """Return the form of `word`, in lower case, that the table has, and its synonyms."""
    known = table.same
    return next(((form, known[form]) for form in _forms(word) if form in known), (word, ()))


def kinds(table: Table, words: Sequence[str]) -> list[Kind]:
    """Return the kinds of things that a question's `words` call, in lower case; a name may have several words."""
    listed: dict[Kind, None] = {}
    for i in range(len(words)):
        for size in range(1, _MOST_NAMED + 1):
            before = " ".join(words[i : i + size - 1])
            for last in _forms(words[i + size - 1]) if i + size <= len(words) else ():
                listed |= dict.fromkeys(table.kinds.get(f"{before} {last}".strip(), ()))
    return list(listed)


def _forms(word: str) -> list[str]:
    """Return the forms under which a table may have a word."""
    forms = [word, korean.stem(word)]
    if word.isascii():
        forms += [word.removesuffix(end) + instead for end, instead in _INFLECTIONS if word.endswith(end)]
    return forms


def read(text: str) -> tuple[_Rows, _Faults]:
    """Return the rows of a file's text, each of two or more words, and its faults: the line, from 1, and the reason."""
    rows: list[tuple[str, ...] | Kind] = []
    lists: list[list[str]] = []
    wrong: list[tuple[int, str]] = []
    words: list[str] = []
    reason, first, depth = "", 1, 0
    try:
        # Events, not values: aliases are not followed, and nothing is nested. Both could exhaust the memory.
        for event in yaml.parse(text, Loader=fast_loader()):
            line = event.start_mark.line + 1 if event.start_mark else 0
            if len(wrong) >= _MOST_FAULTS or len(rows) >= _MOST_ROWS:
                wrong.append((line, "there are too many faults or rows; the rest is not read"))
                break
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                is_list = isinstance(event, yaml.SequenceStartEvent)
                if depth == 2:
                    words, lists, first, reason = [], [], line, ""
                if depth == 3 and is_list:
                    lists.append([])
                if not is_list or depth > 3:
                    reason = reason or "write a list of rows such as `- [redis, 레디스]`"
                if (depth == 1 and not is_list) or depth > _MOST_DEPTH:
                    wrong.append((line, reason))
                    break
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
                if depth == 1:
                    reason = reason or (_fault_of_kind(words, lists) if lists else _fault(words))
                    if reason:
                        wrong.append((first, reason))
                    else:
                        rows.append(Kind(*map(tuple, lists)) if lists else tuple(words))
            elif isinstance(event, yaml.ScalarEvent) and depth in {2, 3}:
                (lists[-1] if depth == 3 and lists else words).append(" ".join(event.value.split()).lower())
            elif isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) and depth < 2:
                wrong.append((line, "write a list of rows such as `- [redis, 레디스]`"))
            elif isinstance(event, yaml.AliasEvent):
                reason = reason or "an alias (`*name`) is not a word"
    except yaml.MarkedYAMLError as error:
        mark = error.context_mark or error.problem_mark
        wrong.append((mark.line + 1 if mark else 0, f"this is not YAML ({error.problem or error.context})"))
    except yaml.YAMLError as error:
        wrong.append((0, f"this is not YAML ({error})"))
    return tuple(rows), tuple(wrong)


def _fault_of_kind(words: list[str], lists: list[list[str]]) -> str:
    if words or len(lists) != 2 or not all(lists):
        return "a kind has two lists: what it is called, and its members"
    if any(len(name.split()) > _MOST_NAMED for name in lists[0]):
        return f"the name of a kind has at most {_MOST_NAMED} words"
    return _fault([*lists[0], *lists[1]], _MOST_MEMBERS)


def _fault(words: list[str], most: int = _MOST_WORDS) -> str:
    if len(words) > most:
        return f"a row has at most {most} words"
    odd = next((word for word in words if len(word) > _MOST_LETTERS or not terms.phrase(word)), None)
    if odd is not None:
        return f"{odd!r:.40} is not a word of at most {_MOST_LETTERS} characters"
    return "" if len(set(words)) > 1 else "a row needs two words that mean the same"


def _file_of(vault: Path) -> tuple[Path, Stamp | None]:
    """Return the place of a vault's synonyms and what tells that they changed, None if there are none."""
    file = vault / MARKER / NAME
    try:
        stat = file.stat()
    except (OSError, ValueError):
        return file, None
    return file, stamp_of(stat)


@lru_cache(maxsize=8)
def _read_file(file: Path, stamp: Stamp) -> tuple[_Rows, _Faults]:
    """Read a vault's file; `stamp` is part of the key, so that a change is read again."""
    try:
        return read(disk.read_small(file, _MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        return (), ((0, f"it cannot be read ({error.strerror})"),)
    except UnicodeDecodeError:
        return (), ((0, "it is not UTF-8 text"),)


@lru_cache(maxsize=8)
def _table(file: Path, stamp: tuple[int, int] | None) -> Table:
    table: dict[str, dict[str, None]] = defaultdict(dict)
    kinds: dict[str, dict[Kind, None]] = defaultdict(dict)
    for row in (*_shipped_rows(), *(_read_file(file, stamp)[0] if stamp else ())):
        if isinstance(row, Kind):
            for name in row.called:
                kinds[name][row] = None
            continue
        for word in row:
            table[word] |= dict.fromkeys(other for other in row if other != word)
    return Table(
        MappingProxyType({word: tuple(others) for word, others in table.items()}),
        MappingProxyType({name: tuple(named) for name, named in kinds.items()}),
    )


@cache
def _shipped_rows() -> _Rows:
    return tuple(row for name in (NAME, _KINDS) for row in read(Path(__file__).with_name(name).read_text("utf-8"))[0])
