"""Labels: a note's title and the questions it names have vectors of their own, in a vault of any version."""

from __future__ import annotations

from spellbook.index import embed, sync
from spellbook.models.base import label_key
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.helpers import Counting as OfTexts
from tests.helpers import opened, rows


class Counting(OfTexts):
    """Remembers questions and labels too, as they are embedded in the same way."""

    def embed_query(self, text):
        self.texts.append(text)
        return super().embed_query(text)


def labelled(index):
    """All labels: path, kind, text, and whether the vector is there under the right key."""
    found = rows(
        index.catalog, "SELECT path, labels.kind, text, key FROM labels JOIN notes USING (note) ORDER BY 1, 2, 3"
    )
    there = index.catalog.vectors.has([key for *_, key in found])
    right = index.embedder.fingerprint
    return [(path, kind, text, key in there and key == label_key(right, kind, text)) for path, kind, text, key in found]


def test_labels_are_embedded_before_texts_and_are_not_counted_as_pending(vault, write_note):
    """What a search asked for comes first, then titles, questions and texts; who waits gets the texts first."""
    for i in range(3):
        write_note(f"{i}.md", f"text {i}", age=100 + i, questions=[f"question {i}"])
    with opened(vault) as index:
        sync.scan(index)
        assert index.catalog.counts().pending == 3
        Searcher(index).ask(Question("text 1", "keyword", keywords=("text 1",)))
        listed = {key: text for key, _, text in index.catalog.waiting.texts(index.catalog.waiting.in_order())}
        assert [listed[key] for key in index.catalog.waiting.in_order()] == [
            *("text 1", "0", "1", "2", "question 0", "question 1", "question 2", "text 0", "text 2")
        ]
        assert embed.embed_texts(index, most=4) == 3
        assert (index.catalog.counts().pending, len(index.catalog.waiting.in_order())) == (0, 5)
        assert embed.embed_texts(index) == 0
        assert index.catalog.waiting.in_order() == []


def test_an_edited_note_has_only_its_present_labels(vault, write_note):
    """A new title is embedded, an old one is kept as cache until it must go, and what two notes share is one vector."""
    write_note("a.md", "one", title="Harbour", questions=["Why?"])
    write_note("b.md", "two", title="Harbour", questions=["Why?"])
    embedder = Counting()
    with opened(vault, embedder) as index:
        sync.run(index)
        assert sorted(embedder.texts) == ["Harbour", "Harbour\none", "Harbour\ntwo", "Why?"]
        embedder.taken()
        [old] = {key for _, kind, key in index.catalog.labels.of(["a.md"]) if kind == "title"}
        write_note("a.md", "one", title="Lighthouse")
        sync.run(index)
        assert sorted(embedder.texts) == ["Lighthouse", "Lighthouse\none"]
        assert [label[:3] for label in labelled(index)] == [
            *(("a.md", "title", "Lighthouse"), ("b.md", "question", "Why?"), ("b.md", "title", "Harbour"))
        ]
        assert index.catalog.labels.notes([old]) == [(old, "b.md")]
        (vault / "b.md").unlink()
        sync.run(index)
        assert index.catalog.vectors.has([old]) == {old}
        index.catalog.vectors.evict(1)
        assert index.catalog.vectors.has([old]) == set()
        assert [label[3] for label in labelled(index)] == [True]


def test_labels_of_another_embedder_have_other_keys(vault, write_note):
    """Switching embedders embeds labels anew, and going back embeds nothing."""
    write_note("a.md", "one", questions=["Why?"])
    first, second = Counting(), Counting(fingerprint="another")
    for embedder, embedded in ((first, 3), (second, 3), (first, 0)):
        with opened(vault, embedder) as index:
            sync.run(index)
            assert (embedder.taken(), [label[3] for label in labelled(index)]) == (embedded, [True, True])
