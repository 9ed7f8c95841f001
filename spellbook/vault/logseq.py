"""Settings of a Logseq graph in `logseq/config.edn`: where journals are, how they are named, and hidden files. Pure."""

from __future__ import annotations

import re

from spellbook.system.lazy import regex

_TOKEN = regex(r";[^\n]*|\"((?:[^\"\\]|\\.)*+)\"|#_|[\[{(]|[\]})]|[^\s,;\"\[\]{}()]+", re.S)
_LETTERS = regex(r"'([^']*)'|do|(y+|d+|E+)")
_MOST_TOKENS = 100_000


def settings(text: str) -> dict[str, list[str]]:
    """Return the texts under each key of the top map of EDN; comments and `#_` forms are left out, no value is run."""
    found: dict[str, list[str]] = {}
    key, depth, left_out, is_key = "", 0, [], True
    for count, match in enumerate(_TOKEN.finditer(text)):
        token = match[0]
        if token[0] == ";" or count > _MOST_TOKENS:
            continue
        if token == "#_":
            left_out.append(depth)
            continue
        if token[0] == "#":  # a tag, or the mark of a set
            continue
        if token in "[{(":
            depth += 1
            continue
        depth -= token in "]})"
        if left_out:
            if depth <= left_out[-1]:
                left_out.pop()
            continue
        if match[1] is not None and key and not is_key:
            found.setdefault(key, []).append(match[1].replace('\\"', '"').replace("\\\\", "\\"))
        if depth == 1:  # a whole form of the top map
            key = token if is_key else key
            is_key = not is_key
    return found


def moment(format: str) -> str:
    """Return a format of dates of cljs-time (`yyyy_MM_dd`) in the tokens of moment.js."""

    def token(match: re.Match[str]) -> str:
        if match[2] and match[2][0] == "E":
            return "dddd" if len(match[2]) > 3 else "ddd"
        return f"[{match[1]}]" if match[1] is not None else match[0].replace("y", "Y").replace("d", "D")

    return _LETTERS.sub(token, format)
