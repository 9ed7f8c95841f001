"""
The entry point of the command line: `spellbook`, or `python -m spellbook`.

If a `reindex` has nothing to do, `reindex_seal` says so and the command line is not imported; nor is it for a
client's hook.

If a stream fails or memory runs out, the command prints one line on stderr and exits with 1. If the reader of its
output has closed the pipe, it exits with 0.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from typing import NoReturn

from spellbook.index.reindex_seal import nothing_to_do
from spellbook.settings.translate import translated

_SHORT_OF_MEMORY = ("memory", "failed to map", "start new thread", "without exception set")
"""Parts of the messages of errors that mean that memory ran out: in libraries, in threads, in Python itself."""


def main() -> NoReturn:
    """Run the command line."""
    _fill_streams()
    code: object = 1
    try:
        try:
            if sys.argv[-2:] == ["capture", "hook"] and sys.argv[1:-2] in ([], ["--vault", *sys.argv[2:3]]):
                from spellbook.capture.ledger import hook

                hook("".join(sys.argv[2:-2]))
            elif not nothing_to_do(sys.argv[1:]):
                from spellbook.cli import main as run

                run()
            code = 0
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = _fail("Aborted!")
    except MemoryError:
        code = _fail("there is too little memory. Close other programs, or allow more (ulimit -v).")
    except OSError as error:
        code = 0 if _is_reader_gone(error) else _fail(_sentence(error))
    except (ImportError, RuntimeError, SystemError) as error:
        if not any(sign in str(error) for sign in _SHORT_OF_MEMORY):
            raise
        why = str(error).strip().splitlines()[-1]
        code = _fail(f"there is too little memory ({why}). Close other programs, or allow more (ulimit -v).")
    _drop_output()
    sys.exit(code if isinstance(code, int) or code is None else 1)


def _fill_streams() -> None:
    """Replace closed streams: otherwise the next file that is opened gets their number, and our output."""
    for number, (name, flags) in enumerate((("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))):
        try:
            os.fstat(number)
        except OSError:
            # Opened the wrong way round, so that reading stdin and writing stdout fail as they should.
            os.set_inheritable(os.open(os.devnull, flags), True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _fail(what: str) -> int:
    """Print in one line why the program ends, and return the exit code."""
    try:
        print("spellbook:", translated(" ".join(what.split())), file=sys.stderr, flush=True)
    except OSError:
        return 1
    return 1


def _sentence(error: OSError) -> str:
    if error.errno == errno.ENOMEM:
        return "there is too little memory. Close other programs, or allow more (ulimit -v)."
    if error.filename is not None:
        return f"{os.fsencode(error.filename).decode('utf-8', 'backslashreplace')}: {error.strerror}."
    return f"a stream cannot be read or written ({error.strerror}). Is it closed, or is the disk full?"


def _is_reader_gone(error: OSError) -> bool:
    """Return whether the reader of our output closed the pipe, as `head` does; other broken pipes are errors."""
    # Windows calls it a wrong argument.
    if not (isinstance(error, BrokenPipeError) or (os.name == "nt" and error.errno == errno.EINVAL)):
        return False
    try:
        from select import POLLERR, poll
    except ImportError:  # Windows
        return bool([*_stuck()])
    poller = poll()
    poller.register(1, 0)
    poller.register(2, 0)
    return any(state & POLLERR for _, state in poller.poll(0))


def _stuck() -> Iterator[int]:
    """Yield the numbers of the streams whose output cannot be written."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            yield number


def _drop_output() -> None:
    """Discard output that could not be written; otherwise Python prints an error when it exits."""
    for number in _stuck():
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


if __name__ == "__main__":
    main()
