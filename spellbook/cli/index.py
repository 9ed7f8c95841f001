"""Commands that make a vault and keep its index: init, reindex, watch, mcp."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import spellbook
from spellbook.cli import output
from spellbook.cli.app import (
    command,
    debug_option,
    main,
    named,
    opened,
    option,
    scope_option,
    tell,
    toolsets_option,
    wiki_option,
)
from spellbook.index import reindex_seal
from spellbook.mcp.tool_names import toolsets_of
from spellbook.notes.fault_lines import grouped
from spellbook.settings import paths
from spellbook.settings.config import Config, find_vault, load
from spellbook.settings.translate import translated
from spellbook.system import disk
from spellbook.system.children import growing
from spellbook.system.errors import SpellbookError
from spellbook.system.git_hook_queue import turn
from spellbook.system.lock import listening
from spellbook.system.processes import is_elected, present
from spellbook.text.quoting import counted, json_of, one_line
from spellbook.verbs import table

if TYPE_CHECKING:
    from spellbook.index.opened import Progress
    from spellbook.index.sync import Report
    from spellbook.library.book import Spellbook

_MOST_LOGGED = 20
"""Faults of one run that a log tells."""


@command(
    click.argument("folder", type=click.Path(), metavar="[DIR]", required=False),
    click.option(
        "--guides",
        "with_guides",
        is_flag=True,
        help="Add the guides and the welcome note to a folder that holds notes, too.",
    ),
    click.option(
        "--gitignore", is_flag=True, help="Keep .trash/ out of the git repository, by a line in DIR/.gitignore."
    ),
    click.option(
        "--categories",
        is_flag=True,
        help="Let tags and folders such as #decision and Projects/ stand for categories, by lines in the settings.",
    ),
    json=False,
    opens=False,
)
def init(ctx: click.Context, folder: str | None, with_guides: bool, gitignore: bool, categories: bool) -> None:
    """
    Make DIR a vault, index it, and use it from now on wherever no other is named.

    An empty folder gets the guides and a welcome note. One that holds notes
    gets only its settings in .spellbook/; no file in it changes, and agents
    use the guides that come with Spellbook. Without DIR: --vault,
    SPELLBOOK_VAULT or ~/spellbook.

    \b
    spellbook init ~/notes
    """
    from spellbook.editing import new_vault

    folder = folder or ctx.ensure_object(dict).get("vault") or os.environ.get("SPELLBOOK_VAULT") or "~/spellbook"
    root = Path(folder).expanduser()
    added, is_new = new_vault.make(root, with_guides=with_guides)
    with listening(output.say_wait), spellbook.open(root) as book:
        notes = sum(place.suffix == ".md" for place in added)
        parts = [counted(notes, "note")] if notes else []
        parts += ["the settings"] if len(added) > notes else []
        what = " and ".join(parts) or "nothing"
        output.say(f"{book.config.vault} is a vault; {what} added, the index is kept in {book.config.state}.")
        if not is_new:
            output.say("It holds notes, so the guides for agents were not put beside them; --guides does that.")
        _keep_out_the_trash(book.config.vault, folder, gitignore)
        _offer_categories(book.config, folder, categories)
        _offer_model(book)
        with output.progress_bar(hidden=False) as progress:
            report = _reindex(book, full=False, words_only=False, progress=progress)
        book.warm_up()  # so that the first question does not wait for the model
        output.say(output.summary(report))
        if report.failed:
            output.say("`spellbook doctor` lists what to fix.", err=True)
        _choose(book.config.vault)
    output.say(
        "Next: `spellbook add TEXT` keeps a note, `spellbook serve` shows all in your browser, "
        "`spellbook install` connects Claude and others."
    )


@main.command()
@click.argument("folder", type=click.Path(), metavar="DIR")
def use(folder: str) -> None:
    """
    Use the vault DIR from now on wherever no other is named.

    --vault, SPELLBOOK_VAULT and the vault around the working directory go
    before it.

    \b
    spellbook use ~/notes
    """
    _choose(find_vault(folder))


def _choose(vault: Path) -> None:
    """Make `vault` the vault of this machine, and say so; also if another one goes before it here."""
    file = Path(paths.default_file())
    with disk.explain_errors(str(file)):
        file.parent.mkdir(parents=True, exist_ok=True)
        disk.put(file, os.fsencode(vault) + b"\n")
    output.say(f"Commands use {vault} from now on, wherever no other vault is named; `spellbook use DIR` changes that.")
    here, reason = paths.chosen()
    if os.path.realpath(here) != os.path.realpath(vault):
        output.say(f"Here they use {here}, since {reason}.", err=True)


def _offer_categories(config: Config, named: str, is_wanted: bool) -> None:
    """Let tags and folders stand for categories if that is wanted; on a terminal ask, else say how."""
    from spellbook.cli.clients import changes
    from spellbook.editing import new_vault
    from spellbook.settings import edit

    offered = {} if config.category_rules else new_vault.categories_of(config.vault)
    if not offered:
        if is_wanted:
            output.say("No tag and no folder has the name of a category.", err=True)
        return
    if not is_wanted:
        output.say("These can stand for categories, so that their notes are decisions, projects and so on:", err=True)
        for key, (category, count) in offered.items():
            setting = f"{json.dumps(one_line(key), ensure_ascii=False)} = {json.dumps(category)}"
            click.echo(f"  {setting}  # {translated(counted(count, 'note'))}", err=True)
    how = f"`spellbook init {output.argument(named)} --categories` adds the lines to the settings."
    if is_wanted or output.is_agreed("Add the lines to the settings?", how):
        file = config.vault / paths.MARKER / "config.toml"
        before = changes.read(file)
        rules = {key: category for key, (category, _) in offered.items()}
        text = edit.with_categories((before or b"").decode("utf-8"), rules)
        changes.FileChange(file, before, text.encode()).make()
        output.say(f"Added the lines to {file}.")


def _keep_out_the_trash(vault: Path, named: str, is_wanted: bool) -> None:
    """Add the line for the trash to the vault's .gitignore if that is wanted; on a terminal ask, else say how."""
    from spellbook.cli.clients import git_hooks
    from spellbook.cli.clients.git_hooks import IGNORE, TRASH

    if not git_hooks.is_trash_shared(vault):
        if is_wanted:
            output.say(f"{IGNORE} needs no line: git already ignores {TRASH}.", err=True)
        return
    offer = f"Forgotten notes go into {TRASH}, which git would commit"
    question = f"{offer}. Add the line {TRASH} to {vault / IGNORE}?"
    how = f"{offer}: `spellbook init {output.argument(named)} --gitignore` adds the line {TRASH} to its {IGNORE}."
    if is_wanted or output.is_agreed(question, how):
        git_hooks.with_line(vault / IGNORE, TRASH).make()
        output.say(f"Added {TRASH} to {vault / IGNORE}.")


@command(
    option(table.REINDEX, "full"),
    click.option(
        "--words-only", is_flag=True, help="Stop when every note can be found by words; leave the embeddings pending."
    ),
    click.option("--quiet", is_flag=True, help="Print only faults."),
    click.option(
        "--queued",
        is_flag=True,
        help="For git hooks: wait for the running one, leave if another already waits, and write into the log.",
    ),
)
def reindex(book: Spellbook, full: bool, words_only: bool, quiet: bool, queued: bool, as_json: bool) -> None:
    """
    Update the index; unchanged notes are skipped.

    Faults are printed; exit 1 if one of them kept a note from being read.

    \b
    spellbook reindex --quiet        print only faults
    """
    if not (queued or quiet or as_json or words_only):
        _offer_model(book)
    with turn(book.config.state) if queued else nullcontext(lambda text: None) as log:
        if log is None:
            return
        known = book.index.catalog.notes.faults() if queued else ()  # the log has told them
        try:
            with output.progress_bar(hidden=quiet or as_json) as progress:
                report = _reindex(book, full=full, words_only=words_only, progress=progress)
        except Exception as error:
            log(f"{type(error).__name__}: {error}")
            raise
        new = [f"{one_line(line)}." for line in grouped(fault for fault in report.failed if fault not in known)]
        log(" ".join((output.summary(report), *new[:_MOST_LOGGED])))
    if as_json:
        output.as_json(report.as_dict())
    elif not quiet:
        output.say(output.summary(report))
        if not report.scanned:
            output.say_empty(book.config.vault)
    if not as_json:
        for line in grouped(report.failed):
            output.say(f"spellbook: {one_line(line)}.", err=True)
    if report.unread:
        sys.exit(1)


def _offer_model(book: Spellbook) -> None:
    """Offer to fetch the bundled model if this vault's embedder needs it, and use it if it was fetched."""
    from spellbook.cli.models import offer

    if offer(book.config.embedder):
        book.use(book.index.with_embedder(book.config.embedder))


def _reindex(book: Spellbook, progress: Progress | None, *, full: bool, words_only: bool) -> Report:
    """Re-index, and let Chroma catch up in a child process; seal the vault if nothing was to be done."""
    from spellbook.index.vectors import follow
    from spellbook.models import embedders

    places = str(book.config.vault), str(book.config.state)
    seen = reindex_seal.stamps(*places)
    report = book.reindex(progress=progress, full=full, words_only=words_only)
    if not replace(report, pending=0 if words_only else report.pending).is_nothing:
        follow.start(book.index)
    elif embedders.is_missing(book.config.embedder):
        return report  # a model that comes later changes nothing that a seal looks at
    elif report.scanned and not follow.is_at_work(book.index):  # else the seal would break when Chroma has caught up
        again = replace(report, seconds=0.0)
        file = reindex_seal.WORDS if words_only else reindex_seal.FILE
        reindex_seal.put(*places, seen, output.summary(again), json_of(again.as_dict()), file)
    return report


@command(json=False)
def watch(book: Spellbook) -> None:
    """Keep the index up to date until stopped (Ctrl-C)."""
    from spellbook.watch import watcher

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    waits = " Another process already watches it; this one waits for its turn." if is_elected(book.config.state) else ""
    output.say(f"Watching {book.config.vault}. Ctrl-C ends it.{waits}", err=True)
    with (
        present(book.config.state, "watch"),
        watcher.Watcher(book, lambda report: output.say(output.summary(report), err=True)),
    ):
        while not stop.wait(1.0):
            pass


@command(toolsets_option, debug_option, wiki_option, scope_option, json=False, opens=False)
def mcp(ctx: click.Context, toolsets: str, debug_log: bool) -> None:
    """
    Serve the vault to an MCP client over stdin and stdout.

    Claude Desktop, Claude Code and editors start this; see the README.
    """
    from spellbook.mcp import first_answer

    sets = toolsets_of(toolsets)
    file = None
    with suppress(SpellbookError):
        file = first_answer.place(sets, load(**named(ctx)))
    wire = first_answer.Wire(file)
    wire.wait()
    with ExitStack() as running:
        with growing():
            from spellbook.mcp.app import AwaitedBook, build, run_stdio
            from spellbook.mcp.debug_log import open_log, wants_log

            log = None
            book: Any = AwaitedBook(lambda: spellbook.open(**named(ctx)))
            try:
                book = running.enter_context(opened(ctx))
                log = open_log(book.config.state, "stdio") if wants_log(debug_log) else None
                running.enter_context(present(book.config.state, "mcp"))
            except SpellbookError as error:
                tell(error)
            server = build(book, sets, log=log)
        run_stdio(server, wire)
