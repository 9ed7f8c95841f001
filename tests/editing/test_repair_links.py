"""Broken links: finding them, finding their targets, and repairing them."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from spellbook.cli import main
from spellbook.library.book import Spellbook
from tests.helpers import Write, held, leads


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
    assert "home.md:1  keys → archive/2026/Key rotation.md\n" in shown.stdout
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


def test_nothing_is_guessed(book: Spellbook, vault: Path, write_note: Write) -> None:
    """A file with the same name elsewhere, a title, and the end of a title are no targets: such links are listed."""
    write_note("a/keys.md", "# How we rotate keys\n")
    write_note("net.md", "# TCP/IP\n")
    write_note("IP.md", "ip")
    text = write_note(
        "home.md", "[[old/keys]] [[How we rotate keys]] [[TCP]] [[TCP/IP]] ![](pics/map.png)\n"
    ).read_bytes()
    write_note("img/map.png")
    book.refresh()
    assert [(each.target, each.path) for each in book.broken_links()] == [
        (target, None) for target in ("old/keys", "How we rotate keys", "TCP", "TCP/IP", "pics/map.png")
    ]
    assert book.mend_links().changed == ()
    assert (vault / "home.md").read_bytes() == text
    said = doctor(vault)
    assert said.exit_code == 0
    assert "ok     links\n       home.md, line 1: old/keys leads nowhere\n" in said.stdout


def test_one_of_two_that_moved_is_not_guessed(book: Spellbook, vault: Path, write_note: Write) -> None:
    """If two files of that name moved, a link by the name alone is only listed; one with the path is repaired."""
    write_note("a/keys.md", "alpha")
    write_note("b/keys.md", "beta")
    write_note("home.md", "[[keys]] [[b/keys]]")
    book.reindex()
    (vault / "a/keys.md").rename(vault / "one.md")
    (vault / "b/keys.md").rename(vault / "two.md")
    book.mend_links()
    assert (vault / "home.md").read_text() == "[[keys]] [[two]]"


def test_canvases_templates_and_days(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Broken links in canvases and templates are named, but for what is excluded, filled in, or a day to come."""
    write_note(".obsidian/templates.json", '{"folder": "Templates"}')
    write_note(".obsidian/app.json", '{"userIgnoreFilters": ["private/"]}')
    write_note(".obsidian/daily-notes.json", '{"folder": "days", "format": "D MMMM YYYY"}')
    write_note(".spellbookignore", "old/\n")
    write_note("Templates/t.md", "---\ndate: {{date}}\n---\n[[gone]] [[{{yesterday}}]] [[<% tp.date.now() %>]]\n")
    canvas = '{"nodes": [\n{"file": "lost.png"}, {"text": "[[a]] [[away]] \\u00e9"}]}'
    for path in ("board.canvas", "old/x.canvas", "private/x.canvas"):
        write_note(path, canvas)
    write_note("bad.canvas", "{")
    write_note("old/n.md", "[[hidden]]")
    days = "[[2026-11-03]] [y](2026-11-02.md) [[days/3 November 2026]] [[4 November 2026]] [[2026년 11월 3일]]"
    write_note("a.md", f"{days} [[2026-13-45]] [[2026-11-03 with Ann]]")
    listed = {(each.source, each.line, each.target) for each in book.broken_links()}
    assert listed == {
        ("Templates/t.md", 4, "gone"),
        ("board.canvas", 2, "/lost.png"),
        ("board.canvas", 2, "away"),
        ("a.md", 1, "2026-13-45"),
        ("a.md", 1, "2026-11-03 with Ann"),
    }
    assert "board.canvas, line 2: away leads nowhere" in doctor(vault).stdout


def test_links_of_canvases_and_templates_are_mended(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Links to a note that moved are repaired in canvases and in templates too, and nothing else changes there."""
    write_note(".obsidian/templates.json", '{"folder": "Templates"}')
    write_note("plan.md", "# Plan\n\nThe plan.\n")
    write_note("Templates/t.md", "---\ndate: {{date}}\n---\n[[plan]] {{title}}\n")
    write_note("board.canvas", '{"nodes": [\n{"file": "plan.md"}, {"text": "[[plan]] \\u00e9"}]}')
    book.reindex()
    (vault / "plan.md").rename(vault / "The plan.md")
    assert {note.path for note in book.mend_links().changed} == {"Templates/t.md", "board.canvas"}
    assert (vault / "Templates/t.md").read_text() == "---\ndate: {{date}}\n---\n[[The plan]] {{title}}\n"
    board = '{"nodes": [\n{"file": "The plan.md"}, {"text": "[[The plan]] \\u00e9"}]}'
    assert (vault / "board.canvas").read_text() == board
    assert not book.broken_links()
