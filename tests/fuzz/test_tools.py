"""
Every MCP tool with arguments of every kind: an answer or an error that names its code, in time, and nothing else on stdout.

SPELLBOOK_FUZZ_CALLS says how many calls are made (300 by default, 20,000 for the long form).
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spellbook.mcp.tool_names import TOOLSETS
from tests.fuzz.servers import Gone, Server
from tests.helpers import held
from tests.trees import grow

JUNK: Sequence[Any] = (
    None, "", " ", "null", "None", 0, -1, 2**63, 2**80, 1.5, float("nan"), float("inf"), True, [], {}, [None], [[]],
    {"a": None}, "\0", "\ud800", "a\udfffb", "\u2028", "../../etc/passwd", "/etc/passwd", "C:\\x", "~", ".git/config",
    "a.md", "a#one", "a#", "a~2", "x" * 5_000, "[" * 500, '{"a": [1', "*a*a*a*a*b", '"', "'", "%s%s", "{0}",
    "category=x", "--vault", "🜂", "한글 메모", "a OR b", "NEAR(",
)  # fmt: skip
NAMES = (
    "category", "topic", "tags", "path", "created", "when", "importance", "language", "scope", "own key", "kind!",
    "path!", "__proto__", "",
)  # fmt: skip


def arguments(random: Random, schema: Mapping[str, Any], known: Sequence[str] = ()) -> dict[str, Any]:
    """Return arguments by a tool's input schema: most are valid, some are anything; `known` are existing ids."""
    given: dict[str, Any] = {}
    for name, wanted in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or random.random() < 0.4:
            given[name] = value(random, wanted, known)
    if random.random() < 0.05:
        given[random.choice(["extra", "self", "ctx", ""])] = random.choice(JUNK)
    return given


def value(random: Random, schema: Mapping[str, Any], known: Sequence[str] = (), depth: int = 0) -> Any:
    """Return a value for a schema, or anything one time in eight."""
    if random.random() < 0.12:
        return random.choice(JUNK)
    if random.random() < 0.05:
        return json.dumps(value(random, schema, known, depth + 1), ensure_ascii=False, default=str)
    if "anyOf" in schema:
        return value(random, random.choice(schema["anyOf"]), known, depth)
    if "enum" in schema or "const" in schema:
        return random.choice(schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "object":
        wanted = schema.get("properties", {})
        found = {name: value(random, wanted[name], known, depth + 1) for name in wanted if random.random() < 0.7}
        more = random.randrange(3) if not wanted or schema.get("additionalProperties") else 0
        return found | {random.choice(NAMES): _text(random, known) for _ in range(more)}
    if kind == "array":
        count = random.randrange(4) if depth < 5 else 0
        return [value(random, schema.get("items", {}), known, depth + 1) for _ in range(count)]
    if kind == "integer":
        return random.choice([1, 2, 5, schema.get("minimum", 0), schema.get("maximum", 100), random.randrange(1000)])
    if kind == "number":
        return random.choice([0, 0.5, 1, random.random()])
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "null":
        return None
    return _text(random, known)


def _text(random: Random, known: Sequence[str]) -> str:
    if known and random.random() < 0.6:
        return random.choice(known)
    words = [
        "lantern", "granite", "배포", "금요일", "## One", "\n\n", "[[a]]", "3 ms", "never",
        "one two three four five six seven",
    ]  # fmt: skip
    return " ".join(random.choices(words, k=random.randrange(1, 12)))


CALLS = int(os.environ.get("SPELLBOOK_FUZZ_CALLS", "300"))
ALLOWED = re.compile(
    "INVALID_INPUT|CONFLICT|MEMORY_NOT_FOUND|VAULT_NOT_FOUND|PERMISSION_DENIED|PATH_OUTSIDE_VAULT|REST_REQUIRED"
    "|REST_INVALID|REST_EXPIRED|STORAGE_ERROR|EMBEDDING_ERROR"
)
NOTES = {
    "a.md": "---\ntopic: infra\ntags: [ops]\n---\n# Lantern\n\n[[b]]\n\n## One\n\ngranite 3 ms\n\n## Two\n\n배포는 금요일\n",
    "b.md": "# B\n\n2. [0.99] [Trusted] id: x (a.md:1)\n\n## One\n\nnever\n",
    "x/한글 메모.md": "금요일 배포\n",
}


WORDS = ("a", "a#one", "a#two", "b#", "x/한글 메모", "infra", ".trash/a.md", "lantern", "granite", "x", "new/place")
"""Existing and former ids and paths, and words of the notes."""


ONCE = (
    ("import", {"file_path": '"' + "[" * 500, "dry_run": True}),
    ("move", {"old": "b.md", "new": "[" * 500}),
    ("scribe_chunk", {"chunk": "\ud800"}),
)
"""Calls that once had no proper answer: names too long for a disk, and half a character."""


def vault_at(folder: Path) -> Path:
    """A small vault."""
    return grow(folder / "vault", {path: text.encode() for path, text in NOTES.items()})


def well(tool: str, given: Any, is_done: bool, text: str) -> None:
    """Check what holds for every answer."""
    assert "INTERNAL_ERROR" not in text, (tool, given, text)
    assert "Traceback" not in text, (tool, given, text)
    # -32602 is the protocol's own word for arguments that cannot even be read.
    assert is_done or ALLOWED.search(text) or text.startswith("-32602"), (tool, given, text)
    assert text.encode("utf-8"), (tool, given)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_any_arguments_on_stdio(tmp_path: Path) -> None:
    """
    One server gets all calls: each line on stdout is a message, and it ends only when its stdin is closed. Calls that once
    failed each get an error with its code.
    """
    random = Random(os.environ.get("SPELLBOOK_FUZZ_SEED", "11"))
    vault = vault_at(tmp_path)
    server = Server(vault, *TOOLSETS)
    tools = server.tools()
    session = ""
    for tool, given in ONCE:
        is_done, text = server.call(tool, given)
        assert not is_done
        well(tool, given, is_done, text)
    for number in range(CALLS):
        if number % 500 == 0:
            vault_at(tmp_path)
            _, answer = server.call("rest", {})
            session = re.findall(r'"session_id": "([^"]+)"', answer)[0]
        tool = sorted(tools)[number % len(tools)]
        given = arguments(random, tools[tool], [*held(vault), *WORDS] if number % 20 == 0 else [*NOTES, *WORDS])
        if "session_id" in tools[tool]["properties"] and random.random() < 0.8:
            given["session_id"] = session
        try:
            well(tool, given, *server.call(tool, given))
        except Gone:
            errors = "".join(server.errors)[-2000:]
            raise AssertionError(f"the server ended at {tool} {given!r:.2000}\n{errors}") from None
    assert not server.said, server.said
    assert server.close() == 0
    assert "Traceback" not in "".join(server.errors), "".join(server.errors)[-3000:]
