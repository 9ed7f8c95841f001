"""
Wikis: folders of Markdown beside the vault that document a code base. They are searched and never written to.

Each is indexed as a vault of its own, with the models and settings of the person's vault and a state folder by its real
path. A wiki in the vault, or a folder in a wiki, is a filter on that index. The person, the client or the place of the
process decides which folders may be read, never a vault's settings.

Claude Code's own memory is read in the same way; see `claude_memory`.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from spellbook.archive.formats.claude_memory import INDEX, MOST_BYTES, titles
from spellbook.index.catalog.usage import local
from spellbook.index.filters import Filter, conditions
from spellbook.index.opened import Index, Progress
from spellbook.memories import claude_memory
from spellbook.notes.files import Fault
from spellbook.search import note_marks
from spellbook.search.question import Answer, SearchOptions, State
from spellbook.search.scores import Hit
from spellbook.settings import paths
from spellbook.settings.config import Config
from spellbook.system.errors import InvalidInput, MemoryNotFound, PathOutsideVault, PermissionDenied, VaultNotFound

if TYPE_CHECKING:
    from spellbook.editing.book import WholeBook

FOLDERS = ("zywiki", "docs")
"""Folders of a project that are its wiki, if the person names none; the first that is there."""

MOST_OPEN = 32
"""Wikis of one vault that are open at once; each has files and connections of its own."""

_STATES = "wikis"
"""The folder beside the state folders of vaults; a vault that is the same folder keeps its own state."""

_MOST_FAILED = 20
"""Documents that could not be read and are named."""
_NAME_ONE = "Name the folder with `spellbook mcp --wiki DIR` or SPELLBOOK_WIKI."


@dataclass(frozen=True)
class Wiki:
    """
    The folder `root` (a real path), and the book whose index has it; paths are shown below `top` and begin with `name`.

    `top` is the wiki that it lies in, or itself.
    """

    book: WholeBook
    root: Path
    top: Path
    name: str

    @cached_property
    def within(self) -> str:
        """The folder in the book's vault, which ends in `/`; "" for the whole of it."""
        inside = self.root.relative_to(self.book.config.vault).as_posix()
        return "" if inside == "." else f"{inside}/"

    @property
    def filter(self) -> Filter | None:
        """The filter that limits the book's verbs to this folder, None if nothing needs to."""
        return {"path": glob.escape(self.within)} if self.within else None

    def shown(self, path: str) -> str:
        """Return a path of the book's vault, as it begins at the folder that holds the wiki."""
        return f"{self.name}/{(self.book.config.vault / path).relative_to(self.top).as_posix()}"

    def counts(self) -> tuple[int, int]:
        """Return how many documents and how many sections the index has of it."""
        limits, catalog = conditions(self.filter), self.book.index.catalog
        return len(catalog.paths(limits)), sum(topic.chunks for topic in catalog.topics(limits))

    def faults(self, faults: Sequence[Fault]) -> list[Fault]:
        """Return those of the book's `faults` that are in this folder, with their paths as shown."""
        return [replace(one, path=self.shown(one.path)) for one in faults if one.path.startswith(self.within)]


@dataclass(frozen=True)
class Wikis:
    """The wikis of a vault: those that the person named, else the project's, or a folder in one of them."""

    book: WholeBook
    beside: Sequence[WholeBook]
    """Books that are open beside the book, and end with it."""
    open: Callable[[Config, Index], WholeBook]
    """Opens a folder with the models of another index, and adds its book to `beside`."""

    def search(
        self,
        query: str,
        path: str = "",
        *,
        limit: int = 5,
        min_score: float | None = None,
        max_tokens: int = 2_000,
        explain: bool = False,
    ) -> Answer:
        """Scan and search the wikis; paths are as `Wiki.shown`. Raises as `find` does."""
        wikis = self.find(path)
        room = max(50, max_tokens // len(wikis))  # the least that search takes
        options = SearchOptions(limit=limit, min_score=min_score, max_tokens=room, explain=explain)
        answers = [_search(wiki, query, options) for wiki in wikis]
        if not any(answer.hits for answer in answers):  # a document may be newer than the last look
            for book in _books(wikis):
                book.refresh(whole=True)
            answers = [_search(wiki, query, options) for wiki in wikis]
        return answers[0] if len(answers) == 1 else _merge(answers, limit)

    def of_claude(
        self, verb: str, query: str | Sequence[str], match: str = "any", **options: Unpack[SearchOptions]
    ) -> Answer | None:
        """
        Return a search verb's answer from Claude Code's memory of this project, None if it is not read.

        Paths are whole. The list of memories gives titles and no hits. Raises InvalidInput, VaultNotFound.
        """
        if (root := claude_memory.beside(self.book.config.vault)) is None:
            return None
        wiki, named = Wiki(self._beside(root), root, root, str(root)), dict[str, str]()
        vault = wiki.book.index.vault
        options["filter"] = {"path!": INDEX}
        answer = wiki.book.ask(verb, query, match, **options)
        with contextlib.suppress(MemoryNotFound, PathOutsideVault):
            named = titles(vault.read(INDEX)[0])
        sized = ((hit, vault.stamp(hit.path)) for hit in answer.hits)
        small = tuple(hit for hit, stamp in sized if stamp and stamp.size <= MOST_BYTES)
        return _shown(wiki, replace(answer, hits=small), named)

    def index(self, path: str = "", *, full: bool = False, progress: Progress | None = None) -> dict[str, Any]:
        """Update the index of the wikis with embeddings; return sums. Raises as `find`, and EmbeddingError."""
        started, wikis = time.monotonic(), self.find(path)
        reports = {id(book): book.reindex(full=full, progress=progress) for book in _books(wikis)}
        failed = [fault for wiki in wikis for fault in wiki.faults(reports[id(wiki.book)].failed)]
        documents, sections = _counts(wikis)
        return {
            "indexed": sections,
            "documents": documents,
            "embedded": sum(report.embedded for report in reports.values()),
            "reused": sum(report.reused for report in reports.values()),
            "failed": [*map(asdict, failed[:_MOST_FAILED])],
            "duration_ms": round((time.monotonic() - started) * 1_000),
            "path": os.pathsep.join(str(wiki.root) for wiki in wikis),
        }

    def status(self, path: str = "") -> dict[str, Any]:
        """Return the state of the wikis' index, without a scan of the folders. Raises as `find` does."""
        wikis = self.find(path)
        books = _books(wikis)
        states = [book.state() for book in books]
        scans = [moment for book in books if (moment := book.index.scanned_at()) is not None]
        documents, sections = _counts(wikis)
        reason = "; ".join(dict.fromkeys(state.reason for state in states if state.reason))
        reranker = self.book.index.reranker
        return {
            "total_documents": documents,
            "total_sections": sections,
            "pending": sum(state.pending for state in states),
            "last_indexed": local(min(scans)) if len(scans) == len(books) else None,
            "index_size_mb": round(sum(book.index.catalog.disk_bytes() for book in books) / 1e6, 2),
            "path": os.pathsep.join(str(wiki.root) for wiki in wikis),
            "embedder": self.book.index.embedder.name,
            "reranker": reranker.name if reranker else None,
            "degraded": any(state.degraded for state in states),
            **({"reason": reason} if reason else {}),
            "faults": sum(len(wiki.faults(wiki.book.index.catalog.notes.faults())) for wiki in wikis),
        }

    def find(self, path: str = "") -> list[Wiki]:
        """
        Return the wiki at `path`; without one the wikis that the person named, else that of the project.

        A relative path is looked for in the project, beside the wikis and in the vault. All links are resolved first.
        Raises PermissionDenied for a folder in no wiki, project or vault, or in a dot-folder there; VaultNotFound if
        there is no such folder; InvalidInput for an invalid path.
        """
        self.book.follow()
        project = paths.project() or (os.getcwd() if os.path.isdir(FOLDERS[0]) else "")
        wikis = {
            _real(folder): os.path.basename(os.path.abspath(os.path.expanduser(folder)))
            for folder in self.book.config.wikis
        }
        if not wikis and project:
            wikis = _of_project(Path(project), is_needed=not path)
        if path:
            allowed = [*wikis, *([_real(project)] if project else []), self.book.config.vault]
            roots = [_allowed(path, wikis, project, allowed)]
        else:
            # A wiki in another one is found there.
            roots = [root for root in wikis if not any(root.is_relative_to(other) for other in wikis if other != root)]
        if not roots:
            where = f"{project} has neither {' nor '.join(FOLDERS)}" if project else "this server is in no project"
            raise VaultNotFound(f"There is no folder of documents: {where}.", _NAME_ONE)
        for root in roots:
            if not root.is_dir():
                is_file = root.exists()
                wrong = "the folder of documents is a file" if is_file else "the folder of documents does not exist"
                raise VaultNotFound(f"{root}: {wrong}.", _NAME_ONE)
        return [self._wiki(root, wikis) for root in roots]

    def _wiki(self, root: Path, wikis: Mapping[Path, str]) -> Wiki:
        top = min((wiki for wiki in wikis if root.is_relative_to(wiki)), key=lambda wiki: len(wiki.parts), default=root)
        vault = self.book.config.vault
        inside = root.relative_to(vault).as_posix() if root.is_relative_to(vault) else ""
        # The vault's own index may cover the folder.
        is_covered = inside and _is_in(root, vault) and not self.book.index.vault.ignores(f"{inside}/")
        owner = self.book if inside == "." or is_covered else self._beside(top)
        return Wiki(owner, root, top, wikis.get(top, top.name))

    def _beside(self, root: Path) -> WholeBook:
        """Return the book of the folder of documents at `root`, with the models that the vault has now."""
        index = self.book.index
        with self.book.opening:
            for book in self.beside:
                if book.config.vault == root:
                    if book.index.embedder is not index.embedder:
                        book.use(book.index.with_models(index))
                    return book
            if len(self.beside) >= MOST_OPEN:
                what = f"{MOST_OPEN} folders of documents are open, which are the most."
                raise InvalidInput(what, "Name one that holds the others.")
            config = self.book.config
            settings = replace(  # the vault's, without scopes and counts, which are of its notes
                config,
                vault=root,
                state=Path(paths.state(str(root), str(config.state.parent / _STATES))),
                embedder_given=True,  # so that the folder's own settings are never asked
                scopes={},
                scope="",
                count_use=False,
                snapshots=False,
                wikis=(),
                beside=config.vault,
                words_of=config.vault,
            )
            return self.open(settings, index)


# -- which folders


def _of_project(project: Path, *, is_needed: bool) -> dict[Path, str]:
    """Return the project's wiki and its name, if there is one. Raises PermissionDenied for a link that leads out."""
    name = next((name for name in FOLDERS if os.path.isdir(project / name)), "")
    real = _real(project / name)
    if name and real.is_relative_to(_real(project)):
        return {real: name}
    if name and is_needed:
        raise PermissionDenied(f"{project / name} is a link to {real}, out of the project.", _NAME_ONE)
    return {}


def _allowed(path: str, wikis: Mapping[Path, str], project: str, allowed: Sequence[Path]) -> Path:
    """Return the real path of the folder that `path` names. Raises PermissionDenied if it is not in `allowed`."""
    bases: list[str | Path] = [project or os.curdir, *(wiki.parent for wiki in wikis), allowed[-1]]
    places = [_real(os.path.join(base, os.path.expanduser(path))) for base in bases]
    there = [place for place in places if os.path.lexists(place)] or places
    may = [place for place in there if any(_is_in(place, base) for base in allowed)]
    if not may:
        raise PermissionDenied(
            f"{path[:200]!r} is in no folder of documents, nor in the project or the vault, or it is in a dot-folder.",
            _NAME_ONE,
        )
    return next((place for place in may if place.is_dir()), may[0])


def _is_in(place: Path, base: Path) -> bool:
    inside = place.relative_to(base).parts if place.is_relative_to(base) else (".",)
    return not any(part.startswith(".") for part in inside)


def _real(path: str | Path) -> Path:
    try:
        return Path(os.path.realpath(os.path.expanduser(path)))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{str(path)[:200]!r} is not a path ({error}).", "Name a folder of documents.") from error


def _books(wikis: Sequence[Wiki]) -> list[WholeBook]:
    return list({id(wiki.book): wiki.book for wiki in wikis}.values())


def _counts(wikis: Sequence[Wiki]) -> tuple[int, int]:
    documents, sections = zip(*(wiki.counts() for wiki in wikis), strict=True)
    return sum(documents), sum(sections)


# -- answers


def _search(wiki: Wiki, query: str, options: SearchOptions) -> Answer:
    return _shown(wiki, wiki.book.ask("search", query, **(options | SearchOptions(filter=wiki.filter))), {})


def _shown(wiki: Wiki, answer: Answer, titles: Mapping[str, str]) -> Answer:
    """Return a wiki's answer with its paths as shown, and with `titles` by the paths in it."""

    def shown(hit: Hit) -> Hit:
        chunk = hit.chunk._replace(path=wiki.shown(hit.path), title=titles.get(hit.path, hit.title))
        return replace(hit, chunk=chunk, marks=note_marks.of(chunk))

    hits, closest = (tuple(map(shown, some)) for some in (answer.hits, answer.closest))
    return replace(answer, hits=hits, closest=closest, unmatched=())


def _merge(answers: Sequence[Answer], limit: int) -> Answer:
    """Return one answer of several wikis: the best hits of all."""
    hits = sorted((hit for answer in answers for hit in answer.hits), key=lambda hit: -hit.score)[:limit]
    closest = sorted((hit for answer in answers for hit in answer.closest), key=lambda hit: -hit.score)
    most = max(len(answer.closest) for answer in answers)
    states = [answer.index for answer in answers]
    state = State(
        generation=max(state.generation for state in states),
        notes=sum(state.notes for state in states),
        chunks=sum(state.chunks for state in states),
        pending=sum(state.pending for state in states),
        degraded=any(state.degraded for state in states),
        reason="; ".join(dict.fromkeys(state.reason for state in states if state.reason)),
        embedding=any(state.embedding for state in states),
    )
    return replace(answers[0], hits=tuple(hits), closest=() if hits else tuple(closest[:most]), index=state)
