"""Labels of a memory that was given none, made of its text: a title and keywords, never made-up questions. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence

from spellbook.notes.markdown import heading_text, lines, literals
from spellbook.notes.note import blocks
from spellbook.notes.titles import title as first_sentence
from spellbook.system.lazy import regex
from spellbook.text import credentials, terms

_ITEM = regex(r"^[ \t>]*(?:[-+*]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?|^[ \t>]+|\[![\w-]+\][+-]?", re.M)
"""Marks before the words of a list item, a quote or a callout."""
_FENCE = regex(r"^[ \t>]*(?:```|~~~).*$", re.M)

_MOST_READ = 2_000
"""Letters of a text in which its first words are looked for."""


def made_title(text: str) -> str:
    """
    Return the title of a memory that was given none: its first sentence or heading, without markup or secrets.

    Code is read if there is nothing else.
    """
    text = credentials.masked(text[:_MOST_READ])
    source, passages = lines(text), list[str]()
    for block in blocks("".join(source)):
        prose = (heading_text(_ITEM.sub("", "".join(source[first:last]))) for first, last in block.prose)
        passages += [block.text] if block.kind == "heading" else prose
    worded = (each for each in (*passages, _FENCE.sub("", text)) if any(map(str.isalnum, each)))
    return first_sentence(" ".join(next(worded, text).replace("|", " ").split()))


_MOST_DERIVED = 8
"""Identifiers and names that become keywords. By hand: keywords are embedded with the text."""

_MOST_OF_TEXT = 20_000
"""Letters of a text that are read."""
_MOST_LETTERS = 60
"""Letters of a keyword."""
_MOST_COUNTED = 40
"""Names of a text that are looked up in the vault, which takes a query each."""

_NOT_PROSE = regex(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)|https?://\S+", re.S | re.M)
_WIKILINK = regex(r"!?\[\[([^\[\]|#^\n]{1,200})[^\[\]\n]{0,200}\]\]")
_LATIN = "A-Za-z\u00c0-\u024f"
_TOKEN = regex(rf"(?<![{_LATIN}0-9_.])\.?[{_LATIN}][{_LATIN}0-9_]*(?:[-./][{_LATIN}0-9_]+)*(?:\+\+|#)?")
_HUMP = regex(r"[a-z0-9][A-Z]")
_FILE = regex(rf"(?:[{_LATIN}0-9_-]{{2,}}/)*[{_LATIN}0-9_-]{{2,}}\.[A-Za-z]{{1,5}}|\.[a-z]{{2,}}")
_NAME = regex(rf"[{_LATIN}]{{2,}}(?:-[{_LATIN}]+)*")
_OPENS = frozenset(".!?:;•*>|\"'“‘([-#")
_CJK = regex(f"[{terms.HANGUL}{terms.HAN_KANA}]")
_DATES = frozenset({*calendar.day_name, *calendar.month_name})
_SHOUTED = frozenset({"OK", "TODO", "NOTE", "FIXME", "AND", "OR", "NOT"})


_RARE = 20
"""Chunks in which a name may be that becomes a keyword, however small the vault is. By hand."""
_RARE_SHARE = 0.02
"""Share of a vault's chunks in which such a name may be. By hand."""


def derived_keywords(text: str, tags: Sequence[str], frequency: Callable[[str], int], chunks: int) -> list[str]:
    """
    Return keywords for a text: `tags`, then at most `_MOST_DERIVED` identifiers and rare names of it, no secrets.

    Identifiers come first, in order: inline code, wikilinks, `useState`, `v1.2`, `GPT-4`, `config.toml`, `JWT`. Names
    are capitalised words within sentences that few of the vault's `chunks` have, by `frequency`, the rarest first.
    """
    text = _NOT_PROSE.sub(" ", credentials.masked(text[:_MOST_OF_TEXT]))
    spans = list(literals(text))
    candidates = [(start, text[start:end].strip("` ")) for start, end in spans]
    for start, end in reversed(spans):
        text = text[:start] + " " * (end - start) + text[end:]
    candidates += [(link.start(), link[1].rpartition("/")[2].strip()) for link in _WIKILINK.finditer(text)]
    text = _WIKILINK.sub(lambda link: " " * len(link[0]), text)
    is_shouted = sum(map(str.isupper, text)) > sum(map(str.islower, text)) and not _CJK.search(text)
    candidates += [(token.start(), token[0]) for token in _TOKEN.finditer(text) if _is_identifier(token[0], is_shouted)]
    words = (word for _, word in sorted(candidates) if len(word) <= _MOST_LETTERS and "\n" not in word)
    identifiers = dict.fromkeys(word for word in words if any(map(str.isalpha, word)))
    known = {word.casefold() for word in (*tags, *identifiers)}
    names = [name for name in dict.fromkeys(_names(text)) if name.casefold() not in known][:_MOST_COUNTED]
    counts = {name: frequency(str(terms.phrase(name))) for name in names}
    rare = sorted(
        (name for name in names if counts[name] <= max(_RARE, chunks * _RARE_SHARE)), key=lambda name: counts[name]
    )
    return list(dict.fromkeys([*tags, *[*(word for word in identifiers if word not in tags), *rare][:_MOST_DERIVED]]))


def _is_identifier(token: str, is_shouted: bool) -> bool:
    if token.endswith(("++", "#")) or "_" in token.strip("_") or _FILE.fullmatch(token):
        return True
    if _HUMP.search(token) or any(map(str.isdigit, token)):
        return len(token) > 1
    return token.isupper() and len(token) > 1 and not is_shouted and token not in _SHOUTED


def _names(text: str) -> list[str]:
    """Return the capitalised words within sentences, those that follow each other as one name, in order."""
    names: list[str] = []
    for line in text.split("\n"):
        if line.lstrip().startswith("#"):
            continue  # words of headings are often capitalised
        # Where letters have no case, a capitalised word is a name wherever it stands.
        is_cjk = bool(_CJK.search(line))
        last = -2
        for word in _NAME.finditer(line):
            before = line[: word.start()].rstrip()
            is_first = not before or before[-1] in _OPENS
            if not (word[0][0].isupper() and word[0][1:].islower()) or (is_first and not is_cjk) or word[0] in _DATES:
                continue
            if last == word.start() - 1 and line[last] == " " and names[-1].count(" ") < 2:
                names[-1] += f" {word[0]}"
            else:
                names.append(word[0])
            last = word.end()
    return names
