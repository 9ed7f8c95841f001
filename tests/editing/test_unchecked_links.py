"""Broken links by how they begin, and the setting that leaves out those which nobody needs to know of."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from spellbook.cli import main
from spellbook.editing.repair_links import ALIKE, beginning
from spellbook.library.book import Spellbook
from spellbook.settings import config
from spellbook.system.errors import InvalidInput

Write = Callable[..., Path]
CONFIG = ".spellbook/config.toml"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/reference/react/useId", "/reference/"),
        ("/reference", "/reference/"),
        ("docs/a.md", "docs/"),
        ("../images/a.png", "../images/"),
        ("../../images/b/c.png", "../../images/"),
        ("../a.md", "../a.md"),
        ("./a.md", "./a.md"),
        ("Plan", "Plan"),
        ("/", "/"),
        ("//host/a", "//host/a"),
        ("", ""),
    ],
)
def test_how_links_begin(target: str, expected: str) -> None:
    """The first folder, with the steps up to it; a name alone is itself, so that no rule can leave out all links."""
    assert beginning(target) == expected


@pytest.fixture
def site(book: Spellbook, write_note: Write) -> Spellbook:
    """Notes of a site, whose links begin with /reference/, beside two links of a person's own."""
    for number in range(4):
        write_note(f"site/{number}.md", f"[a](/reference/hooks/topic-{number}) [b](/reference)\n")
    write_note("home.md", "[[Plan of old]] [c](/learn/start)\n")
    book.reindex()
    return book


def test_links_that_begin_alike_are_one_finding(site: Spellbook) -> None:
    """With how many there are and in how many notes; what few lead to stands alone."""
    found = site.broken_links()
    (group,) = found.groups
    counts = group.as_dict()
    assert (counts["beginning"], counts["links"], counts["notes"], counts["known"]) == ("/reference/", 8, 4, 0)
    assert [guess.target for guess in found.alone] == ["Plan of old", "/learn/start"]
    assert found.total == 10


def test_links_that_need_no_check_are_left_out_everywhere(site: Spellbook, vault: Path) -> None:
    """By the page, doctor and repairs alike; the setting keeps what else the file says, and can be taken back."""
    (vault / ".spellbook").mkdir(exist_ok=True)
    before = "threads = 1  # enough\n\n[half_lives]\nlog = 20\n"
    (vault / CONFIG).write_text(before, "utf-8")
    assert site.uncheck_links("/reference/") == ("/reference/",)
    assert site.uncheck_links("Plan of old") == ("/reference/", "Plan of old")
    written = (vault / CONFIG).read_text("utf-8")
    assert tomllib.loads(written) == {**tomllib.loads(before), "unchecked_links": ["/reference/", "Plan of old"]}
    assert "# enough" in written
    assert [guess.target for guess in site.broken_links().alone] == ["/learn/start"]
    assert site.broken_links().groups == ()
    assert [guess.target for guess in site.mend_links(dry_run=True).guesses] == ["/learn/start"]
    assert site.uncheck_links("Plan of old", checked=True) == ("/reference/",)
    site.uncheck_links("/reference/", checked=True)
    assert (vault / CONFIG).read_text("utf-8") == before


def test_a_rule_holds_at_once(site: Spellbook, vault: Path) -> None:
    """Also while the vault is open, whoever writes it: the setting is read when it is needed."""
    (vault / ".spellbook").mkdir(exist_ok=True)
    (vault / CONFIG).write_text('unchecked_links = ["/reference/"]\n', "utf-8")
    assert site.broken_links().total == 2
    (vault / CONFIG).unlink()
    assert site.broken_links().total == 10


def test_doctor_lists_a_line_for_each_place(site: Spellbook, vault: Path) -> None:
    """Not one for each link, and how to leave them out; a link alone keeps its line."""

    def links() -> list[str]:
        said = CliRunner().invoke(main, ["--vault", str(vault), "doctor"], env={"SPELLBOOK_EMBEDDER": "hash"}).stdout
        lines = said.splitlines()
        at = next(number for number, line in enumerate(lines) if line.endswith("  links"))
        return [line.strip() for line in lines[at + 1 :] if line.startswith("   ")][:4]

    listed = links()
    assert listed[0] == "8 links to /reference/ lead nowhere"
    assert 'write unchecked_links = ["/reference/"] into .spellbook/config.toml' in listed[1]
    assert "Plan of old leads nowhere" in listed[2]
    site.uncheck_links("/reference/")
    assert "Plan of old leads nowhere" in links()[0]
    assert ALIKE > 2, "two links alone keep their lines"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "\x1b[31m"])
def test_what_is_no_beginning_of_a_link_is_refused(book: Spellbook, vault: Path, name: str) -> None:
    """And nothing is written."""
    with pytest.raises(InvalidInput):
        book.uncheck_links(name)
    assert not (vault / CONFIG).exists()


@pytest.mark.parametrize("value", ['"/reference/"', "[1]", '[""]', f"{['a'] * 101}", '["a\\nb"]'])
def test_a_setting_that_makes_no_sense_is_refused(vault: Path, value: str) -> None:
    """With the file, when the vault is opened."""
    (vault / ".spellbook").mkdir()
    (vault / CONFIG).write_text(f"unchecked_links = {value}\n", "utf-8")
    with pytest.raises(InvalidInput, match=r"config\.toml.*unchecked_links"):
        config.load(vault)
