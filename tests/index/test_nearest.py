"""Nearest chunks: with deleted chunks and filters, as many come back as exist; exact search is exact."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spellbook.index import embed, sync
from spellbook.index import nearest as searching
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.vectors import compact, restored, width_of
from spellbook.index.filters import Filter, conditions
from spellbook.index.nearest import Matrix, Nearest, Reasons
from spellbook.index.opened import Index
from spellbook.index.vectors import chroma, follow
from spellbook.models.base import label_key
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.blocks import as_rows, units
from tests.helpers import Counting, Write, note_writer, opened, rows

NOTES, RARE = 320, 64


@pytest.fixture(scope="module", params=["exact", "chroma", "read"])
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """Many notes that are nearer to "lighthouse" than the few of the category "rare", for each way to search."""
    folder = tmp_path_factory.mktemp(request.param)
    for i in range(NOTES):
        category, far = ("usual", "") if i % RARE else ("rare", "far away " * 3)
        note_writer(folder / "vault")(f"{i:03}.md", f"{far}lighthouse {i}", category=category)
    most = 100_000 if request.param == "exact" else 1
    with opened(folder / "vault", state=folder / "state", exact_most=most) as index:
        sync.scan(index)
        embed.embed_texts(index)
        if request.param == "chroma":
            follow.catch_up(index.catalog, index.chroma)
    shutil.copytree(folder, folder.with_name(f"{folder.name}.kept"))
    return folder, request.param, most


@pytest.fixture
def index(way: tuple[Path, str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """These notes and their index, as they were before another test changed them."""
    folder, name, most = way
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name(f"{folder.name}.kept"), folder)
    if name == "read":  # from the catalog, as long as Chroma has nothing
        monkeypatch.setattr(searching, "BLOCK", 10)
        monkeypatch.setattr(embed, "maintain", lambda index: None)
    with opened(folder / "vault", state=folder / "state", exact_most=most) as index:
        sync.scan(index)
        yield index


def found(index: Index, filter: Filter | None = None, wanted: int = 30, searcher: Nearest | None = None) -> list[str]:
    reasons = Reasons()
    with index.catalog.reading():
        query = index.embedder.embed_query("lighthouse")
        near = (searcher or Nearest(index)).chunks(query, conditions(filter), wanted, reasons)
    assert not reasons
    assert [cosine for _, cosine in near] == sorted((cosine for _, cosine in near), reverse=True)
    return [chunk.path for chunks, _ in near for chunk in chunks]


def test_a_filter_is_filled_however_far_away_what_it_leaves_is(index: Index) -> None:
    """
    All chunks of a rare category are found, and as many as wanted of a common one. After most notes were deleted the
    rest is found and nothing else, also by a searcher that knew the others. Cosines are those of the stored vectors.
    """
    rare, query = [f"{i:03}.md" for i in range(0, NOTES, RARE)], index.embedder.embed_query("lighthouse")
    known = Nearest(index)
    stored = {key: np.frombuffer(vector, "<f4") @ query for key, vector, _ in index.catalog.vectors.since(0)}
    for searcher in (known, known):  # before the vectors are in memory, and after
        assert searcher.cosines(query, [*stored, "unknown"]) == pytest.approx(stored, abs=1e-5)
        assert sorted(found(index, {"category": "rare"}, searcher=searcher)) == rare
        assert len(found(index, {"category": "usual"}, searcher=searcher)) == 30
        assert found(index, {"category": "usual", "path": "000.md"}, searcher=searcher) == []
    for i in range(NOTES):
        if i % RARE:
            (index.config.vault / f"{i:03}.md").unlink()
    sync.run(index, full=True)
    for searcher in (known, Nearest(index)):
        assert sorted(found(index, searcher=searcher)) == rare


@pytest.mark.parametrize("way", ["read"], indirect=True)
def test_a_large_vault_is_searched_before_chroma_has_it(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    New notes are found at once, deleted ones take no place, and an answer says if Chroma lacks many vectors. New and
    returning vectors are found on either side of `exact_most`.
    """
    query, write = index.embedder.embed_query("lighthouse"), note_writer(index.config.vault)
    known, reasons = Nearest(index), Reasons()
    with monkeypatch.context() as patch:
        patch.setattr(searching, "BEHIND", NOTES - 1)
        assert len(known.chunks(query, (), 30, reasons)) == 30
    assert reasons == [f"Chroma lacks {NOTES} vectors, which were read one by one"]
    names: set[str] = set()
    for most, now in ((1, "xy"), (10_000, "xz"), (1, "yz"), (10_000, "xy"), (1, "abcdefghijkl")):
        object.__setattr__(index.config, "exact_most", most)
        for name in names - {*now}:
            (index.config.vault / f"{name}.md").unlink()
        for name in now:
            write(f"{name}.md", f"lighthouse lighthouse {name}", category="new")
        names = {*now}
        sync.run(index, full=True)
        for searcher in (known, Nearest(index)):
            assert {*found(index, {"category": "new"}, searcher=searcher)} == {f"{name}.md" for name in now}
        assert (len(known.matrix) > 0) == (most > 1)
    for i in range(NOTES):
        (index.config.vault / f"{i:03}.md").unlink()
    sync.run(index, full=True)
    assert len(found(index, searcher=known)) == 12
    assert not index.chroma.seq


def test_a_vector_that_was_made_anew_takes_the_place_of_the_old_one() -> None:
    """A matrix that holds a key's vector searches by the one that the catalog has had since."""
    matrix, (old, new) = Matrix(), np.eye(2, dtype="<f4")
    matrix.add([("a", old.tobytes(), 1), ("b", old.tobytes(), 2)])
    matrix.add([("a", new.tobytes(), 3)])
    assert (matrix.nearest(new, 1), len(matrix), matrix.seq) == ([("a", 1.0)], 2, 3)


def test_exact_most_of_zero_asks_chroma_always(vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `exact_most = 0` in the settings Chroma answers in a vault of one note, and nothing is held in memory."""
    write_note(".spellbook/config.toml", "exact_most = 0\n")
    write_note("a.md", "lighthouse")
    with opened(vault) as index:
        sync.run(index)
        follow.catch_up(index.catalog, index.chroma)
        assert found(index, wanted=1, searcher=(nearest := Nearest(index))) == ["a.md"]
        assert len(nearest.matrix) == 0
        reasons = Reasons()
        monkeypatch.setattr(chroma.Chroma, "nearest", failing)
        assert len(nearest.chunks(index.embedder.embed_query("lighthouse"), (), 1, reasons)) == 1
        assert reasons == ["searched without Chroma: it is being built anew"]


def failing(*_: object) -> None:
    raise chroma.Unavailable("it is being built anew")


@pytest.mark.parametrize("way", ["chroma"], indirect=True)
def test_chroma_may_answer_with_fewer_than_it_holds_or_fail(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    As many come back as exist, and a filter is filled: Chroma's graph can lose the way beside deleted vectors. A text
    that Chroma lacks is found beside those it has. Where it fails, the catalog answers as near, and says so.
    """
    whole, query = chroma.Chroma.nearest, index.embedder.embed_query("lighthouse")
    by_chroma, reasons = (
        [cosine for _, cosine in Nearest(index).chunks(query, (), 30, Reasons())],
        Reasons(),
    )
    monkeypatch.setattr(chroma.Chroma, "nearest", lambda *asked: whole(*asked)[:3])
    assert len(found(index)) == 30
    assert len(found(index, {"category": "rare"})) == NOTES // RARE

    monkeypatch.setattr(chroma.Chroma, "nearest", failing)
    exactly = [cosine for _, cosine in Nearest(index).chunks(query, (), 30, reasons)]
    assert reasons == ["searched without Chroma: it is being built anew"]
    assert all(exact >= near - 0.001 for exact, near in zip(exactly, by_chroma, strict=True))
    assert len(Nearest(index).chunks(query, conditions({"category": "rare"}), 30, Reasons())) == NOTES // RARE
    monkeypatch.setattr(chroma.Chroma, "nearest", whole)
    monkeypatch.setattr(embed, "maintain", lambda index: None)
    note_writer(index.config.vault)("new.md", "lighthouse")
    sync.run(index)
    assert (found(index)[0], len(found(index))) == ("new.md", 30)


def test_while_most_texts_have_no_vector_no_list_of_the_vault_is_made(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If fewer texts than wanted have a vector, these are all that is looked for."""
    for i in range(40):
        write_note(f"{i:02}.md", f"lighthouse {i}")
    with opened(vault, exact_most=1) as index:
        sync.scan(index)
        waiting = index.catalog.waiting
        monkeypatch.setattr(Catalog, "keys", lambda *_: pytest.fail("all keys were listed"))
        for count in (0, 7):
            embed.embed_and_store(index, waiting.texts(waiting.in_order()[-count:] * bool(count)))
            assert len(Nearest(index).chunks(index.embedder.embed_query("lighthouse"), (), 30, Reasons())) == count


@pytest.mark.parametrize("way", ["exact"], indirect=True)
def test_a_search_goes_on_as_it_began(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that began exact stays so, although the vault becomes too large meanwhile."""
    searcher, by_key, first = Nearest(index), index.catalog.by_key, [True]

    def grow() -> None:
        object.__setattr__(index.config, "exact_most", 1)
        assert len(found(index, searcher=searcher)) == 30

    def slowly(*asked: Any) -> Any:
        if first:
            first.clear()
            with ThreadPoolExecutor(1) as other:
                other.submit(grow).result()
        return by_key(*asked)

    monkeypatch.setattr(index.catalog, "by_key", slowly)
    assert len(found(index, {"category": "rare"}, searcher=searcher)) == NOTES // RARE


def test_matrix_is_exact() -> None:
    """
    The nearest are numpy's, in the same order and with the same cosines, however the matrix grew. With `keys`, only those
    count. A repeated key keeps its row; a vector of another width is skipped.
    """
    block, query, matrix = units(300), units(1)[0], Matrix()
    assert matrix.nearest(query, 5) == []
    for first in range(0, 300, 37):
        matrix.add(as_rows(block[first : first + 37], first))
    cosines = block @ query
    for limit in (1, 10, 300, 1000):
        near = matrix.nearest(query, limit)
        assert [key for key, _ in near] == [f"k{i}" for i in np.argsort(-cosines, kind="stable")][:limit]
        np.testing.assert_allclose([cosine for _, cosine in near], np.sort(cosines)[::-1][:limit], atol=1e-6)
    matrix.add([*as_rows(block[:9]), ("k1", b"", 309), ("short", b"1234", 310)])
    assert (len(matrix), matrix.seq) == (300, 310)
    among = sorted([3, 50, 99, 7], key=lambda i: -cosines[i])
    near = matrix.nearest(query, 3, [*(f"k{i}" for i in sorted(among)), "unknown"])
    assert [key for key, _ in near] == [f"k{i}" for i in among][:3]
    assert matrix.nearest(query, 3, ["unknown"]) == []


# -- stored vectors: each stored once, visible to all followers, within a size limit; a note's labels hav


def labelled(index: Index) -> list[tuple[str, str, str, bool]]:
    """All labels: path, kind, text, and whether the vector is there under the right key."""
    sql = "SELECT path, labels.kind, text, key FROM labels JOIN notes USING (note) ORDER BY 1, 2, 3"
    found = rows(index.catalog, sql)
    there, right = index.catalog.vectors.has([key for *_, key in found]), index.embedder.fingerprint
    return [(path, kind, text, key in there and key == label_key(right, kind, text)) for path, kind, text, key in found]


def test_unused_vectors_are_evicted_longest_unused_first_and_used_ones_never(vault: Path, write_note: Write) -> None:
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


def test_who_follows_seq_sees_vectors_that_come_back(vault: Path, write_note: Write) -> None:
    """
    The vector of a note that was away and came back, and the vectors of a catalog that was built again. Switching
    embedders embeds texts and labels anew; going back embeds nothing, and each vector has a new `seq`.
    """
    for name, text in (("a", "the lighthouse"), ("b", "something else")):
        write_note(f"{name}.md", text, questions=["Why?"])
    here = Counting(asked=True)
    with opened(vault, here) as index:
        sync.run(index)
        assert here.taken() == 5
        [away] = index.catalog.note("a")
        (vault / "a.md").unlink()
        sync.run(index)
        matrix = Matrix()
        matrix.add(index.catalog.vectors.since(matrix.seq))
        assert len(matrix) == 1
        write_note("a.md", "the lighthouse", questions=["Why?"])
        assert (sync.run(index).embedded, here.taken()) == (0, 0)
        matrix.add(index.catalog.vectors.since(matrix.seq))
        assert matrix.nearest(here.embed_query("the lighthouse"), 1)[0][0] == away.key
        mark = index.catalog.vectors.changes(0)[-1][1]
    here.taken()
    for embedder, embedded in ((Counting(fingerprint="another", asked=True), 5), (here, 0)):
        with opened(vault, embedder) as index:
            sync.run(index)
            assert embedder.taken() == embedded
            assert {label[3] for label in labelled(index)} == {True}
            came = [seq for _, seq in index.catalog.vectors.changes(mark)]
            assert len(came) == 2
            assert embedded or len({*came}) == 2
            mark = came[-1]
    with opened(vault, here) as index:
        write_note("new.md", "a harbour")
        sync.run(index)
        assert len(index.catalog.vectors.changes(mark)) == 1
        mark = index.catalog.vectors.changes(0)[-1][1]
    shutil.rmtree(index.config.state)
    with opened(vault) as index:
        sync.run(index)
        assert index.catalog.vectors.changes(mark) == index.catalog.vectors.changes(0) != []


def test_labels_are_embedded_before_texts_and_are_not_counted_as_pending(vault: Path, write_note: Write) -> None:
    """
    Texts that a search asked for come first, then titles, questions and texts; who waits gets the texts first. A new
    title is embedded, an old one is kept as cache until it must go, and what two notes share is one vector.
    """
    for i in range(3):
        write_note(f"{i}.md", f"text {i}", age=100 + i, questions=[f"question {i}"])
    embedder = Counting(asked=True)
    with opened(vault, embedder) as index:
        sync.scan(index)
        catalog, waiting = index.catalog, index.catalog.waiting
        assert catalog.counts().pending == 3
        Searcher(index).ask(Question("text 1", "keyword", keywords=("text 1",)))
        assert [text for *_, text in waiting.texts(waiting.in_order())] == [
            *("text 1", "0", "1", "2", "question 0", "question 1", "question 2", "text 0", "text 2")
        ]
        assert embed.embed_texts(index, most=4) == 3
        assert (catalog.counts().pending, len(waiting.in_order())) == (0, 5)
        assert (embed.embed_texts(index), waiting.in_order()) == (0, [])
        embedder.taken()
        for name in "01":
            write_note(f"{name}.md", "text", title="Harbour", questions=["Why?"])
        (vault / "2.md").unlink()
        sync.run(index)
        assert sorted(embedder.texts) == ["Harbour", "Harbour\ntext", "Why?"]
        embedder.taken()
        [old] = {key for _, kind, key in catalog.labels.of(["0.md"]) if kind == "title"}
        write_note("0.md", "text", title="Lighthouse")
        sync.run(index)
        assert sorted(embedder.texts) == ["Lighthouse", "Lighthouse\ntext"]
        assert [label[:3] for label in labelled(index)] == [
            *(("0.md", "title", "Lighthouse"), ("1.md", "question", "Why?"), ("1.md", "title", "Harbour"))
        ]
        assert catalog.labels.notes([old]) == [(old, "1.md")]
        (vault / "1.md").unlink()
        sync.run(index)
        assert catalog.vectors.has([old]) == {old}
        catalog.vectors.evict(1)
        assert catalog.vectors.has([old]) == set()
        assert [label[3] for label in labelled(index)] == [True]


def test_a_vector_keeps_its_direction() -> None:
    """
    What is read back is a unit vector, as wide as before, and so near that no ranking changes. Vectors of two embedders
    are read together, and a vector of zeros stays one.
    """
    for width in (1, 2, 3, 384, 1_025):
        block = np.random.default_rng(width).standard_normal((50, width)).astype("<f4")
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        stored = [compact(row.tobytes()) for row in block]
        assert {(len(each), width_of(len(each))) for each in stored} == {((3 * width + 1) // 2, width)}
        back = np.stack([np.frombuffer(each, "<f4") for each in restored(stored)])
        assert back.shape == block.shape
        np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)
        assert (np.vecdot(back, block) > 1 - 1e-6).all()
        assert [compact(each) for each in restored(stored)] == stored
    vectors = [np.eye(1, width, dtype="<f4").tobytes() for width in (4, 7, 4)] + [bytes(16)]
    assert restored([compact(each) for each in vectors]) == vectors
    assert restored([]) == []
