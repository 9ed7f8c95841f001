"""
Starts the command line: `spellbook`, or `python -m spellbook`.

Where the seal says that a `reindex` has nothing to do, that is all that is
imported: git hooks run it after every checkout.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    if _nothing_to_do(sys.argv[1:]):
        os._exit(0)  # nothing was begun that must be ended; to take the interpreter down takes as long as a look at 500 notes
    from spellbook.cli import main as run

    run()


def _nothing_to_do(arguments: list[str]) -> bool:
    """Answer a plain `reindex` that the seal can answer; whatever else is asked is click's to read."""
    asked, vault = list(arguments), ""
    if "--vault" in asked[:-1]:
        at = asked.index("--vault")
        vault = asked[at + 1]
        del asked[at : at + 2]
    if asked[:1] != ["reindex"] or asked[1:] not in ([], ["--quiet"], ["--json"]):
        return False
    from spellbook import seal

    said = seal.said(vault, as_json="--json" in asked)
    if said and "--quiet" not in asked:
        try:
            print(said, flush=True)
        except BrokenPipeError:
            os._exit(1)  # whoever read has gone, and click says so in this way
    return bool(said)


if __name__ == "__main__":
    main()
