"""
Switch to another embedder: build its vectors beside the old ones, then switch the index.

Search uses the old vectors until the new ones are complete. Every batch is stored, so an interrupted migration
continues. The settings name the new embedder first, then the catalog switches in one transaction: after a kill in
between the next process completes the switch, and nothing is embedded twice. The old vectors are kept for a month, so
that switching back embeds nothing either.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from spellbook.index import embed, sync
from spellbook.index.catalog.vectors import Row, compact
from spellbook.index.opened import Index, Progress
from spellbook.models.base import label_key, unhurried, vector_key
from spellbook.settings.config import is_local, service
from spellbook.settings.edit import with_setting
from spellbook.settings.paths import MARKER
from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound
from spellbook.vault.folder import digest

KEPT_DAYS = 30
"""Days for which the previous embedder's vectors are kept, even beyond the limit of the cache. By hand."""


_SAMPLE = 16
"""Texts that are embedded for an estimate, after the one that loads the model."""

_BATCH = 16
"""Texts whose vectors are stored together: an interrupted migration loses at most so many."""

_AT_ONCE = 500
"""Chunks whose texts are read at once."""

_ROW_BYTES = 120
"""Bytes of a stored vector's row besides the vector."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """
    The cost of a migration: `missing` of `texts` must be embedded, which takes `seconds` and `bytes`.

    Only chunks' texts count; labels also need time and room. `sampled` of the missing ones were embedded for the
    estimate.
    """

    embedder: str
    texts: int
    missing: int
    seconds: float
    bytes: int
    sampled: int


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result of a migration."""

    embedder: str
    switched: bool
    embedded: int


def beside(index: Index, name: str) -> Index:
    """Return `index` with the embedder `name`, on the same catalog. Raises InvalidInput if unknown or not allowed."""
    named = service(name)
    decided = index.config.embedder if index.config.embedder_given else ""
    if decided and decided != name:
        raise InvalidInput(
            f"SPELLBOOK_EMBEDDER={decided} sets the embedder here.", f"Set it to {name} for this command, or unset it."
        )
    if named and not is_local(named.url) and not decided:
        raise InvalidInput(
            f"{name} sends notes to {named.url}, which a vault's own settings may not choose.",
            f"Set SPELLBOOK_EMBEDDER={name} here, and then wherever Spellbook is started.",
        )
    return index.with_embedder(name)


def run(index: Index, to: str, use: Callable[[Index], None], progress: Progress | None = None) -> Migrated:
    """
    Switch the vault of `index` to `to`, then call `use` with the new index. Raises as `beside` and
    `build`, and Conflict if another process migrates this vault.
    """
    busy = Conflict("Another process is migrating this vault.", "Wait for it, or stop it: its progress is kept.")
    with disk.alone(index.config.state / "migrate.lock", 0, busy):
        aside = beside(index, to)
        old = index.catalog.fingerprint
        embedded = build(aside, progress)
        switch(index, aside)
        use(aside)
        embed.maintain(aside)
    return Migrated(aside.embedder.name, old != aside.embedder.fingerprint, embedded)


def estimate(aside: Index) -> Estimate:
    """Embed a few texts and estimate the rest. Raises EmbeddingError if the new embedder does not work."""
    labels, texts = _missing(aside)
    missing = [*labels, *texts]
    total = len(aside.catalog.keys(()))
    store = partial(embed.embed_and_store, aside, refused=set(), kept_days=KEPT_DAYS)
    with unhurried():
        sample = missing[: _SAMPLE + 1]
        sampled = store(sample[:1])  # loads the model
        started = time.monotonic()
        sampled += store(sample[1:])
        per_text = (time.monotonic() - started) / max(1, len(sample) - 1)
    left = missing[len(sample) :]
    vector = next(iter(aside.catalog.vectors.of([key for key, *_ in sample[:1]]).values()), b"")
    size = len(compact(vector)) + _ROW_BYTES
    seconds, size = round(per_text * len(left), 1), size * len(left)
    return Estimate(aside.embedder.name, total, len(texts), seconds, size, sampled)


def build(aside: Index, progress: Progress | None = None) -> int:
    """Embed all texts that the new embedder lacks; return their number. Raises EmbeddingError; progress stays."""
    stored = done = 0
    refused: set[str] = set()
    with unhurried():
        while missing := [row for rows in _missing(aside) for row in rows if row[0] not in refused]:
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                stored += embed.embed_and_store(aside, batch, refused, kept_days=KEPT_DAYS)
                done += len(batch)
                if progress:
                    progress("embedding", done, max(done, len(missing)))
    return stored


def switch(index: Index, aside: Index) -> None:
    """Make the embedder of `aside` the vault's, in settings and index. Raises Conflict if the settings change."""
    if index.catalog.fingerprint == index.embedder.fingerprint != aside.embedder.fingerprint:
        index.catalog.vectors.keep_unused([*index.catalog.keys(()), *index.catalog.labels.keys()], KEPT_DAYS)
        index.catalog.vectors.set_left(index.config.embedder)
    if not index.config.embedder_given:
        place, vault, old = f"{MARKER}/config.toml", index.vault, b""
        with contextlib.suppress(MemoryNotFound):
            old = vault.read(place)[0]
        new = with_setting(old.decode("utf-8"), "embedder", aside.config.embedder).encode("utf-8")
        if old and new != old:
            vault.write(place, new, digest(old))
        elif new != old:
            vault.place(place, [new])
    sync.adopt(aside)


def previous(index: Index) -> str:
    """Return the name of the previous embedder, "" for the default. Raises InvalidInput if there was no migration."""
    name = index.catalog.vectors.left()
    if name is None:
        raise InvalidInput("This index was never migrated.", "`spellbook model use MODEL` does so.")
    return name


def _missing(aside: Index) -> tuple[list[Row], list[Row]]:
    """Return key, kind and text of all labels, and of all texts, that lack a vector of the new embedder."""
    fingerprint = aside.embedder.fingerprint
    labels = {label_key(fingerprint, kind, text): (kind, text) for kind, text in aside.catalog.labels.all()}
    made = aside.catalog.vectors.has(labels)
    rows: list[Row] = []
    keys = aside.catalog.keys(())
    for start in range(0, len(keys), _AT_ONCE):
        texts = aside.catalog.vectors.embedded(keys[start : start + _AT_ONCE])
        batch = {vector_key(fingerprint, text): text for text in texts}
        there = aside.catalog.vectors.has(batch)
        rows += [(key, "", text) for key, text in batch.items() if key not in there]
    return [(key, *label) for key, label in labels.items() if key not in made], rows
