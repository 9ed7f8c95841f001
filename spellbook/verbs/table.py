"""The verbs of a vault and what they take. No door states a bound, a default or a help of its own for these."""

from __future__ import annotations

from typing import Any

from spellbook.settings.limits import MOST_LISTED, MOST_VERSIONS
from spellbook.verbs.arguments import (
    ALSO,
    AS_OF,
    CHUNK,
    DRY_FIRST,
    DRY_RUN,
    EXPLAIN,
    FILTER,
    FORCE,
    FORCE_SECRET,
    FORM,
    HARD,
    ID,
    LIMIT,
    MAX_TOKENS,
    MIN_SCORE,
    MODE,
    MOST_CHUNKS,
    ONLY_CATEGORY,
    PER_NOTE,
    QUERY,
    SKIPPED,
)
from spellbook.verbs.declare import (
    MOST_ID,
    MOST_LETTERS,
    MOST_TEXT,
    NEEDED,
    Argument,
    choice,
    flag,
    mapping,
    needed,
    number,
    text,
    texts,
    verb,
)

_IN_ORDER: dict[str, Argument] = {"limit": LIMIT, "filter": FILTER, "category": ONLY_CATEGORY}
_AS_SHOWN: dict[str, Argument] = {
    "max_tokens": MAX_TOKENS,
    "per_note": PER_NOTE,
    "format": FORM,
    "explain": EXPLAIN,
    "as_of": AS_OF,
}
_READ: dict[str, Argument] = {"max_tokens": MAX_TOKENS.but(default=4_000), "format": FORM}

# -- finding and reading

_KEYS = (
    'As {"tags": ["db"]}: category, topic, tags, path (a glob), when (2026-11-01..), any frontmatter key; "!" negates.'
)
_NARROWED = {**_IN_ORDER, "filter": FILTER.but(about=_KEYS)}
SEARCH = verb("search", "read", query=QUERY, also=ALSO, mode=MODE, **_NARROWED, min_score=MIN_SCORE, **_AS_SHOWN)
MEMORIZE = verb("memorize", "read", query=QUERY, **_IN_ORDER, min_score=MIN_SCORE, **_AS_SHOWN)
FIND = verb(
    "find",
    "read",
    keywords=texts('Phrases: ["Qdrant", "embedded mode"].', 200, 32, default=NEEDED),
    match=choice("How many must match.", "any all", "any"),
    **_IN_ORDER,
    **_AS_SHOWN,
)
WHY = verb(
    "why",
    "read",
    query=QUERY,
    also=ALSO,
    id=text("Id of a section or note, or its path.", MOST_ID),
    verb=MODE.but(typed="The verb to explain."),
    limit=LIMIT,
    filter=FILTER,
    min_score=MIN_SCORE,
    as_of=AS_OF,
)
RECENT = verb(
    "recent",
    "read",
    limit=number("Maximum notes.", 20, 1, MOST_LISTED),
    offset=SKIPPED,
    filter=FILTER,
    format=FORM,
)
CONTENTS = verb(
    "contents",
    "read",
    scope=text("A scope, category or folder.", 500),
    max_tokens=MAX_TOKENS.but(default=800),
    format=FORM,
)
WHOLE_CONTENTS = verb(
    "contents",
    "read",
    scope=CONTENTS.arguments["scope"],
    max_tokens=MAX_TOKENS.but(default=1_000_000, most=1_000_000),
)
TOPIC = verb("topic", "read", topic=needed("topic or category/topic.", 2_000), **_READ)
SHOW = verb("show", "read", id=ID, as_of=AS_OF, **_READ)
HISTORY = verb("history", "read", id=ID, limit=number("Maximum number of versions.", 20, 1, MOST_VERSIONS))
VAULT_GRAPH = verb("vault_graph", "read", limit=number("Maximum number of notes, the most linked.", 5_000, 1, 5_000))
STATUS = verb("status", "read")

# -- writing

_LABELS = {
    "source": text("Default for metadata.source.", typed="Where it comes from."),
    "category": text("Default for metadata.category.", 200),
}
_SESSION = text("That of rest().", 200, is_asked=True)
_CHUNK = mapping("", 400_000, NEEDED, **CHUNK)
_CHECKED = mapping("A chunk as scribe takes it.", 400_000, NEEDED)
"""The tool scribe tells the form of a chunk; once is enough for a model's context."""

_CHUNKS = mapping(
    "One chunk as scribe takes it, or a list.",
    4_000_000,
    NEEDED,
    anyOf=[{"type": "object"}, {"type": "array", "items": {"type": "object"}, "maxItems": MOST_CHUNKS}],
)

REST = verb("rest", "write", language=choice("Language; default: the server's.", "en ko"))
REST_END = verb("rest_end", "write", session_id=_SESSION)
SCRIBE = verb("scribe", "write", chunk=_CHUNK, session_id=_SESSION, **_LABELS, force=FORCE)
SCRIBE_ALL = verb("scribe_all", "write", chunk=_CHUNKS, session_id=_SESSION, **_LABELS, force=FORCE)
VALIDATE = verb("validate", chunk=_CHECKED, **_LABELS)
WRITE = verb(
    "write",
    "write",
    text=needed("Markdown.", MOST_TEXT),
    metadata=mapping(
        "Its labels; missing keywords are taken from the text.", 100_000, NEEDED, additionalProperties=True
    ),
    force=FORCE,
)
_REPLACED: dict[str, Any] = {
    "properties": {
        "old": {"type": "string", "maxLength": MOST_TEXT},
        "new": {"type": "string", "maxLength": MOST_TEXT},
        "all": {"type": "boolean"},
    },
    "required": ["old", "new"],
}
REVISE = verb(
    "revise",
    "write",
    chunk_id=needed("Id of a section or note."),
    content=text("New text of the section; a heading is kept.", MOST_TEXT, None, of_tools=MOST_LETTERS),
    append=text("Added at the end.", MOST_TEXT, None, of_tools=MOST_LETTERS),
    replace=mapping(
        "Replace a phrase that occurs once, or all.",
        2 * MOST_TEXT,
        of_tools=MOST_LETTERS,
        typed="Replace the phrase OLD, which must occur once, by NEW.",
        **_REPLACED,
    ),
    metadata=mapping("Frontmatter keys to set; null removes one.", 100_000, additionalProperties=True),
    expected_hash=text("Refuse if the text no longer has this hash.", 64),
    dry_run=DRY_RUN,
    force=FORCE_SECRET,
)
ERASE = verb(
    "erase",
    "write",
    chunk_id=text("Id of a section or note.", MOST_ID),
    topic_id=text("topic or category/topic."),
    hard=HARD,
    whole=flag("Erase the section's whole note."),
    dry_run=DRY_RUN.but(
        default=None, about="Only show what would go; so it is for a topic unless the person is asked."
    ),
)
MERGE = verb(
    "merge",
    "write",
    a=needed("One of the two: its id, its path, or the id of its chunk."),
    b=needed("One of the two: its id, its path, or the id of its chunk."),
    keep=choice("Which sentences to keep where the two contradict each other.", "a b both"),
    dry_run=DRY_FIRST,
)
MOVE = verb(
    "move",
    "write",
    old=needed("The path of a note or a folder in the vault, or a note's id."),
    new=needed("Its new path, or an existing folder to move it into."),
    dry_run=DRY_FIRST,
)
MEND_LINKS = verb("mend_links", "write", dry_run=DRY_FIRST)

# -- what was changed

LOG = verb(
    "log",
    "read",
    limit=number("Maximum number of entries.", 20, 1, 1_000),
    path=text("Only changes of this note.", MOST_ID),
)
UNDO = verb(
    "undo",
    "write",
    entry=number("Number in the log; else the latest.", None, 1, 2**53),
    dry_run=DRY_RUN,
)
RESTORE = verb("restore", "write", name=needed("A path in .trash, or the id, path or topic erased."))

# -- backups and work that takes its time

EXPORT = verb(
    "export",
    "write",  # a file outside of the vault
    format=choice(
        "json for programs, markdown for a zip of the notes.",
        "json markdown",
        "json",
        typed="json for programs, markdown for a zip of the vault [what FILE's ending says, else json].",
    ),
    filter=FILTER,
    attachments=flag("Include files that are not notes.", default=True),
)
IMPORT = verb(
    "import_",
    "admin",
    source=needed("The path or the name of a file that export wrote."),
    on_conflict=choice(
        "If a file is there: skip the new one, replace it (it goes to .trash), or number the new one.",
        "skip overwrite rename",
        "skip",
    ),
    dry_run=DRY_FIRST,
)
SNAPSHOT = verb("snapshot", "write")
SNAPSHOTS = verb("snapshots", "read")
REINDEX = verb(
    "reindex",
    "write",
    full=flag("Read every note again.", typed="Read every note again, and accept that missing notes were deleted."),
)
MIGRATE = verb("migrate", "admin", to=needed("The embedder to switch to, as in SPELLBOOK_EMBEDDER.", 500))
CHECK = verb("check", "write")
CHECKED = verb("checked", "read")
