"""The index of a token that sees a part: as if nothing else were there, whatever becomes of the notes."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spellbook.index import privacy, sync
from spellbook.index.filters import conditions
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.library.reader import Reader
from spellbook.settings import config
from spellbook.system.errors import MemoryNotFound
from tests.helpers import Counting, Small, Write, note_writer, stored, until

# -- as if nothing else were there


def notes(random: Random, vault: Path) -> None:
    """Write a vault of notes of all scopes that share words, labels and links."""
    write = note_writer(vault)
    words = ["harbour", "crane", "quay", "ship", "anchor", "rope", "tide", "lamp", "gull", "mast"]
    for number in range(40):
        scope = random.choice(["private", "team", "public", None, "team"])
        meta: dict[str, object] = {"privacy_scope": scope} if scope else {}
        if random.random() < 0.3:
            meta["id"] = f"id{random.randrange(12)}"
        meta |= {
            "topic": random.choice(words),
            "category": random.choice(["knowledge", "decision", "project"]),
            "tags": f"[{', '.join(random.sample(words, 2))}]",
            "keywords": f"[{', '.join(random.sample(words, 2))}]",
            "aliases": f"[{random.choice(words)}]",
            "created": f"2026-01-{random.randrange(1, 28):02}",
        }
        text = " ".join(random.choices(words, k=random.choice([8, 60])))
        links = " ".join(f"[[n{random.randrange(40)}]] [[{random.choice(words)}]]" for _ in range(3))
        write(
            f"{random.choice(words)}/n{number}.md", f"# {text[:20]}\n\n{text}\n\n{links}\n", age=number * 10.0, **meta
        )


@pytest.mark.parametrize("seed", range(4))
def test_it_is_as_if_nothing_else_were_there(tmp_path: Path, seed: int) -> None:
    """
    Scores, counts, links, ids and lists are those of a vault that has the shown notes alone: over the same notes both
    readers answer every reading verb alike.
    """
    random, vault, alone = Random(seed), tmp_path / "vault", tmp_path / "alone"
    notes(random, vault)
    sees = random.choice(["team", "public"])
    shutil.copytree(vault, alone)
    for file in alone.rglob("*.md"):
        if not privacy.shows(sees, file.name, file.read_bytes()):
            file.unlink()
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "synonyms.yaml").write_text("- [harbour, anchor]\n- [tide, mast]\n")
    (vault / ".spellbook" / "config.toml").write_text('[categories]\ndecision = "What was decided."\n')
    (alone / ".spellbook").mkdir()
    (alone / ".spellbook" / "config.toml").write_text("count_use = false\n")  # a token counts nothing
    with books.open(vault, embedder="hash") as whole, books.open(alone, embedder="hash") as other:
        whole.reindex()
        other.reindex()
        part = limited.seen_by(whole, sees)
        assert told(part) == told(other)
        assert part.stats()["notes"] < whole.stats()["notes"]


def told(book: Reader) -> list[str]:
    """What every reading verb answers of a vault."""
    answers: list[object] = []
    for text in ("harbour crane", "anchor", "the tide and the lamp", "n7", "id3"):
        hits = book.search(text, min_score=0.0).hits
        answers += [(hit.why, hit.score, hit.chunk.id, hit.path, hit.text, hit.backlinks) for hit in hits]
        for verb in (book.find, book.memorize):
            answers += [(hit.why, hit.path) for hit in verb(text, min_score=0.0, limit=50).hits]
    for path in sorted(book.index.vault.walk().files):
        answers += [book.around(path), [(chunk.path, score) for chunk, score in book.alike(path, least=0.0)]]
        answers += [[(chunk.id, chunk.text, chunk.line) for chunk in book.show(path)], book.resolve(path).id]
        answers += [book.adjacent(path), book.pictures(path), [back.path for back in book.backlinks([path])]]
    for each in book.topics():
        answers += [each, book.about(each), [chunk.id for chunk in book.topic(f"{each.category}/{each.topic}")]]
    answers += [
        [(chunk.id, chunk.path, chunk.meta) for chunk in book.recent(100).notes],
        [book.stats()[name] for name in ("notes", "chunks", "categories", "vectors_in_use", "pending")],
        book.index.catalog.unmatched(conditions({"tags": "harbor"}), ()),
        [(row.path, row.verdict) for row in book.why("harbour crane").rows],
        [book.vault_graph(9), book.folders(), book.tags(), book.tags(1), book.topics_of("knowledge"), book.contents()],
        book.validate({"text": "Too short.", "metadata": {}})[0].errors,
        [hit.path for hit in book.memories.recall("crane").hits],
        [chunk.path for chunk in book.memories.newest(9).notes],
        [item.chunk.path for item in book.memories.decisions.find("tide").items],
        [chunk.path for chunk in book.memories.articles.list().notes],
        [book.state().notes, book.state().chunks, book.state().pending],
    ]
    return list(map(repr, answers))


# -- as the vault changes


def paths(book: Reader, query: str = "harbour") -> set[str]:
    return {hit.path for hit in book.search(query, min_score=0.0, limit=100).hits}


def test_what_becomes_private_is_gone_at_once(vault: Path, write_note: Write, book: Spellbook) -> None:
    """
    A scope that is changed, in any way, holds for the next answer, also of verbs that look at no file. A note that went
    private since the index read it is neither read from its file nor taken into the index. A note that a private one is
    merged into is private.

    A shown note that a hidden one supersedes says so, and no more; one that a shown note supersedes names it.
    """
    write_note("a.md", "The harbour.", privacy_scope="team", age=9)
    write_note("b.md", "The harbour and [[a]].", privacy_scope="public", age=9)
    write_note("c.md", "The harbour too.", age=9)
    team, everyone = limited.seen_by(book, "team"), limited.seen_by(book, "public")
    assert (paths(team), paths(everyone), paths(book)) == ({"a.md", "b.md"}, {"b.md"}, {"a.md", "b.md", "c.md"})
    assert [each.path for each in team.backlinks(["a.md"])] == ["b.md"]
    book.revise("b", metadata={"privacy_scope": "private"})
    assert team.backlinks(["a.md"]) == ()
    assert (paths(team), paths(everyone)) == ({"a.md"}, set())
    write_note("c.md", "The harbour too.", privacy_scope="Team ")
    assert paths(team) == {"a.md", "c.md"}
    (vault / "c.md").unlink()
    assert paths(team) == {"a.md"}
    write_note("a.md", "The harbour is zqsecret.")
    with pytest.raises(MemoryNotFound):
        team.index.vault.read("a.md")
    rules = privacy.SHOWN["team"]
    assert book.index.catalog.notes.with_only(privacy.KEY, rules), "the index has not seen it yet"
    sync.scan(team.index)
    assert "zqsecret" not in repr(team.index.catalog.at("a.md"))
    book.refresh()
    assert team.index.catalog.at("a.md") == []
    assert (team.state().notes, book.state().notes) == (0, 2)
    write_note("old.md", "The harbour is small.", privacy_scope="team", age=9)
    write_note("mid.md", "The harbour grew.", privacy_scope="team", supersedes='"[[old]]"')
    write_note("zqnew.md", "The harbour closed.", supersedes='"[[mid]]"')
    found: dict[str, Any] = {hit.path: hit.why.get("superseded_by") for hit in team.search("harbour").hits}
    assert (found["mid.md"], found["old.md"]["path"]) == ({}, "mid.md")
    merged = book.merge("old", "zqnew", keep="both", apply=True)
    assert (merged.path, paths(team)) == ("old.md", {"mid.md"})


def test_what_is_wrong_with_the_vault_is_told_without_counts(vault: Path, write_note: Write) -> None:
    """
    While most notes are missing, a limited token learns that answers may be old, not how many notes there were. What
    embeds a text has a limited book take over its vector, and scan nothing; a change of a note does.
    """
    write_note("a.md", "The harbour.", privacy_scope="team", age=9)
    for number in range(23):
        write_note(f"p{number}.md", "The quay.", age=9)
    with books.open(vault, embedder="hash") as book:
        book.refresh()
        team = limited.seen_by(book, "team")
        scanned = [team.index.scanned_at() or 0.0]
        book.reindex()
        assert team.state().pending == 0
        scanned.append(team.index.scanned_at() or 0.0)
        book.scribe({"text": "The quay is swept on Mondays.", "metadata": {"topic": "quay"}}, labels="derived")
        scanned.append(team.index.scanned_at() or 0.0)
        assert 0.0 < scanned[0] == scanned[1] < scanned[2]
        for number in range(23):
            (vault / f"p{number}.md").unlink()
        assert "23 of 25 notes" in book.search("harbour").index.reason
        told = team.search("harbour")
        assert told.index.degraded
        assert not re.search(r"\d", told.index.reason)
        assert [hit.path for hit in told.hits] == ["a.md"]


@pytest.mark.slow
def test_vectors_are_copied_and_models_shared(vault: Path, write_note: Write, chroma_follows: None) -> None:
    """
    A limited book embeds nothing: it takes the vectors of either model that the vault's index has, as it has them. In a
    large vault its own Chroma, with the vectors of what it sees, is filled without a question that waits for it.
    """
    write_note("a.md", "# A title\n\nThe harbour.\n\n## Part\n\nOf it.", privacy_scope="team", questions="[Where?]")
    write_note("b.md", "The quay.")
    one, other, small = Counting(), Counting(fingerprint="other"), Small()
    with Spellbook(replace(config.load(vault, embedder="hash"), exact_most=3), one) as book:
        book.refresh()
        team = limited.seen_by(book, "team")
        assert (team.state().pending, team.index.embedder) == (2, one)
        book.use(replace(book.index, second=small))
        for embedder in (one, other):
            book.use(replace(book.index, embedder=embedder))
            book.reindex()
            assert embedder.taken() > 2
            assert (small.taken() > 2) is (embedder is one)
            assert (team.state().pending, team.index.catalog.waiting.in_order()) == (0, [])
            assert (team.index.embedder, team.index.second) == (embedder, small)
            embedded = team.index.catalog.vectors.embedded(team.index.catalog.keys(()))
            assert stored(team.index) == {"A title", "Where?", *embedded}
            assert paths(team) == {"a.md"}
            assert (one.texts, other.texts) == ([], [])
            assert {said for said, is_asked in small.log if not is_asked} == set()
            small.taken()
        for number in range(6):
            write_note(f"{number}.md", f"the harbour, berth {number}", privacy_scope="team")
        book.reindex()
        for _ in range(2):
            assert len(team.memorize("the harbour", min_score=0, limit=20).hits) == 8
            until(lambda: team.index.chroma.rows == 8)
