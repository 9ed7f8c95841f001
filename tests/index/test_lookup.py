"""What an id may be: one rule for every verb."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from spellbook.index import lookup
from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput, MemoryNotFound
from tests.helpers import Write, held

HERON = "P/Heron HTTP API"


@pytest.fixture
def notes(write_note: Write) -> None:
    write_note(
        f"{HERON}.md",
        "# Heron API\n\nTop.\n\n## Why: not?\n\nOne.\n\n## C\n\nTwo.\n\n## C++\n\nThree.\n",
        aliases="[Grey bird]",
    )
    write_note("sketch.excalidraw.md", "drawn")
    write_note("n/keys.md", "# Other\n\na", id="01KEYS")
    write_note("o/lamp.md", "# Keys\n\nb")
    write_note(f"{unicodedata.normalize('NFD', '회의록')}/{unicodedata.normalize('NFD', '첫째')}.md", "x")
    write_note("twin/a.md", "# Twice\n\na", aliases="[Both]")
    write_note("twin/b.md", "# Twice\n\nb", aliases="[Both]")
    write_note("x/plan.md", "## Goal\n\nc\n\n## Goal\n\nd")
    write_note("y/plan.md", "d")
    write_note(" odd.md", "e")
    write_note("Plan B/C#.md", "# Sharp\n\n## One\n\nf\n")


MEANT = [
    *[(name, HERON) for name in (HERON, f"{HERON}.md", f"./{HERON}.md", f"/{HERON}.md", f"{{vault}}/{HERON}.md")],
    *[(name, HERON) for name in ("Heron HTTP API", "heron http api.md", "Heron API", " heron  api ", "GREY BIRD")],
    *[(name, HERON) for name in ("[[Heron HTTP API]]", "![[P/heron http api.md|text]]", "[[Grey bird\\|t]]")],
    ("p/HERON http api", HERON),
    *[(f"{name}#Why: not?", f"{HERON}#why-not") for name in ("Heron API", HERON, f"./{HERON}.md", f"{{vault}}/{HERON}.md")],
    *[(f"Heron HTTP API#{name}", f"{HERON}#why-not") for name in ("why-not", "WHY:  NOT?", "Why not")],
    ("[[Heron HTTP API#Why: not?|so]]", f"{HERON}#why-not"),
    ("Heron API#C++", f"{HERON}#c-2"),
    ("Heron API#Heron API", f"{HERON}#"),
    ("sketch.excalidraw", "sketch.excalidraw"),
    ("01keys", "01KEYS"),
    ("keys", "o/lamp"),  # a title goes before the name of a file
    ("[[keys]]", "01KEYS"),  # which a link finds
    ("n/keys", "01KEYS"),
    ("첫째", "회의록/첫째"),
    ("회의록/첫째.md", "회의록/첫째"),
    (" odd", " odd"),
    ("Plan B/C#.md", "Plan B/C#"),
    ("C##One", "Plan B/C##one"),
]  # fmt: skip
REFUSED = [
    ("Twice", InvalidInput, "twin/a, twin/b"),
    ("both", InvalidInput, "twin/a, twin/b"),
    ("[[plan]]", InvalidInput, "x/plan, y/plan"),
    ("plan.md#Goal", InvalidInput, "x/plan, y/plan"),
    ("x/plan#Goal", InvalidInput, "x/plan#goal, x/plan#goal-2"),
    ("Heron API#Nothing", MemoryNotFound, f"{HERON}#why-not"),
    *[(name, MemoryNotFound, "There is no memory") for name in ("[[nothing]]", "../n/keys.md", "/etc/passwd")],
]


@pytest.mark.usefixtures("notes")
def test_what_an_id_means(book: Spellbook, vault: Path) -> None:
    """
    Whatever a person or an agent has at hand names a note or a section, as a link would. Two notes of a name are both
    named, with their ids, by every verb; nothing is changed.
    """
    book.refresh()
    for id, meant in MEANT:
        chunks, is_note = lookup.named(book.index, id.replace("{vault}", str(vault)))
        assert unicodedata.normalize("NFC", chunks[0].note if is_note else chunks[0].id) == meant, id
    before = held(vault)
    for id, error, told in REFUSED:
        for expected, act in (
            *((error, book.show), (error, lambda id: book.revise(id, append="more")), (error, book.erase)),
            *((error, book.memories.pin), (error, lambda id: book.why("x", id))),
            (InvalidInput if error is InvalidInput else Exception, lambda id: book.move(id, "z.md")),
        ):
            with pytest.raises(expected) as raised:
                act(id)
            assert expected is Exception or told in str(raised.value)
    assert before == held(vault)


def test_a_note_that_was_just_saved_goes_first(book: Spellbook, vault: Path, write_note: Write) -> None:
    """A path that the index does not know yet names its file, and no other note of that name."""
    write_note("x/keys.md", "other\n")
    book.refresh()
    write_note("keys.md", "new\n")
    book.revise("keys", append="more")
    assert ((vault / "keys.md").read_text(), (vault / "x/keys.md").read_text()) == ("new\n\nmore\n", "other\n")
