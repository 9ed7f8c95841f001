"""
Print answers and tables for people, and one JSON object for programs.

Text from notes and file names cannot send control sequences to the terminal. Every line of a note's text is marked: by
`>` (see `quoting`), or by the first letter of a line of a difference.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spellbook.index.filters import Unmatched
from spellbook.notes.files import Fault
from spellbook.search import presentation
from spellbook.search.presentation import name, place, titles
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, flat, json_of, one_line, plain, quoted, shortened

if TYPE_CHECKING:
    from pathlib import Path

    from spellbook.editing.merge import Merged
    from spellbook.editing.moves import Moved, RelinkedNote
    from spellbook.editing.repair_links import Offer
    from spellbook.index.catalog.rows import StoredChunk, Topic
    from spellbook.index.opened import Progress
    from spellbook.index.sync import Report
    from spellbook.search.explain import ExplainedChunk, Explanation
    from spellbook.search.newest import Recent
    from spellbook.search.question import Answer
    from spellbook.search.related import Around, Related
    from spellbook.search.scores import Hit
    from spellbook.search.toc import Category, TopicSummary
    from spellbook.vault.entries import Entry

T = TypeVar("T")

_MOST_NEAR = 20  # notes that are listed as linked, or as related
_MOST_LINES = 6  # of a hit's text
_MOST_LINE = 200  # letters of such a line
_MOST_ROWS = 20  # candidates that an explanation lists


def say(text: str, *, err: bool = False) -> None:
    """Print a message in the person's language. What notes hold, and differences, are not printed by this."""
    click.echo(translated(text), err=err)


def confirm(text: str, *, default: bool = False, abort: bool = True) -> bool:
    """Ask a question on stderr in the person's language; abort unless the answer is yes."""
    return click.confirm(translated(text), default=default, abort=abort, err=True)


def argument(text: str) -> str:
    """Return a path or an id as the shell of this system takes it in a command that a person pastes."""
    line, also = one_line(text), r"\\" if os.name == "nt" else ""
    if re.fullmatch(rf"(~[/{also}])?[\w@+=:,./{also}-][\w@+=:,./{also}#-]*", line):
        return line
    return '"' + line.replace('"', '\\"') + '"' if os.name == "nt" else shlex.quote(line)


def as_json(value: Any) -> None:
    """Print `value` as one JSON object, first why not all notes are there, if the command's vault says so."""
    context = click.get_current_context(silent=True)
    book = context.ensure_object(dict).get("book") if context else None
    click.echo(json_of(book.qualified(value) if book else value))


def fields(done: Any) -> dict[str, Any]:
    """Return the fields of a result for JSON."""
    if isinstance(done, Mapping):
        return dict(done)
    return dict(done.as_dict() if hasattr(done, "as_dict") else asdict(done))


def result(done: T, is_json: bool, show: Callable[[T], object]) -> None:
    """Print a result as one JSON object, or by `show` for people."""
    if is_json:
        as_json(fields(done))
    else:
        show(done)


# -- what was found


def answer(reply: Answer, vault: Path, *, by_words: bool = False, explain: bool = False) -> None:
    """
    Print a search's hits in `vault`, with the arithmetic of their scores if asked to `explain`.

    The closest notes where nothing is sure, and what the index could not do, go to stderr.
    """
    for hit in reply.hits:
        if hit.why["text"] == "overturned":
            click.echo(f"      {translated('overturned')}: {titles(hit)}  {place(hit)}  {name(hit.id)}")
        else:
            _hit(hit, explain)
    if not reply.index.notes:
        say_empty(vault)
    elif not reply.hits:
        say("Not sure; closest:" if reply.closest else "Nothing found.", err=True)
    for hit in reply.closest[:1]:
        _hit(hit, explain, err=True)
    for hit in reply.closest[1:]:
        click.echo(f"{hit.score:.2f}  {titles(hit)}  {place(hit)}", err=True)
        for sentence in presentation.standing(hit):
            say(f"      {sentence}", err=True)
        _print_labels(hit, hit.properties, err=True)
        for line in hit.text.split("\n") if hit.text else ():
            click.echo(f"      {quoted(line)}", err=True)
    unmatched(reply.unmatched)
    if reply.index.pending and not by_words:
        advice = "another process is embedding them now" if reply.index.embedding else "`spellbook reindex` does it"
        if covered := reply.index.meaning():
            say(f"Meaning: {covered[0]} % by the second encoder, {covered[1]} % by the embedder; {advice}.", err=True)
        else:
            say(f"{counted(reply.index.pending, 'text')} not embedded yet: {advice}.", err=True)
    if reply.index.degraded:
        say(f"Degraded: {one_line(reply.index.reason)}", err=True)


def say_empty(vault: Path) -> None:
    """Say on stderr that a vault has no notes, and how it gets some."""
    say(
        f"There is no Markdown note in {vault}: `spellbook add TEXT` keeps the first, `spellbook import SOURCE` brings "
        "those you have, `spellbook use DIR` chooses another folder.",
        err=True,
    )


def unmatched(values: Sequence[Unmatched]) -> None:
    """Print on stderr which values of a filter no note has."""
    for value in values:
        say(f"spellbook: {one_line(str(value))}", err=True)


def _print_labels(of: Hit | StoredChunk, own: str, *, err: bool = False) -> None:
    """Print that a text comes from outside, if it does, and its note's own properties."""
    for label in presentation.labels(of, own):
        say(f"      {label}", err=err)


def _hit(hit: Hit, explain: bool, *, err: bool = False) -> None:
    click.echo(f"{hit.score:.2f}  {click.style(titles(hit), bold=True)}", err=err)
    click.echo(f"      {click.style(place(hit), fg='cyan')}  {name(hit.id)}", err=err)
    for sentence in presentation.standing(hit):
        say(f"      {sentence}", err=err)
    _print_labels(hit, hit.properties, err=err)
    lines = [line for line in hit.text.splitlines() if line.strip()]
    for line in lines[:_MOST_LINES]:
        click.echo(f"      {quoted(shortened(line, _MOST_LINE))}", err=err)
    if len(lines) > _MOST_LINES:
        say(f"      … {counted(len(lines) - _MOST_LINES, 'more line')}: spellbook show {argument(hit.id)}", err=err)
    below = [*presentation.beside(hit, translated), presentation.why(hit, translated)]
    if explain:
        below.append(f"{hit.score:.2f} = {', '.join(presentation.reasons(hit, translated))}")
    for line in below:
        click.echo(click.style(f"      {line}", dim=True), err=err)
    click.echo(err=err)


def explanation(why: Explanation) -> None:
    """Print how a question was answered: the query, then a table of chunks whose shares add up to their scores."""
    from spellbook.text.terms import readable

    words = [f"{one_line(readable(word.text))} ({word.chunks:,})" for word in why.words]
    if words:
        say(f"Query words, with the number of sections that contain each: {', '.join(words)}.")
    if why.known is not None and why.known < 1:
        say(f"The vault contains {why.known:.0%} of them, by weight.")
    if why.when:
        say(f"Read as a time: {one_line(why.when)}.")
    say(f"Candidates: {counted(why.candidates, 'section', of=why.index['chunks'])}.")
    click.echo()
    if not why.rows:
        say("No candidate matches the query.")
        unmatched(why.unmatched)
        return
    click.echo(click.style(translated("  #  score = meaning (rank) + words (rank) + adjusted   sure"), dim=True))
    for chunk in why.rows[:_MOST_ROWS]:
        meaning, by_words = _leg(chunk, "semantic"), _leg(chunk, "keyword")
        adjusted = sum(one["share"] for one in chunk.adjustments)
        sure = "" if chunk.evidence is None else f"{chunk.evidence:.2f}"
        click.echo(
            f"{chunk.place or '-':>3}  {chunk.score:5.2f} = {meaning} + {by_words} + {adjusted:+8.2f}   {sure:>4}"
        )
        click.echo(f"     {click.style(place(chunk), fg='cyan')}  {titles(chunk)}")
        if chunk.legs:
            click.echo(f"     {', '.join(map(translated, presentation.shares(chunk.legs)))}")
        for one in chunk.adjustments:
            click.echo(f"     {one['share']:+.2f} {translated(one_line(one['reason']))}")
        if chunk.words or chunk.lacks:
            say(f"     has {_join_words(chunk.words)}; lacks {_join_words(chunk.lacks)}")
        if chunk.place is None:
            say(f"     no hit: {one_line(chunk.verdict)}")
    if len(why.rows) > _MOST_ROWS:
        say(f"  … {len(why.rows) - _MOST_ROWS} more: --json lists them")
    unmatched(why.unmatched)
    if why.index["degraded"]:
        say(f"Degraded: {one_line(why.index['reason'])}", err=True)


def _leg(chunk: ExplainedChunk, name: str) -> str:
    """Return the share and the rank of one leg as two columns."""
    leg = chunk.legs.get(name, {"share": None, "rank": None})
    share = "-" if leg["share"] is None else f"{leg['share']:.2f}"
    rank = f"(#{leg['rank']})" if leg["rank"] else ""
    return f"{share:>7} {rank:>6}"


def _join_words(words: Sequence[str]) -> str:
    return one_line(", ".join(words)) or translated("nothing")


def chunks(rows: Sequence[StoredChunk], old: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the chunks of a note, with what supersedes it, which `old` has by its path."""
    click.echo(click.style(place(rows[0]), bold=True))
    by = old.get(rows[0].path)
    if sentence := presentation.trust(rows[0]) if by is None else presentation.superseded(by):
        say(f"      {sentence}")
    _print_labels(rows[0], presentation.properties(rows[0]))
    for chunk in rows:
        click.echo(click.style(f"-- {name(chunk.id)}  {chunk.hash}", dim=True))
        click.echo(quoted(chunk.text.rstrip()))


def around(near: Around) -> None:
    """Print what links to a note, and what has to do with it, a line each."""

    def why(note: Related) -> str:
        return flat("; ".join(map(translated, note.why)))

    linked = []
    for note in near.backlinks:
        relations = f" ({', '.join(note.relations)})" if note.relations else ""
        linked.append((f"{note.path}:{', '.join(map(str, note.lines))}", flat(note.title) + relations))
    related = [(note.path, f"{flat(note.title)} ({why(note)})") for note in near.related]
    times = [(note.path, f"{flat(note.title)} {why(note)}") for note in near.timeline]
    for heading, listed in (("Linked from", linked), ("Related", related), ("Over time", times)):
        if listed:
            click.echo(f"\n{click.style(translated(heading), bold=True)}")
        for at, text in listed[:_MOST_NEAR]:
            click.echo(f"  {click.style(one_line(at), fg='cyan')}  {text}")
        if len(listed) > _MOST_NEAR:
            say(f"  … {len(listed) - _MOST_NEAR} more: --json lists them")


def pointers(rows: Sequence[StoredChunk]) -> None:
    """Print where chunks stand, a line each."""
    for chunk in rows:
        click.echo(f"{place(chunk)}  {titles(chunk)}  {name(chunk.id)}")


def recent(reply: Recent) -> None:
    """Print notes with their dates, a line each; on stderr, how many there are beyond these."""
    for chunk in reply.notes:
        click.echo(
            f"{chunk.day}  {click.style(place(chunk), fg='cyan')}  {presentation.title_of(chunk)}  {name(chunk.note)}"
        )
    if len(reply.notes) < reply.total:
        say(f"{counted(len(reply.notes), 'note', of=reply.total)}, newest first.", err=True)
    if not reply.total:
        say("No notes.", err=True)


def contents(listed: Sequence[Category], about: Callable[[Topic], TopicSummary]) -> None:
    """Print the table of contents as a tree: categories, their topics, and what each is about."""
    for category in listed:
        what = f"  {one_line(category.description)}" if category.description else ""
        named = presentation.category_of(category.name, category.is_outside) or translated("(no category)")
        click.echo(click.style(named, bold=True) + what)
        for number, topic in enumerate(category.topics, 1):
            branch = "└─" if number == len(category.topics) else "├─"
            main = about(topic)
            summary = presentation.stated(main.summary, main.is_outside)
            size = f"{translated(counted(topic.notes, 'note'))}, {translated(counted(topic.chunks, 'section'))}"
            named = presentation.stated(topic.topic, topic.is_outside) or translated("(top folder)")
            named += presentation.UNTRUSTED if topic.is_outside or main.is_outside else ""
            line = f"{branch} {named}  {size}, {topic.updated[:10]}"
            line += f"  {summary}" if summary else ""
            click.echo(line)


def merged(done: Merged) -> None:
    """Print what a merge makes, and on stderr what is to be decided."""
    click.echo(plain(done.difference))
    for pair in done.changed:
        click.echo(f"{click.style('a', bold=True)}  {one_line(pair.first)}", err=True)
        click.echo(f"{click.style('b', bold=True)}  {one_line(pair.other)}", err=True)
    for key, (stays, other) in done.differs.items():
        say(f"{one_line(key)}: keeps {one_line(str(stays))}, not {one_line(str(other))}", err=True)
    if done.linking:
        say(f"Links to it in {', '.join(map(one_line, done.linking))}", err=True)
    gone, path = one_line(done.gone), one_line(done.path)
    if done.trash:
        say(f"{gone} is merged into {path}; the old file is in {one_line(done.trash)}.", err=True)
    else:
        say(f"--yes merges {gone} into {path}.", err=True)
        if done.changed:
            say("They contradict each other, so add --keep a, b or both.", err=True)


def log(entries: Sequence[Entry]) -> None:
    """Print what was changed, a line an entry."""
    for entry in entries:
        kinds = Counter(trace.kind for trace in entry.traces)
        files = ", ".join(translated(f"{count} {kind}") for kind, count in kinds.items())
        state = "  ".join(["", *filter(None, (entry.state and f"({translated(entry.state)})", entry.session))])
        line = f"{entry.id:>5}  {dt.datetime.fromtimestamp(entry.at):%Y-%m-%d %H:%M}  {pad(translated(entry.verb), 8)}"
        click.echo(f"{line} {one_line(entry.what)}  {click.style(files + state, dim=True)}")
    if not entries:
        say("No command or tool has changed anything yet.", err=True)


def versions(history: Mapping[str, Any]) -> None:
    """Print the versions of a note with their differences; on stderr, what could not be read."""
    for version in history["versions"]:
        at = version["at"][:16].replace("T", " ")
        gone = "" if version["sha256"] else f"  {translated('deleted')}"
        sources = ", ".join(translated(_source(one_line(source))) for source in version["sources"])
        click.echo(click.style(f"{at}  {one_line(version['path'])}{gone}", bold=True) + f"  {sources}")
        if version["difference"]:
            click.echo(plain(version["difference"]))
    for reason in history["not_read"]:
        say(f"spellbook: {one_line(reason)}", err=True)


def _source(kept: str) -> str:
    """Say where a version is kept: a commit by its beginning, the others as the journal names them."""
    kind, _, name = kept.partition(" ")
    return f"commit {name[:12]}" if kind == "commit" else kept


def moved(done: Moved, *, dry_run: bool) -> None:
    """Print what a move did or, with all differences, would do."""
    if dry_run:
        for old, new in done.moved:
            click.echo(f"{one_line(old)} → {one_line(new)}")
        for note in done.changed:
            click.echo(plain(note.difference))
    faults(done.left)
    links, notes = _links(done.changed)
    files, old, new = counted(len(done.moved), "file"), one_line(done.old), one_line(done.new)
    if dry_run and done.changed:
        say(f"Would move {old} to {new}: {files}; {links} in {notes} to update.", err=True)
    elif dry_run:
        say(f"Would move {old} to {new}: {files}.", err=True)
    elif done.changed:
        say(f"Moved {old} to {new}: {files}; {links} in {notes} updated.")
    else:
        say(f"Moved {old} to {new}: {files}.")


def offer(made: Offer, *, is_done: bool) -> None:
    """Print broken links, where their files went, and the differences that repair them."""
    for each in made.broken:
        at = click.style(one_line(f"{each.source}:{each.line}"), fg="cyan")
        click.echo(f"{at}  {one_line(each.target)} → {one_line(each.path or '?')}")
    for note in made.changed:
        click.echo(plain(note.difference))
    faults(made.left)
    links, notes = _links(made.changed)
    unknown = sum(each.path is None for each in made.broken)
    rest = f" {counted(unknown, 'link')} without a known target." if unknown else ""
    if not made.broken:
        say("There are no broken links.", err=True)
    elif is_done and made.changed:
        say(f"Repaired {links} in {notes}.{rest}", err=True)
    elif made.changed:
        say(f"{links} in {notes} can be repaired: repeat with --yes.{rest}", err=True)
    elif rest:
        say(rest.strip(), err=True)


def properties(made: Offer, *, is_done: bool) -> None:
    """Print the differences that make frontmatter readable, and the notes that were left."""
    for note in made.changed:
        click.echo(plain(note.difference))
    faults(made.left)
    values, notes = counted(sum(note.links for note in made.changed), "value"), counted(len(made.changed), "note")
    if is_done and made.changed:
        say(f"Put {values} in {notes} into quotes.", err=True)
    elif made.changed:
        say(f"{values} in {notes} can be put into quotes: repeat with --yes.", err=True)
    else:
        say("There is no value that quotes alone would make readable.", err=True)


def faults(faults: Sequence[Fault], *, end: bool = False) -> None:
    """Print faults on stderr, a line each; a command may `end` by them."""
    for fault in faults:
        say(f"spellbook: {one_line(str(fault))}.", err=True)
    if faults and end:
        sys.exit(1)


def _links(changed: Sequence[RelinkedNote]) -> tuple[str, str]:
    return counted(sum(note.links for note in changed), "link"), counted(len(changed), "note")


# -- the state of the vault


def summary(report: Report) -> str:
    """Return in a sentence what a run did."""
    kinds = (
        f"{report.added} added" if report.added else "",
        f"{report.changed} changed" if report.changed else "",
        f"{report.moved} moved" if report.moved else "",
        f"{report.removed} removed" if report.removed else "",
    )
    parts = (
        ", ".join(filter(None, kinds)) or "nothing new",
        f"{counted(report.embedded, 'text')} embedded" if report.embedded else "",
        f"{counted(report.pending, 'text')} still to embed" if report.pending else "",
    )
    done = "; ".join(filter(None, parts))
    return f"{counted(report.scanned, 'note')}: {done}. {counted(report.chunks, 'section')}, {report.seconds:.1f} s."


def chroma(state: Mapping[str, Any]) -> str:
    """Say where Chroma keeps the vectors and how far it is."""
    if not state["place"]:
        return (
            f"empty, {counted(state['behind'], 'vector')} to come: "
            "a server, `spellbook watch` or a large reindex fills it"
        )
    there, at = counted(state["vectors"], "vector"), state["place"]
    if "doubted" in state:
        return f"{there} in {at}; not used: {', '.join(state['doubted'])}, see `spellbook doctor`"
    return f"{there} in {at}; {state['behind']:,} to come" if state["behind"] else f"{there} in {at}"


# -- parts of a line


def pad(text: str, columns: int) -> str:
    return text + " " * max(0, columns - width_of(text))


def width_of(text: str) -> int:
    """Return how many columns of a terminal `text` takes: Korean, Chinese and Japanese letters take two."""
    from rich.cells import cell_len

    return cell_len(text)


# -- how far something is that takes long

EVERY = 10.0
"""Seconds between lines where stderr is not a terminal."""


def say_wait(reason: str) -> None:
    """Say on stderr why a command waits."""
    say(f"spellbook: {reason} …", err=True)


@contextmanager
def progress_bar(hidden: bool) -> Iterator[Progress | None]:
    """Show a bar for each stage on a terminal, and a line every ten seconds where there is none."""
    if hidden:
        yield None
        return
    with ExitStack() as stack:
        bars: dict[str, Any] = {}
        last = time.monotonic()

        def advance(stage: str, done: int, total: int) -> None:
            nonlocal last
            if sys.stderr.isatty():
                if stage not in bars:
                    stack.close()  # the bar of the stage before
                    shown = click.progressbar(length=total, label=translated(stage), file=sys.stderr)
                    bars[stage] = stack.enter_context(shown)
                bars[stage].length = total
                bars[stage].update(done - bars[stage].pos)
            elif time.monotonic() - last >= EVERY:
                last = time.monotonic()
                say(f"spellbook: {stage}: {100 * done // max(total, 1)} % so far", err=True)

        yield advance
