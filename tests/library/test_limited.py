"""
What a token that sees team notes alone is told: nothing of any other note, whatever it asks.

Each private note carries a word of its own in its text, title, path, labels and so on. Every public verb and every tool
is asked for these words, ids, paths and topics, and the answers must hold none of them but the one that was asked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spellbook.http.callers import SCOPES, Caller
from spellbook.http.served import Served
from spellbook.index import privacy, sync
from spellbook.index.filters import conditions
from spellbook.index.parse_pool import Readers
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.library.limited import LimitedReader
from spellbook.library.reader import Reader
from spellbook.mcp.names import TOOLSETS
from spellbook.memories.articles import Articles
from spellbook.memories.decisions import Decisions
from spellbook.memories.memories import Memories
from spellbook.settings import config
from spellbook.system.errors import MemoryNotFound, PermissionDenied, SpellbookError
from tests.helpers import Counting, Small, Write, held, note_writer, stored, until
from tests.mcp.agent import Agent, talk

CANARY = re.compile("zq(?!uery)[a-z]+")  # the name of a counter, "query", may follow any byte

LABELS = {
    "id": "zqid",
    "title": "zqtitle",
    "topic": "zqtopic",
    "category": "zqcategory",
    "keywords": "[zqkeyword, harbour]",
    "tags": "[zqtag, shared]",
    "aliases": "[zqalias, roadmap]",
    "questions": "[Where is the zqquestion?]",
    "entities": "[zqentity]",
    "source": "https://zqsource.example",
    "scope": "zqscope",
    "zqkey": "zqvalue",
}
TEXT = "The crane of the harbour lifts twelve containers an hour, and the quay is swept on Mondays."
SECRET = f"{TEXT} Only the zqtext knows. [[zqlink]] #zqinline\n\n## The zqheading\n\nMore of the zqsection.\n"

ASKED = (
    *("zqid", "zqid#the-zqheading", "zqfolder/zqpath", "zqfolder/zqpath.md", "zqtopic", "zqcategory/zqtopic"),
    *("zqcategory", "zqtitle", "the harbour and the zqtext", "zqtag", "roadmap", "zqgone", "zqdecision", "harbour"),
)
"""What is asked for: ids, paths, topics, categories, and words of private notes."""


def fill(vault: Path) -> None:
    """Write notes of all scopes that link to, supersede, repeat and name each other."""
    write = note_writer(vault)
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "config.toml").write_text('[categories]\ndecision = "zqdescribed"\n')
    (vault / ".spellbook" / "synonyms.yaml").write_text("- [harbour, zqsynonym]\n")
    (vault / ".spellbook" / "other.yaml").write_text("- zqother\n")
    write("team/crane.md", f"{TEXT} See [[roadmap]], [[plan]] and [[team/quay]].", privacy_scope="team", id="crane", title="The crane", keywords="[harbour]", tags="[shared]", topic="cranes", category="knowledge")  # fmt: skip
    write("team/quay.md", "The quay of the harbour is long.", privacy_scope="public", topic="cranes", category="knowledge")  # fmt: skip
    write("team/deep/er/plan.md", "A plan for the harbour.", privacy_scope="team", topic="plans", category="decision", title="Use two cranes")  # fmt: skip
    write("team/article.md", "An article of the harbour.", privacy_scope="team", category="article", categories="[sea]", trust="untrusted", source="https://a.example")  # fmt: skip
    write("team/step.md", "Where the harbour stands.", privacy_scope="team", category="checkpoint", topic="session", age=99)  # fmt: skip
    write("zqfolder/zqpath.md", SECRET + "[[crane]] [[team/quay|zqtext]]", **LABELS)
    write("zqfolder/plan.md", SECRET.replace("zq", "zqnear"), supersedes='"[[team/crane]]"', title="zqdecision", category="decision", topic="plans")  # fmt: skip
    write("zqfolder/new.md", SECRET, supersedes='"[[team/deep/er/plan]]"', id="zqnewer", title="zqnewest", category="decision", topic="plans", created="2099-01-01")  # fmt: skip
    write("zqfolder/twin.md", SECRET, id="crane", privacy_scope="private", title="zqtwin")
    write("zqfolder/step.md", SECRET, category="checkpoint", topic="session", title="zqcheckpoint")
    write("zqfolder/list.md", SECRET, privacy_scope="[team, private]", category="article", categories="[zqsea, sea]")
    write("zqfolder/nested.md", SECRET, privacy_scope="{team: team}")
    write("zqfolder/merged.md", SECRET, merged="[zqgone]")
    write("zqfolder/same.md", "The zqsynonym opens.")
    write("zqfolder/more.md", "---\nprivacy_scope: team\n\nzqunclosed")
    write("zqfolder/broken.md", "---\nprivacy_scope: team\nzqbroken: [\n---\nzqbroken " + TEXT)
    write("team/shadow.md", f"The zqbody. {TEXT}\n\n---\nprivacy_scope: team\n---\n")
    (vault / "zqfolder" / "zqpicture.png").write_bytes(b"zqbytes")
    (vault / "zqfolder" / "zqlatin.md").write_bytes(b"---\nprivacy_scope: team\n---\nzq\xff\xfe\xfa")
    (vault / "zqlinked.md").symlink_to(vault / "zqfolder" / "zqpath.md")


def work(book: Spellbook) -> None:
    """Change private notes by Spellbook, so that journal, trash, moves and use counts know of them."""
    book.reindex()
    book.scribe({"text": "A zqwritten memory of the harbour.", "metadata": {"topic": "zqtopic", "keywords": ["zqk"]}})
    book.revise("zqid", append="zqappended")
    book.erase("zqnewer")
    book.undo()
    book.erase("zqfolder/merged")
    book.move("zqfolder/nested.md", "zqfolder/zqmoved.md")
    book.show("zqid")
    book.search("harbour")
    book.rest()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spellbook]:
    """A vault of all scopes, opened whole."""
    folder = tmp_path_factory.mktemp("limited")
    (folder / "vault").mkdir()
    fill(folder / "vault")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPELLBOOK_DATA", str(folder / "data"))
        with books.open(folder / "vault", embedder="hash", state=folder / "state") as book:
            work(book)
            yield book


@pytest.fixture
def team(whole: Spellbook) -> Reader:
    """The same vault as a team token sees it."""
    return limited.seen_by(whole, "team")


def leaks(answer: object, *asked: object) -> set[str]:
    """Return the canaries in an answer that the caller has not named."""
    named = CANARY.findall(said(asked))
    return {each for each in CANARY.findall(said(answer)) if not any(one.startswith(each) for one in named)}


def said(value: object) -> str:
    """Return everything that a value holds, as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, SpellbookError):
        return f"{value!r} {getattr(value, 'difference', '')}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return said([getattr(value, each.name, "") for each in dataclasses.fields(value)])
    if isinstance(value, Mapping):
        return " ".join(f"{said(key)} {said(each)}" for key, each in value.items())
    if isinstance(value, Sequence | set | frozenset | Iterator) and not isinstance(value, str):
        return " ".join(map(said, value))
    return f"{value} {value!r}"


# -- every verb

SEARCHES: Sequence[Mapping[str, Any]] = (
    {},
    {"limit": 100, "min_score": 0.0, "max_tokens": 50_000},
    {"filter": {"topic": "zqtopic"}},
    {"filter": {"category": "zqcat"}},
    {"filter": {"path": "zqfolder/*", "tags": "zqta"}},
    {"filter": {"zqke": "zqvalu"}},
    {"filter": {"privacy_scope": ["private", "team"]}, "per_note": 1},
)

Case = Callable[[Reader, str], object]

CASES: Mapping[str, Sequence[Case]] = {
    "search": [lambda book, text, o=each: book.search(text, **o) for each in SEARCHES],
    "memorize": [lambda book, text, o=each: book.memorize(text, **o) for each in SEARCHES],
    "find": [
        *(lambda book, text, o=each: book.find(text, **o) for each in SEARCHES),
        lambda book, text: book.find([text, "harbour"], "all", min_score=0.0),
    ],
    "why": [
        lambda book, text: book.why(text),
        lambda book, text: book.why("harbour", text),
        lambda book, text: book.why(text, "crane"),
        lambda book, text: book.why("harbour", verb="find"),
    ],
    "recent": [
        lambda book, text: book.recent(100),
        lambda book, text: book.recent(filter={"topic": text}),
        lambda book, text: book.recent(filter={text: "zqvalue"}),
    ],
    "show": [lambda book, text: book.show(text), lambda book, text: book.show("crane")],
    "resolve": [lambda book, text: book.resolve(text)],
    "alike": [lambda book, text: book.alike(text, least=0.0), lambda book, text: book.alike("crane", least=0.0)],
    "around": [lambda book, text: book.around(text), lambda book, text: book.around("crane")],
    "folders": [lambda book, text: book.folders()],
    "tags": [lambda book, text: book.tags(100)],
    "vault_graph": [lambda book, text: book.vault_graph(100)],
    "adjacent": [lambda book, text: book.adjacent(text), lambda book, text: book.adjacent("crane")],
    "pictures": [lambda book, text: book.pictures(text), lambda book, text: book.pictures("crane")],
    "picture": [lambda book, text: book.picture(text, text), lambda book, text: book.picture("crane", f"{text}.png")],
    "superseded": [
        lambda book, text: book.superseded(book.show(text)),
        lambda book, text: book.superseded(book.show("team/crane.md")),
    ],
    "backlinks": [
        lambda book, text: book.backlinks([text, "zqfolder/zqpath.md"]),
        lambda book, text: book.backlinks(["team/crane.md", "team/quay.md"]),
    ],
    "topics": [lambda book, text: book.topics(), lambda book, text: book.topics({"topic": text})],
    "contents": [lambda book, text: book.contents(), lambda book, text: book.contents(text)],
    "about": [lambda book, text: [book.about(each) for each in book.topics()]],
    "topics_of": [lambda book, text: book.topics_of(text)],
    "topic": [lambda book, text: book.topic(text), lambda book, text: book.topic("cranes")],
    "validate": [lambda book, text: book.validate({"text": TEXT, "metadata": {"topic": text, "keywords": [text]}})],
    "log": [lambda book, text: book.log(None)],
    "memories": [
        lambda book, text: book.memories.recall(text, {"type": "semantic"}),
        lambda book, text: book.memories.newest(),
        lambda book, text: book.memories.forgettable(text),
        lambda book, text: book.memories.decisions.find(text),
        lambda book, text: book.memories.decisions.find(outcome="pending"),
        lambda book, text: book.memories.decisions.living(text),
        lambda book, text: book.memories.decisions.newest_checkpoint(),
        lambda book, text: book.memories.articles.find(text),
        lambda book, text: [book.memories.articles.list(), book.memories.articles.categories()],
        lambda book, text: [book.memories.articles.read("team/article.md"), book.memories.articles.ask(text)],
        lambda book, text: book.memories.articles.read(text),
        lambda book, text: book.memories.articles.ask(text, category="*"),
    ],
    "snapshots": [lambda book, text: [book.snapshots.state(), book.snapshots.all()]],
    "state": [lambda book, text: book.state()],
    "qualified": [lambda book, text: book.qualified({})],
    "stats": [lambda book, text: book.stats()],
    "status": [lambda book, text: book.status()],
    "is_watched": [lambda book, text: book.is_watched()],
    "refresh": [lambda book, text: book.refresh(embed=True)],
    "follow": [lambda book, text: book.follow()],
    "warm_up": [lambda book, text: book.warm_up()],
    "release": [lambda book, text: book.release(0.0)],
}
"""How each verb is called that a limited token may use, with what is asked for."""

KEEPERS = {"use", "close", "whole", "denial"}
"""What a server asks itself; no caller reaches it."""

KEPT: dict[str, Case] = {
    "remember": lambda book, text: book.memories.remember(text),
    "pin": lambda book, text: book.memories.pin("team/crane.md"),
    "forget": lambda book, text: book.memories.forget("crane"),
    "decisions.save": lambda book, text: book.memories.decisions.save(text, text),
    "decisions.checkpoint": lambda book, text: book.memories.decisions.checkpoint(text),
    "decisions.update": lambda book, text: book.memories.decisions.update("team/deep/er/plan.md", "success"),
    "articles.save": lambda book, text: book.memories.articles.save(text, [text], None, text),
    "articles.delete": lambda book, text: book.memories.articles.delete("team/article.md"),
}
"""How what is kept on purpose is changed; all are refused, too."""


def public(kind: type) -> set[str]:
    return {name for name, value in vars(kind).items() if not name.startswith("_") and is_verb(value)}


def is_verb(value: object) -> bool:
    return callable(value) or isinstance(value, property | cached_property)


def test_every_public_verb_is_tried_here() -> None:
    """A verb that is added has its case above, or this fails; until then limited tokens may not use it."""
    assert public(Reader) == {*CASES, *KEEPERS}
    assert public(LimitedReader) <= public(Reader) | {"index"}
    reads = {"recall", "newest", "forgettable", "decisions", "articles"}
    reads |= {f"decisions.{name}" for name in ("find", "living", "newest_checkpoint")}
    reads |= {f"articles.{name}" for name in ("find", "list", "categories", "read", "ask")}
    own = {f"decisions.{name}" for name in public(Decisions)} | {f"articles.{name}" for name in public(Articles)}
    assert public(Memories) | own == {*KEPT, *reads}


def answer(case: Case, book: Reader, text: str) -> object:
    try:
        found = case(book, text)
        return list(found) if isinstance(found, Iterator) else found
    except (SpellbookError, ValueError) as error:
        return error


@pytest.mark.parametrize("verb", CASES)
def test_no_verb_tells_of_what_is_hidden(team: Reader, verb: str) -> None:
    """Whatever is asked, in words, ids, paths, topics or filters, nothing of a hidden note is in the answer."""
    for case, text in itertools.product(CASES[verb], ASKED):
        found = answer(case, team, text)
        assert not leaks(found, text, case.__defaults__, case.__code__.co_consts), (text, found)
        assert not isinstance(found, PermissionDenied)


def test_the_whole_book_tells_of_it(whole: Spellbook) -> None:
    """The same questions show almost every hidden word to whoever sees all notes: they would find a leak."""
    shown = {
        each
        for verb, cases in CASES.items()
        for case in cases
        for text in ("harbour", "zqid")
        for each in leaks(answer(case, whole, text))
    }
    words = {word for file in held(whole.config.vault).values() for word in CANARY.findall(file.decode("latin-1"))}
    assert len(words) >= 40
    assert words - shown <= {"zqbytes", "zqgone", "zqother"}


def test_no_other_verb_is_there(team: Reader, whole: Spellbook) -> None:
    """
    A verb that writes, or that reads more than notes, does not exist; the whole book is refused. A verb of memories,
    decisions or articles that writes is refused in words that name no note; nothing changes. An id, path or topic of a
    hidden note gets the very words that an unknown one gets.
    """
    others = public(Spellbook) - public(Reader)
    assert {"scribe", "erase", "move", "undo", "export", "reindex", "doctor", "wikis"} <= others
    assert [name for name in others if hasattr(team, name)] == []
    with pytest.raises(PermissionDenied, match="only reads what is team"):
        _ = team.whole
    assert whole.whole is whole
    before = held(whole.config.vault)
    for change, text in itertools.product(KEPT.values(), ("zqid", "team/crane.md")):
        with pytest.raises(PermissionDenied) as raised:
            change(team, text)
        assert not leaks(raised.value)
    assert held(whole.config.vault) == before
    verbs = [CASES[name][0] for name in ("show", "resolve", "around", "alike", "topic", "topics_of")]
    for case, text in itertools.product(verbs, ASKED[:-1]):
        unknown = text.replace("zq", "zx")
        one, other = answer(case, team, text), answer(case, team, unknown)
        assert isinstance(one, MemoryNotFound)
        assert str(one).replace(text, unknown) == str(other)


def test_the_vault_of_a_limited_book_has_no_other_file(team: Reader, whole: Spellbook) -> None:
    """
    No file but those of shown notes can be listed or read, by whatever path; the catalog has no row of others. A process
    that reads notes for a limited index looks at each file itself: it may have changed since.
    """
    vault = team.index.vault
    mine = {"team/crane.md", "team/quay.md", "team/deep/er/plan.md", "team/article.md", "team/step.md"}
    assert set(vault.walk().files) == set(vault.files()) == mine
    assert (vault.symlinks(), vault.files("zqfolder")) == ([], [])
    for path in (*held(whole.config.vault), "../vault/zqfolder/zqpath.md", "team/../zqfolder/zqpath.md", "zqlinked.md"):
        assert (vault.stamp(path) is not None) == (vault.spelled(path) is not None) == (path in mine)
        for read in (vault.read, vault.hash, lambda path: list(vault.pieces(path))):
            with contextlib.nullcontext() if path in mine else pytest.raises(MemoryNotFound):
                read(path)
    data = b"".join(each.read_bytes() for each in team.config.state.rglob("*") if each.is_file())
    # Not by their form: an hour's number may end in a z before "query".
    told = b" ".join(part for path, file in held(whole.config.vault).items() for part in (path.encode(), file))
    hidden = set(CANARY.findall(told.decode("latin-1")))
    assert not [word for word in hidden if word.encode() in data], "its index was never told of them"
    with Readers(vault, sync.rules(team.index)) as readers:
        [found] = readers.read([dict.fromkeys(["zqfolder/zqpath.md", "team/crane.md", "zqfolder/list.md"])])
    assert [entry.path for entry in found] == ["team/crane.md"]


# -- every tool


def filled(schema: Mapping[str, Any], text: str) -> Iterator[dict[str, Any]]:
    """Yield arguments that a tool takes, with `text` in each that is a text."""
    required = {name: value(each, text) for name, each in schema.get("properties", {}).items()}
    known = {name: each for name, each in required.items() if each is not None}
    yield {name: each for name, each in known.items() if name in schema.get("required", ())}
    yield known
    for name, each in known.items():
        yield {**{key: one for key, one in known.items() if key in schema.get("required", ())}, name: each}


def value(schema: Mapping[str, Any], text: str) -> Any:
    kinds = [schema, *schema.get("anyOf", ())]
    for each in kinds:
        if "enum" in each:
            return each["enum"][0]
        if each.get("type") == "string":
            return text
        if each.get("type") == "array":
            return [text]
        if each.get("type") == "object":
            return {"text": TEXT, "metadata": {"topic": text, "keywords": [text]}}
    return None


@pytest.mark.parametrize("toolset", [each for each in TOOLSETS if each != "zyflow"])
def test_no_tool_tells_of_what_is_hidden(
    whole: Spellbook, team: Reader, toolset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tool of every toolset, asked for hidden notes in each of its arguments, answers nothing of them."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The zqdocument of the harbour.")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    before = held(whole.config.vault)

    async def conversation(agent: Agent) -> None:
        for tool in await agent.answered():
            if tool.name not in TOOLSETS[toolset]:
                continue
            tried = {
                json.dumps(each, sort_keys=True): (text, each)
                for text in ("harbour", *ASKED[:9])
                for each in filled(tool.input_schema, text)
            }
            for text, each in tried.values():
                result = await agent.client.call_tool(tool.name, each)
                assert not leaks([one.text for one in result.content], text, each), (
                    tool.name,
                    each,
                )

    talk(team, conversation, toolsets=(toolset,))
    assert held(whole.config.vault) == before


def test_no_resource_or_prompt_tells_of_what_is_hidden(team: Reader) -> None:
    """Resources and prompts have shown notes alone."""

    async def conversation(agent: Agent) -> list[object]:
        client, answers = agent.client, []
        for text in ASKED:
            for uri in (f"memory://{text.replace('#', '%23').replace(' ', '%20')}", f"memory://search?query={text.replace(' ', '%20').replace('#', '%23')}"):  # fmt: skip
                with contextlib.suppress(Exception):
                    answers.append((text, str(await client.read_resource(uri))))
            for prompt in (await client.list_prompts()).prompts:
                with contextlib.suppress(Exception):
                    given = {each.name: text for each in prompt.arguments or () if each.name == "query"}
                    answers.append((text, str(await client.get_prompt(prompt.name, given))))
        for uri in ("memory://index", "memory://search", "memory://crane"):
            answers.append(("", str(await client.read_resource(uri))))
        answers.append(("", str(await client.list_resources())))
        return answers

    answers = talk(team, conversation, toolsets=TOOLSETS)
    assert len(answers) > 2 * len(ASKED)
    assert any("crane" in said for _, said in answers)
    for text, found in answers:
        assert not leaks(found, text), text


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
    asked = ["harbour crane", "anchor", "the tide and the lamp", "n7", "id3"]
    calls: list[Callable[[], object]] = []
    for text in asked:
        calls += [
            lambda t=text: [(hit.why, hit.score, hit.chunk.id, hit.path, hit.text, hit.backlinks) for hit in book.search(t, min_score=0.0).hits],
            lambda t=text: [(hit.why, hit.path) for hit in book.find(t, min_score=0.0, limit=50).hits],
            lambda t=text: [(hit.why, hit.path) for hit in book.memorize(t, limit=50).hits],
        ]  # fmt: skip
    paths = sorted(book.index.vault.walk().files)
    calls += [
        lambda: [(chunk.id, chunk.path, chunk.meta) for chunk in book.recent(100).notes],
        lambda: book.topics(),
        lambda: book.contents(),
        lambda: [book.around(path) for path in paths],
        lambda: [[(chunk.path, score) for chunk, score in book.alike(path, least=0.0)] for path in paths],
        lambda: [book.stats()[name] for name in ("notes", "chunks", "categories", "vectors_in_use", "pending")],
        lambda: book.index.catalog.unmatched(conditions({"tags": "harbor"}), ()),
        lambda: [(row.path, row.verdict) for row in book.why("harbour crane").rows],
        lambda: [[(chunk.id, chunk.text, chunk.line) for chunk in book.show(path)] for path in paths],
        lambda: [(book.resolve(path).id, book.adjacent(path), book.pictures(path)) for path in paths],
        lambda: [back.path for back in book.backlinks(paths[:9])],
        lambda: [book.vault_graph(9), book.folders(), book.tags(), book.tags(1), book.topics_of("knowledge")],
        lambda: [book.about(each) for each in book.topics()],
        lambda: [[chunk.id for chunk in book.topic(f"{each.category}/{each.topic}")] for each in book.topics()],
        lambda: book.validate({"text": "Too short.", "metadata": {}})[0].errors,
        lambda: [hit.path for hit in book.memories.recall("crane").hits],
        lambda: [chunk.path for chunk in book.memories.newest(9).notes],
        lambda: [item.chunk.path for item in book.memories.decisions.find("tide").items],
        lambda: [chunk.path for chunk in book.memories.articles.list().notes],
        lambda: [book.state().notes, book.state().chunks, book.state().pending],
    ]
    return [repr(call()) for call in calls]


# -- as the vault changes


def paths(book: Reader, query: str = "harbour") -> set[str]:
    return {hit.path for hit in book.search(query, min_score=0.0, limit=100).hits}


def test_what_becomes_private_is_gone_at_once(vault: Path, write_note: Write, book: Spellbook) -> None:
    """
    A scope that is changed, in any way, holds for the next answer, also of verbs that look at no file. A note that went
    private since the index read it is neither read from its file nor taken into the index.

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
    assert not leaks(team.index.catalog.at("a.md"))
    book.refresh()
    assert team.index.catalog.at("a.md") == []
    assert (team.state().notes, book.state().notes) == (0, 2)
    write_note("old.md", "The harbour is small.", privacy_scope="team")
    write_note("mid.md", "The harbour grew.", privacy_scope="team", supersedes='"[[old]]"')
    write_note("zqnew.md", "The harbour closed.", supersedes='"[[mid]]"')
    found = {hit.path: hit.why.get("superseded_by") for hit in team.search("harbour").hits}
    assert (found["mid.md"], found["old.md"]["path"]) == ({}, "mid.md")


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
        scanned = [team.index.scanned_at()]
        book.reindex()
        assert team.state().pending == 0
        scanned.append(team.index.scanned_at())
        book.scribe({"text": "The quay is swept on Mondays.", "metadata": {"topic": "quay"}}, labels="derived")
        scanned.append(team.index.scanned_at())
        assert scanned[0] == scanned[1] < scanned[2]
        for number in range(23):
            (vault / f"p{number}.md").unlink()
        assert "23 of 25 notes" in book.search("harbour").index.reason
        told = team.search("harbour")
        assert told.index.degraded
        assert not re.search(r"\d", told.index.reason)
        assert [hit.path for hit in told.hits] == ["a.md"]


def test_a_caller_gets_the_book_of_what_it_sees(whole: Spellbook) -> None:
    """
    Tokens that see the same share a book, which is closed with the whole one; only private sees all. A limited reader
    whose own index is lost makes it again at the next question, though nothing changed in the vault.
    """
    served = Served(whole)
    shown = {sees: served.book_of(Caller("a", "read", sees)) for sees in SCOPES}
    assert shown["private"] is whole
    assert shown["team"] is served.book_of(Caller("b", "read", "team"))
    counts = [shown[sees].stats()["notes"] for sees in SCOPES]
    assert counts == sorted(counts, reverse=True)
    assert counts[1:] == [5, 1]
    assert all(book in whole.beside for book in (shown["team"], shown["public"]))
    before = [hit.path for hit in shown["team"].search("harbour").hits]
    assert before
    for file in shown["team"].config.state.glob("catalog.db*"):
        file.unlink()
    assert [hit.path for hit in shown["team"].search("harbour").hits] == before


def test_vectors_are_copied_and_models_shared(vault: Path, write_note: Write) -> None:
    """A limited book embeds nothing: it takes the vectors of either model that the vault's index has, as it has them."""
    write_note("a.md", "# A title\n\nThe harbour.\n\n## Part\n\nOf it.", privacy_scope="team", questions="[Where?]")
    write_note("b.md", "The quay.")
    one, other, small = Counting(), Counting(fingerprint="other"), Small()
    with Spellbook(config.load(vault, embedder="hash"), one) as book:
        book.refresh()
        team = limited.seen_by(book, "team")
        assert (team.state().pending, team.index.embedder) == (2, one)
        book.use(dataclasses.replace(book.index, second=small))
        for embedder in (one, other):
            book.use(dataclasses.replace(book.index, embedder=embedder))
            book.reindex()
            assert embedder.taken() > 2
            assert (small.taken() > 2) is (embedder is one)
            assert (team.state().pending, team.index.catalog.waiting.in_order()) == (0, [])
            assert (team.index.embedder, team.index.second) == (embedder, small)
            assert stored(team.index) == {
                "A title",
                "Where?",
                *team.index.catalog.vectors.embedded(team.index.catalog.keys(())),
            }
            assert paths(team) == {"a.md"}
            assert (one.texts, other.texts) == ([], [])
            assert {said for said, is_asked in small.log if not is_asked} == set()
            small.taken()


@pytest.mark.slow
def test_a_large_vault_has_chroma_for_a_limited_reader_too(vault: Path, write_note: Write) -> None:
    """Its own one, with the vectors of what it sees, is filled without a question that waits for it."""
    for number in range(6):
        write_note(f"{number}.md", f"the harbour, berth {number}", privacy_scope="team")
    write_note("private.md", "the harbour office")
    with Spellbook(replace(config.load(vault), exact_most=3), Counting()) as book:
        book.reindex()
        team = limited.seen_by(book, "team")
        assert len(team.memorize("the harbour", min_score=0, limit=10).hits) == 6
        until(lambda: team.index.chroma.rows == 6)
        assert len(team.memorize("the harbour", min_score=0, limit=10).hits) == 6
