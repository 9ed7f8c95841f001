"""Notes that a watched vault gets, and what is found of them."""

from __future__ import annotations

from pathlib import Path

from spellbook.library.book import Spellbook


def words(book: Spellbook, word: str) -> list[str]:
    return [hit.path for hit in book.find(word).hits]


def note(file: Path, word: str = "lantern") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"# {file.stem}\n\n{word} {file.stem}\n")
