"""Commands that keep a vault safe: export, import, snapshot."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli import output
from spellbook.cli.app import Group, command, filter_option, main, option, warn_of_unmatched
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, one_line
from spellbook.verbs import table

if TYPE_CHECKING:
    from spellbook.archive.importer import Imported
    from spellbook.archive.snapshots import Snapshot
    from spellbook.library.book import Spellbook

_MOST_SHOWN = 10  # files that are named of those that were skipped or renamed

attachments_option = option(table.EXPORT, "attachments", "--attachments/--no-attachments")


@command(
    click.argument("file", type=click.Path(allow_dash=True)),
    option(table.EXPORT, "format", default=None),
    click.option(
        "--vectors", is_flag=True, help="Copy only the vectors, into FILE, a new folder for any Chroma client."
    ),
    click.option("--okf", is_flag=True, help="Write a bundle of the Open Knowledge Format: a zip, or a new folder."),
    click.option("--private", is_flag=True, help="With --okf: private notes, and all other files, too."),
    filter_option,
    attachments_option,
)
def export(book: Spellbook, file: str, vectors: bool, okf: bool, private: bool, as_json: bool, **options: Any) -> None:
    """
    Write the vault into FILE, or to stdout with -; an import restores it byte for byte.

    Notes, attachments, empty folders and the vault's settings, with
    permissions and times; not what .spellbookignore lists, nor other
    dot-folders. With --filter, only the matching notes.

    Open the copy of --vectors with a Chroma client, never Spellbook's own
    folder: a second client would damage the index.

    \b
    spellbook export ~/backup.zip
    spellbook export - --filter category=decision | jq .
    spellbook export ~/vectors --vectors
    spellbook export ~/bundle.zip --okf
    """
    if vectors:
        from spellbook.index.vectors import follow

        book.refresh(embed=True)
        copied = {"file": file, "vectors": follow.copy(book.index, Path(file).expanduser())}
        output.result(copied, as_json, lambda _: output.say(f"Copied to {file}, for chromadb.PersistentClient."))
        return
    if file == "-" and as_json:
        raise click.UsageError("--json and an export to stdout cannot be combined.")
    if okf and (file == "-" or options["filter"] or options["format"]):
        raise click.UsageError("--okf takes a file or a folder, and neither --filter nor --format.")
    target = sys.stdout.buffer if file == "-" else file
    done, hidden = book.export_bundle(file, private=private) if okf else (book.export(target, **options), 0)
    if hidden:
        output.say(f"{counted(hidden, 'private note')} left out: --private takes them, too.", err=True)
    warn_of_unmatched(book, options["filter"])
    if as_json:
        output.as_json(output.fields(done))
    elif file != "-":
        others = [counted(done.attachments, "other file")] if done.attachments else []
        held = " and ".join([counted(done.notes, "note"), *others])
        output.say(f"{one_line(done.file)}: {held}, {done.bytes / 1e6:.1f} MB.")
    output.faults(done.faults, end=True)


@command(
    click.argument("source", type=click.Path()),
    click.argument("folder", type=click.Path(file_okay=False), required=False),
    option(table.IMPORT, "on_conflict"),
    option(table.IMPORT, "dry_run"),
    click.option("--into", default="", metavar="FOLDER", help="A folder of the vault to import into."),
    click.option("--keep-trust", is_flag=True, help="Notes that call themselves trusted stay so: they are your own."),
    attachments_option,
)
def import_(book: Spellbook, source: str, folder: str | None, as_json: bool, **options: Any) -> None:
    """
    Import the notes of SOURCE into the vault: all of them or, if anything fails, none.

    SOURCE is an export of Spellbook's, ChatGPT's or Claude's, a folder or
    a zip of Markdown notes, an Obsidian vault, or one note. Files that the vault already holds, byte for byte,
    are skipped, so importing again makes no duplicates. Nothing is written into dot-folders, and no file is executable.
    `spellbook undo` takes an import back, also one that was cut short. SOURCE
    claude-memory is Claude Code's own memory of this project, or of FOLDER.
    For other programs see docs/moving-in.md.

    \b
    spellbook import ~/backup.zip --dry-run
    spellbook import ~/old-notes --into old
    spellbook import claude-memory --dry-run
    """
    if source == "claude-memory":
        from spellbook.memories import claude_memory

        options["kind"] = source
        source = folder or str(claude_memory.folder() or "")
    elif folder:
        raise click.UsageError("FOLDER is for claude-memory alone.")
    if not source:
        raise click.UsageError("Claude Code has no memory of this project; name its folder.")
    with output.progress_bar(hidden=as_json) as progress:
        done = book.import_(source, progress=progress, **options)
    output.result(done, as_json, _print_imported)
    output.faults(done.warnings)
    output.faults(done.faults, end=True)


def _print_imported(done: Imported) -> None:
    counts = (
        f"{len(done.added)} added" if done.added else "",
        f"{len(done.overwritten)} overwritten" if done.overwritten else "",
        f"{len(done.renamed)} added under another name" if done.renamed else "",
        f"{done.unchanged} already there" if done.unchanged else "",
        f"{len(done.skipped)} skipped because the name is taken" if done.skipped else "",
        f"{len(done.proposed)} changed there since, not taken" if done.proposed else "",
        f"{len(done.erased)} erased here before, left out" if done.erased else "",
    )
    summary = ", ".join(filter(None, counts)) or "nothing to import"
    output.say(f"Would be: {summary}." if done.dry_run else f"Imported: {summary}.")
    _print_names("skipped", done.skipped)
    _print_names("changed there", done.proposed)
    _print_names("erased before", done.erased)
    _print_names("renamed", [f"{name} -> {path}" for name, path in done.renamed.items()])
    if done.trash:
        output.say(f"What was replaced is in {one_line(done.trash[0].partition('/')[0])}.")
    elif done.skipped or done.proposed:
        output.say("  --on-conflict overwrite or rename imports them.", err=True)


class _WithDefault(Group):
    """A group whose first command is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in {"-h", "--help"}):
            args = ["create", *args]
        return super().parse_args(ctx, args)


@main.group(cls=_WithDefault, subcommand_metavar="[COMMAND]")
def snapshot() -> None:
    """
    Back up the vault as it is now; or list, verify, restore or prune snapshots.

    Unchanged files take no space. A process that watches takes one snapshot a
    day. All of the last 24 hours are kept, then one each for 7 days, 4 weeks
    and 12 months. `spellbook status --verbose` says where they are.

    \b
    spellbook snapshot
    spellbook snapshot restore latest --into ~/notes-then
    """


def _row(backup: Snapshot) -> str:
    size = f"{counted(backup.files, 'file')}, {backup.bytes / 1e6:.1f} MB, {backup.stored / 1e6:.1f} MB of it new"
    return f"{backup.name}  {backup.taken:%Y-%m-%d %H:%M}  {translated(size)}"


@command(group=snapshot)
def create(book: Spellbook, as_json: bool) -> None:
    """Back up the vault as it is now."""
    with output.progress_bar(hidden=as_json) as progress:
        taken = book.snapshots.create(progress)
    output.result(taken, as_json, lambda taken: click.echo(_row(taken)))
    output.faults(taken.faults, end=True)


@command(group=snapshot)
def list_(book: Spellbook, as_json: bool) -> None:
    """List the snapshots, the newest first, by name and local time."""
    kept = book.snapshots.all()
    if as_json:
        output.as_json({"folder": str(book.snapshots.folder), "snapshots": [backup.as_dict() for backup in kept]})
    else:
        for backup in kept:
            click.echo(_row(backup) if not backup.faults else f"{backup.name}  {translated(backup.faults[0].reason)}")
        output.say(f"{counted(len(kept), 'snapshot')} in {book.snapshots.folder}", err=True)


@command(group=snapshot)
def verify(book: Spellbook, as_json: bool) -> None:
    """Read all snapshots and compare them with their hashes; exit 1 if anything is damaged."""
    with output.progress_bar(hidden=as_json) as progress:
        done = book.snapshots.verify(progress)
    read = f"{counted(done.snapshots, 'snapshot')}, {counted(done.contents, 'content')}"
    output.result(done, as_json, lambda done: output.say(f"{read}: {len(done.faults) or 'nothing'} damaged."))
    output.faults(done.faults, end=True)


@command(
    click.argument("name"),
    click.option("--into", type=click.Path(), metavar="DIR", help="An empty or new folder; default: the vault itself."),
    click.option("--skip-damaged", is_flag=True, help="Restore what is intact and list what is damaged."),
    click.option("--yes", is_flag=True, help="Do not ask before the vault is changed."),
    group=snapshot,
)
def restore(book: Spellbook, name: str, into: str | None, skip_damaged: bool, yes: bool, as_json: bool) -> None:
    """
    Restore the vault from the snapshot NAME: its name, the beginning of it (such as a day), or latest.

    All of it or nothing. Files that the snapshot lacks go into .trash.
    `spellbook undo` takes the restore of a vault back, also one that was cut
    short.

    \b
    spellbook snapshot restore 2026-11-22
    """
    if not into and not yes and sys.stdin.isatty():
        name = book.snapshots.find(name)
        output.confirm(f"Restore the whole vault {book.config.vault} to {name}?")
    with output.progress_bar(hidden=as_json) as progress:
        done = book.restore_snapshot(name, into, skip_damaged=skip_damaged, progress=progress)
    if as_json:
        output.as_json(output.fields(done))
    else:
        removed = f", {len(done.removed)} moved into .trash" if done.removed else ""
        missing = f"; {counted(len(done.faults), 'file')} missing" if done.faults else ""
        erased = f"; {counted(len(done.erased), 'note')} erased since, left out" if done.erased else ""
        output.say(
            f"Restored {done.name} to {done.into}: {counted(done.written, 'file')} written, "
            f"{done.unchanged} unchanged{removed}{missing}{erased}."
        )
        _print_names("erased before", done.erased)
    output.faults(done.faults, end=True)


@command(group=snapshot)
def prune(book: Spellbook, as_json: bool) -> None:
    """Delete snapshots that the schedule no longer keeps, and contents that no other uses."""
    gone = book.snapshots.prune()
    kept = f"{len(gone)} deleted, {len(book.snapshots.names())} kept."
    output.result({"pruned": gone}, as_json, lambda _: output.say(kept))


def _print_names(what: str, names: Sequence[str]) -> None:
    for name in names[:_MOST_SHOWN]:
        click.echo(f"  {translated(what)}: {one_line(name)}")
    if len(names) > _MOST_SHOWN:
        output.say(f"  … {len(names) - _MOST_SHOWN} more: --json lists all")
