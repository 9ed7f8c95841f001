"""Commands that change what was written, and take it back: revise, merge, restore, log, undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli import output
from spellbook.cli.app import command, file_argument, json_option
from spellbook.text.quoting import one_line, plain

if TYPE_CHECKING:
    from spellbook.book import Spellbook

dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")


@command(
    click.argument("id"),
    file_argument(required=False),
    click.option("--append", "is_added", is_flag=True, help="Add the text at the end instead of replacing what is there."),
    click.option("--replace", nargs=2, metavar="OLD NEW", help="Replace the phrase OLD, which must be there once, by NEW."),
    click.option("--all", "every", is_flag=True, help="Replace every OLD."),
    click.option("--set", "pairs", multiple=True, metavar="K=V", help="Set a frontmatter key; repeat for more."),
    click.option("--unset", "keys", multiple=True, metavar="K", help="Remove a frontmatter key; repeat for more."),
    click.option("--expect", "expected_hash", metavar="HASH", help="Refuse if it is not the text with this hash, as `show` prints it."),
    click.option("--force", is_flag=True, help="Write it even if it looks like a password or a key."),
    dry_run_option,
    json_option,
)
def revise(book: Spellbook, id: str, file: bytes | None, is_added: bool, as_json: bool, **given: Any) -> None:
    """
    Change a section's text, or frontmatter, and no other byte; prints the difference.

    ID is a section's id, or a note's. The new text comes from FILE, or from
    stdin with -; lists are given with commas.

    \b
    echo "Keys are rotated every Monday." | spellbook revise ops/keys#rotation -
    spellbook revise ops/keys --replace "3 days" "5 days"
    spellbook revise ops/keys --set importance=high --set tags=ops,keys --unset draft
    """
    from dataclasses import asdict

    text = None if file is None else _text(file)
    if is_added and text is None:
        raise click.UsageError("--append needs the text: give FILE, or - for stdin.")
    if given["every"] and not given["replace"]:
        raise click.UsageError("--all goes with --replace.")
    metadata = {**_metadata(given.pop("pairs")), **dict.fromkeys(given.pop("keys"))}
    given = {**given, "append" if is_added else "content": text, "replace": given["replace"] or None}
    done = book.revise(id, metadata=metadata or None, **given)
    for warning in done.warnings:
        click.echo(f"spellbook: {warning}.", err=True)
    if as_json:
        output.as_json(asdict(done))
    elif done.difference:
        click.echo(plain(done.difference))
    else:
        click.echo("It says so already.", err=True)


def _text(data: bytes) -> str:
    from spellbook.notes.note import parse

    return parse("input", data).text.removeprefix("\ufeff")


def _metadata(pairs: Sequence[str]) -> dict[str, object]:
    """Read K=V as frontmatter would be read, texts as they are typed."""
    from spellbook.editing.memory import LISTS, TEXTS
    from spellbook.errors import InvalidInput
    from spellbook.notes.frontmatter import load_value

    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--set {pair!r:.100} is not K=V.", "For example --set importance=high.")
        read = load_value(value)
        if key in LISTS and not isinstance(read, list):
            read = [part.strip() for part in value.split(",") if part.strip()]
        found[key] = value if key in TEXTS or read is None or isinstance(read, str) else read
    return found


@command(
    click.argument("a"),
    click.argument("b"),
    click.option("--keep", type=click.Choice(["a", "b", "both"]), help="Whose sentences stand where the two contradict."),
    click.option("--yes", "apply", is_flag=True, help="Write it; else it is only shown."),
    json_option,
)
def merge(book: Spellbook, a: str, b: str, keep: Any, apply: bool, as_json: bool) -> None:
    """
    Make one note of the notes A and B, which say much the same, and lose no sentence; without --yes it is only shown.

    The older one keeps its id and its place, and what only the other says is
    put where it belongs; the other goes to the trash with a pointer. Where
    numbers or a "not" differ, say with --keep which are right.

    \b
    spellbook merge ops/keys ops/key-rotation
    spellbook merge ops/keys ops/key-rotation --keep b --yes
    """
    done = book.merge(a, b, keep=keep or "", apply=apply)
    if as_json:
        from dataclasses import asdict

        output.as_json(asdict(done))
    else:
        output.merged(done)


@command(click.argument("name"), json_option)
def restore(book: Spellbook, name: str, as_json: bool) -> None:
    """
    Bring back what was erased; NAME is its path in .trash, or what it was erased by: an id, a path, a topic.

    A section goes back into its note, where it was.

    \b
    spellbook restore ops/keys.md
    spellbook restore "ops/keys#rotation"
    """
    paths = book.restore(name)
    if as_json:
        output.as_json({"paths": paths, "generation": book.state().generation})
    else:
        click.echo("\n".join(map(one_line, paths)))


@command(
    click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, metavar="N", help="Most entries to list."),
    json_option,
)
def log(book: Spellbook, limit: int, as_json: bool) -> None:
    """
    List what commands and tools changed in the vault, the newest first.

    Each can be undone by its number; what you change in an editor is not listed.

    \b
    spellbook log -n 5
    """
    entries = book.log(limit)
    lost = book.index.vault.journal.lost
    if lost:
        click.echo(f"spellbook: {one_line(lost)}.", err=True)
    if as_json:
        output.as_json({"entries": [entry.as_dict() for entry in entries], **({"warning": lost} if lost else {})})
    else:
        output.log(entries)


@command(click.argument("entry", type=int, required=False), dry_run_option, json_option)
def undo(book: Spellbook, entry: int | None, dry_run: bool, as_json: bool) -> None:
    """
    Undo the latest change that a command or tool made, or the one that `log` lists as ENTRY.

    Every byte is put back. Say it again to go further back; undo the entry of
    an undo to do it again after all. What was edited since stays where the two
    do not overlap, else nothing is undone.

    \b
    spellbook undo
    spellbook undo 12 --dry-run
    """
    done = book.undo(entry, dry_run=dry_run)
    if as_json:
        output.as_json({"undone": done.entry.id, "paths": done.paths, "difference": done.difference, "generation": done.generation})
        return
    if done.difference:
        click.echo(plain(done.difference))
    what = f"{done.entry.id}: {done.entry.verb} {one_line(done.entry.what)}"
    if done.paths:
        click.echo(f"{'Would undo' if dry_run else 'Undid'} {what}.", err=True)
    else:
        click.echo(f"Nothing to do: all is as it was before {what}.", err=True)
