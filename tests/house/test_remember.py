"""The way of a memory through the house is short."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import spellbook
from spellbook.library.book import Spellbook
from tests.mcp.agent import Agent, talk

MOST = 78
"""Files of the package whose functions may run for one `remember` on a server that is warm."""


def test_a_memory_passes_few_files(book: Spellbook) -> None:
    """From the tool down to the disk one `remember` enters no more files than this."""
    root = Path(spellbook.__file__).parent
    entered: set[str] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        place = frame.f_code.co_filename
        if event == "call" and place.startswith(str(root)) and frame.f_code.co_name != "<module>":
            entered.add(Path(place).relative_to(root).as_posix())

    async def conversation(agent: Agent) -> None:
        await agent.call("remember", content="The tide comes at six.")
        entered.clear()
        await agent.call("remember", content="We deploy on Tuesdays, since the team rests on Mondays.")

    threading.setprofile(look)  # the tool runs in a thread
    sys.setprofile(look)
    try:
        talk(book, conversation, toolsets=("core", "memento"))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    assert "editing/write.py" in entered
    assert len(entered) <= MOST, sorted(entered)
