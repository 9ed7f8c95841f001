"""Broken links: finding them, finding their targets, and repairing them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result

from spellbook.cli import main
from spellbook.editing.repair_links import guesses
from spellbook.library.book import Spellbook
from tests.helpers import held, leads
from tests.server.agent import Agent, talk

Write = Callable[..., Path]


def doctor(vault: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--vault", str(vault), "doctor", *words], catch_exceptions=False)


def test_a_rename_outside_is_mended(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Links to and in notes that were renamed, moved or edited outside are shown and then repaired."""
    write_note("ops/keys.md", "# Keys\n\nRotate them.\n")
    write_note("ops/plan.md", "# Plan\n\n[k](keys.md) [home](../home.md)\n", id="PLAN")
    write_note("home.md", "[[keys]] [[ops/keys#Rotate|k]] [p](ops/plan.md) `[[keys]]` [[never]]\n")
    led = leads(vault)
    book.reindex()
    (vault / "archive/2026").mkdir(parents=True)
    (vault / "ops/keys.md").rename(vault / "archive/2026/Key rotation.md")
    (vault / "ops/plan.md").rename(vault / "archive/2026/old plan.md")
    with (vault / "archive/2026/old plan.md").open("a") as file:
        file.write("\nEdited.\n")
    before = held(vault)
    shown = doctor(vault, "--fix", "links")
    assert shown.exit_code == 1
    assert "home.md:1  keys → archive/2026/Key rotation.md (it was moved)\n" in shown.stdout
    assert "home.md:1  never → ?\n" in shown.stdout
    assert (
        "+[[Key rotation]] [[archive/2026/Key rotation#Rotate|k]] [p](archive/2026/old%20plan.md) `[[keys]]` [[never]]"
        in shown.stdout
    )
    assert "5 links in 2 notes can be repaired: repeat with --yes. 1 link without a known target.\n" in shown.stderr
    assert held(vault) == before
    assert "wrong  links" in doctor(vault).stdout
    assert doctor(vault, "--fix", "links", "--yes").exit_code == 0
    now = {"ops/keys.md": "archive/2026/Key rotation.md", "ops/plan.md": "archive/2026/old plan.md"}
    assert leads(vault) == {(now.get(path, path), number): now.get(to, to) for (path, number), to in led.items()}
    assert "ok     links" in doctor(vault).stdout
    (vault / "never.md").write_text("now")
    assert doctor(vault, "--fix", "links").stderr == "There are no broken links.\n"
    (vault / "never.md").unlink()
    book.undo()
    assert held(vault) == before


def test_names_aliases_and_titles_tell(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    Without a seen rename, a file with the same name, alias or title is the target; similar ones are only suggested.
    """
    write_note("a/keys.md", "# How we rotate keys\n", aliases="[rotation]")
    write_note("img/map.png")
    write_note(
        "home.md",
        "[[old/keys]] [[rotation]] ![](pics/map.png) [[How We Rotate-Keys]] [[How we rotate kays]]\n\n| x |\n|---|\n| [[rotation]] |\n",
    )
    book.refresh()
    assert [(guess.target, guess.path, guess.perhaps) for guess in guesses(book.index)] == [
        ("old/keys", "a/keys.md", ()),
        ("rotation", "a/keys.md", ()),
        ("pics/map.png", "img/map.png", ()),
        ("How We Rotate-Keys", "a/keys.md", ()),
        ("rotation", "a/keys.md", ()),
        ("How we rotate kays", None, ("a/keys.md",)),
    ]
    book.mend_links()
    assert (vault / "home.md").read_text() == (
        "[[a/keys]] [[keys|rotation]] ![](img/map.png) [[keys|How We Rotate-Keys]] [[How we rotate kays]]\n\n| x |\n|---|\n| [[keys\\|rotation]] |\n"
    )


def test_doctor_counts_what_can_be_mended(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    Doctor and `--fix links` count the same links; links without a known target are listed with their line and are no
    fault.
    """
    write_note("a/keys.md", "# How we rotate keys\n", aliases="[rotation]")
    write_note("two/plan.md")
    write_note("three/plan.md")
    write_note(
        "home.md",
        "[[old/keys]] [[rotation]] [[rotation]] [[How We Rotate-Keys]]\n\n[[How we rotate kays]] [[old/plan]]\n",
    )
    assert "4 links in 1 note can be repaired" in doctor(vault, "--fix", "links").stderr
    said = doctor(vault)
    assert said.exit_code == 1
    assert "wrong  links\n       4 broken links can be repaired: `spellbook doctor --fix links`" in said.stdout
    unknown = [
        "       home.md, line 3: How we rotate kays leads nowhere, and its target is not known; did you mean a/keys.md?\n",
        "       home.md, line 3: old/plan leads nowhere, and its target is not known",
    ]
    assert all(line in said.stdout for line in unknown)
    book.mend_links()
    said = doctor(vault)
    assert said.exit_code == 0
    assert "ok     links\n" + unknown[0] + unknown[1] in said.stdout


def test_two_of_one_name_are_not_guessed(book: Spellbook, vault: Path, write_note: Write) -> None:
    """If two files may be the target, nothing is written."""
    write_note("a/keys.md", "a")
    write_note("b/keys.md", "b")
    text = write_note("home.md", "[[old/keys]]").read_bytes()
    assert book.mend_links().changed == ()
    assert (vault / "home.md").read_bytes() == text


def test_an_agent_mends(book: Spellbook, vault: Path, write_note: Write) -> None:
    """The tool mend_links shows the repair first, and applies it on request."""
    write_note("a.md", "alpha")
    write_note("b.md", "[[a]] [[gone]]\n")
    book.reindex()
    (vault / "a.md").rename(vault / "z.md")

    async def conversation(agent: Agent) -> None:
        shown = await agent.call("mend_links")
        assert shown.startswith("Would repair links: 1; still broken: 1.\n- b.md:1 gone\n")
        assert (vault / "b.md").read_text() == "[[a]] [[gone]]\n"
        await agent.call("mend_links", dry_run=False)
        assert (vault / "b.md").read_text() == "[[z]] [[gone]]\n"

    talk(book, conversation, toolsets=("core", "desk"))
