"""Questions and answers of a search as plain values, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict, Unpack

from spellbook.index.catalog.rows import Counts
from spellbook.index.filters import Condition, Filter, Unmatched, conditions
from spellbook.index.opened import Index
from spellbook.search.scores import Hit, Mode
from spellbook.settings.limits import MOST_ALSO, MOST_HITS, MOST_KEYWORDS, MOST_QUERY
from spellbook.system import processes
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import filled

VERBS: Mapping[str, Mode] = MappingProxyType({"search": "both", "memorize": "semantic", "find": "keyword"})
"""The mode of each search verb."""

ALSO = "Give the sentence you expect the note to contain, and the words of a note in another language."
"""Instruction for further texts of a question."""


class State(NamedTuple):
    """
    The index that answered: the reason why it is `degraded`, and whether a process embeds pending texts (`embedding`).

    `second_pending` counts the texts that the second encoder lacks while others are pending.
    """

    generation: int
    notes: int
    chunks: int
    pending: int
    degraded: bool = False
    reason: str = ""
    embedding: bool = False
    second_pending: int | None = None

    def meaning(self) -> tuple[int, int] | None:
        """Return how many per cent of the texts the second encoder and the embedder know; None without both."""
        if self.second_pending is None:
            return None
        return _percent(self.second_pending, self.chunks), _percent(self.pending, self.chunks)

    def as_dict(self) -> dict[str, Any]:
        """Return the index block of an answer."""
        usual = {"reason": "", "embedding": False, "second_pending": None}
        return {name: value for name, value in self._asdict().items() if name not in usual or value != usual[name]}


def state(index: Index, counts: Counts, reason: str = "") -> State:
    """Return the state of an index with these counts, `degraded` if there is a reason."""
    is_pending, second = counts.pending > 0, index.second
    embedding = is_pending and processes.is_embedding(index.config.state)
    is_helped = is_pending and second is not None and second.fingerprint == index.catalog.second.fingerprint
    pending = counts.second_pending if is_helped else None
    return State(
        counts.generation, counts.notes, counts.chunks, counts.pending, bool(reason), reason, embedding, pending
    )


def _percent(pending: int, chunks: int) -> int:
    # Never 100 while something is left.
    return 100 - math.ceil(100 * min(pending, chunks) / chunks) if chunks else 100


@dataclass(frozen=True, slots=True)
class Answer:
    """
    The answer to a question: hits, best first, and the state of the index.

    If nothing clearly answers, there are no hits, and `closest` are the closest notes, if they are close at all: the
    first as a hit, each other with its best passage as `text`. `unmatched` are values of the filter that no note has.
    `found` counts the hits before the limit, at most what the legs give (50 each, or four for each hit asked for). `ms`
    are the milliseconds of the answer. `is_cached` says whether the question's vector came from the cache, None if it
    was not searched by meaning. `also` are the question's further texts.
    """

    query: str
    hits: tuple[Hit, ...]
    index: State
    closest: tuple[Hit, ...] = ()
    unmatched: tuple[Unmatched, ...] = ()
    found: int = 0
    ms: float = 0.0
    is_cached: bool | None = None
    also: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as the command line's JSON shows it."""
        hits = [hit.as_dict() for hit in self.hits]
        others = [
            asdict(hit.chunk.place) | {"score": hit.score, "text": hit.text, "properties": hit.properties}
            for hit in self.closest[1:]
        ]
        shown = {"query": self.query, "sure": bool(hits), "hits": hits, "found": self.found, "ms": self.ms}
        return {**shown, "index": self.index.as_dict()} | filled(
            also=list(self.also),
            closest=[*(hit.as_dict() for hit in self.closest[:1]), *others],
            unmatched=[value.as_dict() for value in self.unmatched],
        )


@dataclass(frozen=True, slots=True)
class Question:
    """
    A search, checked. Raises InvalidInput for invalid values.

    `keywords` are phrases to match instead of the words of `text`. `limit` is 1 to 100 hits. `max_tokens`, at least 50,
    is for the whole answer. `min_score`, 0..1, is the least score of a hit; without it `choice.convincing` decides,
    with a filter too. `conditions` are those of the filter. `per_note` is the most chunks of one note among the hits; 0
    is no bound. `also` are further texts that the answer may resemble, such as a guess of its sentence: a chunk's score
    is the mean of its best two. Quotes and words of time count in `text` alone. With `explain` the answer has room for
    the arithmetic of each score. `as_of` is a date.
    """

    text: str
    mode: Mode = "both"
    keywords: tuple[str, ...] = ()
    match_all: bool = False
    limit: int = 5
    filter: Filter | None = None
    min_score: float | None = None
    max_tokens: int = 2_000
    per_note: int = 0
    also: tuple[str, ...] = ()
    explain: bool = False
    as_of: str = ""
    conditions: tuple[Condition, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", conditions(self.filter))
        if not (self.text.strip() or any(word.strip() for word in self.keywords)):
            raise InvalidInput("There is nothing to search for.", "Give a question or some words.")
        if len(self.also) > MOST_ALSO:
            raise InvalidInput(f"There are {len(self.also)} further texts; the maximum is {MOST_ALSO}.", ALSO)
        if self.also and self.mode == "keyword":
            raise InvalidInput("Words to be found as they are take no further texts.", "find(keywords) takes them all.")
        letters = max(len(self.text), sum(map(len, self.keywords)), *map(len, self.also))
        if letters > MOST_QUERY:
            raise InvalidInput(
                f"The query has {letters:,} characters; the maximum is {MOST_QUERY:,}.",
                "Ask with a sentence, or the words that matter.",
            )
        if len(self.keywords) > MOST_KEYWORDS:
            raise InvalidInput(
                f"There are {len(self.keywords)} keywords; the maximum is {MOST_KEYWORDS}.",
                "Give the words that matter.",
            )
        if not 1 <= self.limit <= MOST_HITS:
            raise InvalidInput(f"limit={self.limit} is out of range.", f"Ask for 1 to {MOST_HITS} hits.")
        if self.min_score is not None and not 0 <= self.min_score <= 1:
            raise InvalidInput(f"min_score={self.min_score} is out of range.", "Scores are from 0 to 1.")
        if self.max_tokens < 50:
            raise InvalidInput(f"max_tokens={self.max_tokens} is too small for an answer.", "Allow at least 50.")
        if self.per_note < 0:
            raise InvalidInput(f"per_note={self.per_note} is out of range.", "Give 1 or more, or 0 for no bound.")

    @property
    def has_few_sessions(self) -> bool:
        """Whether few of the first hits shall be captured sessions: unless the filter asks for them."""
        asked = {(one.key, value) for one in self.conditions if not one.negated for value in one.values}
        return asked.isdisjoint({("category", "session"), ("trust", "agent")})


class SearchOptions(TypedDict, total=False):
    """Keyword arguments of `search`, `memorize`, `find` and `why`; the fields of `Question` say what each means."""

    limit: int
    filter: Filter | None
    min_score: float | None
    max_tokens: int
    per_note: int
    also: str | Sequence[str]
    explain: bool
    as_of: str


def question(verb: str, query: str | Sequence[str], match: str = "any", **options: Unpack[SearchOptions]) -> Question:
    """Return the question of a verb; `find` has phrases, without repeats and empty ones. Raises InvalidInput."""
    if verb not in VERBS:
        raise InvalidInput(f"There is no search verb {verb!r:.80}.", f"Use one of {', '.join(VERBS)}.")
    if match not in {"any", "all"}:
        raise InvalidInput(f"match={match!r:.80} is unknown.", "Use any or all.")
    words = (query,) if isinstance(query, str) else tuple(query)
    keywords = words if verb == "find" else ()
    also = options.get("also", ())
    text, texts = " ".join(words), (also,) if isinstance(also, str) else tuple(also)
    odd = next((other for other in texts if not isinstance(other, str)), None)
    if odd is not None:
        raise InvalidInput(f"`also` holds {odd!r:.80}, which is not a text.", ALSO)
    further = tuple(dict.fromkeys(other.strip() for other in texts if other.strip() not in {"", text.strip()}))
    fields: dict[str, Any] = {**options, "also": further}
    return Question(text, VERBS[verb], keywords, match == "all", **fields)
