"""What a note is about counts for its chunks: title, questions, the whole text, its words, and a second encoder."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spellbook.index import embed, sync
from spellbook.index.opened import Index
from spellbook.models.embedders import HashEmbedder
from spellbook.search import weights
from spellbook.search.question import Question
from spellbook.search.scores import Candidate, Match, Mode, OfNote, fuse, joined
from spellbook.search.searcher import Searcher
from tests.helpers import Counting, Write, opened
from tests.search.candidates import candidate


def ranked(index: Index, text: str, mode: Mode = "both", **options: Any) -> Any:
    """All candidates of a question by path and heading."""
    found = Searcher(index).rank(Question(text, mode, **options)).candidates
    return {(each.chunk.path, each.chunk.heading): each for each in found}


def of_note(
    semantic: Any,
    keyword: Any = None,
    second: Any = None,
    words: Any = None,
    expected: float = 0.5,
    whole: Any = None,
    **scores: Any,
) -> Any:
    """A candidate with these scores of its text and its note, ranked alone."""
    one = candidate("a.md", semantic, keyword)
    note = OfNote(**scores, whole=whole, words=words)
    made = Candidate(one.chunk, [Match(one.semantic, one.keyword, 0.0, note, second, expected)])
    return fuse([made], "both")[0]


@pytest.mark.parametrize("text", [None, 0.0, 0.31, 0.77])
@pytest.mark.parametrize("title", [None, 0.0, 0.62, 1.0])
@pytest.mark.parametrize("question", [None, 0.44, 0.99])
@pytest.mark.parametrize("whole", [None, 0.53])
@pytest.mark.parametrize("words", [None, 0.0, 0.41])
def test_the_parts_of_a_leg_add_up_to_its_share(
    text: float | None, title: float | None, question: float | None, whole: float | None, words: float | None
) -> None:
    """Whatever is known and missing, the parts are the share, and the shares are the score."""
    each = of_note(text, 0.37, title=title, question=question, whole=whole, words=words)
    for leg in each.legs.values():
        assert sum(leg["parts"].values()) == pytest.approx(leg["share"], abs=1e-9)
    assert sum(leg["share"] for leg in each.legs.values()) == pytest.approx(each.score, abs=1e-9)
    assert ("semantic" in each.legs) == any(value is not None for value in (text, title, question))


def test_a_title_lifts_a_text_and_never_lowers_it() -> None:
    """
    A title that says nothing of the question costs nothing, one that does adds to the text, and `why` names it. Until a
    text is embedded, its title speaks for it; without either there is no meaning.
    """
    plain, dull, right, better = (
        of_note(text, title=title) for text, title in ((0.5, None), (0.5, 0.0), (0.5, 0.9), (0.6, 0.9))
    )
    assert plain.score == dull.score == 0.35 < right.score < better.score
    assert set(right.legs["semantic"]["parts"]) == {"text", "title"}
    [(name, part)] = of_note(None, title=0.8).legs["semantic"]["parts"].items()
    assert (name, part) == ("title", pytest.approx(weights.SEMANTIC * (0.8 - weights.SCORE.title_cost)))
    assert of_note(None, 0.5, words=0.5).legs.keys() == {"keyword"}


def test_a_second_encoder_confirms_or_denies_within_bounds() -> None:
    """
    What it does not know loses little, and no text is surer for it or less sure than by the embedder alone. A chunk is
    surer where the rest of its note has the question's words; where the note lacks them, less sure.
    """
    here, all_of_it, nothing = (of_note(0.6, 0.4, words=words, expected=0.8) for words in (0.4, 1.0, 0.0))
    assert nothing.evidence() < here.evidence() < all_of_it.evidence()
    assert joined(0.8, None, 0.6, 0.2) == 0.8
    assert joined(None, 0.8, 0.6, 0.2) == 0.8
    assert joined(0.8, 0.0, 0.6, 0.2) == pytest.approx(0.8 - 0.2)
    assert joined(0.5, 0.9, 0.6, 0.2) == pytest.approx(0.5 + 0.4 * 0.4)
    alone, denied, confirmed = (of_note(0.6, 0.2, second=second) for second in (None, 0.1, 0.9))
    assert denied.score < alone.score < confirmed.score
    assert denied.evidence() == alone.evidence() < confirmed.evidence()


def test_what_a_note_is_about_brings_its_chunks(vault: Path, write_note: Write) -> None:
    """
    With more near chunks than candidates, a note whose title is asked for is among them by its best chunks. Its own
    question finds a note by meaning, in any of its chunks. A chunk of a note that has the other words ranks above the
    same chunk elsewhere, but not for `find`. Beyond what memory should hold, titles, questions and whole notes count as
    they do in memory.
    """
    for i in range(70):
        write_note(f"near/{i}.md", f"lighthouse keeper diary number {i}", title=f"Volume {i}")
    sections = "\n\n".join(f"## Part {i}\n\nsomething quite different {i}" for i in range(6))
    write_note("far.md", f"# Lighthouse keeper diary\n\n{sections}", questions=["where do we keep the oars"])
    write_note("a.md", "# A\n\n## One\n\nthe copper kettle\n\n## Two\n\nthe anchor chain")
    write_note("b.md", "# B\n\n## One\n\nthe copper kettle\n\n## Two\n\nsomething else")
    with opened(vault) as index:
        sync.run(index)
        near = ranked(index, "lighthouse keeper diary", "semantic")
        assert 0 < sum(path == "far.md" for path, _ in near) < 7
        titled = [each for (path, heading), each in near.items() if path == "far.md" and heading]
        assert titled
        assert all(each.legs["semantic"]["parts"]["title"] > 0 for each in titled)
        hidden = ranked(index, "lighthouse keeper diary", "semantic", filter={"path": "near/*"})
        assert not any(path == "far.md" for path, _ in hidden)
        asked = ranked(index, "where do we keep the oars", "semantic", filter={"path": "far.md"})
        assert all(asked["far.md", f"Part {i}"].legs["semantic"]["parts"]["question"] > 0.5 for i in range(6))
        found = ranked(index, "kettle anchor")
        parts = {path: found[path, "One"].legs["keyword"]["parts"] for path in ("a.md", "b.md")}
        assert parts["a.md"]["text"] == pytest.approx(parts["b.md"]["text"], abs=0.0002)  # rounded to add up
        assert parts["a.md"]["note"] > parts["b.md"]["note"] > 0
        exact = ranked(index, "kettle anchor", "keyword", keywords=("kettle", "anchor"))
        assert exact["a.md", "One"].score == exact["b.md", "One"].score
        outside = ranked(replace(index, config=replace(index.config, exact_most=0)), "kettle anchor")
        both = found.keys() & outside.keys()
        assert len(both) > 30
        assert [outside[place].score for place in both] == pytest.approx(
            [found[place].score for place in both], abs=2e-4
        )


def test_an_edited_note_is_about_what_it_says_now(vault: Path, write_note: Write) -> None:
    """The mean of a note is not kept beyond its text, nor its title."""
    write_note("a.md", "# Ships\n\n## One\n\nsails and masts\n\n## Two\n\nthe copper kettle")
    write_note("b.md", "# Other\n\nnothing")
    with opened(vault) as index:
        sync.run(index)
        searcher = Searcher(index)

        def note() -> Any:
            found = searcher.rank(Question("sails and masts of ships", "semantic")).candidates
            return next(each.matches[0].note for each in found if each.chunk.heading == "Two")

        before = note()
        write_note("a.md", "# Tea\n\n## One\n\nleaves and water\n\n## Two\n\nthe copper kettle")
        sync.run(index)
        after = note()
        assert after.title < before.title
        assert after.whole < before.whole


@dataclass
class Second:
    """A second encoder that knows one thing alike from another by its letters; it remembers what it read."""

    texts: list[str] = field(default_factory=list)
    name: str = "second"
    fingerprint: str = "second:1"
    scale: tuple[tuple[float, float], ...] = ((0.0, 0.0), (1.0, 1.0))

    def vectors(self, texts: Sequence[str], query: bool = False) -> Any:
        self.texts += texts
        block = HashEmbedder().embed_passages(texts)
        return np.rint(np.clip(block / 0.5, -1, 1) * 127).astype(np.int8)

    def describe(self) -> Any:
        return "letters"


def test_a_second_encoder_counts_where_it_has_read_a_text(vault: Path, write_note: Write) -> None:
    """
    Texts and titles that it has read get its scores; a language that it does not know is not given to it. Where it has
    read none of the notes that a filter leaves, they are found by the others.
    """
    write_note("a.md", "# Harbour\n\nships and ropes")
    write_note("b.md", "# Λιμάνι\n\nπλοία και σχοινιά")
    second = Second()
    with opened(vault) as plain:
        index = replace(plain, second=second)
        sync.run(plain)
        before = {place: each.matches[0].second for place, each in ranked(index, "ships").items()}
        assert set(before.values()) == {None}
        embed.embed_second(index)
        second.texts.clear()
        after = {path: each.matches[0].second for (path, _), each in ranked(index, "ships").items()}
        assert after["a.md"] > 0
        assert after["b.md"] is None
        assert second.texts == ["ships"]
        ranked(index, "πλοία")
        assert second.texts == ["ships"]
        write_note("new.md", "---\ntopic: new\n---\n# Sails\n\nships and sails")
        sync.run(plain)
        assert {path for path, _ in ranked(index, "ships", filter={"topic": "new"})} == {"new.md"}


def test_a_text_that_only_the_second_encoder_has_read_is_found(vault: Path, write_note: Write) -> None:
    """While the embedder is behind, the second encoder stands in."""
    write_note("a.md", "# A\n\ncopper kettles everywhere")
    with opened(vault, Counting()) as plain:
        index = replace(plain, second=Second())
        sync.scan(index)
        embed.embed_second(index)
        assert index.catalog.counts().pending == 1
        [found] = ranked(index, "copper kettles", "semantic").values()
        assert found.semantic is None
        assert found.score > 0.3
