"""Spellbook: an agent divides, labels and keeps chunks, and finds them by meaning and by words, through the MCP tools."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spellbook.cli import main
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.system.errors import InvalidInput
from tests.mcp.agent import Agent, conversation, talk

DOCKER: dict[str, Any] = {
    "text": "Docker 컨테이너는 compose 파일로 띄운다. 포트는 17950이고 볼륨은 /data에 붙인다.",
    "metadata": {
        "topic": "docker-setup",
        "category": "dev",
        "keywords": ["Docker", "compose", "embedded"],
        "question_this_answers": ["Docker 컨테이너를 어떻게 설정하나?"],
        "entities": [{"name": "Docker", "type": "technology"}],
        "importance": "high",
    },
}
COFFEE = {
    "text": "아침에는 핸드드립 커피를 마신다. 원두는 중배전을 고른다.",
    "metadata": {"topic": "coffee", "category": "preference", "keywords": ["커피", "원두", "아침"]},
}


async def kept(agent: Agent, *chunks: dict[str, Any], **given: object) -> list[dict[str, Any]]:
    """Write chunks in one session and return the answers."""
    session = (await agent.json("rest"))["session_id"]
    done = await agent.json("scribe_chunk", chunk=list(chunks), session_id=session, **given)
    await agent.call("rest_end", session_id=session)
    return list(done)


@conversation()
async def test_rest_opens_a_session_with_guides_and_rest_end_counts(agent: Agent, book: Spellbook) -> None:
    """개념 4: rest → session_id, chunking_guide, metadata_rules, status; rest_end → status, scribed_count."""
    opened = await agent.json("rest", language="ko")
    assert opened["session_id"].startswith("rest-")
    assert "REST" in opened["status"]
    guide, rules = opened["chunking_guide"], opened["metadata_rules"]
    assert guide["principles"]
    assert guide["ideal_chunk_size"] == {"min_tokens": 100, "max_tokens": 512}
    assert rules["keyword_count"]
    assert {"topic", "keywords"} <= set(rules["required_fields"])
    for chunk in (DOCKER, COFFEE):
        assert (await agent.json("scribe", chunk=chunk, session_id=opened["session_id"]))["status"] == "success"
    ended = await agent.json("rest_end", session_id=opened["session_id"])
    assert ended["scribed_count"] == 2
    assert any("가" <= letter <= "힣" for letter in ended["status"])


@conversation()
async def test_writing_needs_a_session(agent: Agent, book: Spellbook) -> None:
    """개념 6: without one, with an unknown one, and with one that has ended, the error says to call rest()."""
    assert "REST_REQUIRED" in await agent.refused("scribe", chunk=COFFEE)
    assert "REST_INVALID" in await agent.refused("scribe", chunk=COFFEE, session_id="rest-nobody")
    session = (await agent.json("rest"))["session_id"]
    await agent.call("rest_end", session_id=session)
    said = await agent.refused("scribe", chunk=COFFEE, session_id=session)
    assert "REST_EXPIRED" in said
    assert "rest()" in said


def test_the_ritual_speaks_the_language_of_the_setting(book: Spellbook, monkeypatch: pytest.MonkeyPatch) -> None:
    """개념 4, 6: rest, scribe, scribe_validate, rest_end and their errors are Korean, unless rest is given a language."""

    def is_korean(text: str) -> bool:
        return any("가" <= letter <= "힣" for letter in text)

    async def ritual(agent: Agent, language: str) -> list[str]:
        opened = await agent.json("rest", **({"language": language} if language else {}))
        session = opened["session_id"]
        bare = {"text": COFFEE["text"], "metadata": {"topic": "coffee", "keywords": ["커피"]}}
        new = await agent.json("scribe", chunk=bare, session_id=session, force=True)
        same = await agent.json("scribe", chunk=DOCKER, session_id=session)
        same = await agent.json("scribe", chunk=DOCKER, session_id=session)
        assert (new["status"], same["status"], len(same["duplicates"])) == ("success", "warning", 1)
        ended = await agent.json("rest_end", session_id=session)
        assert opened["chunking_guide"]["principles"]
        guides = [*opened["chunking_guide"]["principles"], *opened["metadata_rules"]["question_guidelines"]]
        said = (opened["status"], new["message"], *new["warnings"], same["message"], ended["status"])
        return [*guides, *said]

    async def talked(agent: Agent) -> None:
        monkeypatch.setenv("SPELLBOOK_LANG", "ko")
        assert [text for text in await ritual(agent, "") if not is_korean(text)] == []
        assert [text for text in await ritual(agent, "en") if is_korean(text)] == []
        checked = await agent.json(
            "scribe_validate", chunk={"text": "짧다.", "metadata": {"topic": "x", "keywords": ["a"]}}
        )
        assert checked["warnings"]
        assert all(map(is_korean, checked["warnings"]))
        for session in ("", "rest-nobody"):
            assert is_korean(await agent.refused("scribe", chunk=COFFEE, session_id=session))
        monkeypatch.delenv("SPELLBOOK_LANG")
        assert [text for text in await ritual(agent, "") if is_korean(text)] == []
        assert [text for text in await ritual(agent, "ko") if not is_korean(text)] == []

    talk(book, talked, toolsets=("spellbook",))


@conversation()
async def test_a_chunk_is_found_by_meaning_and_by_words(agent: Agent, book: Spellbook, vault: Path) -> None:
    """개념 3, 5: memorize asks in plain words, find by exact terms; the chunk is one readable file with all that was said."""
    done = await kept(agent, DOCKER, COFFEE)
    path = done[0]["path"]
    assert (await agent.found("memorize", query="Docker 컨테이너 설정 방법"))[0] == path
    assert await agent.found("find", keywords=["compose", "embedded"], match="all") == [path]
    assert await agent.found("memorize", query="아침 커피", filter={"category": "preference"}) == [done[1]["path"]]
    text = (vault / path).read_text("utf-8")
    assert DOCKER["text"] in text
    for part in ("importance: high", "Docker 컨테이너를 어떻게 설정하나?", "technology", "topic: docker-setup"):
        assert part in text


@conversation()
async def test_only_what_is_needed_is_loaded(agent: Agent, book: Spellbook) -> None:
    """목표 3, 개념 2: contents, then a topic, then its chunks; each within a budget of tokens."""
    await kept(agent, DOCKER, COFFEE)
    contents = await agent.json("get_index", format="json")
    assert (contents["total_topics"], contents["total_chunks"]) == (2, 2)
    assert {each["name"] for each in contents["categories"]} >= {"dev", "preference"}
    topics = [topic for each in contents["categories"] for topic in each["topics"]]
    assert {"id", "title", "summary", "category", "chunk_count", "keywords", "last_updated"} <= set(topics[0])
    assert "중배전" in await agent.call("get_topic", topic_id="coffee")
    assert len(await agent.call("memorize", query="Docker", max_tokens=50)) < 600


@conversation()
async def test_a_repeated_chunk_is_warned_of(agent: Agent, book: Spellbook) -> None:
    """Phase 1: what says the same is named and not written, unless it is forced."""
    (first, _) = await kept(agent, DOCKER, COFFEE)
    session = (await agent.json("rest"))["session_id"]
    again = await agent.json("scribe", chunk=DOCKER, session_id=session)
    assert again["status"] == "warning"
    assert again["duplicates"][0]["path"] == first["path"]
    assert (await agent.json("scribe", chunk=DOCKER, session_id=session, force=True))["status"] == "success"


@conversation()
async def test_a_chunk_can_be_checked_before(agent: Agent, book: Spellbook, vault: Path) -> None:
    """Phase 2: scribe_validate names errors and warnings, and writes nothing."""
    assert (await agent.json("scribe_validate", chunk=DOCKER))["valid"] is True
    wrong = await agent.json("scribe_validate", chunk={"text": "x", "metadata": {"topic": "t", "importance": "huge"}})
    assert wrong["valid"] is False
    assert wrong["errors"]
    assert not [*vault.rglob("*.md")]


@conversation()
async def test_chunks_are_revised_and_erased(agent: Agent, book: Spellbook, vault: Path) -> None:
    """도구: revise(chunk_id, content), erase(chunk_id or topic_id); what is erased can be taken back."""
    done = await kept(agent, DOCKER, COFFEE)
    await agent.call("revise", chunk_id=done[1]["chunk_id"], content="저녁에는 홍차를 마신다.")
    assert await agent.found("find", keywords=["홍차"]) == [done[1]["path"]]
    assert "중배전" not in (vault / done[1]["path"]).read_text("utf-8")
    await agent.call("erase", chunk_id=done[1]["chunk_id"])
    assert await agent.found("find", keywords=["홍차"]) == []
    await agent.call("undo")
    assert await agent.found("find", keywords=["홍차"]) == [done[1]["path"]]
    await agent.call("erase", topic_id="docker-setup", dry_run=False)
    assert await agent.found("find", keywords=["compose"]) == []
    assert len([*vault.glob("[!.]*/**/*.md")]) == 1


@conversation(("core", "backup"))
async def test_management(agent: Agent, book: Spellbook, vault: Path) -> None:
    """관리: stats, rebuild_index, export and import."""
    await kept(agent, DOCKER, COFFEE)
    stats = await agent.json("stats")
    assert stats["chunks"] == 2
    assert stats["categories"] == {"dev": 1, "preference": 1}
    await agent.call("rebuild_index")
    assert (await agent.json("stats"))["chunks"] == 2
    told = await agent.json("export", format="json")
    brought = json.loads(Path(told["file"]).read_text("utf-8"))
    assert DOCKER["text"] in json.dumps(brought, ensure_ascii=False)


def test_guides_are_notes_that_can_be_found(vault: Path) -> None:
    """시스템 데이터: a new vault holds them, editable and searchable with a filter by category."""
    assert CliRunner().invoke(main, ["init", str(vault)]).exit_code == 0
    asked = {"query": "청크 분할 가이드", "filter": {"category": "system"}}
    with books.open(vault, embedder="hash") as book:
        assert talk(book, lambda agent: agent.found("memorize", **asked))[0].startswith("system/ko/")


TABLE = {
    "rest": set(), "rest_end": {"session_id"},
    "get_index": {"scope"}, "memorize": {"query", "limit", "filter"}, "find": {"keywords", "limit", "filter"},
    "get_topic": {"topic_id"},
    "scribe": {"chunk", "session_id", "source", "category"}, "scribe_chunk": {"chunk", "session_id"},
    "erase": {"chunk_id", "topic_id"}, "revise": {"chunk_id", "content"},
    "stats": set(), "rebuild_index": set(), "export": {"format"}, "import": {"file_path"},
    "scribe_validate": {"chunk"},
}  # fmt: skip
"""도구 정의: the tools with the names of their arguments; Phase 2 adds scribe_validate."""


@conversation(("spellbook",))
async def test_the_tools_are_there(agent: Agent, book: Spellbook) -> None:
    """도구: the toolset `spellbook` is the table, each tool by its name, described, with the names of its arguments."""
    tools = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
    assert tools.keys() == TABLE.keys()
    for name, arguments in TABLE.items():
        assert tools[name].description
        assert arguments <= tools[name].input_schema["properties"].keys(), name


async def day(agent: Agent) -> None:
    """사용 지침 예시: what the text for CLAUDE.md tells an agent to do."""
    await agent.call("get_index")
    session = await agent.json("rest")
    assert {"session_id", "chunking_guide", "metadata_rules"} <= session.keys()
    for chunk in (DOCKER, COFFEE):
        await agent.call("scribe", chunk=chunk, session_id=session["session_id"])
    assert (await agent.json("rest_end", session_id=session["session_id"]))["scribed_count"] == 2
    assert "compose" in await agent.call("memorize", query="Docker 컨테이너는 compose 파일로 띄운다.")
    assert "커피" in await agent.call("find", keywords=["커피"])


@conversation()
async def test_the_text_for_an_agent_works_on_the_default_tools(agent: Agent, book: Spellbook) -> None:
    """사용 지침 예시: each step is a listed tool, and scribe keeps its rule."""
    await day(agent)
    assert agent.used <= {tool.name for tool in await agent.tools()}
    assert "REST_REQUIRED" in await agent.refused("scribe", chunk=COFFEE)


def test_an_unknown_toolset_is_named(book: Spellbook) -> None:
    """A wrong setting is an error that lists what there is."""
    with pytest.raises(InvalidInput, match="core"):
        build(book, ["cores"])


@conversation()
async def test_answers_are_for_programs_too(agent: Agent, book: Spellbook) -> None:
    """Every finding tool answers in JSON on demand."""
    await kept(agent, DOCKER, COFFEE)
    query = {"query": "커피"}
    for tool, asked in (("memorize", query), ("find", {"keywords": ["커피"]}), ("search", query)):
        answer = json.loads(await agent.call(tool, format="json", **asked))
        assert answer["hits"][0]["score"] <= 1
