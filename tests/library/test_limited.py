"""
What a token that sees team notes alone is told: nothing of any other note, whatever it asks.

Each private note carries a word of its own in its text, title, path, labels and so on. Every public verb and every tool
is asked for these words, ids, paths and topics, and the answers must hold none of them but the one that was asked for.
"""

import contextlib
import dataclasses
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from spellbook.http.served import Served
from spellbook.http.tokens import SCOPES, Caller
from spellbook.index import sync
from spellbook.index.reader_processes import Readers
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.library.limited import LimitedReader
from spellbook.library.reader import Reader
from spellbook.mcp.tool_names import TOOLSETS
from spellbook.memories.articles import Articles
from spellbook.memories.decisions import Decisions
from spellbook.memories.memories import Memories
from spellbook.system.errors import MemoryNotFound, PermissionDenied, SpellbookError
from tests.helpers import held, note_writer
from tests.mcp.agent import Agent, talk, text_of

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
def team(whole: Spellbook) -> LimitedReader:
    """The same vault as a team token sees it."""
    book = limited.seen_by(whole, "team")
    assert isinstance(book, LimitedReader)
    return book


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


def asking(verb: str, options: Mapping[str, Any]) -> Case:
    def ask(book: Reader, text: str, given: Mapping[str, Any] = options) -> object:
        return getattr(book, verb)(text, **given)

    return ask


CASES: Mapping[str, Sequence[Case]] = {
    "ask": [lambda book, text: book.ask("memorize", text)],
    "search": [asking("search", each) for each in SEARCHES],
    "memorize": [asking("memorize", each) for each in SEARCHES],
    "find": [
        *(asking("find", each) for each in SEARCHES),
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

KEEPERS = {"use", "close", "denial", "searcher"}
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
    assert public(LimitedReader) <= public(Reader) | {"index", "whole"}
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


def test_no_other_verb_is_there(team: LimitedReader, whole: Spellbook) -> None:
    """
    A verb that writes, or that reads more than notes, does not exist; the whole book is refused. A verb of memories,
    decisions or articles that writes is refused in words that name no note; nothing changes. An id, path or topic of a
    hidden note gets the very words that an unknown one gets.
    """
    others = public(Spellbook) - public(Reader) - {"whole"}
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
    assert vault.files("zqfolder") == []
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
                assert not leaks([text_of(one) for one in result.content], text, each), (tool.name, each)

    talk(team, conversation, toolsets=(toolset,))
    assert held(whole.config.vault) == before


def test_no_resource_or_prompt_tells_of_what_is_hidden(team: Reader) -> None:
    """Resources and prompts have shown notes alone."""

    async def conversation(agent: Agent) -> list[tuple[str, str]]:
        client, answers = agent.client, list[tuple[str, str]]()
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

    answers = talk(team, conversation, toolsets=tuple(TOOLSETS))
    assert len(answers) > 2 * len(ASKED)
    assert any("crane" in said for _, said in answers)
    for text, found in answers:
        assert not leaks(found, text), text


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
    if sys.platform == "win32":  # which deletes no file that is open
        shown["team"].close()
    for file in shown["team"].config.state.glob("catalog.db*"):
        file.unlink()
    assert [hit.path for hit in shown["team"].search("harbour").hits] == before


COUNTED = {"generation", "notes", "chunks", "pending", "vectors_in_use", "categories", "faults", "unread"}


def test_the_status_of_a_team_token_names_nothing_of_the_machine(whole: Spellbook, team: Reader) -> None:
    """A limited caller's `status` and `stats` count the notes that it sees: no folder, process, model, size or time."""
    whole.search("harbour")
    assert team.status().keys() == COUNTED
    assert team.stats().keys() == COUNTED - {"faults", "unread"}
    own, told = whole.status(), json.dumps(team.status())
    machine = [
        own["vault"],
        own["state"],
        own["embedder"],
        own["fingerprint"],
        *(str(each["pid"]) for each in own["processes"]),
    ]
    machine = [json.dumps(name)[1:-1] for name in machine]  # as they would stand there
    assert len([name for name in machine if name and name in json.dumps(own)]) == len(machine) >= 4
    assert [name for name in machine if name in told] == []
    assert team.status()["notes"] == 5
