"""The text of a captured session's note, a section an exchange: the person's words, quoted, then the agent's. Pure."""

from __future__ import annotations

import re

_SECTION = re.compile(r"^## (?=\d\d:\d\d)", re.M)
_WORDS = re.compile(r"^\*\*You:\*\*(.*?)(?=^\*\*[^*\n]+:\*\*|\Z)", re.M | re.S)


def words(text: str) -> str:
    """Return the person's words in the last exchange of a text, "" if it has none."""
    found = _WORDS.search(_SECTION.split(text)[-1])
    return re.sub(r"(?m)^> ?", "", found[1].strip()) if found else ""
