"""A graph of Logseq that is opened in place: properties of pages, tasks, and the settings of the graph."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.editing import repair_links
from spellbook.index import sync
from spellbook.index.filters import conditions
from spellbook.notes.note import parse
from spellbook.notes.properties import fields
from spellbook.vault import logseq, obsidian
from tests.helpers import opened

OPEN = ("NOW", "LATER", "TODO", "DOING", "WAITING", "WAIT", "IN-PROGRESS")
CLOSED = {"DONE": "done", "CANCELED": "cancelled", "CANCELLED": "cancelled"}
"""Markers of Logseq's `frontend.util.marker`."""


def said(text: str, path: str = "pages/a.md") -> list[tuple[str, object]]:
    return [(key, value) for _, key, value in fields(parse(path, text.encode()))]


@pytest.mark.parametrize(
    ("text", "aliases", "tags"),
    [
        pytest.param("alias:: Agent, [[AI Agents]]\ntags:: [[Term]], #x #[[two words]]\n\n- y", "Agent|AI Agents", "Term|x|two words", id="a page"),
        pytest.param("- alias:: A\n  tags:: b\n- y", "A", "b", id="as a block"),
        pytest.param("alias:: [[A/B]], C/D，E\r\nicon:: 🎂\r\n", "A/B|C/D|E", "", id="namespaces, CRLF"),
        pytest.param('aliases:: "A, B", C', "A, B|C", "", id="quotes"),
        pytest.param("---\naliases: [A]\ntags: b\n---\nalias:: C\nfiletags:: d", "A|C", "b|d", id="below frontmatter"),
        pytest.param(":PROPERTIES:\n:ALIAS: A, B\n:tags: c\n:END:\n- y", "A|B", "c", id="a drawer"),
        pytest.param("- y\n  tags:: b", "", "", id="of a block"),
        pytest.param("y\nalias:: A", "", "", id="behind a text"),
        pytest.param("alias::A\ntags::", "", "", id="no values"),
    ],
)  # fmt: skip
def test_properties_of_a_page(text: str, aliases: str, tags: str) -> None:
    """`alias::` and `tags::` count where they stand first in a page or a journal of Logseq, and nowhere else."""
    note = parse("x/pages/a.md", text.encode())
    assert ("|".join(note.aliases), "|".join(note.tags)) == (aliases, tags)
    elsewhere = parse("x/a.md", text.encode())
    assert {*elsewhere.aliases} <= {"A"}
    assert {*elsewhere.tags} <= {"b", "x"}


def test_title_dates_and_keys_that_rule() -> None:
    """`title::` and `created-at::` are a page's; what guards a note counts in frontmatter alone."""
    note = parse("journals/a.md", b"title:: My Page\ncreated_at:: 1609459200000\ntrust:: trusted\nid:: x\n")
    assert (note.title, note.created, note.declared_id) == ("My Page", "2021-01-01T00:00:00+00:00", None)
    assert not note.meta


@given(
    st.sampled_from([*OPEN, *CLOSED]),
    st.sampled_from(["- ", "* ", "- ## ", "  + "]),
    st.sampled_from(["", "[#A] ", "[#C] "]),
)
def test_tasks(marker: str, item: str, priority: str) -> None:
    """A marker at the beginning of a block is a task, with its priority and its days; its neighbours are words."""
    text = f"{item}{marker} {priority}Pay\n  SCHEDULED: <2026-12-20 Sun .+1d>\n  DEADLINE: <2026-12-24 Thu 10:00>\n"
    tasks = [("task", CLOSED.get(marker, "open")), *([("priority", priority[2])] if priority else [])]
    assert said(text) == [*tasks, ("scheduled", "2026-12-20"), ("due", "2026-12-24")]
    assert said(text, "notes/a.md") == []
    for other in (
        f"{marker} Pay",
        f"- {marker}: Pay",
        f"- {marker}S Pay",
        f"- {marker.lower()} Pay",
        f"- x {marker} y",
        f"- `{marker} y`",
        f"```\n- {marker} y\n```",
    ):
        assert said(other) == [], other


CONFIG = r"""{:meta/version 1 ; :hidden ["no"]
 #_:journals-directory #_"no" :journals-directory "diary" :hidden ["/archived" "a \"b" ;; c
  #_"no" "/t.md"]
 #_{:a {:hidden ["no"]}} :default-queries {:journals [{:hidden ["no"] :query [:find ?h #{"x"}]}]}
 :file/name-format :triple-lowbar :journal/page-title-format "EEE, dd-MM-yyyy"}"""


def test_settings_of_a_graph(vault: Path) -> None:
    """Hidden files are no notes, and journals are dated by the graph's own formats."""
    (vault / "logseq").mkdir()
    (vault / "logseq/config.edn").write_text(CONFIG)
    found = obsidian.read(vault)
    assert found.prefixes == ("archived", 'a "b', "t.md")
    assert ("diary", "ddd, DD-MM-YYYY") in found.formats
    assert found.problems == ()
    (vault / "logseq/config.edn").write_bytes(b"\xff")
    assert obsidian.read(vault).prefixes == ()


@pytest.mark.parametrize(
    ("format", "expected"),
    [("yyyy_MM_dd", "YYYY_MM_DD"), ("MMM do, yyyy", "MMM Do, YYYY"), ("EEEE, MM/dd/yyyy", "dddd, MM/DD/YYYY"), ("yyyy'年'MM'月'dd", "YYYY[年]MM[月]DD"), ("E d", "ddd D")],
)  # fmt: skip
def test_formats(format: str, expected: str) -> None:
    """A format of Logseq's dates is read in the tokens that daily notes have."""
    assert logseq.moment(format) == expected


@given(st.text(st.sampled_from('{}[]()"\\#_;:, \nab'), max_size=60))
def test_no_settings_end_the_program(text: str) -> None:
    """Whatever a file of settings holds, reading it ends with texts under keys."""
    assert all(key and isinstance(value, list) for key, value in logseq.settings(text).items())


def test_hostile_settings() -> None:
    """Depth and length cost no stack and no more than linear time."""
    for text in ("[" * 500_000, "#_" * 500_000, '"' + "\\" * 500_000, "{:hidden " * 200_000, ";" * 500_000):
        assert logseq.settings(text) == {}


def test_a_graph_in_place(vault: Path) -> None:
    """Links by alias and title lead to their page, tasks and properties are filters."""
    pages = {
        "pages/HEAP___Note.md": "alias:: HEAP, [[Heap Analytics]]\ntags:: [[Tool]]\ntype:: [[Book]]\n\n- TODO [#A] read\n",
        "pages/b.md": "title:: A better name\n\n- [[heap]] [[Heap Analytics]] [[HEAP/Note]]\n",
        "journals/2026_11_21.md": "- [[A better name]]\n  DEADLINE: <2026-12-20 Sun>\n",
    }
    for path, text in pages.items():
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(text)
    with opened(vault) as index:
        sync.scan(index)
        found: Callable[..., set[str]] = lambda **filter: {*index.catalog.paths(conditions(filter))}  # noqa: E731
        assert found(tags="tool") == found(type="Book") == found(task="open", priority="A") == {"pages/HEAP___Note.md"}
        assert found(due="2026-12-20") == {"journals/2026_11_21.md"}
        assert {each.target for each in repair_links.broken(index)} == {"Tool", "Book"}
