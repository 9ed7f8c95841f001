"""Processes that read the notes of a vault while another one writes the catalog."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from queue import SimpleQueue
from typing import IO

from spellbook.index.catalog.rows import FileEntry
from spellbook.index.extract import Piece, Rules, entries
from spellbook.system import children
from spellbook.vault.folder import Folder

_COUNT = 2
"""Processes that read: more would wait for the one that writes."""

_AHEAD = 3
"""Pieces that are read before they are wanted, for each reader."""

PATIENCE = 60.0
"""Seconds after which a reader that says nothing is given up."""

_SIZE = struct.Struct("!Q")


class Readers:
    """
    Processes that read the notes of `vault` by `rules` while this one writes the catalog; use it as a context manager.

    They are commands of their own: a fork beside threads may hang, and multiprocessing would run the program's main
    module again. They only open files; if one fails, this process reads the rest.
    """

    def __init__(self, vault: Folder, rules: Rules) -> None:
        self._vault, self._rules = vault, rules
        self._threads = ThreadPoolExecutor(_COUNT, thread_name_prefix="spellbook-reader")
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self.processes: list[subprocess.Popen[bytes]] = []
        # A processor for them, and a Python to run them.
        may_help = (os.cpu_count() or 1) > 1 and bool(sys.executable) and not getattr(sys, "frozen", False)
        with contextlib.suppress(OSError):  # no memory, or no Python where it was
            while may_help and len(self.processes) < _COUNT:
                self.processes.append(children.child(__name__))
                self._idle.put(self.processes[-1])

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._threads.shutdown(cancel_futures=True)
        for process in self.processes:
            with contextlib.suppress(OSError):  # what was written and not flushed goes nowhere
                process.communicate()

    def _end(self) -> None:
        for process in self.processes:
            process.kill()  # which ends the wait of its thread

    def read(self, pieces: Iterable[Piece]) -> Iterator[list[FileEntry]]:
        """Yield the entries of each of `pieces`, in their order."""
        waiting: deque[tuple[Piece, Future[bytes]]] = deque()
        for piece in pieces:
            if not self.processes:
                yield entries(self._vault, self._rules, piece)
                continue
            waiting.append((piece, self._threads.submit(self._ask, piece)))
            if len(waiting) >= _AHEAD * _COUNT:
                yield self._result(*waiting.popleft())
        while waiting:
            yield self._result(*waiting.popleft())

    def _ask(self, piece: Piece) -> bytes:
        """Return the pickled entries of a piece. Raises OSError or EOFError if the process is no more."""
        process = self._idle.get()
        try:
            assert process.stdin
            assert process.stdout
            pickle.dump((self._vault.lies_in.root, self._rules, piece), process.stdin)
            process.stdin.flush()
            return _exactly(process.stdout, _SIZE.unpack(_exactly(process.stdout, _SIZE.size))[0])
        finally:
            self._idle.put(process)  # a dead one too: it fails at once, and nobody waits for it

    def _result(self, piece: Piece, answer: Future[bytes]) -> list[FileEntry]:
        # Unpickled here and not in the threads, which would keep this one from writing meanwhile.
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            try:
                read: list[FileEntry] = pickle.loads(answer.result(PATIENCE))
                return read
            except Late:
                self._end()
        return entries(self._vault, self._rules, piece)


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def serve() -> None:
    """Be such a process: read pieces from stdin, answer on stdout, and end when stdin ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    gc.disable()  # notes hold no cycles, and looking for them takes a tenth of the time
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            root, rules, piece = pickle.load(sys.stdin.buffer)
            answer = pickle.dumps(entries(Folder(root), rules, piece), pickle.HIGHEST_PROTOCOL)
            answers.write(_SIZE.pack(len(answer)) + answer)
            answers.flush()
