"""
Golden queries: what a person expects to find, as `.spellbook/queries.yaml` lists it.

    - query: how do we rotate keys?
      expect: [ops/keys.md, decision/infra]   # ids, paths or topics: each among the first five hits
      mode: memorize                          # search (unless said), memorize or find
      filter: {category: decision}
    - query: a recipe for bread
      absent: true                            # nothing may be found

Every fault of the file is reported with its line. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spellbook.index.filters import conditions
from spellbook.notes.frontmatter import fast_loader
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import yaml

FILE = "queries.yaml"
MODES = ("search", "memorize", "find")

_KEYS = ("query", "expect", "mode", "filter", "absent")
_NULL = "tag:yaml.org,2002:null"
"""YAML's tag of an empty value."""

_MOST_DEPTH = 8
"""Levels of lists and mappings: a query with its filter has five."""

_MOST_FAULTS = 5
"""Faults of a file that are listed."""


@dataclass(frozen=True, slots=True)
class Golden:
    """A query that must find each of `expect`, or nothing if that is empty. `line` counts from 1."""

    query: str
    line: int
    expect: tuple[str, ...] = ()
    mode: str = "search"
    filter: Mapping[str, Any] | None = None


def parse(text: str, name: str = FILE) -> tuple[Golden, ...]:
    """Parse the file's text; `name` is the file's name. Raises InvalidInput that names the line."""
    queries: list[Golden] = []
    faults: list[_QueryFault] = []
    try:
        nodes = _nodes(text)
    except _QueryFault as fault:
        nodes, faults = [], [fault]
    for node in nodes:
        try:
            queries.append(_golden(node))
        except _QueryFault as fault:
            faults.append(fault)
    if faults:
        lines = [f"line {fault.line + 1}: {fault}" for fault in faults[:_MOST_FAULTS]]
        more = f"; and {len(faults) - _MOST_FAULTS} more" if len(faults) > _MOST_FAULTS else ""
        raise InvalidInput(f"{name}, {'; '.join(lines)}{more}.", "Mend the file and check again; no query was asked.")
    return tuple(queries)


class _QueryFault(ValueError):
    """An error, and its line, counted from 0."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _nodes(text: str) -> list[yaml.Node]:
    """Return the queries as YAML nodes, which have line numbers; deep nesting and references are refused."""
    loader = fast_loader()
    try:
        depth = 0
        # libyaml's composer overflows the C stack on deep nesting; its parser does not.
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            line = event.start_mark.line if event.start_mark else 0
            if depth > _MOST_DEPTH:
                raise _QueryFault(line, "lists and mappings are nested too deep")
            if isinstance(event, yaml.AliasEvent):
                raise _QueryFault(line, "aliases (`*name`) are not read here; write it out")
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _QueryFault(
            mark.line if mark else 0, f"the file is not YAML ({error.problem or error.context})"
        ) from error
    except yaml.reader.ReaderError as error:
        letter = chr(error.character) if isinstance(error.character, int) else str(error.character)
        line = text[: max(0, text.find(letter))].count("\n")
        raise _QueryFault(line, f"the file is not YAML (the character {letter!r} is not allowed)") from error
    if root is None or root.tag == _NULL:
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise _QueryFault(root.start_mark.line, "the file must be a list of queries, each `- query: …`")
    nodes: list[yaml.Node] = root.value
    return nodes


def _golden(node: yaml.Node) -> Golden:
    line = node.start_mark.line
    if not isinstance(node, yaml.MappingNode):
        raise _QueryFault(line, "a query is `query: …` with `expect: …`")
    values = dict(_pairs(node))
    lines = {key.value: key.start_mark.line for key, _ in node.value}
    unknown = [key for key in values if key not in _KEYS]
    if unknown:
        raise _QueryFault(lines[unknown[0]], f"there is no key {unknown[0]!r:.40}; keys are {', '.join(_KEYS)}")

    def wrong(key: str, reason: str) -> _QueryFault:
        return _QueryFault(lines.get(key, line), reason)

    query, mode, absent = values.get("query", ""), values.get("mode") or "search", values.get("absent") or "false"
    if not isinstance(query, str) or not query.strip():
        raise wrong("query", "query must be a text")
    if mode not in MODES:
        raise wrong("mode", f"mode must be one of {', '.join(MODES)}, not {mode!r:.40}")
    if str(absent).lower() not in {"true", "false"}:
        raise wrong("absent", f"absent must be true or false, not {absent!r:.40}")
    expect = values.get("expect") or []
    if isinstance(expect, str):
        expect = [expect]
    if not isinstance(expect, list) or not all(isinstance(name, str) and name.strip() for name in expect):
        raise wrong("expect", "expect must be an id, a path or a topic, or a list of them")
    if bool(expect) == (str(absent).lower() == "true"):
        raise _QueryFault(line, "a query needs `expect: …` or `absent: true`, and not both")
    filter = values.get("filter") or None
    try:
        conditions(filter)
    except InvalidInput as error:
        raise _QueryFault(lines["filter"], error.message.rstrip(".")) from error
    return Golden(query, line + 1, tuple(name.strip() for name in expect), mode, filter)


def _pairs(node: yaml.MappingNode) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _QueryFault(key.start_mark.line, "a key must be a word")
        if key.value in seen:
            raise _QueryFault(key.start_mark.line, f"the key {key.value!r:.40} is there twice")
        seen.add(key.value)
        yield key.value, _value(value)


def _value(node: yaml.Node) -> Any:
    """Return a node as texts, lists and mappings; every scalar is its literal text, as filters compare it."""
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return dict(_pairs(node))
    return "" if node.tag == _NULL else node.value
