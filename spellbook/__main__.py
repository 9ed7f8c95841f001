"""
Starts the command line: `spellbook`, or `python -m spellbook`.

Where the seal says that a `reindex` has nothing to do, that is all that is
imported: git hooks run it after every checkout.

Whatever the streams and the memory of the machine do, it ends with one line
on stderr and exit code 1, and with 0 if whoever read its output has gone.
"""

from __future__ import annotations

import os
import sys

# Typing takes as long to import as all of the seal.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


_SHORT_OF_MEMORY = ("memory", "failed to map", "start new thread", "without exception set")
"""How a library that finds no room, a thread that cannot be started and Python itself say it."""


def main() -> NoReturn:
    """Run the command line."""
    _fill_streams()
    code: object = 1
    try:
        try:
            code = _run(sys.argv[1:])
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = _told("Aborted!")
    except MemoryError:
        code = _told("there is too little memory. Close other programs, or allow more (ulimit -v).")
    except OSError as error:
        code = 0 if _is_reader_gone(error) else _told(_said(error))
    except (ImportError, RuntimeError, SystemError) as error:
        if not any(sign in str(error) for sign in _SHORT_OF_MEMORY):
            raise
        why = str(error).strip().splitlines()[-1]
        code = _told(f"there is too little memory ({why}). Close other programs, or allow more (ulimit -v).")
    _drop_output()
    sys.exit(code if isinstance(code, int) or code is None else 1)


def _run(arguments: list[str]) -> int:
    if _nothing_to_do(arguments):
        os._exit(0)  # nothing was begun that must be ended; to take the interpreter down takes as long as a look at 500 notes
    from spellbook.cli import main as run

    run()
    return 0


def _fill_streams() -> None:
    """Put something in the place of closed streams: else the next file that is opened takes their number, and what is printed."""
    for number, (name, flags) in enumerate((("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))):
        try:
            os.fstat(number)
        except OSError:
            # The wrong way round: to read from stdin or to write to stdout fails, as it should; complaints go nowhere.
            os.set_inheritable(os.open(os.devnull, flags), True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _told(what: str) -> int:
    """Say in one line why this ends, if anybody can be told; return the exit code."""
    try:
        from spellbook.translate import translated

        print("spellbook:", translated(" ".join(what.split())), file=sys.stderr, flush=True)
    except OSError:
        return 1
    return 1


def _said(error: OSError) -> str:
    if error.filename is not None:
        return f"{os.fsencode(error.filename).decode('utf-8', 'backslashreplace')}: {error.strerror}."
    return f"what is read or written cannot be ({error.strerror}). Is a stream closed, or a disk full?"


def _is_reader_gone(error: OSError) -> bool:
    """Say whether an output is a pipe that nobody reads any more, which `| head` makes of it; another broken pipe is a fault."""
    if not isinstance(error, BrokenPipeError):
        return False
    try:
        from select import POLLERR, poll
    except ImportError:  # Windows
        return True
    asked = poll()
    asked.register(1, 0)
    asked.register(2, 0)
    return any(state & POLLERR for _, state in asked.poll(0))


def _drop_output() -> None:
    """Have what could not be written go nowhere, or Python complains of it when it ends."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)


def _nothing_to_do(arguments: list[str]) -> bool:
    """Answer a plain `reindex` that the seal can answer; whatever else is asked is click's to read."""
    asked, vault = list(arguments), ""
    if "--vault" in asked[:-1]:
        at = asked.index("--vault")
        vault = asked[at + 1]
        del asked[at : at + 2]
    if asked[:1] != ["reindex"] or asked[1:] not in ([], ["--quiet"], ["--json"]):
        return False
    from spellbook import uptodate

    said = uptodate.said(vault, as_json="--json" in asked)
    if said and "--quiet" not in asked:
        if "--json" not in asked and _may_be_korean():
            from spellbook.translate import translated

            said = translated(said)
        print(said, flush=True)
    return bool(said)


def _may_be_korean() -> bool:
    """Say whether it is worth importing `translate`, which knows."""
    names = ("SPELLBOOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    return sys.platform != "linux" or any(os.environ.get(name, "").lower().startswith("ko") for name in names)


if __name__ == "__main__":
    main()
