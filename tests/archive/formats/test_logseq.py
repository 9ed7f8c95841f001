"""Graphs of Logseq: what comes of pages, journals, properties, references and assets, and that nothing comes twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput, PathOutsideVault
from tests.archive.formats.incoming import body, notes, written, zipped

ONE, TWO, LOST = (f"6{number}f1c2d3-0000-4000-8000-0123456789ab" for number in range(3))
GRAPH: dict[str, str | bytes] = {
    "logseq/config.edn": '{:meta/version 1\n :journal/page-title-format "EEE do, MMM yyyy"\n :file/name-format :triple-lowbar}\n',
    "logseq/bak/pages/Plan/old.md": "- old\n",
    "logseq/custom.css": "x",
    "pages/Plan.md": "title:: Plan\ntags:: travel, [[Korea trip]], #now\nalias:: The Plan, 계획\nauthor:: [[Ann]]\n\n"
    f"- Where we go #idea\n  id:: {ONE}\n  collapsed:: true\n\t- TODO buy ![map](../assets/sea%20map.png) ^\n"
    "\t  SCHEDULED: <2024-03-05 Tue>\n\t- DONE ask\n\t- DOING pack [[work/trips/Busan]]\n\t- CANCELED fly\n"
    f"- see (({TWO})), (({LOST})), [here]((({TWO}))) and `(({ONE}))`\n"
    f"- {{{{embed (({TWO}))}}}}\n- {{{{embed [[Ann]]}}}}\n- {{{{query (todo now)}}}}\n"
    f"- ```python\n  # (({ONE})) [[Ann]]\n  - x\n  id:: kept\n  ```\n  tags:: deep, [[two words]]\n  duration:: 20\n"
    "- one\n  logseq.order-list-type:: number\n",
    "pages/Ann.md": "- Ann is [[The Plan|x]] of [[계획]], [mine]([[plan]]) and [[Nobody]]\n- On [[Fri 1st, Mar 2024]] #[[Korea trip]]\n",
    "pages/work___trips___Busan.md": f"- # Trip\n- Hotel [[x]]\n  id:: {TWO}\n- ![a](../assets/a.png) [web](https://x.org)\n",
    "pages/a%3A b.md": "- colon [[Ann]]\n",
    "pages/empty.md": "-\n",
    "journals/2024_03_01.md": "- met [[Ann]] [[a: b]]\n",
    "pages/old.org": "* org\n",
    "assets/sea map.png": b"\x89PNG1",
    "assets/a.png": b"\x89PNG2",
    ".hidden/x.md": "- x",
}


def test_a_graph(book: Spellbook, tmp_path: Path) -> None:
    """Properties, tasks, references, namespaces, journals and assets are where Markdown has them."""
    place = written(tmp_path / "brain", GRAPH)
    assert len(book.import_(place, dry_run=True).added) == 9
    done = book.import_(place)
    assert sorted(done.added) == [
        "assets/a.png", "assets/sea map.png", "journals/2024-03-01.md", "pages/Ann.md", "pages/Plan.md", "pages/a- b.md",
        "pages/empty.md", "pages/old.org", "pages/work/trips/Busan.md",
    ]  # fmt: skip
    assert [(fault.path, fault.reason) for fault in done.faults] == [
        ("pages/old.org", "an Org page is copied as it is, and is not a note")
    ]
    assert body(book, "pages/Plan.md") == (
        f"- Where we go #idea ^{ONE}\n\t- [ ] buy ![map](../assets/sea%20map.png) ^\n\t  SCHEDULED: <2024-03-05 Tue>\n"
        "\t- [x] ask\n\t- [ ] DOING pack [[Busan|work/trips/Busan]]\n\t- [x] CANCELED fly\n"
        f"- see [[Busan#^{TWO}|Hotel x]], (({LOST})), [[Busan#^{TWO}|here]] and `(({ONE}))`\n"
        f"- ![[Busan#^{TWO}]]\n- ![[Ann]]\n- {{{{query (todo now)}}}}\n"
        f"- ```python\n  # (({ONE})) [[Ann]]\n  - x\n  id:: kept\n  ```\n  tags:: #deep #two-words\n  duration:: 20\n1. one"
    )
    assert body(book, "pages/Ann.md") == (
        "- Ann is [[The Plan|x]] of [[Plan|계획]], [[Plan|mine]] and [[Nobody]]\n- On [[2024-03-01|Fri 1st, Mar 2024]] [[Korea trip]]"
    )
    assert body(book, "pages/work/trips/Busan.md").startswith(
        f"- # Trip\n- Hotel [[x]] ^{TWO}\n- ![a](../../../assets/a.png)"
    )
    assert body(book, "journals/2024-03-01.md") == "- met [[Ann]] [[a- b|a: b]]"
    found = {each.path: each for each in notes(book).values()}
    plan = found["pages/Plan.md"]
    assert (plan.tags[:3], plan.meta["author"]) == (("travel", "Korea trip", "now"), "[[Ann]]")
    assert plan.meta["aliases"] == ["The Plan", "계획"]
    assert found["journals/2024-03-01.md"].created.startswith("2024-03-01")
    assert found["pages/work/trips/Busan.md"].title == "work/trips/Busan"
    assert {link.id for link in book.around(plan.note).links} >= {found["pages/Ann.md"].note}


def test_again_brings_what_is_new(book: Spellbook, tmp_path: Path) -> None:
    """A page that was moved is known by its id; a zip of the graph is the same graph."""
    place = written(tmp_path / "brain", GRAPH)
    book.import_(place)
    assert book.import_(place).added == []
    book.reindex()
    book.move("pages/empty.md", "elsewhere/nothing.md")
    (place / "pages/new.md").write_text("- new\n")
    assert book.import_(place).added == ["pages/new.md"]
    file = tmp_path / "brain (1).zip"
    file.write_bytes(zipped({f"brain/{name}": data for name, data in GRAPH.items()}))
    assert book.import_(file).added == []
    file.write_bytes(zipped(GRAPH))
    assert book.import_(file).added == []


@pytest.mark.parametrize("name", ["pages/../../x.md", "/etc/x.md", "pages/x\\..\\..\\y.md"])
def test_paths_that_lead_out(book: Spellbook, tmp_path: Path, name: str) -> None:
    """They are refused, and nothing is written."""
    file = tmp_path / "g.zip"
    file.write_bytes(zipped({**GRAPH, name: "- x"}))
    with pytest.raises(PathOutsideVault):
        book.import_(file)
    assert list(book.config.vault.rglob("*")) == []


def test_names_of_pages_that_lead_nowhere(book: Spellbook, tmp_path: Path) -> None:
    """A page's name is only a name: dots, devices and hidden folders in it become letters."""
    names = [
        "pages/%2E.%2F..%2Fx.md",
        "pages/con.md",
        "pages/%2Egit___hooks.md",
        "pages/%00.md",
        f"pages/{'a' * 200}___b.md",
    ]
    file = tmp_path / "g.zip"
    file.write_bytes(zipped({"logseq/config.edn": "{}", **dict.fromkeys(names, "- x")}))
    assert len(book.import_(file).paths) == 5
    made = [path.relative_to(book.config.vault).as_posix() for path in book.config.vault.rglob("*.md")]
    assert sorted(made) == sorted(
        ["pages/x.md", "pages/con-.md", "pages/git/hooks.md", "pages/untitled.md", f"pages/{'a' * 117}/b.md"]
    )


def test_a_cut_zip(book: Spellbook, tmp_path: Path) -> None:
    """All or nothing."""
    file = tmp_path / "g.zip"
    file.write_bytes(zipped(GRAPH)[:-60])
    with pytest.raises(InvalidInput):
        book.import_(file)
    assert list(book.config.vault.rglob("*")) == []


def test_files_of_one_page(book: Spellbook, tmp_path: Path) -> None:
    """Two files of one name, and one block in two pages, as merged graphs have them, are all imported."""
    twice = {
        "a___b.md": f"- x\n  id:: {ONE}",
        "a%2Fb.md": f"id:: {ONE}\n- (({ONE}))",
        "Same.md": "- 1",
        "same.md": f"```\n  id:: {ONE}\n```\n  id:: {ONE}",
    }
    file = tmp_path / "g.zip"
    file.write_bytes(zipped({"logseq/config.edn": "{}", **{f"pages/{name}": text for name, text in twice.items()}}))
    assert len(book.import_(file).paths) == 4
    assert book.import_(file).paths == []
