"""Sketches: the nearest vectors are among those with the most similar signs, for any embedder."""

from __future__ import annotations

import numpy as np
import pytest
from filelock import FileLock

from spellbook.index.vectors import simhash
from spellbook.index.vectors.simhash import Sketches
from spellbook.models.base import short_hash

COUNT, WIDTH, WANTED = 4_000, 384, 10


def keys_of(count, name="k"):
    return [short_hash(f"{name}{number}".encode()) for number in range(count)]


KEYS = keys_of(COUNT)


def unit(block):
    return (block / np.linalg.norm(block, axis=1, keepdims=True)).astype("<f4")


def clustered(drawn, width=WIDTH):
    """Vectors around subjects, as a model gives them."""
    centres = drawn.standard_normal((100, width))
    return centres[drawn.integers(100, size=COUNT)] + 0.8 * drawn.standard_normal((COUNT, width))


def crowded(drawn):
    """Vectors that are all close together, as many models give them."""
    return clustered(drawn) + 6 * drawn.standard_normal(WIDTH)


def sparse(drawn):
    """Vectors with few numbers that are not zero, as hashed words give them."""
    words = drawn.random((100, WIDTH)) < 0.1
    return clustered(drawn) * words[drawn.integers(100, size=COUNT)]


def rows(block, keys=KEYS, seq=1):
    return [
        (key, vector.tobytes(), seq + number) for number, (key, vector) in enumerate(zip(keys, block, strict=False))
    ]


def made(block, **options):
    known = Sketches("f")
    assert known.add(rows(block, **options)) == len(block)
    return known


@pytest.fixture
def block():
    return unit(clustered(np.random.default_rng(1)))


@pytest.mark.parametrize(
    "drawn",
    [clustered, crowded, sparse, lambda drawn: clustered(drawn, 100)],
    ids=["model", "crowded", "sparse", "odd width"],
)
def test_the_nearest_are_among_the_most_alike(drawn):
    """Nine in ten of the ten nearest of 4,000 vectors are among the 200 most similar sketches."""
    block = unit(drawn(np.random.default_rng(1)))
    known, found = made(block), []
    for query in unit(block[::200] + 0.5 * block[1::200]):
        nearest = {KEYS[row] for row in np.argsort(-(block @ query))[:WANTED]}
        alike = known.alike(query, 20 * WANTED)
        assert len(alike) == len({*alike}) == 20 * WANTED
        found.append(len(nearest & {*alike}) / WANTED)
    assert np.mean(found) >= 0.9


def test_itself_comes_first_and_all_are_there(block):
    """A vector is most similar to itself; asking for more than there are returns all."""
    known = made(block)
    for row in (0, 1_234, COUNT - 1):
        assert known.alike(block[row], 1) == [KEYS[row]]
    assert sorted(known.alike(block[0], COUNT + 1)) == sorted(KEYS)
    assert Sketches("f").alike(block[0], 5) == []


def test_among_some(block):
    """Only the requested keys come back, without unknown ones."""
    known, some = made(block), KEYS[100:300]
    assert known.alike(block[7], 1, some) != [KEYS[7]]
    assert known.alike(block[150], 1, some) == [KEYS[150]]
    assert sorted(known.alike(block[7], 1_000, [*some, *keys_of(5, "unknown")])) == sorted(some)
    assert known.alike(block[7], 10, []) == []


def test_grown_piece_by_piece(block, monkeypatch):
    """Vectors added later are found; `seq` is the last one added, and vectors of other dimensions are left out."""
    monkeypatch.setattr(simhash, "BATCH", 333)
    known = made(block[:1_000])
    assert (known.seq, len(known)) == (1_000, 1_000)
    assert known.add(rows(block[1_000:], KEYS[1_000:], seq=1_001)) == COUNT - 1_000
    assert (known.seq, len(known)) == (COUNT, COUNT)
    assert known.add([(KEYS[0], b"\0" * 4 * (WIDTH - 1), COUNT + 1)]) == 0
    assert (known.seq, len(known)) == (COUNT + 1, COUNT)  # nor is it asked for again
    assert [known.alike(block[row], 1) for row in range(0, COUNT, 100)] == [[KEYS[row]] for row in range(0, COUNT, 100)]
    assert known.add([]) == 0


def test_kept_for_the_next_process(block, tmp_path):
    """Stored sketches give the same answers when loaded, and can grow further."""
    known, file = made(block[:3_000]), tmp_path / "sketches.npy"
    known.save(file)
    again = Sketches.load(file, "f")
    assert (len(again), again.seq) == (3_000, 3_000)
    for each in (known, again):
        each.add(rows(block[3_000:], KEYS[3_000:], seq=3_001))
    assert [again.alike(query, 50) for query in block[::500]] == [known.alike(query, 50) for query in block[::500]]
    assert {each.name for each in tmp_path.iterdir()} <= {"sketches.npy", "sketches.lock"}


def test_another_embedding_or_a_torn_file_is_none(block, tmp_path):
    """A file that is missing, torn or of another embedding gives empty sketches."""
    file = tmp_path / "sketches.npy"
    assert len(Sketches.load(file, "f")) == 0
    made(block).save(file)
    assert len(Sketches.load(file, "g")) == 0
    whole = file.read_bytes()
    for size in (0, 1, 40, 100, 1_000, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert len(Sketches.load(file, "f")) == 0
    for other in (b"\n", b"\xff\n"):
        file.write_bytes(other + whole)
        assert len(Sketches.load(file, "f")) == 0
    Sketches("f").save(file)  # nothing to keep: what is there stays
    assert file.read_bytes() == other + whole


def test_two_processes_do_not_keep_at_once(block, tmp_path):
    """While another process stores its sketches, nothing is written."""
    file = tmp_path / "sketches.npy"
    with FileLock(tmp_path / "sketches.lock"):
        made(block).save(file)
    assert not file.exists()
