"""
Synonyms, from Spellbook's own table and the vault's `.spellbook/synonyms.yaml`.

A file is a YAML list of rows. A row is a list of words that mean the same. A vault may come from anybody: the file is
bounded, and an invalid row is a fault with its line. The other rows still count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

from spellbook.notes.files import Fault, Stamp
from spellbook.notes.frontmatter import fast_loader
from spellbook.settings.paths import MARKER
from spellbook.system import disk
from spellbook.system.lazy import yaml
from spellbook.text import korean, terms
from spellbook.vault.listing import stamp_of

NAME = "synonyms.yaml"

# Of a vault's file, which may come from anybody. By hand.
_MOST_BYTES = 200_000
_MOST_ROWS = 2_000
_MOST_WORDS = 12  # of a row
_MOST_LETTERS = 60  # of a word
_MOST_FAULTS = 20
_MOST_DEPTH = 20

_Rows = tuple[tuple[str, ...], ...]
_Faults = tuple[tuple[int, str], ...]

Table = Mapping[str, tuple[str, ...]]
"""For each word, in lower case, the words that mean the same."""

NONE: Table = MappingProxyType({})
"""No synonyms."""

_INFLECTIONS = (("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"))


def of(vault: Path) -> Table:
    """Return the synonyms that hold in a vault. A file that cannot be read has no rows."""
    return _table(*_file_of(vault))


def faults(vault: Path) -> list[Fault]:
    """Return the faults in a vault's own synonyms."""
    file, stamp = _file_of(vault)
    return [Fault(f"{MARKER}/{NAME}", line, reason) for line, reason in _read_file(file)[1]] if stamp else []


def same(table: Table, word: str) -> tuple[str, tuple[str, ...]]:
    """Return the form of `word`, in lower case, that the table has, and its synonyms."""
    return next(((form, table[form]) for form in _forms(word) if form in table), (word, ()))


def _forms(word: str) -> list[str]:
    """Return the forms under which a table may have a word."""
    forms = [word, korean.stem(word)]
    if word.isascii():
        forms += [word.removesuffix(end) + instead for end, instead in _INFLECTIONS if word.endswith(end)]
    return forms


def read(text: str) -> tuple[_Rows, _Faults]:
    """Return the rows of a file's text, each of two or more words, and its faults: the line, from 1, and the reason."""
    rows: list[tuple[str, ...]] = []
    wrong: list[tuple[int, str]] = []
    try:
        for line, words, reason in _items(text):
            if len(wrong) >= _MOST_FAULTS or len(rows) >= _MOST_ROWS:
                wrong.append((line, "there are too many faults or rows; the rest is not read"))
                break
            if reason := reason or _fault(words):
                wrong.append((line, reason))
            else:
                rows.append(tuple(words))
    except yaml.YAMLError as error:
        mark = getattr(error, "context_mark", None) or getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or error
        wrong.append((mark.line + 1 if mark else 0, f"this is not YAML ({problem})"))
    return tuple(rows), tuple(wrong)


def _items(text: str) -> Iterator[tuple[int, list[str], str]]:
    """Yield line, words and fault of each item of a list; the last is the fault of a text that is none, or too deep."""
    depth, first = 0, 1
    words: list[str] = []
    reason, no_row = "", "write a list of rows such as `- [redis, 레디스]`"
    # Events, not values: aliases are not followed, and nothing is nested. Both could exhaust the memory.
    for event in yaml.parse(text, Loader=fast_loader()):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth == 2:
                words, first, reason = [], line, ""
            if depth > 2 or not isinstance(event, yaml.SequenceStartEvent):
                reason = no_row
            if (reason and depth == 1) or depth > _MOST_DEPTH:
                yield line, [], reason
                return
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            if depth == 1:
                yield first, words, reason
        elif isinstance(event, yaml.NodeEvent) and depth < 2:
            yield line, [], no_row
        elif isinstance(event, yaml.AliasEvent):
            reason = reason or "an alias (`*name`) is not a word"
        elif isinstance(event, yaml.ScalarEvent) and depth == 2:
            words.append(" ".join(event.value.split()).lower())


def _fault(words: list[str]) -> str:
    if len(words) > _MOST_WORDS:
        return f"a row has at most {_MOST_WORDS} words"
    odd = next((word for word in words if len(word) > _MOST_LETTERS or not terms.phrase(word)), None)
    if odd is not None:
        return f"{odd!r:.40} is not a word of at most {_MOST_LETTERS} characters"
    return "" if len(set(words)) > 1 else "a row needs two words that mean the same"


def _file_of(vault: Path) -> tuple[Path, Stamp | None]:
    """Return the place of a vault's synonyms and their file's stamp, None if there are none."""
    file = vault / MARKER / NAME
    try:
        stat = file.stat()
    except (OSError, ValueError):
        return file, None
    return file, stamp_of(stat)


def _read_file(file: Path) -> tuple[_Rows, _Faults]:
    try:
        return read(disk.read_small(file, _MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        return (), ((0, f"it cannot be read ({error.strerror})"),)
    except UnicodeDecodeError:
        return (), ((0, "it is not UTF-8 text"),)


@lru_cache(maxsize=8)
def _table(file: Path, stamp: Stamp | None) -> Table:
    """Return the table of a vault's file; `stamp` is part of the key, so that a change is read again."""
    table: dict[str, dict[str, None]] = defaultdict(dict)
    own = _read_file(file)[0] if stamp else ()
    for row in (*shipped_rows(), *own):
        for word in row:
            table[word] |= dict.fromkeys(other for other in row if other != word)
    return MappingProxyType({word: tuple(others) for word, others in table.items()})


@cache
def shipped_rows() -> _Rows:
    """Return the rows that come with Spellbook, one a line; yaml would take longer to load."""
    text = Path(__file__).with_name(NAME).read_text("utf-8").lower().replace('"', "")
    return tuple(tuple(line[3:-1].split(", ")) for line in text.splitlines() if line.startswith("- ["))
