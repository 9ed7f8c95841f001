"""
Readers: processes that read notes while this one writes the catalog.

Commands of their own: a fork beside threads may hang, and multiprocessing
would run the program's main module again. They only open files, and if one
of them fails, this process reads what it did not.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from spellbook.index.catalog.schema import FileEntry, KnownFile
from spellbook.index.extract import Rules, read
from spellbook.system import processes
from spellbook.vault.folder import Folder

Piece = Mapping[str, KnownFile | None]
"""Files to read, and what is known of them."""

_COUNT = 2
"""Processes that read: more would wait for the one that writes."""

_AHEAD = 3
"""Pieces that are read before they are wanted, for each reader."""

PATIENCE = 60.0
"""Seconds after which a reader that says nothing is given up."""

_SIZE = struct.Struct("!Q")


def entries(vault: Folder, rules: Rules, piece: Piece) -> list[FileEntry]:
    """Read a piece in this process; files that are gone are left out."""
    return [entry for path, known in piece.items() if (entry := read(vault, path, rules, known))]


class Readers:
    """Processes that read the notes of `vault` by `rules`; use it as a context manager."""

    def __init__(self, vault: Folder, rules: Rules) -> None:
        self._vault, self._rules = vault, rules
        self._threads = ThreadPoolExecutor(_COUNT, thread_name_prefix="spellbook-reader")
        self._idle: SimpleQueue[_ParseProcess] = SimpleQueue()
        self._all: list[_ParseProcess] = []
        with contextlib.suppress(OSError):  # no memory, or no Python where it was
            while _may_help() and len(self._all) < _COUNT:
                self._all.append(_ParseProcess(vault.lies_in, rules))
                self._idle.put(self._all[-1])

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._all:
            reader.process.kill()  # which ends what its thread waits for
        self._threads.shutdown(cancel_futures=True)
        for reader in self._all:
            with contextlib.suppress(OSError):  # what was written and not flushed goes nowhere
                reader.process.communicate()

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """The processes, alive or not."""
        return [reader.process for reader in self._all]

    def read(self, pieces: Iterable[Piece]) -> Iterator[list[FileEntry]]:
        """Yield what `entries` returns for each of `pieces`, in their order."""
        if not self._all:
            yield from (entries(self._vault, self._rules, piece) for piece in pieces)
            return
        waiting: deque[tuple[Piece, Future[bytes]]] = deque()
        for piece in pieces:
            waiting.append((piece, self._threads.submit(self._ask, piece)))
            if len(waiting) >= _AHEAD * _COUNT:
                yield self._result(*waiting.popleft())
        while waiting:
            yield self._result(*waiting.popleft())

    def _ask(self, piece: Piece) -> bytes:
        reader = self._idle.get()
        try:
            return reader.ask(piece)
        finally:
            self._idle.put(reader)  # a dead one too: it fails at once, and nobody waits for it

    def _result(self, piece: Piece, answer: Future[bytes]) -> list[FileEntry]:
        # Taken apart here and not in the threads, which would keep this one from writing meanwhile.
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            try:
                read: list[FileEntry] = pickle.loads(answer.result(PATIENCE))
                return read
            except Late:
                for reader in self._all:
                    reader.process.kill()
        return entries(self._vault, self._rules, piece)


class _ParseProcess:
    """One process, which answers one piece at a time."""

    def __init__(self, root: Path, rules: Rules) -> None:
        self.process = processes.child(__name__)
        self._first: tuple[Path, Rules] | None = (root, rules)

    def ask(self, piece: Piece) -> bytes:
        """Return the pickled entries of a piece. Raises OSError or EOFError if the process is no more."""
        questions, answers = self.process.stdin, self.process.stdout
        assert questions
        assert answers
        if self._first:
            pickle.dump(self._first, questions)
            self._first = None
        pickle.dump(piece, questions)
        questions.flush()
        size = _SIZE.unpack(_exactly(answers, _SIZE.size))[0]
        return _exactly(answers, size)


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _may_help() -> bool:
    """Say whether there is a processor for them, and a Python to run them."""
    return (os.cpu_count() or 1) > 1 and bool(sys.executable) and not getattr(sys, "frozen", False)


def serve() -> None:
    """Be the process of `_ParseProcess`: read pieces from stdin, answer on stdout, and end when stdin ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    gc.disable()  # notes hold no cycles, and looking for them takes a tenth of the time
    with contextlib.suppress(EOFError, BrokenPipeError):
        root, rules = pickle.load(sys.stdin.buffer)
        vault = Folder(root)
        while True:
            answer = pickle.dumps(entries(vault, rules, pickle.load(sys.stdin.buffer)), pickle.HIGHEST_PROTOCOL)
            answers.write(_SIZE.pack(len(answer)) + answer)
            answers.flush()
