"""
Fuzzing: machines that do whatever a person, an agent or a file can do, and say what must hold all the same.

Each runs in a bounded form in `make test`, with the same examples every time. To look for new ones, for minutes:

    python -m pytest tests/fuzz/test_links.py --hypothesis-profile=explore

Room for each: `test_vault` every verb on one vault, `test_links` moves among linked notes,
`test_merge` two notes, `test_import` what others hand over, `test_tools` arguments of MCP tools.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from spellbook.library import book as books
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, PathOutsideVault
from tests.helpers import held

REFUSED = (Conflict, InvalidInput, MemoryNotFound, PathOutsideVault)
WHICH = st.integers(0, 99)

_MORE = 200
"""How many times as many examples `explore` tries: some minutes on a slow machine."""


def bounded(examples: int, steps: int = 20) -> settings:
    """Return settings for `examples` examples of `steps` steps in the suite, and many more in `explore`."""
    explores = not settings.default.derandomize
    return settings(
        max_examples=examples * (_MORE if explores else 1),
        stateful_step_count=steps * (2 if explores else 1),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # explaining takes longer than the rest
        suppress_health_check=list(HealthCheck),
    )


class Machine(RuleBasedStateMachine):
    """A vault in a folder of its own; `undoable` are entries of the log, each with all files as they were before."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.vault = self.folder / "vault"
        self.vault.mkdir()
        self.book = books.open(self.vault, embedder="hash", state=self.folder / "state")
        self.undoable: list[tuple[int, dict[str, bytes]]] = []

    def save(self, path: str, text: str) -> None:
        """Write a file as an editor does."""
        (self.vault / path).parent.mkdir(parents=True, exist_ok=True)
        (self.vault / path).write_bytes(text.encode("utf-8", "surrogatepass"))

    def notes(self) -> list[str]:
        """The paths of all notes."""
        return sorted(path for path in held(self.vault) if path.endswith(".md") and not path.startswith("."))

    def teardown(self) -> None:
        """Clear up."""
        self.book.close()
        shutil.rmtree(self.folder)
