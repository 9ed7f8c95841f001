"""The index of one vault: catalog, models and Chroma, opened together. Its folder may be deleted at any time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from spellbook.index import privacy
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.filters import WAITS, Condition
from spellbook.index.project_name import project_names
from spellbook.index.reindex_seal import SCANNED
from spellbook.index.vectors import server
from spellbook.index.vectors.chroma import Chroma
from spellbook.models import embedders
from spellbook.models.base import Embedder, Reranker, SecondEncoder
from spellbook.settings.config import Config, load
from spellbook.system import disk
from spellbook.system.errors import EmbeddingError, MemoryNotFound, SpellbookError
from spellbook.vault.documents import Documents, Shown
from spellbook.vault.journal import CALLER, Journal
from spellbook.vault.vault import Vault

Progress = Callable[[str, int, int], None]
"""Called with the stage ("reading", "second encoder", "embedding"), how much is done and of how much."""

BEING_READ = "the notes are being read for the first time, so some are not found yet"

_CALIBRATIONS = "calibration"
"""The folder in the state folder for calibrations that were measured here. Under another name all are measured anew."""

_MB = 1_000_000
"""Bytes of a megabyte, as in `journal_mb`."""

_MOST_SESSIONS = 1_000
"""Sessions of agents whose notes are known, by the names of CALLER."""


@dataclass(frozen=True, slots=True)
class Index:
    """
    The parts of a vault's index. Notes of `scope` and of `other_scopes` are found; new ones belong to `scope`.

    `second` helps the embedder: None if it is not installed, off, or the embedder itself. In an index for a limited
    token, `sees` is team or public, and `whole` the index of all notes, which knows successors.
    """

    config: Config
    vault: Vault
    catalog: Catalog
    embedder: Embedder
    chroma: Chroma | server.Server
    reranker: Reranker | None = None
    second: SecondEncoder | None = None
    scope: str = ""
    whole: Index | None = None
    sees: str = ""
    other_scopes: tuple[str, ...] = ()
    written: dict[str, list[str]] = field(default_factory=dict, repr=False)
    """Ids of the notes that each session of an agent wrote here, the latest sessions."""
    _widths: set[int] = field(default_factory=set, repr=False)

    def missing(self, error: MemoryNotFound) -> MemoryNotFound:
        """Return the error for a missing note; while the vault is read for the first time, it may only be unread."""
        if (self.whole or self).catalog.is_read:
            return error
        return MemoryNotFound(error.message, "It may be there: not all notes are read yet.")

    @classmethod
    def open(cls, config: Config, models: Embedder | Index | None = None, sees: str = "") -> Index:
        """
        Open the index of `config.vault`, made if need be, with an embedder, another index's models, or those of
        `config`.

        With `sees` (team or public), it has the notes of that index that this shows. No model is loaded before the
        first text. Raises StorageError, EmbeddingError, InvalidInput.
        """
        if isinstance(models, Index):
            embedder, second, reranker = models.embedder, models.second, models.reranker
        else:
            embedder, second = _embedders(config, models)
            reranker = embedders.reranker(config.reranker)
        with contextlib.suppress(OSError):  # the catalog says what is wrong with its folder
            disk.restrict(config.state, config.vault)
        catalog = Catalog.open(config.state)
        is_auto = config.scope == privacy.AUTO
        scope, *others = (project_names(config.projects) or [""]) if is_auto else [config.scope]
        whole = models if sees and isinstance(models, Index) else None
        if whole is not None:
            listed = partial(whole.catalog.notes.with_only, privacy.KEY, privacy.SHOWN[sees])
            vault: Vault = Shown(
                config.vault, config.state, listed, partial(privacy.shows, sees), obsidian=config.obsidian
            )
        elif config.beside:
            vault = Documents(config.vault, config.state, config.beside)
        else:
            journal = Journal(config.state, config.journal_mb * _MB, config.journal_days)
            vault = Vault(config.vault, config.state, journal, lambda: catalog.counts().notes, obsidian=config.obsidian)
        return cls(
            config,
            vault,
            catalog,
            embedder,
            _chroma(config, embedder),
            reranker,
            second,
            scope=scope,
            other_scopes=tuple(others),
            whole=whole,
            sees=sees,
            written=models.written if isinstance(models, Index) else {},
        )

    @property
    def visible(self) -> tuple[Condition, ...]:
        """Conditions that limit searches and lists to the scope, and an agent to what a person has reviewed."""
        return (*privacy.visible(self.scope, *self.other_scopes), *self.reviewed)

    @property
    def reviewed(self) -> tuple[Condition, ...]:
        """The condition that leaves out, for an agent, what waits for the person's review, where that is asked for."""
        session = CALLER.get()
        if session is None or not self.config.review:
            return ()
        return (Condition(WAITS, tuple(self.written.get(session, ())), negated=True),)

    def wrote(self, session: str, ids: Iterable[str]) -> None:
        """Record that an agent's session wrote notes: it finds them, though they wait for the person's review."""
        if session:
            self.written.setdefault(session, []).extend(ids)
            if len(self.written) > _MOST_SESSIONS:
                del self.written[next(iter(self.written))]

    def fits(self, width: int) -> None:
        """Raise EmbeddingError if vectors of `width` numbers cannot be compared with those of this index."""
        if width in self._widths:
            return
        with self.catalog.reading():
            if self.catalog.fingerprint != self.embedder.fingerprint:
                return  # another process keeps vectors of another embedder there: they are never compared
            kept = self.catalog.vectors.width()
        if kept not in {0, width}:
            raise EmbeddingError(
                f"{self.embedder.name} now gives vectors of {width} numbers; those of this index have {kept}: "
                "its model changed.",
                f"Go back to the old model, or delete {self.config.state} and run `spellbook reindex`: "
                "the notes stay as they are.",
            )
        if kept:
            self._widths.add(kept)

    def followed(self) -> Index | None:
        """Return this index with the embedder that the settings name since another process migrated it; else None."""
        if self.config.embedder_given or self.catalog.fingerprint in {"", self.embedder.fingerprint}:
            return None
        with contextlib.suppress(SpellbookError):  # settings that cannot be read now name nobody
            config = load(self.config.vault, state=self.config.state.parent, scope=self.config.scope)
            if config.embedder != self.config.embedder:
                return self.with_embedder(config.embedder)
        return None

    def with_embedder(self, name: str) -> Index:
        """Return this index with the embedder `name`; both share the catalog. Raises InvalidInput, EmbeddingError."""
        config = replace(self.config, embedder=name)
        embedder, second = _embedders(config)
        return self.with_models(replace(self, config=config, embedder=embedder, second=second))

    def with_models(self, other: Index) -> Index:
        """Return this index with the models of another one; both forms share the catalog."""
        config = replace(self.config, embedder=other.config.embedder)
        return replace(
            self,
            config=config,
            chroma=_chroma(config, other.embedder),
            embedder=other.embedder,
            second=other.second,
            reranker=other.reranker,
            _widths=set(),
        )

    def scanned_at(self) -> float | None:
        """Return when the whole vault was last scanned, in seconds since 1970; None if it never was."""
        with contextlib.suppress(OSError):
            return (self.config.state / SCANNED).stat().st_mtime
        return None

    def close(self) -> None:
        """Release files and connections."""
        self.chroma.close()
        self.catalog.close()
        self.vault.journal.close()
        if self.config.state.is_dir():
            disk.restrict(self.config.state, self.config.vault)


def _embedders(config: Config, given: Embedder | None = None) -> tuple[Embedder, SecondEncoder | None]:
    embedder = given or embedders.create(config.embedder, config.threads, config.state / _CALIBRATIONS)
    return embedder, embedders.second(embedder.name, config.threads) if config.second_encoder else None


def _chroma(config: Config, embedder: Embedder) -> Chroma | server.Server:
    return vector_index(config.state, embedder.fingerprint, config.chroma_url, config.chroma_token)


def vector_index(state: Path, fingerprint: str, url: str, token: str) -> Chroma | server.Server:
    """Return the approximate index of an embedding: on the Chroma server at `url`, or in `state` if that is ""."""
    return server.Server(state, fingerprint, url, token) if url else Chroma(state, fingerprint)
