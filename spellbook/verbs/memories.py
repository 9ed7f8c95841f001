"""The verbs of memories, decisions, articles and documents, and what they take; as `table` has those of a vault."""

from __future__ import annotations

from typing import Any

from spellbook.notes.article_limits import MOST_CATEGORIES, MOST_LETTERS, MOST_SUMMARY
from spellbook.notes.frontmatter import IMPORTANCE
from spellbook.notes.labels import COMMAS
from spellbook.settings.limits import MOST_LINE
from spellbook.verbs.arguments import (
    ALSO,
    AS_OF,
    EXPLAIN,
    FORCE,
    FORCE_SECRET,
    FORM,
    HARD,
    LIMIT,
    LINE,
    MAX_TOKENS,
    MIN_SCORE,
    ONLY_CATEGORY,
    QUERY,
    SKIPPED,
    STRINGS,
)
from spellbook.verbs.declare import (
    MOST_ID,
    MOST_TEXT,
    NEEDED,
    choice,
    flag,
    mapping,
    needed,
    number,
    share,
    text,
    texts,
    verb,
)

_SHOWN: dict[str, Any] = {"max_tokens": MAX_TOKENS, "format": FORM}

# -- memento

_VALID = {"valid_from": text("A date.", 40), "valid_until": text("A date.", 40)}
_MEMORY = needed("The id of a memory, or of a chunk of it.")
REMEMBER = verb(
    "remember",
    "write",
    content=needed("Markdown, with names, date and reason.", MOST_TEXT),
    title=text("Else the first sentence.", MOST_LINE),
    type=choice(
        "semantic lasts: a fact, preference, decision; episodic: what happened, for a year; procedural: how to do it; "
        "working fades in days.",
        "working episodic semantic procedural",
        "semantic",
    ),
    topic=text("Else the first tag.", MOST_LINE),
    tags=texts("Tags.", 300, apart=COMMAS),
    keywords=texts("Exact search terms; else from the text.", MOST_LINE, apart=COMMAS),
    questions=texts("Questions it answers.", MOST_LINE),
    supersedes=texts("Ids or titles it replaces.", 5_000),
    **_VALID,
    importance=share("0 to 1, or a word.", default=IMPORTANCE, choices=("high", "medium", "low")),
    source=text("A path, a URL, a person.", 300),
    privacy_scope=choice("Who may read it.", "private team public", "private"),
    project_id=text("Its project; else the server's scope.", 200),
    sources=texts("Code it rests on: src/a.py#L1-L20.", 500),
    force=FORCE,
)
RECALL = verb(
    "recall",
    query=QUERY,
    also=ALSO,
    filters=mapping(
        "type, tags (any of them), project_id, time_from, time_to (dates), or any key that search filters by.",
        20_000,
        additionalProperties=True,
    ),
    limit=LIMIT.but(default=8),
    min_score=MIN_SCORE,
    **_SHOWN,
    explain=EXPLAIN,
    as_of=AS_OF,
)
PIN = verb("pin", "write", memory_id=_MEMORY)
FORGET = verb("forget", "write", memory_id=_MEMORY, hard=HARD)

# -- decisions

_REPLACED = texts('Ids or titles of notes it replaces; "topic" for all living decisions of its topic.', 5_000)
_TOPIC = text("topic or category/topic.")
_REASON = text("What happened.", 20_000)
_RESULTS = "success partial failed"
_OUTCOME = choice("How it turned out.", _RESULTS)
SAVE_DECISION = verb(
    "mama_save",
    "write",
    type=choice("What to save.", "decision checkpoint", NEEDED),
    topic=text("What a decision is about: voxel:chicken_design.", 300),
    decision=text("What was decided. Its first sentence is its title.", 20_000),
    reasoning=text("Why.", 100_000),
    confidence=share("How sure it is, 0 to 1."),
    supersedes=_REPLACED,
    **_VALID,
    user_involvement=choice("What the person did about it.", "requested approved rejected"),
    summary=text("Where the work of a checkpoint stands.", 20_000),
    next_steps=texts("Tasks that come next.", apart=r"\n"),
    open_files=texts("Files that are open.", apart=","),
    session_id=text("Your session: the log names it.", 200),
    force=FORCE_SECRET,
)
CHECKPOINT = verb("mama_checkpoint", format=FORM)
SEARCH_DECISIONS = verb(
    "mama_search",
    query=text("A question or a sentence, in any language; the newest without one.", 20_000),
    type=choice("What to look for.", "all decision checkpoint", "all"),
    limit=LIMIT.but(default=10),
    topic=_TOPIC,
    outcome=choice("Only decisions with this outcome.", f"{_RESULTS} pending"),
    min_score=MIN_SCORE,
    **_SHOWN,
)
UPDATE_DECISION = verb(
    "mama_update",
    "write",
    id=needed("Id of a section or note."),
    outcome=_OUTCOME,
    reason=_REASON,
    supersedes=_REPLACED,
)
RECORD_OUTCOME = verb("outcome", "write", outcome=choice(_OUTCOME.about, _RESULTS, NEEDED), reason=_REASON)

# -- articles

_MANY = {"anyOf": [STRINGS, {"type": "string", "maxLength": 5_000}]}
_ARTICLE = needed("The id of an article.")
SAVE = verb(
    "save",
    "write",
    source=needed("The address of a page or a PDF, or the path of a PDF or HTML file; with text, where it is from."),
    categories=texts(
        "What it is filed under; the first one is its topic.",
        MOST_LETTERS,
        MOST_CATEGORIES,
        default=NEEDED,
        least=1,
        apart=COMMAS,
        typed="What to file it under; repeat for more.",
    ),
    metadata=mapping(
        "What to keep beside the text; what is missing is taken from the page.",
        50_000,
        properties={
            "summary": {"type": "string", "maxLength": MOST_SUMMARY, "description": "Of 400 to 600 letters."},
            "keywords": {**_MANY, "description": "Exact terms, as a list or with commas."},
            "tags": _MANY,
            "title": LINE,
            "author": LINE,
            "published": {"type": "string", "maxLength": 40, "description": "A date: 2026-03-14."},
        },
        additionalProperties=False,
    ),
    text=text(
        "The article itself, in Markdown, if you have it already; then nothing is fetched.",
        MOST_TEXT,
        typed="A file with the text itself, or - for stdin; then nothing is fetched.",
    ),
    force=FORCE_SECRET,
)
SEARCH_ARTICLES = verb("articles_search", query=QUERY, category=ONLY_CATEGORY, limit=LIMIT, format=FORM)
LIST_ARTICLES = verb(
    "list",
    "read",
    category=ONLY_CATEGORY,
    limit=number("Maximum number of articles.", 10, 1, 100),
    offset=SKIPPED,
    format=FORM,
)
GET_ARTICLE = verb(
    "get",
    article_id=_ARTICLE,
    include_content=flag("Return its text too, 3,000 letters from offset."),
    offset=number("Where its text begins: the next_offset of the answer before.", 0, 0, 10_000_000),
)
ASK_ARTICLES = verb(
    "ask",
    question=QUERY,
    article_id=text("Only this article, by its id.", MOST_ID),
    category=text("Only articles of this category; * asks the whole vault.", 200),
    limit=LIMIT,
    **_SHOWN,
)
DELETE_ARTICLE = verb("delete", "write", article_id=_ARTICLE)

# -- documents beside the vault

_PATH = text("A folder in the documents, the project or the vault; else the project's documents.", MOST_ID)
SEARCH_DOCUMENTS = verb(
    "wiki_search", query=QUERY, limit=LIMIT, threshold=MIN_SCORE, path=_PATH, **_SHOWN, explain=EXPLAIN
)
INDEX_DOCUMENTS = verb("wiki_index", "write", path=_PATH, full=flag("Read every document again, also unchanged ones."))
STATUS_OF_DOCUMENTS = verb("wiki_status", path=_PATH)
