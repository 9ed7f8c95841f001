"""Golden queries are read from a file, and its mistakes are reported by line."""

from __future__ import annotations

import pytest

from spellbook.library.golden import Golden, parse
from spellbook.system.errors import InvalidInput


def test_queries_are_read() -> None:
    """All keys, a single expectation without brackets, Korean text and comments are read."""
    text = """# mine
- query: 세션은 어디에 두나?
  expect: 결정/세션.md
- query: how do we rotate keys
  expect: [ops/keys, decision/infra]
  mode: memorize
  filter: {category: [decision, project], importance: 0.5}

- {query: bread, absent: true}
"""
    assert parse(text) == (
        Golden("세션은 어디에 두나?", 2, ("결정/세션.md",)),
        Golden("how do we rotate keys", 4, ("ops/keys", "decision/infra"), "memorize", {"category": ["decision", "project"], "importance": "0.5"}),
        Golden("bread", 9),
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "[]"])
def test_an_empty_file_asks_nothing(text: str) -> None:
    """A file without queries is valid."""
    assert parse(text) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- query: x\n  expect: a: b\n", "line 2: the file is not YAML (mapping values"),
        ("query: x\nexpect: a\n", "line 1: the file must be a list"),
        ("just text", "line 1: the file must be a list"),
        ("- query: x\n  expect: a\n- how do we\n", "line 3: a query is `query: …`"),
        ("- query: x\n", "line 1: a query needs `expect: …` or `absent: true`"),
        ("- query: x\n  expect: a\n  absent: true\n", "line 1: a query needs"),
        ("- expect: a\n", "line 1: query must be a text"),
        ("- query: [a, b]\n  expect: a\n", "line 1: query must be a text"),
        ("- query: x\n  expect: a\n  mode: grep\n", "line 3: mode must be one of search, memorize, find"),
        ("- query: x\n  expect: a\n  colour: red\n", "line 3: there is no key 'colour'"),
        ("- query: x\n  expect: {a: b}\n", "line 2: expect must be"),
        ("- query: x\n  expect: [[a]]\n", "line 2: expect must be"),
        ("- query: x\n  absent: perhaps\n", "line 2: absent must be true or false"),
        ("- query: x\n  expect: a\n  expect: b\n", "line 3: the key 'expect' is there twice"),
        ("- query: x\n  expect: a\n  filter:\n    created: yesterday\n", "line 3: "),
        ("- query: x\n  expect: a\n  filter: topic\n", "line 3: The filter must map"),
        ("- ? [a]\n  : b\n", "line 1: a key must be a word"),
        ("- &a {query: x, expect: y}\n- *a\n", "line 2: aliases"),
        ("[" * 5_000, "nest"),
        ("- query: x\n  expect: a\n--- \n- query: y\n", "line 3: the file is not YAML"),
        ("- query: x\n- query: 'a\x01'\n", "line 2: the file is not YAML"),
    ],
)
def test_what_is_wrong_is_said_by_its_line(text: str, says: str) -> None:
    """A mistake is reported with its line and what is expected there."""
    with pytest.raises(InvalidInput) as error:
        parse(text, "queries.yaml")
    assert error.value.message.startswith("queries.yaml, line ")
    assert says in error.value.message


def test_all_faults_are_told_at_once() -> None:
    """Several mistakes are reported together, very many in short."""
    with pytest.raises(InvalidInput, match=r"line 1: .*; line 2: .*; and 5 more\."):
        parse("- x\n" * 10)
