"""
Run by the Python of the tree that is recorded, for what has no door: explanations of many questions, and edits.

    python driver.py why QUESTIONS.json
    python driver.py edits CLOCK NUMBER

Prints one line of JSON for each question or edit.
"""

import json
import random
import struct
import sys
from pathlib import Path

import spellbook

WORDS = (
    "harbor",
    "lighthouse",
    "ferry",
    "등대",
    "항구",
    "keys",
    "backup",
    "배포",
    "rollback",
    "meeting",
    "budget",
    "예산",
    "parser",
    "E1042",
    "커피",
    "garden",
)


def why(book, questions):
    """Explain each question by one of the verbs."""
    for number, question in enumerate(questions):
        verb = ("search", "memorize", "find")[number % 10 % 3]
        told = book.why(question, verb=verb, limit=5).as_dict()
        show({"verb": verb, **told})


def edits(book, clock, count):
    """Make `count` edits of all verbs, chosen by a fixed seed, and undo every second one at once or later."""
    choose = random.Random(20_270_301)
    file = Path(clock)
    at, _ = struct.unpack("qq", file.read_bytes())
    for number in range(1, count + 1):
        with file.open("r+b") as shared:
            shared.write(struct.pack("qq", at + 60 * number, 1_000 + number))
        verb = choose.choice(VERBS)
        try:
            given, done = verb(book, choose, number)
            show({"edit": number, "verb": verb.__name__, "given": given, "done": done})
        except spellbook.SpellbookError as error:
            show({"edit": number, "verb": verb.__name__, "error": [type(error).__name__, str(error)]})
            continue
        if number % 2:
            try:
                undone = book.undo()
                show({"undone": number, "paths": undone.paths, "difference": undone.difference})
            except spellbook.SpellbookError as error:
                show({"undone": number, "error": str(error)})


def scribe(book, choose, number):
    """Write one memory, or two."""
    texts = [
        f"On day {number} the {choose.choice(WORDS)} met the {choose.choice(WORDS)}, {one} times."
        for one in range(choose.choice((1, 1, 2)))
    ]
    chunks = [
        {
            "text": text,
            "metadata": {
                "topic": choose.choice(WORDS),
                "keywords": choose.sample(WORDS, 3),
                "title": f"Memory {number}",
            },
        }
        for text in texts
    ]
    done = (
        book.scribe_all(chunks, force=True) if len(chunks) > 1 else book.scribe(chunks[0], force=choose.random() < 0.5)
    )
    return texts, [str(one) for one in done.written]


def revise(book, choose, number):
    """Change a section."""
    id = a_chunk(book, choose)
    way = choose.choice(("content", "append", "replace", "metadata", "unset"))
    text = f"{choose.choice(WORDS)} {number} {choose.choice(WORDS)}."
    given = {
        "content": {"content": text},
        "append": {"append": text},
        "replace": {"replace": (choose.choice("aeio이다"), choose.choice(WORDS)), "every": True},
        "metadata": {"metadata": {"importance": choose.choice(("low", "high")), "tags": choose.sample(WORDS, 2)}},
        "unset": {"metadata": {"keywords": None, "review": "2028-01-01"}},
    }[way]
    return [id, way], book.revise(id, **given).difference


def erase(book, choose, number):
    """Erase a section, a note, or now and then for good."""
    id = a_chunk(book, choose) if choose.random() < 0.5 else a_note(book, choose)
    given = {"hard": choose.random() < 0.05, "whole": choose.random() < 0.2}
    return [id, given], list(book.erase(id, **given).trash)


def erase_topic(book, choose, number):
    """Erase a topic."""
    topic = choose.choice(("deploy", "cache", "keys", "travel", "twins", "sea/ferry", *WORDS))
    return topic, list(book.erase_topic(topic).trash)


def restore(book, choose, number):
    """Restore something of the trash."""
    trash = sorted(path.relative_to(VAULT).as_posix() for path in (VAULT / ".trash").rglob("*.md"))
    name = choose.choice(trash or ["nothing"])
    return name, list(book.restore(name))


def move(book, choose, number):
    """Move a note or a folder."""
    old = a_note(book, choose)
    if choose.random() < 0.15 and "/" in old:
        old = old.partition("/")[0]
    new = choose.choice(("moved/", f"moved/{number}.md", f"깊은 곳/{number}", "en/"))
    done = book.move(old, new)
    return [old, new], [str(done.moved), str(done.changed)]


def merge(book, choose, number):
    """Merge two notes."""
    a, b = a_note(book, choose), a_note(book, choose)
    return [a, b], book.merge(a, b, keep=choose.choice(("", "a", "b", "both")), apply=True).difference


def mend_links(book, choose, number):
    """Repair links."""
    return "", book.mend_links(dry_run=number % 3 == 0)


def forget_working(book, choose, number):
    """Forget working memories."""
    done = book.forget_working(choose.choice((0, 30)))
    return "", list(done.trash) if done else None


def undo(book, choose, number):
    """Undo some entry of the log."""
    entry = choose.randint(1, max(1, len(book.log(None))))
    return entry, list(book.undo(entry).paths)


VERBS = (
    [scribe] * 5
    + [revise] * 9
    + [erase] * 3
    + [restore] * 3
    + [move] * 4
    + [merge] * 2
    + [undo] * 2
    + [erase_topic, mend_links, forget_working]
)


def a_note(book, choose):
    """Return the path of a note."""
    return choose.choice(
        sorted(
            path.relative_to(VAULT).as_posix()
            for path in VAULT.rglob("*.md")
            if not path.relative_to(VAULT).parts[0].startswith(".")
        )
    )


def a_chunk(book, choose):
    """Return the id of a chunk of a note."""
    return choose.choice([chunk.id for chunk in book.show(a_note(book, choose))])


def show(value):
    """Print a line of JSON."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


if __name__ == "__main__":
    with spellbook.open() as opened:
        VAULT = Path(sys.argv[-1])
        if sys.argv[1] == "why":
            why(opened, json.loads(Path(sys.argv[2]).read_text("utf-8")))
        else:
            edits(opened, sys.argv[2], int(sys.argv[3]))
