"""From a question to an answer: filter, retrieve, fuse, rerank, adjust, choose, pack, explain. It only reads."""

from spellbook.system.lazy import late

late(
    __name__,
    "cited_code",
    "duplicates",
    "explain",
    "newest",
    "question",
    "related",
    "searcher",
    "synonyms",
    "time_in_question",
    "toc",
)
