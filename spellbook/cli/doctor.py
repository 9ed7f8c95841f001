"""Commands that say how things are: status, doctor, demo."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli import changed, output
from spellbook.cli.app import command, main, named
from spellbook.index.metrics import ENOUGH
from spellbook.notes.fault_lines import grouped
from spellbook.notes.files import Fault
from spellbook.search.note_marks import titles
from spellbook.search.presentation import place, waiting
from spellbook.settings import paths
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, flat, one_line

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook
    from spellbook.search.duplicates import Repeated

_MOST_LISTED = 5  # duplicates and contradictions of a vault
_MOST_ALIKE = 5  # chunks of a group of duplicates
_MOST_PARTS = 3  # pairs of words of a contradiction


@command(click.option("--verbose", is_flag=True, help="Also places, sizes, engines, times and every fault."))
@click.pass_context
def status(ctx: click.Context, book: Spellbook, verbose: bool, as_json: bool) -> None:
    """Print how the vault is: what search finds, what to fix, who has it open."""
    book.refresh()
    _, reason = paths.chosen(named(ctx)["vault"] or "")
    output.result(book.status(), as_json, partial(_show, reason=reason, verbose=verbose))


@command(
    click.option(
        "--fix", type=click.Choice(["links", "properties"]), help="Show how links or properties can be repaired."
    ),
    click.option("--yes", is_flag=True, help="With --fix: write the repairs."),
    click.option("--okf", is_flag=True, help="List what does not conform to the Open Knowledge Format."),
    click.option(
        "--public", metavar="URL", help="Ask `serve --public-url URL` from outside, as Claude and ChatGPT do."
    ),
    json=False,
)
def doctor(book: Spellbook, fix: str | None, yes: bool, okf: bool, public: str | None) -> None:
    """
    Check the vault, the index and the embedder; exit 1 if something must be fixed.

    It also compares all texts, and lists duplicates and contradictions (other
    numbers, or a "not").

    --fix links lists broken links, and repairs those to files that were moved.
    It shows the differences; with --yes it writes them, and `spellbook undo`
    takes them back.

    --fix properties puts values of broken frontmatter into quotes, in the same
    way, where only one reading is possible.

    \b
    spellbook doctor --public https://notes.example.org
    spellbook doctor --fix links
    spellbook doctor --fix properties
    """
    if okf:
        from spellbook.archive import open_knowledge

        odd = [*open_knowledge.faults(book.index.vault)]
        output.say("The vault conforms to the Open Knowledge Format." if not odd else "What does not conform:")
        output.faults(odd, end=True)
        return
    if fix:
        mend, show = (book.mend_links, changed.offer) if fix == "links" else (book.mend_properties, changed.properties)
        made = mend(dry_run=not yes)
        show(made, is_done=yes)
        if made.left or (made.changed and not yes):
            sys.exit(1)
        return
    from spellbook.library.doctor import Remark

    if public is not None:
        from spellbook.http.oauth import public_check

        checks: Iterable[tuple[str, Sequence[str]]] = public_check.checks(public)
    else:
        checks = book.doctor()
    sick = False
    for name, problems in checks:
        is_wrong = not all(isinstance(problem, Remark) for problem in problems)
        mark = output.pad(translated("wrong" if is_wrong else "ok"), 5)
        click.echo(f"{click.style(mark, fg='red' if is_wrong else 'green')}  {translated(name)}")
        for problem in problems:
            output.say(f"       {one_line(problem)}")
        sick = sick or is_wrong
    if public is None:
        with output.progress_bar(hidden=False) as progress:
            found = book.check(progress=progress)
        _print_repeated(found)
    if sick:
        sys.exit(1)


def _print_repeated(found: Repeated) -> None:
    """Print which texts repeat or contradict each other, a few of each, and what to do about them."""
    for findings, name, step in (
        (
            found.duplicates,
            counted(len(found.duplicates), "duplicate"),
            "keep one and forget the others, or say what is different",
        ),
        (
            found.contradictions,
            counted(len(found.contradictions), "contradiction"),
            "keep what is true, edit or forget the other",
        ),
    ):
        if findings:
            click.echo(f"\n{click.style(translated(name), bold=True)}: {translated(step)}")
        for finding in findings[:_MOST_LISTED]:
            parts = getattr(finding, "parts", ())[:_MOST_PARTS]
            texts = [", ".join(side) for side in zip(*parts, strict=True)] or map(titles, finding.chunks)
            for chunk, text in [*zip(finding.chunks, texts, strict=True)][:_MOST_ALIKE]:
                click.echo(f"  {click.style(place(chunk), fg='cyan')}  {one_line(text)}")
            if len(finding.chunks) > _MOST_ALIKE:
                output.say(f"  … {len(finding.chunks) - _MOST_ALIKE:,} more")
        if len(findings) > _MOST_LISTED:
            output.say(f"  … {len(findings) - _MOST_LISTED:,} more: the page Health of the dashboard lists them")


@main.command()
def demo() -> None:
    """Show in a temporary folder what Spellbook does: index, write through MCP, find, watch."""
    from spellbook.cli.demo import run

    run()


# -- the state of the vault: five lines, and that notes wait for the person, or everything that is known

_COLUMNS = 11
"""Columns for the names in front of the lines."""


def _show(state: Mapping[str, Any], *, reason: str, verbose: bool) -> None:
    """
    Print the five lines; `verbose` adds places, engines, sizes, times and every fault.

    `reason` says why this vault was taken, "" if it was named.
    """
    rows = [
        ("notes", f"{state['notes']:,}" if state["notes"] else translated(_FIRST)),
        ("search", _found(state)),
        ("to fix", _faults(state)),
        ("waiting", translated(waiting(*state["waiting"].values()))),
        ("vault", f"{state['vault']} ({translated(reason)})" if reason else state["vault"]),
        ("in use", _users(state)),
        *(_details(state) if verbose else ()),
    ]
    for head, value in rows:
        if value:
            click.echo(f"{output.pad(translated(head), _COLUMNS)} {value}")


_FIRST = "none yet: `spellbook add TEXT` keeps the first, `spellbook import SOURCE` brings those you have"


def _found(state: Mapping[str, Any]) -> str:
    """Say what search finds of the notes."""
    total = state["vectors_in_use"] + state["pending"]
    every = "every note" if not state["unread"] else "every note that was read (see to fix)"
    if not state["pending"]:
        return translated(f"finds {every}, by words and by meaning") if state["notes"] else ""
    there = f"finds {every} by words, and {counted(state['vectors_in_use'], 'text', of=total)} by meaning"
    rest = "the others are being embedded now" if state["embedding"] else "`spellbook reindex` embeds the others"
    return f"{translated(there)}; {translated(rest)}"


def _faults(state: Mapping[str, Any]) -> str:
    """Say what a person should fix: the vault as a whole, or the first of the notes and how many more there are."""
    lines = [*_lines(state["faults"])]
    more = translated(f"and {len(lines) - 1:,} more: `spellbook doctor`") if len(lines) > 1 else ""
    warning = translated(one_line(state.get("warning", "")))
    return "; ".join(filter(None, (warning, *lines[:1], more))) or translated("nothing")


def _users(state: Mapping[str, Any]) -> str:
    kinds = Counter(process["kind"] for process in state["processes"])
    names = ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in kinds.items())
    reason = f", {one_line(state['unwatched'])}" if "unwatched" in state else ""
    unwatched = translated(f"nothing watches it{reason}: each command looks for changes first")
    return "; ".join(filter(None, (names, "" if state["watched"] else unwatched)))


def _details(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    categories = ", ".join(
        f"{translated('(none)') if name == '(none)' else flat(name)} {count:,}"
        for name, count in state["categories"].items()
    )
    reused = f"{state['embedded']:,} embedded, {state['reused']:,} reused from the cache in 30 days"
    errors = ", ".join(f"{code} {count}" for code, count in state["day"]["errors"].items())
    total = state["vectors_in_use"] + state["pending"]
    embedded = translated(counted(state["vectors_in_use"], "text", of=total))
    return [
        ("state", f"{state['state']} ({state['bytes'] / 1e6:.1f} MB)"),
        ("sections", f"{state['chunks']:,}"),
        ("embedded", f"{embedded}, {state['embedder']}"),
        ("engine", translated(state.get("engine", ""))),
        ("second", _second(state) if "second_encoder" in state else ""),
        ("looked at", _minute(state["looked_at"]) if state["looked_at"] else ""),
        ("open in", _processes(state["processes"])),
        ("chroma", translated(_chroma(state["chroma"]))),
        ("snapshots", translated(_snapshots(state["snapshots"]))),
        ("categories", f"{categories} ({translated('sections')})" if categories else translated("none")),
        ("texts", translated(reused) if state["embedded"] else ""),
        ("answers", _timings(state["timings"])),
        ("errors", translated(f"{errors} in 24 hours") if errors else ""),
        *(("to fix", line) for line in _lines(state["faults"])),
    ]


def _processes(listed: Sequence[Mapping[str, Any]]) -> str:
    since = [dt.datetime.fromtimestamp(process["since"]) for process in listed]
    return ", ".join(
        translated(f"{process['kind']} (process {process['pid']}, since {at:%m-%d %H:%M})")
        for process, at in zip(listed, since, strict=True)
    )


def _timings(verbs: Mapping[str, Mapping[str, Any]]) -> str:
    return "; ".join(
        translated(
            f"{verb} p50 {times['p50']:g} ms, p95 {times['p95']:g} ms ({counted(times['count'], 'query', 'queries')})"
            if times["count"] >= ENOUGH
            else f"{verb}: {counted(times['count'], 'query', 'queries')}"
        )
        for verb, times in verbs.items()
    )


def _snapshots(state: Mapping[str, Any]) -> str:
    if not state["count"]:
        return "none yet: `spellbook snapshot` takes one"
    return f"{state['count']}, the latest from {_minute(state['last'])}, in {state['folder']}"


def _chroma(state: Mapping[str, Any]) -> str:
    """Say where Chroma keeps the vectors and how far it is."""
    if not state["place"]:
        return (
            f"empty, {counted(state['behind'], 'vector')} to come: "
            "a server, `spellbook watch` or a large reindex fills it"
        )
    there = counted(state["vectors"], "vector")
    at = state["place"]
    if "doubted" in state:
        return f"{there} in {at}; not used: {', '.join(state['doubted'])}, see `spellbook doctor`"
    return f"{there} in {at}; {state['behind']:,} to come" if state["behind"] else f"{there} in {at}"


def _minute(at: str) -> str:
    return f"{dt.datetime.fromisoformat(at):%Y-%m-%d %H:%M}"


def _lines(faults: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each fault, or for all faults of one cause."""
    yield from (translated(one_line(line)) for line in grouped(Fault(**fault) for fault in faults))


def _second(state: Mapping[str, Any]) -> str:
    total = state["vectors_in_use"] + state["pending"]
    pending = state["second_encoder"]["pending"]
    done = translated(counted(total - (total if pending is None else pending), "text", of=total))
    return f"{done}, {state['second_encoder']['name']} ({state['second_encoder']['engine']})"
