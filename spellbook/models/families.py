"""
Families of models that services run, and their prefixes for questions and passages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SENTENCE = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

FAMILIES: Mapping[str, tuple[str, str, str]] = {
    "nomic": (r"nomic-embed-text", "search_query: ", "search_document: "),
    "gemma": (r"embedding-?gemma", "task: search result | query: ", "title: none | text: "),
    "qwen3": (r"qwen3-embedding", _INSTRUCT, ""),
    "mxbai": (r"mxbai-embed", _SENTENCE, ""),
    "arctic2": (r"arctic-embed(?:2|.*v2)", "query: ", ""),
    "arctic": (r"arctic-embed", _SENTENCE, ""),
    "bge-zh": (r"bge-(?:small|base|large)-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    "bge-m3": (r"bge-m3", "", ""),
    "bge": (r"bge-(?:small|base|large)", _SENTENCE, ""),
    "gte": (r"gte-multilingual", "", ""),
    "e5-instruct": (r"(?<![a-z0-9])e5-.*(?:instruct|mistral)", f"{_INSTRUCT} ", ""),
    "e5": (r"(?<![a-z0-9])e5(?![a-z0-9])", "query: ", "passage: "),
}
"""By family, a pattern in the names of its models, and what comes before a question and before a passage."""


def prefixes(model: str) -> tuple[str, str]:
    """Return the prefixes of the first family that has a model of this name; of any other model, none."""
    found = (rest for pattern, *rest in FAMILIES.values() if re.search(pattern, model.lower()))
    query, passage = next(found, ("", ""))
    return query, passage
