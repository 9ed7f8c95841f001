"""Defaults: of the settings in a vault's config.toml, and others that several rooms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spellbook.notes.chunk_sizes import CHUNK_TOKENS

HOST, PORT = "127.0.0.1", 17950
"""Address on which `spellbook serve` listens."""

ADDRESS = f"http://{HOST}:{PORT}"
"""Address that clients on this machine ask."""

JOURNAL_MB, JOURNAL_DAYS = 100, 90
"""Bounds of `spellbook undo`."""


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)  # `config.Config` has these methods
class Settings:
    """
    Settings in the config.toml of a vault.

    `chunk_tokens`: the most tokens of a chunk, estimated.
    `cache_mb`: the most megabytes of vectors on disk, including those in use.
    `journal_mb`, `journal_days`: how much of the undo history is kept, and for how long.
    `exact_most`: up to this many chunks, search by meaning is exact and in memory; above, Chroma answers; 0: always.
    `threads`: how many threads the embedder uses.
    `half_lives`: for each type or category, the days after which a note has lost half of what age can take from its
    score; inf for never.
    `categories`: for each category, what it is for; for a tag or a folder, the category that it stands for.
    `folders`: `memories` is the folder below which the notes of agents are written.
    `count_use`: whether opening a note is counted and raises its score.
    `second_encoder`: whether a small second encoder helps the embedder, where it is installed.
    `scopes`: for each glob of paths, the scope of these notes. `projects`: for an origin or a folder, its scope.
    `obsidian`: whether Obsidian's settings in the vault say what is no note and how daily notes are named.
    `snapshots`: whether a process that watches the vault takes one a day, into `Config.snapshot_folder`.
    `forget_working`: whether that process also moves working memories to the trash that were neither edited nor opened
    for `working_days`.
    `look_seconds`: for how long a vault in which a look found no change is not looked at again without a watcher.
    `memories`: `name` is what the person is called in notes that they keep; with `review`, what agents write is a draft
    that agents do not find until a person keeps it.
    `capture`: `exclude` lists globs of folders in which nothing said to an agent is captured.
    """

    embedder: str = ""
    reranker: str = ""
    chunk_tokens: int = CHUNK_TOKENS
    cache_mb: int = 512
    journal_mb: int = JOURNAL_MB
    journal_days: int = JOURNAL_DAYS
    # Exact search over 100,000 vectors takes about as long as Chroma, and misses nothing (tests/benchmarks/README.md).
    exact_most: int = 100_000
    threads: int = 2
    half_lives: Mapping[str, float] = field(default_factory=dict)
    categories: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    count_use: bool = True
    second_encoder: bool = True
    scopes: Mapping[str, str] = field(default_factory=dict)
    projects: Mapping[str, str] = field(default_factory=dict)
    obsidian: bool = True
    snapshots: bool = True
    working_days: int = 7
    forget_working: bool = False
    look_seconds: int = 1
    capture: Mapping[str, Sequence[str]] = field(default_factory=dict)
    memories: Mapping[str, str | bool] = field(default_factory=dict)
