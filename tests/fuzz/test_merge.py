"""Merging any two notes: no sentence is lost, no link leads to the note itself, and undo restores both."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from spellbook.library import book as books
from spellbook.notes.note import parse
from spellbook.system.errors import Conflict, InvalidInput
from tests.fuzz import bounded
from tests.fuzz.texts import block, frontmatter, link
from tests.helpers import held, leads

BODY = st.lists(st.one_of(block(), link(["a", "b", "x/b", "c", "nowhere"])), max_size=6).map("\n\n".join)
NOTE = st.builds(lambda header, body: header + body + "\n", st.one_of(st.just(""), frontmatter()), BODY)


@bounded(60)
@given(NOTE, NOTE, NOTE, st.sampled_from(["", "a", "b", "both"]))
def test_a_merge_keeps_all_and_can_be_undone(first: str, other: str, third: str, keep: str) -> None:
    """
    Each line of text is in the union unless it contradicts, links of others lead there, and undo restores every byte.
    """
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "vault"
        for path, text in (("a.md", first), ("x/b.md", other), ("c.md", third)):
            (vault / path).parent.mkdir(parents=True, exist_ok=True)
            (vault / path).write_bytes(text.encode("utf-8", "surrogatepass"))
        with books.open(vault, embedder="hash", state=Path(folder) / "state") as book:
            book.reindex()
            before, led = held(vault), leads(vault)
            try:
                done = book.merge("a.md", "x/b.md", keep=keep, apply=True)  # type: ignore[arg-type]
            except (Conflict, InvalidInput):
                assert held(vault) == before
                return
            merged = (vault / done.path).read_text("utf-8")
            if keep == "both" or not done.changed:
                said = _letters(merged)
                for text in (first, other):
                    for line in _lines(text):
                        assert _letters(line) in said, line
            now = leads(vault)
            before_self = [place for place, target in led.items() if place[0] == target]
            to_itself = [place for place, target in now.items() if place[0] == target == done.path]
            assert len(to_itself) <= len(before_self), "a link to itself that no note had"
            is_mended = parse("c.md", third.encode("utf-8", "surrogatepass")).editable  # else an alias leads there
            for (path, number), target in led.items():
                if path == "c.md" and is_mended:
                    assert now[path, number] == (done.path if target == done.gone else target)
            book.undo()
            assert held(vault) == before


def _lines(text: str) -> list[str]:
    """The lines of a body with text, without marks of lists and quotes, headings, code and links."""
    body = text.lstrip("\ufeff")
    if body.startswith("---\n"):
        body = body[4:].partition("\n---\n")[2] if "\n---\n" in body else ""
    lines = [re.sub(r"^\s*(?:[-*>|]|\d+\.)\s(?:\[!\w+\] )?", "", line) for line in body.splitlines()]
    return [
        line
        for line in lines
        if re.fullmatch(r"[\w .`*]+", line) and re.search(r"\w", line) and not line.startswith("#")
    ]


def _letters(text: str) -> str:
    """A text without blanks and punctuation."""
    return "".join(re.findall(r"\w", text)).casefold()
