"""MCP over stdio: every tool with arguments that are good, at a bound and bad, in both eras of the protocol; lists, prompts, resources."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from queue import SimpleQueue
from typing import Any

from . import vault
from .place import PATIENCE, Place, lines, pretty, shown, slug

TOOLSETS = "core,desk,backup,memento,decisions,wiki,articles"
MODERN, LEGACY = "2026-07-28", "2025-06-18"
_CLIENT = {"name": "recorder", "version": "1"}
_ABLE: dict[str, Any] = {"elicitation": {"form": {}}}

Q = "when does the harbor open"
FERRY = "01J00000000000000000000104"
OLD, NEW, POINT = "01J00000000000000000000100", "01J00000000000000000000101", "01J00000000000000000000103"
ARTICLE = "01J00000000000000000000108"
TEXT = "Session tokens of the Lantern team are looked up in 3 ms, because Sora added an index on 2026-02-11 after the outage of January."
CHUNK = {
    "text": TEXT,
    "metadata": {
        "topic": "sessions",
        "keywords": ["tokens", "index", "Lantern"],
        "questions": ["How long does a lookup take?"],
    },
}
SHORT = {"text": "Boats.", "metadata": {"topic": "boats", "keywords": ["boat"]}}
HARBOR = "## Tides\n\nThe tide turns twice a day and the master writes it down. " * 4


def _found(name: str, **good: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return calls of a tool that searches; `good` are its own arguments."""
    return [
        (name, {**good, **more})
        for more in (
            {},
            {"format": "json"},
            {"limit": 1},
            {"limit": 0},
            {"limit": 101},
            {"limit": "2"},
            {"max_tokens": 60, "format": "json"},
            {"max_tokens": 10},
            {"filter": {"category": "decision"}, "format": "json"},
            {"filter": {"topic!": "port"}},
            {"filter": 3},
            {"min_score": 0.95},
            {"min_score": 2},
            {"as_of": "HEAD~1"},
            {"as_of": "never"},
            {"category": "article"},
            {"wrong": 1},
        )
    ]


# fmt: off
CALLS: list[tuple[str, dict[str, Any]]] = [
    *_found("search", query=Q), ("search", {}), ("search", {"query": ""}), ("search", {"query": "키 교체", "also": ["keys are rotated"], "format": "json"}),
    ("search", {"query": "a", "also": ["b"] * 4}), ("search", {"query": "zebra spaceship quantum", "format": "json"}),
    *_found("memorize", query="세션은 어디에 저장하나"), ("memorize", {"query": None}),
    *_found("find", keywords=["E1042"]), ("find", {"keywords": []}), ("find", {"keywords": ["fence", "closed"], "match": "all", "format": "json"}),
    ("find", {"keywords": "fence"}), ("find", {"keywords": ["fence"], "match": "some"}),
    *(("get_index", each) for each in ({}, {"format": "json"}, {"max_tokens": 50}, {"max_tokens": 200, "format": "json"}, {"max_tokens": 49}, {"scope": "lantern"}, {"scope": "en/"}, {"scope": "none"}, {"as_of": "HEAD~1"}, {"format": "xml"})),
    *(("get_topic", each) for each in ({"topic_id": "deploy"}, {"topic_id": "project/deploy", "format": "json"}, {"topic_id": "sessions"}, {"topic_id": "port", "max_tokens": 60}, {"topic_id": "port", "max_tokens": 80, "format": "json"}, {"topic_id": "none"}, {"topic_id": ""}, {}, {"topic_id": "deploy", "max_tokens": 0}, {"topic_id": 7})),
    *(("show", each) for each in ({"id": "en/deploy.md"}, {"id": "ko/배포.md", "format": "json"}, {"id": "en/deploy.md#rollback"}, {"id": OLD}, {"id": ARTICLE, "format": "json"}, {"id": "long/이야기.md", "max_tokens": 100}, {"id": "long/이야기.md", "max_tokens": 120, "format": "json"}, {"id": "nowhere"}, {"id": "../x"}, {"id": ""}, {}, {"id": "en/deploy.md", "as_of": "HEAD~1"}, {"id": "hostile.md"})),
    *(("recent", each) for each in ({}, {"format": "json", "limit": 3}, {"limit": 2, "offset": 2}, {"offset": 10_000}, {"offset": -1}, {"limit": 101}, {"filter": {"category": "decision"}}, {"filter": {"when": "2026-02"}, "format": "json"}, {"filter": {"when": "soon"}}, {"as_of": "HEAD~1"})),
    ("stats", {}), ("stats", {"x": 1}),
    *(("rest", each) for each in ({}, {"language": "ko"}, {"brief": True}, {"brief": True, "language": "ko"}, {"language": "fr"}, {"brief": "perhaps"})),
    *(("scribe_validate", {"chunk": each}) for each in (CHUNK, SHORT, {}, {"text": ""}, {"text": TEXT, "metadata": {}}, {"text": "key AKIAIOSFODNN7EXAMPLE", "metadata": {"topic": "a", "keywords": ["b"]}}, "text", {**CHUNK, "more": 1})),
    ("scribe_validate", {}), ("scribe_validate", {"chunk": CHUNK, "source": "here", "category": "project"}),
    *(("scribe", {"session_id": "$session", "chunk": each}) for each in (CHUNK, CHUNK, SHORT, {}, {"text": "key AKIAIOSFODNN7EXAMPLE", "metadata": {"topic": "a", "keywords": ["b"]}}, {"text": TEXT})),
    ("scribe", {"chunk": CHUNK}), ("scribe", {"chunk": CHUNK, "session_id": "rest-0"}), ("scribe", {"chunk": CHUNK, "session_id": "$session", "force": True, "category": "project", "source": "x"}),
    ("scribe", {"chunk": {"text": "세션 토큰은 이제 PostgreSQL에 있다. 2026년 2월에 옮겼다.", "metadata": {"topic": "sessions", "keywords": ["세션", "토큰"], "title": "세션", "importance": "high", "tags": ["a/b"], "entities": [{"name": "PostgreSQL", "type": "technology"}], "supersedes": [OLD]}}, "session_id": "$session"}),
    ("scribe_chunk", {"chunk": [SHORT, {**SHORT, "text": "Boats are painted in April."}], "session_id": "$session"}), ("scribe_chunk", {"chunk": [], "session_id": "$session"}),
    ("scribe_chunk", {"chunk": SHORT}), ("scribe_chunk", {"chunk": [SHORT, {}], "session_id": "$session"}), ("scribe_chunk", {"chunk": [{"text": f"Boat {n} is red and sails on day {n}.", "metadata": {"topic": "fleet", "keywords": ["boat", str(n)]}} for n in range(3)], "session_id": "$session", "force": True}),
    ("rest_end", {"session_id": "$session"}), ("rest_end", {"session_id": "$session"}), ("rest_end", {}), ("rest_end", {"session_id": "rest-0"}),
    *(("revise", {"chunk_id": "en/coffee.md#cleaning", **each}) for each in ({"content": "Descale it in spring."}, {"append": "And in autumn."}, {"replace": {"old": "spring", "new": "May"}}, {"replace": {"old": "nothing", "new": "x"}}, {"replace": {"old": "in", "new": "within", "all": True}}, {"metadata": {"importance": "high", "questions": None}}, {"content": "a", "append": "b"}, {}, {"content": "x", "expected_hash": "0" * 16}, {"content": "key AKIAIOSFODNN7EXAMPLE"}, {"content": "key AKIAIOSFODNN7EXAMPLE", "force": True}, {"metadata": {"id": "x"}})),
    ("revise", {"chunk_id": "nowhere", "content": "x"}), ("revise", {"content": "x"}),
    *(("erase", each) for each in ({"chunk_id": "en/budget.md#approval"}, {"chunk_id": "en/budget.md"}, {"chunk_id": "ko/예산.md#승인", "whole": True}, {"topic_id": "travel"}, {"topic_id": "none"}, {}, {"chunk_id": "a", "topic_id": "b"}, {"chunk_id": "nowhere"}, {"chunk_id": "memory/working.md", "hard": True}, {"chunk_id": "plain/11 budget.txt.md", "hard": False})),
    *(("undo", each) for each in ({"dry_run": True}, {}, {"entry": 1, "dry_run": True}, {"entry": 1}, {"entry": 9_999}, {"entry": 0}, {"entry": "x"}, {})),
    *(("log", each) for each in ({}, {"limit": 1}, {"limit": 200}, {"limit": 201}, {"limit": 0}, {"limit": None})),
    *(("merge", {"a": "twins/a.md", "b": "twins/b.md", **each}) for each in ({}, {"keep": "a"}, {"keep": "c"}, {"dry_run": False, "keep": "both"}, {"dry_run": False})), ("merge", {"a": "en/deploy.md", "b": "en/deploy.md"}), ("merge", {"a": "links.md"}), ("merge", {"a": "links.md", "b": "code.md"}),
    *(("restore", {"name": each}) for each in ("en/budget.md", "nowhere", "fleet", "", "twins/b.md", ".trash/nothing.md", "ko/예산.md")), ("restore", {}),
    *(("move", each) for each in ({"old": "en/search.md", "new": "found/"}, {"old": "en/search.md", "new": "found/search.md", "dry_run": False}, {"old": "en", "new": "english", "dry_run": False}, {"old": "english", "new": "en", "dry_run": False}, {"old": "nothing", "new": "x"}, {"old": "links.md", "new": "code.md", "dry_run": False}, {"old": "links.md", "new": "../x.md"}, {"old": "links.md"}, {"old": "", "new": ""})),
    ("mend_links", {}), ("mend_links", {"dry_run": False}), ("mend_links", {"dry_run": "x"}),
    ("snapshot", {}), ("snapshots", {}), ("snapshot", {"name": "x"}), ("export", {}), ("export", {"format": "markdown"}), ("export", {"format": "xml"}),
    *(("import", each) for each in ({"file_path": "$exported"}, {"file_path": "$exported", "dry_run": False}, {"file_path": "/nowhere.zip"}, {"file_path": ""}, {}, {"file_path": "$exported", "on_conflict": "rename", "dry_run": False}, {"file_path": "$exported", "on_conflict": "x"})),
    *(("remember", each) for each in ({"content": "The lamp is lit at dusk."}, {"content": "The lamp is lit at dusk."}, {"content": "등대의 불은 해 질 녘에 켠다.", "type": "semantic", "tags": ["sea/lamp"], "importance": "high", "source": "keeper", "privacy_scope": "team", "project_id": "lantern"}, {"content": "Lamp oil is short.", "type": "working", "importance": 0.9}, {"content": "# Title\n\nA long memory about the lamp. " * 9, "type": "procedural"}, {"content": ""}, {"content": "x", "type": "other"}, {"content": "x", "importance": 2}, {"content": "key AKIAIOSFODNN7EXAMPLE"}, {"content": "key AKIAIOSFODNN7EXAMPLE", "force": True}, {})),
    *(("recall", each) for each in ({"query": "when does the ferry leave"}, {"query": "ferry", "format": "json"}, {"query": "페리", "also": ["the ferry leaves"]}, {"query": "lamp", "filters": {"type": "semantic"}, "format": "json"}, {"query": "lamp", "filters": {"tags": ["sea/lamp"], "project_id": "lantern"}}, {"query": "lamp", "filters": {"nonsense": 1}}, {"query": "lamp", "limit": 1}, {"query": "lamp", "limit": 0}, {"query": "lamp", "max_tokens": 50, "format": "json"}, {"query": "zebra spaceship"}, {"query": ""}, {})),
    *((name, {"memory_id": each}) for name in ("pin", "unpin") for each in (FERRY, "memory/ferry.md", "nowhere", "", f"{FERRY}#")), ("pin", {}),
    *(("forget", each) for each in ({"memory_id": "memory/episode.md"}, {"memory_id": "memory/episode.md"}, {"memory_id": "nowhere"}, {"memory_id": ""}, {}, {"memory_id": FERRY, "hard": True})),
    *(("mama_save", {"type": "decision", **each}) for each in ({"topic": "database", "decision": "Use PostgreSQL 17.", "reasoning": "Faster.", "confidence": 0.7}, {"topic": "database", "decision": "PostgreSQL 18을 쓴다.", "reasoning": "새롭다.", "supersedes": [NEW], "user_involvement": "approved"}, {"topic": "database"}, {"decision": "x"}, {"topic": "a", "decision": "b", "confidence": 3}, {"topic": "a", "decision": "b", "supersedes": ["nowhere"]}, {"topic": "a", "decision": "b", "summary": "c"}, {"topic": "a", "decision": "key AKIAIOSFODNN7EXAMPLE"})),
    ("mama_save", {}), ("mama_save", {"type": "other"}), ("mama_save", {"type": "checkpoint"}), ("mama_save", {"type": "checkpoint", "summary": "Writing pages.", "next_steps": ["edit", "test"], "open_files": ["a.py"]}),
    *(("mama_search", each) for each in ({}, {"query": "which database"}, {"query": "세션", "format": "json"}, {"type": "checkpoint"}, {"type": "decision", "outcome": "failed"}, {"topic": "database", "format": "json"}, {"outcome": "pending", "limit": 2}, {"outcome": "x"}, {"query": "zebra"}, {"limit": 0}, {"query": "session", "max_tokens": 50})),
    *(("mama_update", each) for each in ({"id": NEW, "outcome": "success", "reason": "It survived."}, {"id": NEW, "outcome": "partial"}, {"id": NEW}, {"id": "nowhere", "outcome": "failed"}, {"id": POINT, "outcome": "failed"}, {"id": "01J00000000000000000000102", "supersedes": [OLD]}, {"id": NEW, "outcome": "x"}, {}, {"id": NEW, "supersedes": [NEW]})),
    ("mama_checkpoint", {}), ("mama_checkpoint", {"x": 1}),
    *(("wiki_search", each) for each in ({"query": "RS256"}, {"query": "how are tokens signed", "format": "json"}, {"query": "토큰", "limit": 1}, {"query": "zebra spaceship", "format": "json"}, {"query": "tokens", "threshold": 0.99}, {"query": "tokens", "path": "/nowhere"}, {"query": ""}, {}, {"query": "tokens", "max_tokens": 50}, {"query": "tokens", "limit": 101})),
    ("wiki_index", {}), ("wiki_index", {"full": True}), ("wiki_index", {"path": "nowhere"}), ("wiki_status", {}), ("wiki_status", {"path": "nowhere"}),
    *(("save", {"source": "https://example.com/tides", "categories": ["sea"], **each}) for each in ({"text": HARBOR, "metadata": {"title": "Tides", "tags": ["sea"], "summary": "When they turn.", "published": "2026-03-14", "author": "B. Master", "keywords": "tide, master"}}, {}, {"categories": []}, {"source": ""}, {"source": "https://example.com/x", "text": ""}, {"source": "ftp://example.com", "text": "a"}, {"metadata": {"wrong": 1}}, {"source": "https://example.com/y", "text": "key AKIAIOSFODNN7EXAMPLE"}, {"source": "/etc/passwd"}, {"source": "https://127.0.0.1:9/x"})),
    *(("articles_search", each) for each in ({"query": Q}, {"query": "등대", "format": "json"}, {"query": Q, "category": "sea"}, {"query": Q, "category": "none"}, {"query": "zebra spaceship"}, {"query": ""}, {"query": Q, "limit": 101}, {})),
    *(("list", each) for each in ({}, {"format": "json"}, {"category": "sea"}, {"category": "none"}, {"limit": 1, "offset": 1}, {"limit": 0}, {"offset": 100}, {"offset": -1})),
    *(("get", each) for each in ({"article_id": ARTICLE}, {"article_id": ARTICLE, "include_content": True}, {"article_id": "article/등대.md", "include_content": True, "offset": 10}, {"article_id": ARTICLE, "include_content": True, "offset": 9_999}, {"article_id": "en/deploy.md"}, {"article_id": "nowhere"}, {"article_id": ""}, {})),
    *(("ask", each) for each in ({"question": Q}, {"question": Q, "format": "json"}, {"question": "등대는 언제 세워졌나", "category": "sea"}, {"question": Q, "article_id": ARTICLE}, {"question": Q, "article_id": "nowhere"}, {"question": "zebra spaceship"}, {"question": ""}, {"question": Q, "max_tokens": 50, "format": "json"}, {"question": Q, "limit": 0}, {})),
    *(("delete", each) for each in ({"article_id": "article/등대.md"}, {"article_id": "article/등대.md"}, {"article_id": "en/deploy.md"}, {"article_id": ""}, {})),
    ("rebuild_index", {}), ("rebuild_index", {"x": 1}), ("core_search", {"query": Q}), ("articles_list", {}), ("nonsense", {}),
]
# fmt: on
"""A tool and its arguments, in the order in which they are called. `$session` and `$exported` come from earlier answers."""

# fmt: off
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}), ("resources/list", {}), ("resources/templates/list", {}), ("prompts/list", {}), ("ping", {}), ("nonsense", {}),
    *(("resources/read", {"uri": each}) for each in ("memory://index", f"memory://{OLD}", "memory://en/deploy.md", "memory://search?query=harbor", "memory://search", "memory://search?query=harbor&limit=x", "memory://nowhere", "file:///etc/passwd")),
    *(("prompts/get", {"name": "memory_injection", "arguments": each}) for each in ({"query": Q}, {}, {"query": "세션", "token_budget": "200", "context_type": "short"}, {"query": Q, "token_budget": "x"}, {"query": Q, "also": "It opens.\nMondays"})),
    ("prompts/get", {"name": "none"}),
    *(("completion/complete", {"ref": {"type": "ref/resource", "uri": "memory://{+id}"}, "argument": {"name": "id", "value": each}}) for each in ("01J", "en/", "zzz")),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "memory_injection"}, "argument": {"name": "context_type", "value": ""}}),
]
# fmt: on


class Client:
    """A client of `spellbook mcp` that speaks one era and says yes when the person is asked."""

    def __init__(self, place: Place, era: str) -> None:
        self.era, self._count, self.asked = era, 0, list[Any]()
        project = place.root / "work" / "app"
        (project / "zywiki").mkdir(parents=True)
        (project / "zywiki" / "auth.md").write_text(
            "# Auth\n\n## Tokens\n\nTokens are signed with RS256. 토큰은 한 시간 동안 쓸 수 있다.\n", "utf-8"
        )
        command = [str(place.python), "-m", "spellbook", "mcp", "--toolsets", TOOLSETS]
        self._errors = (place.root / "errors").open("wb")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=project,
            env=place.env(CLAUDE_PROJECT_DIR=str(project)),
        )
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self) -> dict[str, Any]:
        """Open the session as the era does, and return the server's answer."""
        if self.era == MODERN:
            return self.ask("server/discover", {})
        answer = self.ask("initialize", {"protocolVersion": LEGACY, "capabilities": _ABLE, "clientInfo": _CLIENT})
        self._send({"method": "notifications/initialized"})
        return answer

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the message that answers a request; what the server asked meanwhile is kept in `asked`."""
        self._count += 1
        if self.era == MODERN:
            about = {"protocolVersion": MODERN, "clientInfo": _CLIENT, "clientCapabilities": _ABLE}
            params = {**params, "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}}
        self._send({"id": self._count, "method": method, "params": params})
        while line := self._lines.get(timeout=PATIENCE):
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self._count and "method" not in message:
                return message
            if "id" in message:
                self.asked.append(message)
                self._send({"id": message["id"], "result": {"action": "accept", "content": {"really": True}}})
        raise RuntimeError("the server ended")

    def finish(self, method: str, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the answer; where it needs the person's, say yes and yield the next."""
        answer = self.ask(method, params)
        yield answer
        result = answer.get("result", {})
        if requests := result.get("inputRequests"):
            yes = {key: {"action": "accept", "content": {"really": True}} for key in requests}
            yield self.ask(method, {**params, "inputResponses": yes, "requestState": result.get("requestState")})

    def close(self) -> int:
        """Close stdin, and return the exit code."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self._reader.join()
        self.process.stdout.close()
        self._errors.close()
        return code


def auto(place: Place) -> None:
    """Record all in the era without a handshake."""
    _record(place, MODERN)


def legacy(place: Place) -> None:
    """Record all in the era that begins with `initialize`."""
    _record(place, LEGACY)


def _record(place: Place, era: str) -> None:
    vault.make(place)
    client = Client(place, era)
    try:
        place.write("begin.txt", pretty(client.begin()))
        names = {"$session": "", "$exported": ""}
        for number, (method, params) in enumerate(REQUESTS, 1):
            place.tick()
            place.write(f"requests/{number:02d}-{slug([method])}.txt", _exchange(client, method, params))
        counts: dict[str, int] = {}
        for tool, given in CALLS:
            place.tick()
            counts[tool] = counts.get(tool, 0) + 1
            arguments = {
                key: names.get(value, value) if isinstance(value, str) else value for key, value in given.items()
            }
            text = _exchange(client, "tools/call", {"name": tool, "arguments": arguments}, names)
            place.write(f"tools/{tool}-{counts[tool]:02d}.txt", f"{tool} {shown(given)}\n{text}")
        place.write("end.txt", f"[code] {client.close()}\n{(place.root / 'errors').read_text('utf-8')}")
    finally:
        if client.process.poll() is None:
            client.process.kill()
            client.process.wait()


def _exchange(client: Client, method: str, params: dict[str, Any], names: dict[str, str] | None = None) -> str:
    client.asked.clear()
    told = []
    for answer in client.finish(method, params):
        told.append(_readable(answer))
        for block in answer.get("result", {}).get("content", ()) if names is not None else ():
            _keep(block.get("text", ""), names or {})
    asked = [f"asked: {pretty(each)}" for each in client.asked]
    return "\n".join([*asked, *told])


def _readable(answer: dict[str, Any]) -> str:
    """Return an answer with its texts as lines of their own, since a difference in one long line reads badly."""
    result = answer.get("result", {})
    blocks = [*result.get("content", ()), *result.get("contents", ())] if isinstance(result, dict) else []
    texts = [str(block.pop("text")) for block in blocks if "text" in block]
    kept = {key: value for key, value in answer.items() if key not in {"id", "jsonrpc"}}
    return "\n".join([pretty(kept), *map(lines, texts)])


def _keep(text: str, names: dict[str, str]) -> None:
    if text.startswith('{"session_id"'):
        names["$session"] = json.loads(text)["session_id"]
    if text.startswith('{"file"'):
        names["$exported"] = json.loads(text)["file"]
