"""
The index of one vault: catalog, embedder and Chroma, opened together.

It holds nothing that the vault does not say; its folder may be deleted at any
time.
"""

from __future__ import annotations

from dataclasses import dataclass

from spellbook import models
from spellbook.catalog import Catalog
from spellbook.config import Config
from spellbook.models import Embedder
from spellbook.vault import Vault
from spellbook.vectors import Chroma


@dataclass(frozen=True, slots=True)
class Index:
    """What a vault's index is made of."""

    config: Config
    vault: Vault
    catalog: Catalog
    embedder: Embedder
    chroma: Chroma

    @classmethod
    def open(cls, config: Config, embedder: Embedder | None = None) -> Index:
        """
        Open the index of `config.vault`, making it if need be; with `embedder`, or the one that `config` names.

        Raises StorageError, EmbeddingError, InvalidInput.
        """
        embedder = embedder or models.create(config.embedder, config.threads)
        catalog = Catalog.open(config.state)
        chroma = Chroma(config.state, embedder.fingerprint, embedder.dim, config.chroma_url, config.chroma_token)
        return cls(config, Vault(config.vault, config.state), catalog, embedder, chroma)

    def close(self) -> None:
        """Let go of files and connections."""
        self.chroma.close()
        self.catalog.close()
