"""
What the command line prints: answers, tables and progress, for people; one JSON object for programs.

Nothing that a note or a file's name holds commands the terminal.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from spellbook.catalog.schema import Found, Topic
    from spellbook.check import Checked, Failed, Missed, Unlabelled
    from spellbook.ranking import Hit
    from spellbook.repeats import Alike, Contradiction, Place
    from spellbook.search import Answer
    from spellbook.sync import Progress, Report
    from spellbook.why import Explanation, Row

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Letters that move the cursor, colour the terminal or turn the reading order, and half letters; not tab and line feed."""

_MOST_COLUMNS = 100
_MOST_PLACE = 48
_MOST_PARTS = 3
_MOST_ALIKE = 5


def as_json(value: Any) -> None:
    """Print `value` as one JSON object."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def plain(text: str) -> str:
    """Return the text of a note, without what would command the terminal."""
    return _CONTROL.sub(lambda letter: letter[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Return a text as part of one line of output: a file's name may hold anything."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


# -- what was found


def answer(found: Answer, *, by_words: bool = False) -> None:
    """Print a search's hits, and on stderr what the index could not do."""
    for hit in found.hits:
        _hit(hit)
    if not found.hits:
        click.echo("Nothing found.", err=True)
    if found.index.pending and not by_words:
        click.echo(f"{found.index.pending} texts are not embedded yet: `spellbook reindex` does it.", err=True)
    if found.index.degraded:
        click.echo(f"Degraded: {found.index.reason}", err=True)


def _hit(hit: Hit) -> None:
    from spellbook.packing import why

    click.echo(f"{hit.score:.2f}  {click.style(one_line(_titles(hit)), bold=True)}")
    click.echo(f"      {click.style(_place(hit), fg='cyan')}  {one_line(hit.id)}")
    lines = [line for line in hit.text.splitlines() if line.strip()]
    for line in lines[:6]:
        click.echo(f"      {plain(line[:200])}")
    if len(lines) > 6:
        click.echo(f"      … {len(lines) - 6} more lines: spellbook show {one_line(hit.id)}")
    click.echo(click.style(f"      {why(hit)}", dim=True))
    click.echo()


def explanation(given: Explanation) -> None:
    """Print how a question was answered: what was asked for, then a table of chunks whose shares add up to their scores."""
    words = [f"{one_line(word.text)} in {word.chunks}" for word in given.words]
    if words:
        click.echo(f"Words, and in how many chunks they are: {', '.join(words)}.")
    if given.known is not None and given.known < 1:
        click.echo(f"The vault knows {given.known:.0%} of them, by weight.")
    click.echo(f"{given.candidates} chunks of {given.index['chunks']} were weighed.")
    click.echo()
    if not given.rows:
        click.echo("None of them has anything of the question.")
        return
    click.echo(click.style("  #  score = meaning (rank) + words (rank) + adjusted   sure", dim=True))
    for each in given.rows:
        shares = [f"{_share(each, leg):>7} {_rank(each, leg):>6}" for leg in ("semantic", "keyword")]
        adjusted = sum(one["share"] for one in each.adjustments)
        sure = "" if each.evidence is None else f"{each.evidence:.2f}"
        click.echo(f"{each.place or '-':>3}  {each.score:5.2f} = {shares[0]} + {shares[1]} + {adjusted:+8.2f}   {sure:>4}")
        click.echo(f"     {click.style(_place(each), fg='cyan')}  {one_line(_titles(each))}")
        for one in each.adjustments:
            click.echo(f"     {one['share']:+.2f} {one_line(one['reason'])}")
        if each.words or each.lacks:
            click.echo(f"     has {_listed(each.words)}; lacks {_listed(each.lacks)}")
        if each.place is None:
            click.echo(f"     no hit: {one_line(each.verdict)}")
    if given.index["degraded"]:
        click.echo(f"Degraded: {given.index['reason']}", err=True)


def _share(each: Row, leg: str) -> str:
    return f"{each.legs[leg]['share']:.2f}" if leg in each.legs else "-"


def _rank(each: Row, leg: str) -> str:
    return f"(#{each.legs[leg]['rank']})" if leg in each.legs and each.legs[leg]["rank"] else ""


def _listed(words: Sequence[str]) -> str:
    return one_line(", ".join(words)) or "nothing"


def chunks(found: Sequence[Found]) -> None:
    """Print the chunks of a note."""
    click.echo(click.style(_place(found[0]), bold=True))
    for chunk in found:
        click.echo(click.style(f"-- {one_line(chunk.id)}", dim=True))
        click.echo(plain(chunk.text.rstrip()))


def pointers(found: Sequence[Found]) -> None:
    """Print where chunks stand, a line each."""
    for chunk in found:
        click.echo(f"{_place(chunk)}  {one_line(_titles(chunk))}  {one_line(chunk.id)}")


def topics(listed: Sequence[Topic]) -> None:
    """Print topics under their categories."""
    for category, held in groupby(listed, key=lambda topic: topic.category):
        click.echo(click.style(one_line(category) or "(no category)", bold=True))
        for each in held:
            click.echo(f"  {one_line(each.topic) or '(top folder)'}  {each.notes} notes, {each.chunks} chunks, {each.updated[:10]}")


# -- the state of the vault


def told(report: Report) -> str:
    """Return in a sentence what a run did."""
    kinds = ("added", "changed", "moved", "removed")
    changes = ", ".join(f"{getattr(report, kind)} {kind}" for kind in kinds if getattr(report, kind)) or "nothing new"
    vectors = f"; {report.embedded} texts embedded" if report.embedded else ""
    pending = f"; {report.pending} texts still to embed" if report.pending else ""
    return f"{report.scanned} notes: {changes}{vectors}{pending}. {report.chunks} chunks, {report.seconds:.1f} s."


def status(state: Mapping[str, Any]) -> None:
    """Print where things are, how much there is, and what to mend."""
    embedded = f"{state['vectors_in_use']} of {state['vectors_in_use'] + state['pending']} texts"
    rows = {
        "vault": state["vault"],
        "state": f"{state['state']} ({state['bytes'] / 1e6:.1f} MB)",
        "notes": f"{state['notes']}, in {state['chunks']} chunks",
        "embedded": f"{embedded}, by {state['embedder']}",
        **({"engine": state["engine"]} if "engine" in state else {}),
        "watched": "yes" if state["watched"] else "no: the next command looks for itself",
        "categories": ", ".join(f"{name} {count}" for name, count in state["categories"].items()) or "none",
    }
    for name, value in rows.items():
        click.echo(f"{name:<11} {value}")
    for fault in state["faults"]:
        place = f"{fault['path']}, line {fault['line']}" if fault["line"] else fault["path"]
        click.echo(f"to mend     {one_line(place)}: {fault['reason']}")
    if "warning" in state:
        click.echo(f"warning     {state['warning']}")


# -- a check


def checked(done: Checked, limit: int) -> None:
    """Print the figures of a check, then what to mend, at most `limit` of each kind."""
    click.echo(f"{done.notes:,} notes, {done.memories:,} of them memories; {done.questions:,} questions")
    if done.recall5 is not None:
        figures = {"recall@1": done.recall1, "recall@5": done.recall5, "recall@10": done.recall10, "MRR": done.mrr}
        click.echo(click.style("   ".join(f"{name} {value:.2f}" for name, value in figures.items()), bold=True))
    elif not done.questions:
        click.echo("No note names questions that it answers, so none was asked.")
    kinds: tuple[tuple[str, str, Sequence[Any], Callable[[Any], Iterator[str]]], ...] = (
        ("questions do not find their own note", "say in the text what is asked, or reword the question", done.missed, _missed),
        (f"of {done.golden:,} golden queries failed", "mend the notes, or the query", done.golden_failed, _failed),
        ("contradictions", "keep what is true, edit or erase the other", done.contradictions, _contradiction),
        ("repetitions", "keep one, erase the others or say what is different", done.duplicates, _alike),
        ("notes lack a label", "add it to their frontmatter", done.unlabelled, _unlabelled),
    )
    for name, step, found, rows in kinds:
        if not found:
            continue
        click.echo(f"\n{click.style(f'{len(found):,} {name}', bold=True)}: {step}")
        for row in (row for each in found[:limit] for row in rows(each)):
            click.echo(f"  {row}")
        if len(found) > limit:
            click.echo(click.style(f"  … {len(found) - limit:,} more: -n {len(found)}", dim=True))
    if done.lacking:
        counts = " and ".join(f"{count:,} are without {name}" for name, count in sorted(done.lacking.items()))
        click.echo(f"\nOf {done.notes - done.memories:,} notes that people wrote, {counts}; --all lists them.")


def _missed(each: Missed) -> Iterator[str]:
    rank = f"its note is hit {each.rank}" if each.rank else "its note is not among ten hits"
    yield _row(_place(each.note), each.question)
    yield f"    {rank}; first is {_first(each.instead)}" if each.instead else "    nothing is found"


def _failed(each: Failed) -> Iterator[str]:
    yield _row(f"queries.yaml:{each.line}", each.query)
    for name in each.missing:
        yield f"    not found: {one_line(name)}"
    for name in each.unknown:
        yield f"    not in this vault: {one_line(name)}"
    if each.reason:
        yield f"    {one_line(each.reason)}"
    elif each.missing:
        yield f"    first is {_first(each.found[0])}" if each.found else "    nothing is found"


def _contradiction(each: Contradiction) -> Iterator[str]:
    places = [_place(chunk) for chunk in each.chunks]
    width = _widest(places)
    for place, *said in zip(places, *each.parts[:_MOST_PARTS], strict=True):
        yield _row(place, "   ".join(said), width)


def _alike(each: Alike) -> Iterator[str]:
    shown = each.chunks[:_MOST_ALIKE]
    width = _widest([_place(chunk) for chunk in shown])
    for number, chunk in enumerate(shown):
        yield f"{'' if number else f'{each.score:.2f}':4}  {_row(_place(chunk), _titles(chunk), width)}"
    if len(each.chunks) > _MOST_ALIKE:
        yield f"      … {len(each.chunks) - _MOST_ALIKE:,} more"


def _unlabelled(each: Unlabelled) -> Iterator[str]:
    yield _row(_place(each.note), f"no {' and no '.join(each.lacks)}")


def _first(place: Place) -> str:
    return _row(_place(place), _titles(place), 0)


# -- parts of a line


class _At(Protocol):
    """What stands somewhere: a hit, a chunk, a place."""

    @property
    def path(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def heading(self) -> str: ...


def _place(at: _At) -> str:
    return one_line(f"{at.path}:{at.line}")


def _titles(at: _At) -> str:
    return " > ".join(filter(None, (at.title, at.heading)))


def _row(place: str, text: str, width: int = 32) -> str:
    """A place, coloured, and behind it a text of one line, cut where a terminal would break it."""
    gap = " " * max(2, width + 2 - _width(place))
    said = one_line(" ".join(text.split()))
    room = max(40, _MOST_COLUMNS - _width(place) - len(gap))
    while _width(said) > room:
        said = said[: len(said) * room // _width(said) - 1].rstrip() + "…"
    return f"{click.style(place, fg='cyan')}{gap}{said}"


def _widest(places: Sequence[str]) -> int:
    return min(_MOST_PLACE, max(map(_width, places)))


def _width(text: str) -> int:
    """Columns of a terminal: letters of Korean, Chinese and Japanese take two, marks above others none."""
    return sum(0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


# -- progress


@contextmanager
def bar(hidden: bool) -> Iterator[Progress | None]:
    """Show a bar on a terminal, nothing on a pipe."""
    if hidden or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        tasks: dict[str, Any] = {}

        def advance(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(stage)
            shown.update(tasks[stage], completed=done, total=total)

        yield advance
