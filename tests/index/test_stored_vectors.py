"""Stored vectors: each stored once, visible to all followers, within a size limit; a note's labels have their own."""

from __future__ import annotations

import shutil

from spellbook.index import embed, sync
from spellbook.index.loaded import Matrix
from spellbook.models.base import label_key
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.helpers import Counting, opened, rows


class AlsoLabels(Counting):
    """Remembers questions and labels too, as they are embedded in the same way."""

    def embed_query(self, text):
        self.texts.append(text)
        return super().embed_query(text)


def labelled(index):
    """All labels: path, kind, text, and whether the vector is there under the right key."""
    sql = "SELECT path, labels.kind, text, key FROM labels JOIN notes USING (note) ORDER BY 1, 2, 3"
    found = rows(index.catalog, sql)
    there, right = index.catalog.vectors.has([key for *_, key in found]), index.embedder.fingerprint
    return [(path, kind, text, key in there and key == label_key(right, kind, text)) for path, kind, text, key in found]


def test_unused_vectors_are_evicted_longest_unused_first_and_used_ones_never(vault, write_note):
    """Beyond the limit, the longest unused vectors are deleted first; used ones never are."""
    for i in range(6):
        write_note(f"{i}.md", f"text number {i}")
    with opened(vault, Counting()) as index:
        sync.run(index)
        vectors, keys = index.catalog.vectors, {i: index.catalog.note(str(i))[0].key for i in range(6)}
        for i in (3, 1, 4):
            (vault / f"{i}.md").unlink()
        sync.run(index)
        for used, i in enumerate((3, 1, 4)):  # seconds are the unit of use: make the order plain
            rows(index.catalog, "UPDATE vectors SET used = ? WHERE key = ?", used, keys[i])
        assert vectors.evict(11 * 384) == 1
        assert vectors.has(keys.values()) == {keys[i] for i in (0, 1, 2, 4, 5)}
        assert vectors.evict(1) == 5  # two texts, three titles
        assert len(vectors.has(index.catalog.labels.keys())) == 3
        assert vectors.has(keys.values()) == {keys[i] for i in (0, 2, 5)}
        assert (index.catalog.counts().pending, vectors.evict(1)) == (0, 0)


def test_who_follows_seq_sees_vectors_that_come_back(vault, write_note):
    """The vector of a note that was away and came back, and the vectors of a catalog that was built again."""
    write_note("a.md", "the lighthouse")
    write_note("b.md", "something else")
    with opened(vault) as index:
        sync.run(index)
        [away] = index.catalog.note("a")
        (vault / "a.md").unlink()
        sync.run(index)
        matrix = Matrix()
        matrix.add(index.catalog.vectors.since(matrix.seq))
        assert len(matrix) == 1
        write_note("c.md", "the lighthouse")
        assert sync.run(index).embedded == 0
        matrix.add(index.catalog.vectors.since(matrix.seq))
        assert matrix.nearest(index.embedder.embed_query("the lighthouse"), 1)[0][0] == away.key
        mark = index.catalog.vectors.changes(0)[-1][1]
    shutil.rmtree(index.config.state)
    with opened(vault) as index:
        sync.run(index)
        assert index.catalog.vectors.changes(mark) == index.catalog.vectors.changes(0) != []


def test_vectors_of_an_embedder_that_comes_back_are_seen_one_by_one(vault, write_note):
    """Switching embedders embeds texts and labels anew; going back embeds nothing, and each vector has a new `seq`."""
    for i in range(5):
        write_note(f"{i}.md", f"lighthouse {i}", questions=["Why?"])
    last = 0
    for number, embedder in enumerate((AlsoLabels(), AlsoLabels(fingerprint="another"), AlsoLabels())):
        with opened(vault, embedder) as index:
            sync.run(index)
            assert embedder.taken() == (0 if number == 2 else 11)
            assert {label[3] for label in labelled(index)} == {True}
            came = [seq for _, seq in index.catalog.vectors.changes(last)]
            assert len(came) == 5
            assert number < 2 or len({*came}) == 5
            last = came[-1]
            if number == 2:
                write_note("new.md", "a harbour")
                sync.run(index)
                assert len(index.catalog.vectors.changes(last)) == 1


def test_labels_are_embedded_before_texts_and_are_not_counted_as_pending(vault, write_note):
    """Texts that a search asked for come first, then titles, questions and texts; who waits gets the texts first."""
    for i in range(3):
        write_note(f"{i}.md", f"text {i}", age=100 + i, questions=[f"question {i}"])
    with opened(vault) as index:
        sync.scan(index)
        assert index.catalog.counts().pending == 3
        Searcher(index).ask(Question("text 1", "keyword", keywords=("text 1",)))
        waiting = index.catalog.waiting
        assert [text for *_, text in waiting.texts(waiting.in_order())] == [
            *("text 1", "0", "1", "2", "question 0", "question 1", "question 2", "text 0", "text 2")
        ]
        assert embed.embed_texts(index, most=4) == 3
        assert (index.catalog.counts().pending, len(waiting.in_order())) == (0, 5)
        assert (embed.embed_texts(index), waiting.in_order()) == (0, [])


def test_an_edited_note_has_only_its_present_labels(vault, write_note):
    """A new title is embedded, an old one is kept as cache until it must go, and what two notes share is one vector."""
    for name, text in (("a", "one"), ("b", "two")):
        write_note(f"{name}.md", text, title="Harbour", questions=["Why?"])
    embedder = AlsoLabels()
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
