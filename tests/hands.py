"""
Hands for the stress tests: `python -m tests.hands VAULT SECONDS SEED` does whatever Spellbook can do until the time is up.

`… SEED editor` saves notes as editors do instead. Prints one JSON object: the
sentences that were acknowledged, how often each verb was done, and refusals.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import spellbook
from spellbook.library.book import Spellbook
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, SpellbookError
from tests.editor import MANNERS

FOLDERS = ("", "a", "b", "b/c", "d")


class Hands:
    """One process that works on a vault; each sentence that it writes is unique."""

    def __init__(self, vault: Path, seed: int) -> None:
        self.vault = vault
        self.seed = seed
        self.said: list[str] = []
        self.count = 0
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def sentence(self) -> str:
        """Return a sentence that was never written before."""
        self.count += 1
        return (
            f"sentence {self.seed}x{self.count}y "
            + " ".join(random.choices(["orchard", "harbor", "granite", "copper"], k=6))
            + "."
        )

    def note(self) -> str:
        """The path of some note."""
        return random.choice([path for path in self.files() if not path.startswith(".trash/")] or ["none.md"])

    def files(self) -> list[str]:
        """The paths of all notes, those in the trash as well."""
        found = [
            (Path(place).relative_to(self.vault), name) for place, _, names in os.walk(self.vault) for name in names
        ]
        return [(folder / name).as_posix() for folder, name in found if name.endswith(".md")]

    def scribe(self, book: Spellbook) -> None:
        """Keep a new memory."""
        text = self.sentence()
        book.scribe(
            {"text": f"## One\n\n{text}\n\n## Two\n\nlast", "metadata": {"topic": "t", "keywords": ["a", "b", "c"]}},
            force=True,
        )
        self.said.append(text)

    def revise(self, book: Spellbook) -> None:
        """Add to some note."""
        text = self.sentence()
        book.revise(self.note(), append=text)
        self.said.append(text)

    def rewrite(self, book: Spellbook) -> None:
        """Give the first section of some note another text."""
        text = self.sentence()
        chunk = random.choice(book.show(self.note()))
        book.revise(chunk.id, content=f"## {self.count}\n\n{text}")
        self.said.append(text)

    def erase(self, book: Spellbook) -> None:
        """Erase a note, or a section of it."""
        book.erase(random.choice([self.note(), random.choice(book.show(self.note())).id]))

    def restore(self, book: Spellbook) -> None:
        """Take something out of the trash."""
        if trash := [path for path in self.files() if path.startswith(".trash/")]:
            book.restore(random.choice(trash))

    def undo(self, book: Spellbook) -> None:
        """Undo one of the latest changes."""
        if entries := book.log(20):
            book.undo(random.choice(entries).id)

    def move(self, book: Spellbook) -> None:
        """Move a note, or the folder that it lies in."""
        path = self.note()
        folder = path.rpartition("/")[0]
        if folder and random.random() < 0.3:
            book.move(folder, random.choice(["e", "f", "b/g"]))
        else:
            book.move(path, f"{random.choice(FOLDERS)}/{self.seed}x{self.count}.md".lstrip("/"))

    def merge(self, book: Spellbook) -> None:
        """Merge two notes."""
        book.merge(self.note(), self.note(), keep="both", apply=True)

    def take_in(self, book: Spellbook) -> None:
        """Import a folder over existing notes."""
        with tempfile.TemporaryDirectory() as source:
            texts = [self.sentence() for _ in range(3)]
            for path, text in zip([self.note(), "b/imported.md", f"i{self.count}.md"], texts, strict=True):
                (Path(source) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(source) / path).write_text(f"# Imported\n\n{text}\n")
            done = book.import_(Path(source), on_conflict=random.choice(["overwrite", "rename"]))
            self.said += texts if len(done.paths) == 3 else []

    def snapshot(self, book: Spellbook) -> None:
        """Take a snapshot, or restore one."""
        if random.random() < 0.6:
            book.snapshots.create()
        else:
            book.restore_snapshot("latest")

    def edit(self, _: Spellbook) -> None:
        """Append to a note as an editor does, without locks."""
        file, text = self.vault / self.note(), self.sentence()
        with contextlib.suppress(FileNotFoundError):  # moved meanwhile, with its folder
            before = file.read_bytes()
            random.choice(MANNERS)(file, before + f"\n{text}\n".encode())
            self.said.append(text)

    def work(self, verbs: list[Callable[[Spellbook], None]], seconds: float) -> None:
        """Do random things one after the other; count refusals, and end at any other error."""
        end = time.monotonic() + seconds
        with spellbook.open(self.vault) as book:
            while time.monotonic() < end:
                verb = random.choice(verbs)
                try:
                    verb(book)
                    self.done[verb.__name__] += 1
                except (Conflict, InvalidInput, MemoryNotFound) as error:
                    self.refused[error.code] += 1
                except SpellbookError as error:
                    self.refused[f"{verb.__name__}: {error.message}"] += 1
                if verb.__name__ == "edit":
                    time.sleep(random.random() * 0.05)


def main(vault: Path, seconds: float, seed: int, role: str = "") -> None:
    """Work until the time is up."""
    random.seed(seed)
    hands = Hands(vault, seed)
    many = [hands.scribe, hands.revise, hands.rewrite, hands.erase, hands.restore, hands.undo, hands.move, hands.merge]
    hands.work([hands.edit] if role == "editor" else [*many, *many, hands.take_in, hands.snapshot], seconds)
    print(json.dumps({"said": hands.said, "done": hands.done, "refused": hands.refused}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
