"""
Types of tool arguments, which accept what clients really send.

Some clients send a missing argument as null or as the text "null", and a list or an object as JSON text. The schemas
stay plain: every argument has a description and bounds, and every array names its items.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from spellbook.errors import InvalidInput


def _absent(value: object) -> object:
    return None if isinstance(value, str) and value.strip() in {"", "null", "None", "undefined"} else value


def _or(default: object) -> BeforeValidator:
    """Replace a missing argument by `default`."""

    def given(value: object) -> object:
        return default if _absent(value) is None else value

    return BeforeValidator(given)


def _decoded(most: int) -> BeforeValidator:
    """Decode JSON text, and refuse a value of more than `most` characters."""

    def given(value: object) -> object:
        value = _absent(value)
        try:
            if isinstance(value, str) and value.strip()[:1] in {"[", "{"}:
                value = json.loads(value)
            size = len(json.dumps(value, ensure_ascii=False))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        except ValueError:
            return value  # text that looks like JSON; the verb reports what it expects
        if size > most:
            raise ValueError(f"too large: {size:,} characters as JSON, at most {most:,} are allowed")
        return value

    return BeforeValidator(given)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


MOST_CHUNKS = 100
MOST_LETTERS = 200_000
"""Letters of one text that a tool takes."""

_LINE = {"type": "string", "maxLength": 300}
_STRINGS = {"type": "array", "items": _LINE, "maxItems": 50}

CHUNK_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Stands alone, one idea, 100 to 512 tokens.",
    "properties": {
        "text": {"type": "string", "maxLength": MOST_LETTERS, "description": "Markdown."},
        "metadata": {
            "type": "object",
            "properties": {
                "topic": {**_LINE, "description": "Reuse one of get_index."},
                "keywords": {**_STRINGS, "description": "3 to 10 exact search terms."},
                "questions": {**_STRINGS, "description": "2 to 5 questions it answers completely."},
                "entities": {
                    "type": "array",
                    "maxItems": 50,
                    "description": "Named things in it.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": _LINE,
                            "type": {
                                "type": "string",
                                "enum": ["person", "project", "technology", "organization", "concept"],
                            },
                        },
                        "required": ["name"],
                    },
                },
                "importance": {"type": "string", "enum": ["high", "medium", "low"]},
                "category": {**_LINE, "description": "project, preference, knowledge, decision, article, …"},
                "tags": _STRINGS,
                "source": {**_LINE, "description": "A path, a URL, a person."},
                "title": {**_LINE, "description": "Names the file; else the first words do."},
                "pinned": {"type": "boolean", "description": "Always rank higher."},
                "supersedes": {**_STRINGS, "description": "Ids of notes it replaces."},
            },
            "required": ["topic", "keywords"],
        },
    },
    "required": ["text", "metadata"],
}


def phrase(given: object) -> tuple[tuple[str, str] | None, bool]:
    """Return the old and the new text of a `Replace` argument, and whether to replace all. Raises InvalidInput."""
    if given is None:
        return None, False
    old, new = (given.get("old"), given.get("new")) if isinstance(given, Mapping) else (None, None)
    if not isinstance(given, Mapping) or not isinstance(old, str) or not isinstance(new, str) or not old:
        raise InvalidInput(
            "replace must be an object of old and new texts.", 'For example {"old": "3 ms", "new": "5 ms"}.'
        )
    return (old, new), given.get("all") is True


def text(description: str, most: int = 2_000) -> Any:
    """Return the type of an optional text argument, "" if it was not given."""
    # Not `str | None`: the SDK would take a text like `[x]` for JSON. Field first: else pydantic names its bounds
    # as JSON Schema does not.
    return Annotated[str, Field(max_length=most, description=description), _or("")]


def _needed(description: str, most: int = 2_000) -> Any:
    """Return the type of a text argument that must be given."""
    return Annotated[str, Field(min_length=1, max_length=most, description=description)]


def _flag(description: str, *, default: bool = False) -> Any:
    return Annotated[bool, Field(description=description), _or(default)]


def _number(default: int, least: int, most: int, description: str) -> Any:
    return Annotated[int, Field(ge=least, le=most, description=description), _or(default)]


def _lines(description: str, most: int = 1_000, *, items: int = 100) -> Any:
    """Return the type of an optional list of at most so many `items`, None if it was not given."""
    given = list[Annotated[str, Field(max_length=most)]]
    listed = BeforeValidator(lambda value: _listed(_absent(value)))
    return Annotated[
        Annotated[given, Field(max_length=items)] | None, Field(description=description), listed, _decoded(200_000)
    ]


def _object(description: str, most: int, **schema: Any) -> Any:
    """Return the type of an optional object of at most `most` characters as JSON."""
    kind = {"type": "object", "description": description, **schema}
    either = {"anyOf": [kind, {"type": "null"}], "description": description, "default": None}
    return Annotated[Any, _decoded(most), WithJsonSchema(either)]


_FITTING = "Size of the answer."
_TOPIC = "topic or category/topic."

Query = _needed("A question or sentence.", 20_000)
Also = _lines("Guesses: a sentence of the note; its words in the other language.", 20_000, items=3)
Keywords = Annotated[
    list[Annotated[str, Field(max_length=200)]],
    Field(min_length=1, max_length=32, description='Phrases: ["Qdrant", "embedded mode"].'),
    BeforeValidator(_listed),
    _decoded(20_000),
]
Match = Annotated[Literal["any", "all"], Field(description="Of the keywords."), _or("any")]
Limit = _number(5, 1, 100, "Most hits.")
MinScore = Annotated[
    Annotated[float, Field(ge=0, le=1)] | None,
    Field(description="Least score."),
    BeforeValidator(_absent),
]
MaxTokens = _number(2_000, 50, 50_000, _FITTING)
IndexTokens = _number(800, 50, 50_000, "Size of the answer.")
TopicTokens = _number(4_000, 50, 50_000, _FITTING)
Form = Annotated[Literal["text", "json"], Field(description="Of the answer."), _or("text")]
Filter = _object(
    'As {"category": "decision", "tags!": ["old"]}; the keys are in the instructions.',
    20_000,
    additionalProperties=True,
)
AsOf = text("A date, revision or snapshot.", 200)
Offset = _number(0, 0, 10_000_000, "Notes to pass over.")
Listed = _number(20, 1, 100, "Most notes.")
Brief = _flag("The guides in a few lines, if you know them.")
Language = Annotated[Literal["en", "ko"], Field(description="Of the guides."), _or("en")]
SessionId = text("From rest().", 200)
ClientSession = text("Your session: the log names it.", 200)
# The tool scribe tells the form of a chunk; once is enough for a model's context.
CheckedChunk = Annotated[
    Any, _decoded(400_000), WithJsonSchema({"type": "object", "description": "A chunk as scribe takes it."})
]
ChunkArgument = Annotated[Any, _decoded(400_000), WithJsonSchema(CHUNK_SCHEMA)]
Chunks = Annotated[
    Any,
    _decoded(4_000_000),
    WithJsonSchema(
        {
            "anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}, "maxItems": MOST_CHUNKS}],
            "description": "One chunk as scribe takes it, or a list.",
        }
    ),
]
Metadata = _object("Frontmatter keys to set; null removes one.", 100_000, additionalProperties=True)
Replace = _object(
    "Replace an exact phrase; it occurs once, unless all.",
    200_000,
    properties={
        "old": {"type": "string", "maxLength": 100_000},
        "new": {"type": "string", "maxLength": 100_000},
        "all": {"type": "boolean"},
    },
    required=["old", "new"],
)
MemoryId = _needed("Id of a section or note.")
ShownId = _needed("Id or path.")
TopicName = _needed(_TOPIC)
Source = text("If the metadata has none.")
Category = text("If the metadata has none.", 200)
Scope = text("A scope, category or folder.", 500)
MaybeId = text("Id of a section or note.")
MaybeTopic = text(_TOPIC)
Content = text("New text of the section; a heading is kept.", MOST_LETTERS)
ExpectedHash = text("The hash shown; refuses if changed since.", 64)
Append = text("Text to add at the end.", MOST_LETTERS)
Force = _flag("Write in spite of a duplicate or a secret.")
ForceSecret = _flag("Write in spite of a secret.")
Hard = _flag("Delete for good, no trash.")
Whole = _flag("The section's whole note.")
Old = _needed("The path of a note or a folder in the vault, or a note's id.")
New = _needed("Its new path, or an existing folder to move it into.")
DryRun = _flag("Only show what would change.")
WikiPath = text("A folder in the documents, the project or the vault; the project's documents if not given.", 4_000)
Full = _flag("Read every document again, also unchanged ones.")
Erased = _needed("A path in .trash, or the id, path or topic erased.")
Entries = _number(20, 1, 200, "Most entries to list.")
EntryNumber = Annotated[
    Annotated[int, Field(ge=1, le=2**53)] | None,
    Field(description="Its number in the log; else the latest."),
    BeforeValidator(_absent),
]
MergedId = _needed("One of the two: its id, its path, or the id of its chunk.")
Keep = Annotated[
    Literal["", "a", "b", "both"],
    Field(description="Which sentences to keep where the two contradict each other."),
    _or(""),
]
ExportForm = Annotated[
    Literal["json", "markdown"], Field(description="json, or markdown for a zip of the notes."), _or("json")
]
ExportPath = _needed("The path or the name of a file that export wrote.", 1_000)
OnConflict = Annotated[
    Literal["skip", "overwrite", "rename"],
    Field(description="If a file is there: skip the new one, replace it (it goes to .trash), or number the new one."),
    _or("skip"),
]
DryFirst = _flag("Only show what would change.", default=True)

OnlyCategory = text("Only this category.", 200)

ArticleSource = _needed(
    "The address of a page or a PDF, or the path of a PDF or HTML file; with text, where it is from."
)
ArticleCategories = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=60)]],
    Field(min_length=1, max_length=10, description="What it is filed under; the first one is its topic."),
    BeforeValidator(_listed),
    _decoded(5_000),
]
_MANY = {"anyOf": [_STRINGS, {"type": "string", "maxLength": 5_000}]}
ArticleMeta = _object(
    "What to keep beside the text; what is missing is taken from the page.",
    50_000,
    properties={
        "summary": {"type": "string", "maxLength": 2_000, "description": "Of 400 to 600 letters."},
        "keywords": {**_MANY, "description": "Exact terms, as a list or with commas."},
        "tags": _MANY,
        "title": _LINE,
        "author": _LINE,
        "published": {"type": "string", "maxLength": 40, "description": "A date: 2026-03-14."},
    },
    additionalProperties=False,
)
ArticleText = text("The article itself, in Markdown, if you have it already; then nothing is fetched.", 10_000_000)
ArticleId = _needed("The id of an article.")
OneArticle = text("Only this article, by its id.")
AskedCategory = text("Only articles of this category; * asks the whole vault.", 200)
WithContent = _flag("Return its text too, 3,000 letters from offset.")
ContentOffset = _number(0, 0, 10_000_000, "Where its text begins: the next_offset of the answer before.")
ListOffset = _number(0, 0, 10_000_000, "How many of the newest to leave out.")

MaybeQuery = text("A question or a sentence, in any language; the newest without one.", 20_000)
SavedKind = Annotated[Literal["decision", "checkpoint"], Field(description="What to save.")]
FoundKind = Annotated[Literal["all", "decision", "checkpoint"], Field(description="What to look for."), _or("all")]
DecisionTopic = text("What a decision is about: voxel:chicken_design.", 300)
DecisionText = text("What was decided. Its first sentence is its title.", 20_000)
Reasoning = text("Why.", 100_000)
Confidence = Annotated[
    Annotated[float, Field(ge=0, le=1)] | None,
    Field(description="How sure it is, 0 to 1."),
    BeforeValidator(_absent),
]
Involvement = Annotated[
    Literal["", "requested", "approved", "rejected"], Field(description="What the person did about it."), _or("")
]
Summary = text("Where the work of a checkpoint stands.", 20_000)
Steps = _lines("Tasks that come next.")
Files = _lines("Files that are open.")
Superseded = _lines('Ids of decisions that this one replaces; "topic" for all living ones of its topic.', 5_000)
Outcome = Annotated[
    Literal["", "success", "partial", "failed"],
    Field(description="How it turned out."),
    BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value),
    _or(""),
]
OutcomeFilter = Annotated[
    Literal["", "success", "partial", "failed", "pending"],
    Field(description="Only decisions with this outcome."),
    _or(""),
]
OutcomeReason = text("What happened.", 20_000)

MemoryText = _needed("What to remember, in Markdown.", 10_000_000)
MemoryType = Annotated[
    Literal["working", "episodic", "semantic", "procedural"],
    Field(description="working: for days; episodic: what happened; semantic: what is so; procedural: how to do it."),
    _or("episodic"),
]
Tags = _lines("Tags; the first one is the topic.", 300)
Importance = Annotated[
    Annotated[float, Field(ge=0, le=1)] | Literal["high", "medium", "low"],
    Field(description="0 to 1, or high, medium, low."),
    _or(0.5),
]
MemorySource = text("Where it comes from: a path, a URL, a person.", 300)
Privacy = Annotated[
    Literal["private", "team", "public"],
    Field(description="Who may read it where a server serves several."),
    _or("private"),
]
Project = text("The project it belongs to; else the server's scope.", 200)
RecallFilter = _object(
    "type, tags (any of them), project_id, time_from, time_to (dates), or any key that search filters by.",
    20_000,
    additionalProperties=True,
)
NoteId = _needed("The id of a memory, or of a chunk of it.")


def lean(schema: dict[str, Any]) -> dict[str, Any]:
    """
    Return a tool's input schema without what says nothing to a model.

    That is pydantic's titles, empty defaults, and "or null" beside an argument that may be left out: null stays
    accepted. Names of arguments are never touched.
    """
    kept = {key: value for key, value in schema.items() if key not in {"title", "default"}}
    if kept.get("additionalProperties") is True:  # as JSON Schema has it without being told
        del kept["additionalProperties"]
    if schema.get("default") not in (None, "", False):
        kept["default"] = schema["default"]
    either = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(either) == 1:
        kept = {**either[0], **{key: value for key, value in kept.items() if key != "anyOf"}}
        return lean(kept)
    if either:
        kept["anyOf"] = [lean(each) for each in either]
    if isinstance(schema.get("properties"), dict):
        kept["properties"] = {name: lean(each) for name, each in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        kept["items"] = lean(schema["items"])
    return kept


def renamed(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's arguments with `dry_run` for its old names: `preview`, and `apply` for its opposite."""
    if "dry_run" in arguments or not arguments.keys() & {"preview", "apply"}:
        return arguments
    given = {key: value for key, value in arguments.items() if key not in {"preview", "apply"}}
    if _absent(arguments.get("preview")) is not None:
        return {**given, "dry_run": arguments["preview"]}
    if (apply := _absent(arguments.get("apply"))) is None:
        return given
    opposite = {"true": False, "1": False, "false": True, "0": True}
    return {**given, "dry_run": opposite.get(str(apply).strip().lower(), apply)}
