"""Published vaults with the models that read them: what a search of vaults without files is given."""

from __future__ import annotations

from dataclasses import dataclass

from spellbook.index import scopes
from spellbook.index.filters import Condition
from spellbook.index.opened import Index
from spellbook.index.postgres.database import PostgresDatabase
from spellbook.index.postgres.engine import Postgres
from spellbook.models.base import Embedder, Reranker, SecondEncoder
from spellbook.settings.config import Config


@dataclass(frozen=True, slots=True)
class PublishedSource:
    """
    Vaults that were published to a database; see `engine.Source`.

    `names` are those to read, all if it is empty. `sees` is team or public for a reader that sees only such notes, and
    `only` are the vaults that it may see, None for all.
    """

    config: Config
    database: PostgresDatabase
    embedder: Embedder
    second: SecondEncoder | None = None
    reranker: Reranker | None = None
    names: tuple[str, ...] = ()
    sees: str = ""
    only: tuple[str, ...] | None = None
    whole: Index | None = None

    @property
    def visible(self) -> tuple[Condition, ...]:
        """What limits searches to the scope."""
        return scopes.visible(self.config.scope)

    def engine(self) -> Postgres:
        """Return what answers questions from these vaults."""
        return Postgres(self.database, self.names, self.sees, self.only)

    def fits(self, width: int) -> None:
        """Do nothing: vectors of another width have another fingerprint, which is compared before them."""
