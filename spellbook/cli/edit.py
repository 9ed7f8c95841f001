"""Commands that change notes: scribe, add, save, forget, edit, merge, mv, keep."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli import changed, output
from spellbook.cli.app import command, file_argument, option, read_stdin, scope_option, text_option
from spellbook.notes.frontmatter import load_value
from spellbook.notes.labels import COMMAS, listed
from spellbook.notes.note import decode, parse
from spellbook.settings.translate import translated
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import one_line, plain, quoted
from spellbook.verbs import memories, table

if TYPE_CHECKING:
    from spellbook.editing.scribed import Scribed
    from spellbook.library.book import Spellbook

dry_run_option = option(table.REVISE, "dry_run")
category_option = click.option("--category", help="project, preference, knowledge, decision, article …")
source_option = option(table.SCRIBE, "source")
title_option = click.option("--title", help="Its title, also its file's name; without it, its heading or first words.")
force_option = option(table.SCRIBE, "force")


@command(
    file_argument(required=True),
    click.option("--topic", help="The topic that it is filed under."),
    category_option,
    title_option,
    click.option("-k", "--keyword", "keywords", multiple=True, help="A term to find it by; repeat for more."),
    click.option("-q", "--question", "questions", multiple=True, help="A question that it answers; repeat for more."),
    source_option,
    scope_option,
    force_option,
)
def scribe(book: Spellbook, file: bytes, source: str, force: bool, as_json: bool, **labels: Any) -> None:
    """
    Add a note from FILE, or from stdin with -.

    The file is Markdown with frontmatter, plain text with the options below,
    or the JSON that the MCP tool takes: {"text": …, "metadata": {…}}.

    \b
    echo "We deploy on Fridays no more." | spellbook scribe - --topic deploy -k Friday -k deploy
    """
    chunk = _read_chunk(file)
    meta = chunk.get("metadata", {})
    if isinstance(meta, dict):  # else scribe says what is wrong with it
        chunk["metadata"] = {**meta, **_typed(labels)}
        if not (chunk["metadata"].get("topic") and chunk["metadata"].get("keywords")):
            raise InvalidInput(
                "A memory needs a topic and keywords.",
                "Give --topic and -k, or put them into the frontmatter; nothing was written.",
            )
    _print_written(book.scribe(chunk, source=source, force=force), as_json)


@command(
    click.argument("text", nargs=-1, required=True),
    click.option("--topic", default="inbox", show_default=True, help="The topic that it is filed under."),
    category_option,
    title_option,
    click.option("-t", "--tag", "tags", multiple=True, help="A tag; repeat for more."),
    click.option("--supersedes", multiple=True, metavar="ID", help="A note that it replaces; repeat for more."),
    click.option("--valid-from", metavar="DATE", help="From when it holds: a day, a month or a year."),
    click.option("--valid-until", metavar="DATE", help="Until when it holds; all of that day, month or year."),
    source_option,
    scope_option,
    force_option,
)
def add(book: Spellbook, text: tuple[str, ...], source: str, force: bool, as_json: bool, **labels: Any) -> None:
    """
    Add TEXT as a quick note, or what stdin holds with -.

    Its keywords are its tags, and the names and identifiers in it.

    \b
    spellbook add "Mina moved the staging database to port 5433" -t staging
    """
    note = " ".join(text)
    if text == ("-",):
        note = decode("stdin", read_stdin())[0].removeprefix("\ufeff")
    chunk = {"text": note, "metadata": _typed(labels)}
    _print_written(book.scribe(chunk, source=source, force=force, labels="derived"), as_json)


def _typed(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels that were typed; those that an option repeats are lists."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in labels.items() if value}


def _print_written(done: Scribed, as_json: bool) -> None:
    """Print where one memory was written, or why it was not; then exit with 1."""
    if as_json:
        output.as_json({**output.fields(done), "status": "success" if done.written else "warning"})
    if not done.written:
        for duplicate in [each for each in done.duplicates[0] if each.path]:
            output.say(f"spellbook: {one_line(duplicate.path)} already says this ({duplicate.score:.2f}).", err=True)
            if duplicate.difference:
                click.echo(quoted(duplicate.difference), err=True)
        output.say("  Nothing was written; edit that note, or repeat with --force.", err=True)
        sys.exit(1)
    for duplicate in done.duplicates[0]:
        path = one_line(duplicate.path)
        output.say(f"spellbook: {path} may say the same: `spellbook merge` joins the two.", err=True)
    for old in done.superseded[0]:
        output.say(f"spellbook: overturned: {old['title']}", err=True)
    for older in done.may_supersede[0]:
        output.say(f"spellbook: {one_line(older.path)} is about the same: does it still hold?", err=True)
    if not as_json:
        path = one_line(done.written[0].path)
        click.echo(f"{path}  {done.written[0].chunk_id}")
        output.say(f"Saved in {path.rpartition('/')[0]}/.", err=True)
    for remark in done.warnings[0]:  # after the path: it is kept as it is
        click.echo(f"{translated('note:')} {translated(one_line(remark))}", err=True)


@command(
    click.argument("source"),
    option(memories.SAVE, "categories", "--category", "categories", required=True),
    click.option("--title", help="Its title, if not that of the page."),
    click.option("--summary", help="What it says in a few sentences; shown at its top."),
    click.option("-t", "--tag", "tags", multiple=True, help="One of its tags; repeat for more."),
    text_option,
    scope_option,
    option(memories.SAVE, "force"),
)
def save(book: Spellbook, source: str, text: bytes | None, force: bool, as_json: bool, **labels: Any) -> None:
    """
    Save a web page, a PDF or an HTML file as an article.

    SOURCE is its address or its path. An address that was saved before is not
    fetched again; its article gets the new categories and tags.

    \b
    spellbook save https://example.com/post --category engineering
    spellbook save ~/papers/raft.pdf --category papers --category consensus
    spellbook save https://example.com/members --category news --text post.md
    """
    article = "" if text is None else parse("The input", text).text.removeprefix("\ufeff")
    if text is not None and not article.strip():
        raise click.UsageError("--text has no text.")
    categories = labels.pop("categories")
    done = book.memories.articles.save(source, categories, _typed(labels), article, force=force)
    if as_json:
        output.as_json(done)
        return
    click.echo(f"{one_line(done['path'])}  {done['id']}")
    if done["status"] == "exists":
        output.say("It was saved before: nothing was fetched.", err=True)


def _read_chunk(data: bytes) -> dict[str, Any]:
    if data.lstrip()[:1] == b"{":
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"The input looks like JSON but is not ({error}).", "Correct it, or give Markdown."
            ) from error
        if not isinstance(chunk, dict):
            raise InvalidInput("The input must be one JSON object.", '{"text": …, "metadata": {…}}')
        return chunk
    note = parse("The input", data)
    if note.faults:
        raise InvalidInput(f"{note.faults[0]}.", "Correct it; nothing was written.")
    meta = {key: value for key, value in note.meta.items() if key not in {"id", "created", "updated"}}
    return {"text": note.body, "metadata": meta}


@command(
    click.argument("id"),
    click.option("--topic", "is_topic", is_flag=True, help="ID is a topic: all its notes go."),
    click.option("--restore", is_flag=True, help="Bring back what was forgotten as ID."),
    option(table.ERASE, "hard"),
    option(table.ERASE, "whole"),
    click.option("--yes", is_flag=True, help="Do not ask before --hard."),
)
def forget(
    book: Spellbook, id: str, is_topic: bool, restore: bool, hard: bool, whole: bool, yes: bool, as_json: bool
) -> None:
    """
    Move a note, one section of it, or a topic to the trash, the vault's folder .trash.

    ID is a note's id or path (the whole note), or a section's id. With
    --restore it is also a path in .trash, and a section goes back to its place.

    \b
    spellbook forget 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    spellbook forget ops/keys#rotation
    spellbook forget decision/infra --topic
    spellbook forget ops/keys#rotation --restore
    """
    if restore:
        paths = book.restore(id)
        back = {"paths": paths, "generation": book.state().generation}
        output.result(back, as_json, lambda _: click.echo("\n".join(map(one_line, paths))))
        return
    if hard and not yes and sys.stdin.isatty():
        output.confirm(f"Delete {id} permanently?")
    done = book.erase_topic(id, hard=hard) if is_topic else book.erase(id, hard=hard, whole=whole)
    if as_json:
        output.as_json({"status": "erased", **output.fields(done)})
        return
    places = ", ".join(map(one_line, done.trash))
    gone = f"Deleted {done.erased} for good. Earlier snapshots and git's history still have it."
    output.say(f"Moved to the trash: {places}. `spellbook undo` takes it back." if places else gone)
    for warning in done.warnings:
        output.say(f"spellbook: {warning}.", err=True)


@command(
    click.argument("id"),
    file_argument(required=False),
    click.option(
        "--append", "is_added", is_flag=True, help="Add the text at the end instead of replacing what is there."
    ),
    option(table.REVISE, "replace", nargs=2, metavar="OLD NEW"),
    click.option("--all", "every", is_flag=True, help="Replace every OLD."),
    click.option("--set", "pairs", multiple=True, metavar="K=V", help="Set a frontmatter key; repeat for more."),
    click.option("--unset", "keys", multiple=True, metavar="K", help="Remove a frontmatter key; repeat for more."),
    option(table.REVISE, "expected_hash", "--expect", "expected_hash", metavar="HASH"),
    option(table.REVISE, "force"),
    dry_run_option,
)
def edit(book: Spellbook, id: str, file: bytes | None, is_added: bool, as_json: bool, **options: Any) -> None:
    """
    Change a section's text or frontmatter, and no other byte; prints the difference.

    ID is a section's id, or a note's. The new text comes from FILE, or from
    stdin with -; lists are given with commas.

    \b
    echo "Keys are rotated every Monday." | spellbook edit ops/keys#rotation -
    spellbook edit ops/keys --replace "3 days" "5 days"
    spellbook edit ops/keys --set importance=high --set tags=ops,keys --unset draft
    """
    text = None if file is None else parse("input", file).text.removeprefix("\ufeff")
    if is_added and text is None:
        raise click.UsageError("--append needs the text: give FILE, or - for stdin.")
    if options["every"] and not options["replace"]:
        raise click.UsageError("--all goes with --replace.")
    metadata = {**_metadata(options.pop("pairs")), **dict.fromkeys(options.pop("keys"))}
    options = {**options, "append" if is_added else "content": text, "replace": options["replace"] or None}
    done = book.revise(id, metadata=metadata or None, **options)
    for warning in done.warnings:
        output.say(f"spellbook: {warning}.", err=True)
    for question in done.questions_to_check:
        output.say(f"Does it still answer this? {one_line(question)}", err=True)
    if as_json:
        output.as_json(output.fields(done))
    elif done.difference:
        click.echo(plain(done.difference))
    else:
        output.say("Nothing to change: it already says so.", err=True)


def _metadata(pairs: Sequence[str]) -> dict[str, object]:
    """Read K=V as frontmatter would be read, texts as they are typed."""
    from spellbook.editing.memory import LISTS, TEXTS

    metadata: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--set {pair!r:.100} is not K=V.", "For example --set importance=high.")
        # YAML takes a wikilink without quotes for a list in a list.
        read = value if value.startswith("[[") and value.endswith("]]") else load_value(value)
        if key in LISTS and not isinstance(read, list):
            read = listed(value, COMMAS)
        metadata[key] = value if key in TEXTS or read is None or isinstance(read, str) else read
    return metadata


@command(
    click.argument("a"),
    click.argument("b"),
    option(table.MERGE, "keep"),
    click.option("--yes", "apply", is_flag=True, help="Write it; without this it is only shown."),
)
def merge(book: Spellbook, a: str, b: str, keep: Any, apply: bool, as_json: bool) -> None:
    """
    Merge the notes A and B, which say much the same, without losing a sentence; only shown without --yes.

    The older note keeps its id and place, and gets what only the other says.
    The other goes to the trash with a pointer. Where numbers or a "not"
    differ, --keep says which are right.

    \b
    spellbook merge ops/keys ops/key-rotation
    spellbook merge ops/keys ops/key-rotation --keep b --yes
    """
    output.result(book.merge(a, b, keep=keep or "", apply=apply), as_json, changed.merged)


@command(click.argument("old"), click.argument("new"), dry_run_option)
def mv(book: Spellbook, old: str, new: str, dry_run: bool, as_json: bool) -> None:
    """
    Move the note or folder OLD to NEW, and update every link to it and in it.

    OLD is a path in the vault or a note's id; if NEW is a folder, it goes into
    it. A link keeps its form: short names stay short, relative paths relative,
    aliases and headings as they are. Nothing is overwritten.

    \b
    spellbook mv ops/keys.md decision/ --dry-run
    spellbook mv projects/lantern archive/lantern
    """
    done = book.move(old, new, dry_run=dry_run)
    moved = [{"old": before, "new": after} for before, after in done.moved]
    answer = {**output.fields(done), "moved": moved, "dry_run": dry_run}
    output.result(answer, as_json, lambda _: changed.moved(done, dry_run=dry_run))


@command(click.argument("ids", metavar="ID...", nargs=-1, required=True))
def keep(book: Spellbook, ids: tuple[str, ...], as_json: bool) -> None:
    """
    Keep notes: say that you read them, and that they are right.

    It is written into each note, and a draft becomes stable. Hits say so, until
    somebody changes the text; `spellbook undo` takes it back.

    \b
    spellbook keep 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    """
    done = [book.keep(id) for id in ids]
    if as_json:
        output.as_json({"kept": [output.fields(each) for each in done]})
        return
    for each in done:
        path = one_line(each.path)
        output.say(f"Kept: {path}" if each.changed else f"You have kept it before, and it is unchanged: {path}")
