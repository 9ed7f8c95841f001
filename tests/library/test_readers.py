"""The contract of the three readers: over the same notes, each answers every reading verb as the vault's own book does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import spellbook
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.library.reader import Reader
from spellbook.system.errors import MemoryNotFound, PermissionDenied

HEAD = "privacy_scope: team\ncreated: 2026-03-0{day}\n"
NOTES = {
    "crane.md": "id: crane\ncategory: ports\ntopic: cranes\ntags: [harbour]\n|# The crane\n\nThe crane lifts. See [[quay]].\n\n## Load\n\nTwelve.",
    "quay.md": "category: ports\ntopic: cranes\ntags: [harbour]\n|# The quay\n\nThe quay of the harbour, by [the crane](crane.md).",
    "부두/닻.md": "category: ports\ntopic: 닻\ntags: [harbour, 배]\n|# 닻\n\n닻은 배를 항구에 붙든다. [[crane]]을 보라.",
    "decisions/paint.md": "topic: paint\ncategory: decision\n|# Paint it red\n\nThe crane is painted red.\n\n## Reasoning\n\nRust.",
    "article.md": "topic: buoys\ncategory: article\nsource: https://example.org/buoys\n|# Buoys\n\nA buoy marks the channel.",
}
READERS = ("the vault", "a limited token")

VERBS: dict[str, Callable[[Reader], Any]] = {
    "search": lambda book: hits(book.search("the crane of the harbour", min_score=0.0)),
    "search in Korean": lambda book: hits(book.search("배를 붙드는 것", also=["닻"], min_score=0.0)),
    "search with a filter": lambda book: hits(book.search("harbour", filter={"topic": "cranes", "when": "2026-03"})),
    "memorize": lambda book: hits(book.memorize("the crane lifts", min_score=0.0)),
    "find": lambda book: [hits(book.find(["crane", "red"], "all")), hits(book.find("항구"))],
    "why": lambda book: [(row.path, row.verdict) for row in book.why("crane harbour").rows],
    "recent": lambda book: [chunk.path for chunk in book.recent(3, 1).notes],
    "show": lambda book: [[chunk.id, chunk.text, chunk.line] for chunk in book.show("crane")],
    "resolve": lambda book: [book.resolve("부두/닻.md").id, book.resolve("crane").path],
    "alike": lambda book: [chunk.path for chunk, _ in book.alike("crane", least=0.0)],
    "around": lambda book: [
        [link.path for link in book.around("crane").links],
        [back.path for back in book.around("crane").backlinks],
        {near.path for near in book.around("crane").related},
    ],
    "vault_graph": lambda book: [
        [(note.path, note.id, note.title, note.topic, note.untrusted) for note in book.vault_graph(9).notes],
        sorted(book.vault_graph(9).edges),
        [book.vault_graph(2).degrees, book.vault_graph(2).total],
    ],
    "adjacent": lambda book: [book.adjacent(id) for id in ("crane", "article", "부두/닻.md")],
    "pictures": lambda book: book.pictures("crane"),
    "backlinks": lambda book: [back.path for back in book.backlinks(["crane.md"])],
    "topics": lambda book: [[one.category, one.topic, one.notes, one.chunks] for one in book.topics()],
    "topics_of": lambda book: [one.topic for one in book.topics_of("ports")],
    "topic": lambda book: [chunk.id for chunk in book.topic("cranes")],
    "contents": lambda book: [[one.name, len(one.topics)] for one in book.contents()],
    "folders": lambda book: dict(book.folders()),
    "tags": lambda book: [book.tags(), book.tags(1)],
    "about": lambda book: [book.about(one) for one in book.topics()],
    "validate": lambda book: book.validate({"text": "Too short.", "metadata": {}})[0].errors,
    "memories": lambda book: [
        [hit.path for hit in book.memories.recall("crane").hits],
        [chunk.path for chunk in book.memories.newest(2).notes],
        [item.chunk.path for item in book.memories.decisions.find("paint").items],
        [chunk.path for chunk in book.memories.articles.list().notes],
    ],
    "state": lambda book: [book.state().notes, book.state().chunks, book.state().pending],
    "an unknown id": lambda book: refusal(lambda: book.show("nowhere")),
    "an unknown topic": lambda book: refusal(lambda: book.topic("nothing")),
}
"""What each reader is asked; all answer alike."""


def hits(answer: Any) -> list[tuple[str, str]]:
    return [(hit.id, hit.text) for hit in answer.hits]


def refusal(verb: Callable[[], object]) -> str:
    with pytest.raises(MemoryNotFound) as raised:
        verb()
    return raised.value.code


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spellbook]:
    """A vault all of whose notes a token of the team may see."""
    root = tmp_path_factory.mktemp("readers") / "vault"
    files = {".spellbook/config.toml": "count_use = false\n"}
    for day, (path, note) in enumerate(NOTES.items(), 1):
        head, text = note.split("|", 1)
        files[path] = f"---\n{HEAD.format(day=day)}{head}---\n{text}\n"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    with spellbook.open(root, embedder="hash", state=root.parent / "state") as book:
        book.reindex()
        yield book


@pytest.fixture(params=READERS)
def reader(whole: Spellbook, request: pytest.FixtureRequest) -> Reader:
    """One of the readers, of the same notes."""
    return whole if request.param == "the vault" else limited.seen_by(whole, "team")


@pytest.mark.parametrize("verb", VERBS)
def test_every_reader_answers_alike(reader: Reader, whole: Spellbook, verb: str) -> None:
    """A reading verb gives the same answer, whichever reader is asked."""
    assert VERBS[verb](reader) == VERBS[verb](whole)


def test_what_a_reader_has_no_method_for_it_cannot_do(reader: Reader, whole: Spellbook) -> None:
    """Only the vault's own book changes notes; of the others, `whole` says why they do not, and so do memories."""
    if reader is whole:
        assert reader.whole is whole
        return
    others = {name for name in dir(Spellbook) if name[0] != "_"} - set(dir(Reader))
    assert {"scribe", "revise", "erase", "undo", "export", "reindex", "migrate"} <= others
    assert [name for name in others - {"watched", "beside"} if hasattr(reader, name)] == []
    for change in (
        lambda: reader.whole,
        lambda: reader.memories.remember("A memory."),
        lambda: reader.memories.pin("crane"),
    ):
        with pytest.raises(PermissionDenied):
            change()


def test_what_a_server_asks_each(reader: Reader) -> None:
    """Each can be kept up to date, and gives back memory, whether there is something to do or not."""
    reader.refresh(embed=True)
    reader.follow()
    reader.release(0.0)
    assert reader.find("crane").hits
