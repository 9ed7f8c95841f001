"""
Spellbook: a vault opened with its index, and the verbs on it.

Every door (tools, command line, watcher) and every Python program goes through
here. Verbs may be called from any thread.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from spellbook import check, config, guides, memory, sync, why, write
from spellbook.catalog.schema import Found, Topic
from spellbook.catalog.sessions import Session
from spellbook.check import Checked, Standard
from spellbook.config import Config
from spellbook.database import Damaged
from spellbook.errors import EmbeddingError, InvalidInput, MemoryNotFound, RestRequired, StorageError, VaultNotFound
from spellbook.filters import Filter, conditions
from spellbook.index import Index
from spellbook.models import Embedder
from spellbook.notes import Fault, Note, parse
from spellbook.search import VERBS, Answer, Question, Searcher, State
from spellbook.sync import Progress, Report
from spellbook.why import Explanation

T = TypeVar("T")

READY = "watching.lock"
"""Held by the process that watches, from its first look at everything on."""

SESSION_SECONDS = 3600.0

_AT_ONCE = 64
"""Texts that a search embeds by itself before it answers; more wait for a reindex or a watcher."""

_PATIENCE = 2.0
"""Seconds after which it begins no further batch of them: clients give up on a server that is slow to answer."""


def open(vault: str | Path | None = None, *, embedder: str | None = None, state: str | Path | None = None) -> Spellbook:
    """
    Open a vault: the folder given, else the one that `config.find_vault` finds.

    Raises VaultNotFound, InvalidInput for settings that make no sense, StorageError.
    """
    return Spellbook(config.load(vault, embedder=embedder, state=state))


@dataclass(frozen=True, slots=True)
class Scribed:
    """What became of chunks: `written`, or for each the chunks that it would repeat and nothing written."""

    written: tuple[write.Written, ...]
    duplicates: tuple[tuple[write.Duplicate, ...], ...]
    warnings: tuple[tuple[str, ...], ...]


class Spellbook:
    """A vault and its index. Use it as a context manager, or call `close`."""

    def __init__(self, settings: Config, embedder: Embedder | None = None) -> None:
        self.config = settings
        self.index = Index.open(settings, embedder)
        self._searcher = Searcher(self.index)
        self.watching = False
        """Set by a watcher in this process: the index then follows the vault without being asked."""
        self.complaint = ""
        """Why the last look at the vault could not be finished, "" if it could."""

    def __enter__(self) -> Spellbook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files and connections."""
        self.index.close()

    # -- finding

    def search(self, query: str, **asked: Any) -> Answer:
        """Search by meaning and by words; `asked` are the fields of `search.Question`: limit, filter, min_score, max_tokens."""
        return self._ask(Question(query, "both", **asked))

    def memorize(self, query: str, **asked: Any) -> Answer:
        """Search by meaning alone."""
        return self._ask(Question(query, "semantic", **asked))

    def find(self, keywords: str | Sequence[str], match: str = "any", **asked: Any) -> Answer:
        """Search by words: each keyword is a phrase; `match` is `any` or `all` of them."""
        words = (keywords,) if isinstance(keywords, str) else tuple(keywords)
        if match not in {"any", "all"}:
            raise InvalidInput(f"match={match!r:.80} makes no sense.", "It is any or all.")
        return self._ask(Question(" ".join(words), "keyword", keywords=words, match_all=match == "all", **asked))

    def why(self, query: str, id: str | None = None, verb: str = "search", **asked: Any) -> Explanation:
        """
        Explain what `search`, `memorize` or `find` makes of `query`, or what became of the chunk or note `id` in it.

        Raises MemoryNotFound for an unknown id.
        """
        if verb not in VERBS:
            raise InvalidInput(f"There is no search {verb!r:.80}.", f"It is {', '.join(VERBS)}.")
        keywords = (query,) if verb == "find" else ()
        question = Question(query, VERBS[verb], keywords=keywords, **asked)
        self.refresh(embed=verb != "find")
        return why.why(self.index, self._searcher, question, id)

    def _ask(self, question: Question) -> Answer:
        self.refresh(embed=question.mode != "keyword")
        answer = self._searcher.ask(question)
        if self.complaint:
            reason = "; ".join(filter(None, (answer.index.reason, self.complaint)))
            answer = replace(answer, index=replace(answer.index, degraded=True, reason=reason))
        return answer

    def show(self, id: str) -> list[Found]:
        """Return the chunk with this id, or all chunks of the note with this id or path. Raises MemoryNotFound."""
        self.refresh()
        return write.chunks_of(self.index, id)

    def topics(self, filter: Filter | None = None) -> list[Topic]:
        """Return every topic with its counts, by category."""
        self.refresh()
        return self.index.catalog.topics(conditions(filter))

    def topics_of(self, scope: str) -> list[Topic]:
        """Return the topics of one scope: a frontmatter `scope`, a category, or a folder."""
        self.refresh()
        for filter in ({"scope": scope}, {"category": scope}, {"path": scope.rstrip("/") + "/"}):
            topics = self.index.catalog.topics(conditions(filter))
            if topics:
                return topics
        raise MemoryNotFound(f"There is no scope, category or folder {scope[:200]!r}.", "get_index() without a scope shows what there is.")

    def topic(self, topic: str) -> list[Found]:
        """Return all chunks of a topic, named as `topic` or `category/topic`, in reading order. Raises MemoryNotFound."""
        self.refresh()
        category, topic_name = self._topic_name(topic)
        found = self.index.catalog.topic(topic_name, category)
        if not found:
            raise MemoryNotFound(f"There is no topic {topic[:200]!r}.", "get_index (or `spellbook topics`) lists them.")
        return found

    def _topic_name(self, name: str) -> tuple[str | None, str]:
        """Read `category/topic`; a topic may hold a slash itself."""
        if self.index.catalog.topic(name):
            return None, name
        category, slash, topic = name.partition("/")
        return (category, topic) if slash else (None, name)

    # -- keeping up

    def reindex(self, *, full: bool = False, words_only: bool = False, progress: Progress | None = None) -> Report:
        """Bring the index up to the vault, everything anew with `full`, without vectors with `words_only`."""
        report = sync.run(self.index, full=full, words_only=words_only, progress=progress)
        self.complaint = ""
        return report

    def refresh(self, *, embed: bool = False) -> None:
        """Look at the vault before answering, unless a watcher does so all the time; with `embed`, new texts get their vectors."""
        try:
            # An index that was begun anew is filled at once, whoever watches.
            looked = self._looked()
            if looked is not None and (self.watching or self.is_watched()):
                self.complaint = looked
                return
            self._look()
            self.complaint = ""
        except (StorageError, VaultNotFound, InvalidInput) as error:
            self.complaint = str(error)  # what is known already can still be found
            return
        if embed:
            until = time.monotonic() + _PATIENCE
            with contextlib.suppress(EmbeddingError):
                sync.embed(self.index, most=_AT_ONCE, stop=lambda: time.monotonic() > until)

    def _looked(self) -> str | None:
        try:
            return self.index.catalog.looked
        except Damaged:
            return None

    def _look(self) -> None:
        try:
            sync.words(self.index)
        except Damaged:  # its next use begins a new catalog
            sync.words(self.index)

    def is_watched(self) -> bool:
        """Say whether some process watches this vault."""
        try:
            return _is_locked(self.config.state / READY)
        except OSError:
            return False

    # -- writing

    def scribe(self, chunk: object, **options: Any) -> Scribed:
        """Keep one finished chunk `{"text", "metadata"}`; `options` as for `scribe_all`."""
        return self.scribe_all([chunk], **options)

    def scribe_all(
        self,
        given: Sequence[object],
        *,
        source: str | None = None,
        category: str | None = None,
        force: bool = False,
        session: str | None = None,
    ) -> Scribed:
        """
        Keep finished chunks, each as one note; findable when this returns.

        All are checked first. Raises InvalidInput if one of them is no chunk;
        if one repeats what is there already, nothing is written unless `force`.
        """
        findings = [memory.check(each, source=source, category=category) for each in given]
        wrong = [f"chunk {i}: {error}" for i, found in enumerate(findings, 1) for error in found.errors]
        if wrong or not findings:
            raise InvalidInput("; ".join(wrong or ["there is no chunk"]) + ".", "Nothing was written; scribe_validate checks a chunk.")
        memories = [found.memory for found in findings if found.memory]
        written, repeats = write.write(self.index, self._searcher, memories, force=force)
        if session and written:
            self.index.catalog.sessions.count(session, len(written))
        return Scribed(tuple(written), tuple(map(tuple, repeats)), tuple(tuple(found.warnings) for found in findings))

    def validate(
        self, chunk: object, *, source: str | None = None, category: str | None = None
    ) -> tuple[memory.Findings, list[write.Duplicate]]:
        """Check a chunk without writing it; return what was found and what it would repeat."""
        found = memory.check(chunk, source=source, category=category)
        return found, write.duplicates(self.index, self._searcher, found.memory) if found.memory else []

    def revise(
        self,
        chunk_id: str,
        content: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_hash: str | None = None,
    ) -> write.Revised:
        """Replace a section's text, set frontmatter keys, or both; see `write.revise`."""
        return self._known(lambda: write.revise(self.index, chunk_id, content=content, meta=metadata, expected_hash=expected_hash))

    def erase(self, id: str, *, hard: bool = False) -> write.Erased:
        """Erase a chunk, or a note by its path, into the trash; see `write.erase`."""
        return self._known(lambda: write.erase(self.index, id, hard=hard))

    def _known(self, change: Callable[[], T]) -> T:
        """Change a note; only if it is not where the index has it, look at the vault first."""
        try:
            return change()
        except MemoryNotFound:
            self.refresh()
            return change()

    def erase_topic(self, topic: str, *, hard: bool = False) -> write.Erased:
        """Erase every note of a topic into the trash."""
        self.refresh()
        category, name = self._topic_name(topic)
        return write.erase_topic(self.index, name, category, hard=hard)

    def restore(self, path: str) -> str:
        """Move a note back from the trash and index it; `path` as erase gave it. Returns its path."""
        home = self.index.vault.restore(path)
        sync.some(self.index, [home])
        write.with_vectors(self.index, home)
        return home

    # -- REST sessions

    def rest(self, language: str = "en") -> tuple[Session, dict[str, Any], dict[str, Any]]:
        """Open a session for writing; return it with the chunking guide and the metadata rules in `language` (en, ko)."""
        if language not in guides.LANGUAGES:
            raise InvalidInput(f"There are no guides in {language!r:.80}.", f"Languages are {', '.join(guides.LANGUAGES)}.")
        self.refresh()  # for the guides that the vault may hold
        session = self.index.catalog.sessions.begin(f"rest-{secrets.token_hex(12)}", SESSION_SECONDS)
        notes = self._guides(language)
        return session, guides.chunking(notes), guides.metadata_rules(notes)

    def rest_end(self, session_id: str | None) -> Session:
        """End a session. Raises RestRequired, RestInvalid, RestExpired."""
        return self.index.catalog.sessions.end(self._required(session_id))

    def require_session(self, session_id: str | None) -> Session:
        """Return a live session. Raises RestRequired, RestInvalid, RestExpired, each saying what to do."""
        return self.index.catalog.sessions.live(self._required(session_id))

    @staticmethod
    def _required(session_id: str | None) -> str:
        if not session_id or not session_id.strip():
            raise RestRequired("Writing needs a REST session.", "Call rest() first and pass its session_id.")
        return session_id.strip()

    def _guides(self, language: str) -> dict[str, Note]:
        """The vault's own guides, the packaged ones where it has none."""
        notes = dict(guides.packaged(language))
        for guide in notes:
            limits = conditions({"category": "system", "guide": guide, "language": language})
            with contextlib.suppress(InvalidInput, MemoryNotFound):
                for path in self.index.catalog.paths(limits)[:1]:
                    notes[guide] = parse(path, self.index.vault.read(path)[0])
        return notes

    # -- state

    def state(self) -> State:
        """Return the state of the index, as answers carry it."""
        return State(**asdict(self.index.catalog.counts()), degraded=bool(self.complaint), reason=self.complaint)

    def warm_up(self) -> None:
        """Load what the first search would load."""
        self._searcher.ask(Question("spellbook", "both", limit=1))

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes, and the chunks of each category."""
        catalog = self.index.catalog
        with catalog.reading():  # one state: else a run in another process makes sums that are none
            counts, topics, sizes = catalog.counts(), catalog.topics(), catalog.sizes()
        categories: dict[str, int] = {}
        for topic in topics:
            categories[topic.category or "(none)"] = categories.get(topic.category or "(none)", 0) + topic.chunks
        return {**asdict(counts), "categories": categories, **sizes}

    def status(self) -> dict[str, Any]:
        """Return where things are, what state they are in, and what a person should mend."""
        return {
            "vault": str(self.config.vault),
            "state": str(self.config.state),
            "embedder": self.index.embedder.name,
            **({"engine": describe()} if (describe := getattr(self.index.embedder, "describe", None)) else {}),
            "fingerprint": self.index.embedder.fingerprint,
            "watched": self.watching or self.is_watched(),
            **self.stats(),
            "faults": [asdict(fault) for fault in (*self.index.catalog.faults(), *self.index.catalog.twins())],
            **({"warning": self.complaint} if self.complaint else {}),
        }

    def check(self, *, progress: Progress | None = None, **held_to: Any) -> Checked:
        """
        Ask every note its own questions and compare all texts; `held_to` are the fields of `check.Standard`.

        Raises InvalidInput for a filter, a share or golden queries that make no sense.
        """
        standard = Standard(**held_to)
        self.refresh(embed=True)
        checked = check.run(self.index, self._searcher, standard, progress)
        return replace(checked, failures=(*checked.failures, self.complaint)) if self.complaint else checked

    def doctor(self) -> Iterator[tuple[str, list[str]]]:
        """Check one thing after another; yield its name and what is wrong with it, nothing if it is well."""
        yield "the vault can be read and the index is up to it", self._check_vault()
        yield "every note can be read as it is written", [_fault(fault) for fault in self.index.catalog.faults()]
        yield "no two notes have one id", [_fault(fault) for fault in self.index.catalog.twins()]
        yield "the catalog is sound", self._check_catalog()
        yield "the embedder works", self._check_embedder()
        pending = self.index.catalog.counts().pending
        yield "every text has its vector", [f"{pending} texts wait for theirs: run `spellbook reindex`"] if pending else []

    def _check_vault(self) -> list[str]:
        self.refresh(embed=True)
        return [self.complaint] if self.complaint else []

    def _check_catalog(self) -> list[str]:
        try:
            return self.index.catalog.verify()
        except StorageError as error:
            return [str(error)]

    def _check_embedder(self) -> list[str]:
        import numpy as np

        try:
            vector = self.index.embedder.embed_query("안녕, Spellbook")
        except EmbeddingError as error:
            return [str(error)]
        length = float(np.linalg.norm(vector))
        wrong = vector.ndim != 1 or not 0.99 < length < 1.01
        return [f"{self.index.embedder.name} gave a vector of shape {vector.shape} and length {length:.3f}"] if wrong else []


def _is_locked(file: Path) -> bool:
    """Say whether a process holds the lock `file`, without being taken for its holder by others who ask."""
    try:
        import fcntl
    except ImportError:  # Windows
        from filelock import FileLock, Timeout

        try:
            with FileLock(file, timeout=0.05, poll_interval=0.005):
                return False
        except Timeout:
            return True
    with file.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _fault(fault: Fault) -> str:
    place = f"{fault.path}, line {fault.line}" if fault.line else fault.path
    return f"{place!r}: {fault.reason}" if "\n" in fault.path else f"{place}: {fault.reason}"


def when(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in local time."""
    return dt.datetime.fromtimestamp(int(seconds)).astimezone().isoformat()
