"""
The index of one vault: catalog, models and Chroma, opened together.

It holds nothing that the vault does not say; its folder may be deleted at any
time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spellbook import models
from spellbook.catalog import Catalog
from spellbook.config import Config
from spellbook.errors import EmbeddingError
from spellbook.models import Embedder, Reranker
from spellbook.vault import Vault
from spellbook.vectors import Chroma

_CALIBRATIONS = "calibration"


@dataclass(frozen=True, slots=True)
class Index:
    """What a vault's index is made of."""

    config: Config
    vault: Vault
    catalog: Catalog
    embedder: Embedder
    chroma: Chroma
    reranker: Reranker | None = None
    _widths: set[int] = field(default_factory=set, repr=False)

    @classmethod
    def open(cls, config: Config, embedder: Embedder | None = None) -> Index:
        """
        Open the index of `config.vault`, making it if need be; with `embedder`, or the one that `config` names.

        No model is loaded and no service asked before the first text.
        Raises StorageError, EmbeddingError, InvalidInput.
        """
        embedder = embedder or models.create(config.embedder, config.threads, config.state / _CALIBRATIONS)
        catalog = Catalog.open(config.state)
        chroma = Chroma(config.state, embedder.fingerprint, config.chroma_url, config.chroma_token)
        return cls(config, Vault(config.vault, config.state), catalog, embedder, chroma, models.reranker(config.reranker))

    def fits(self, width: int) -> None:
        """
        Make sure that vectors of `width` numbers can be compared with those of this index.

        Raises EmbeddingError if not: then a service has another model under the old name.
        """
        if width in self._widths:
            return
        with self.catalog.reading():
            if self.catalog.fingerprint != self.embedder.fingerprint:
                return  # they are another process's, and never compared
            kept = self.catalog.width()
        if kept not in {0, width}:
            raise EmbeddingError(
                f"{self.embedder.name} now gives vectors of {width} numbers; those of this index have {kept}: its model changed.",
                f"Go back to the old model, or delete {self.config.state} and run `spellbook reindex`: the notes stay as they are.",
            )
        if kept:
            self._widths.add(kept)

    def close(self) -> None:
        """Let go of files and connections."""
        self.chroma.close()
        self.catalog.close()
