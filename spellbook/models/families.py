"""
Families of models that services run, and their prefixes for questions and passages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SENTENCE = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@dataclass(frozen=True, slots=True)
class Family:
    """The prefixes of questions and passages; `looks` is a pattern in the names of its models, "" for none."""

    looks: str = ""
    query: str = ""
    passage: str = ""


FAMILIES: Mapping[str, Family] = {
    "nomic": Family(r"nomic-embed-text", "search_query: ", "search_document: "),
    "gemma": Family(r"embedding-?gemma", "task: search result | query: ", "title: none | text: "),
    "qwen3": Family(r"qwen3-embedding", _INSTRUCT, ""),
    "mxbai": Family(r"mxbai-embed", _SENTENCE),
    "arctic2": Family(r"arctic-embed(?:2|.*v2)", "query: "),
    "arctic": Family(r"arctic-embed", _SENTENCE),
    "bge-zh": Family(r"bge-(?:small|base|large)-zh", "为这个句子生成表示以用于检索相关文章："),
    "bge-m3": Family(r"bge-m3"),
    "bge": Family(r"bge-(?:small|base|large)", _SENTENCE),
    "gte": Family(r"gte-multilingual"),
    "e5-instruct": Family(r"(?<![a-z0-9])e5-.*(?:instruct|mistral)", f"{_INSTRUCT} "),
    "e5": Family(r"(?<![a-z0-9])e5(?![a-z0-9])", "query: ", "passage: "),
}
"""The families there are; the first whose looks a name has is its own."""


def family(model: str) -> Family:
    """Return the family that a model of this name belongs to; one that wants nothing if none of these."""
    return next((kin for kin in FAMILIES.values() if re.search(kin.looks, model.lower())), Family())
