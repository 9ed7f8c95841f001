"""The text of a note in lists and among hits: an excerpt, its first words, and the words of a question marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

from spellbook.index.catalog.rows import StoredChunk
from spellbook.notes import splitter
from spellbook.notes.titles import without_signs
from spellbook.search.packing import Weigh
from spellbook.system.lazy import regex
from spellbook.text import korean, terms

_AROUND = 420
"""Letters of an excerpt."""

_ENDS = ".!?。"
"""Signs that end a sentence."""

_GIST = 220
"""Letters of a note in a list."""

_MARKED_LINK = regex(
    r"!?\[([^\[\]\n]{0,300})\]\([^()\s]{0,500}\)|!?\[\[([^\[\]|\n]{1,300})(?:\|([^\[\]\n]{1,300}))?\]\]"
)
_MARKS = regex(
    # Where a block begins: a heading, a quote, an item of a list.
    r"(?m)^[ \t]*(?:#{1,6}|>|[-*+](?= )(?: \[[ xX]\])?|\d+\.(?= ))[ \t]*(?:\[![\w-]+\][+-]?)?"
    r"|^[ \t|:-]*-{3}[ \t|:-]*$|^`{3}.*$|\|"  # rules, fences, and the lines of tables
    r"|[*`]{1,3}|~~|==|\b_{1,2}\B|\B_{1,2}\b|<!--[^<>\n]{0,200}-->"
)
_HANGUL = regex("[가-힣]")

_MOST_EXCERPTED = 20_000
_MOST_WORDS = 64
"""Words of a question that are marked."""

_MOST_ENDING = 12
"""Letters of an ending that a marked word may have."""

_MOST_INFLECTION = 2
"""The same of a word that only stood for another: no `redistribution` for `redis`."""


def found_words(query: str, others: Iterable[str]) -> re.Pattern[str] | None:
    """
    Return a pattern of a question's words as a text may have them, None if it has none.

    Korean words match with any particle, others of four letters or more with any ending. `others` are words that stood
    for them, such as synonyms; anything may stand between several words.
    """
    words = terms.runs(query)[:_MOST_WORDS]
    telling = [word for word in words if word.lower() not in terms.STOP_WORDS] or words
    wanted = {korean.stem(word) if _HANGUL.search(word) else word for word in telling}
    phrases = {tuple(terms.runs(other)): _MOST_INFLECTION for other in others}
    phrases |= {(word,): _MOST_ENDING for word in wanted}
    longest = sorted(filter(None, phrases), key=lambda words: -sum(map(len, words)))
    parts = [_forms(words, phrases[words]) for words in longest if len("".join(words)) > 1 or not words[0].isascii()]
    return re.compile(rf"(?<![^\W_가-힣])(?:{'|'.join(parts)})", re.I) if parts else None


def _forms(words: Sequence[str], most: int) -> str:
    """Return a pattern of words in a row, the last one with an ending of at most so many letters."""
    last = words[-1]
    if _HANGUL.search(last):
        ending = rf"[^\W_가-힣]{{0,{_MOST_ENDING}}}"
    else:
        ending = rf"[^\W_가-힣]{{0,{most if len(last) > 3 else 0}}}(?![^\W_가-힣])"
    return r"[\W_]{0,3}".join(map(re.escape, words)) + ending


def marked(text: str, words: re.Pattern[str] | None) -> Markup:
    """Return a text with the words of a question marked."""
    if words is None:
        return escape(text)
    made = Markup()
    at = 0
    for match in words.finditer(text):
        made += escape(text[at : match.start()]) + Markup("<mark>{}</mark>").format(match[0])
        at = match.end()
    return made + escape(text[at:])


def excerpt(text: str, words: re.Pattern[str] | None, weigh: Weigh, heading: str = "", title: str = "") -> Markup:
    """
    Return the text around the sentence that answers best, by `weigh` or most `words`, in bold.

    It leaves out `heading`, and a sentence at its beginning that repeats `title`; "" if nothing else is there.
    """
    body = plain_text(text[:_MOST_EXCERPTED], heading)
    beyond = after_title(title, body)
    body = body if beyond is None else beyond

    def worth(span: tuple[int, int]) -> tuple[int, float]:
        sentence = body[slice(*span)]
        return len({match[0].lower() for match in words.finditer(sentence)}) if words else 0, weigh([sentence])[0]

    best = max(splitter.sentences(body), key=worth, default=(0, 0))
    first, last = best if any(worth(best)) else (0, 0)
    start = body.find(" ", first - _AROUND // 3) + 1 if first > _AROUND // 3 and len(body) > _AROUND else 0
    end = start + len(_cut(body[start:], _AROUND))
    lead, bold, rest = (marked(body[a:b], words) for a, b in pairwise((start, max(start, first), min(last, end), end)))
    bold = bold and Markup("<strong>{}</strong>").format(bold)
    return Markup("{}{}{}{}{}").format("… " * (start > 0), lead, bold, rest, " …" * (end < len(body)))


def after_title(title: str, text: str) -> str | None:
    """Return what a text says after its title, None if its first sentence is another. The title may be cut by "…"."""
    body = plain_text(text, "")
    begun = " ".join(title.split()).rstrip(" .。…")
    after = body.removeprefix(begun)
    is_sentence = title.endswith("…") or begun[-1:] in _ENDS or after[:1] in _ENDS
    return after.lstrip(f" …{_ENDS}") if begun and after != body and is_sentence else None


def gist(chunk: StoredChunk) -> str:
    """Return a line or two of a note that say more than its title, "" if it has none."""
    body = plain_text(chunk.text[:_MOST_EXCERPTED], "")
    after = body.removeprefix(" ".join(chunk.title.split()).rstrip(" .…"))
    text = body if after[:1].isalnum() else after.lstrip(" .,;:…")
    shown = _cut(text, _GIST)
    return f"{shown} …" if shown != text else text


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, cut at a space if there is one in its second half."""
    cut = text[:most]
    return cut.rpartition(" ")[0] if len(text) > most and " " in cut[most // 2 :] else cut


def plain_text(text: str, heading: str) -> str:
    """Return a text on one line, without most marks of Markdown, and without a first heading that repeats `heading`."""
    lines = text.strip().splitlines()
    if lines and lines[0].startswith("#") and lines[0].lstrip("# ").startswith(heading.rpartition(" > ")[2]):
        del lines[0]
    named = _MARKED_LINK.sub(lambda link: link[1] or link[3] or link[2] or "", without_signs("\n".join(lines)))
    return " ".join(_MARKS.sub(" ", named).split())
