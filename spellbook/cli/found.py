"""Print for people what reading commands found: hits, notes, versions, the contents, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli.output import argument, say, say_empty, unmatched
from spellbook.search import note_marks, presentation
from spellbook.search.presentation import name, place
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, flat, one_line, plain, quoted, shortened

if TYPE_CHECKING:
    from spellbook.index.catalog.rows import StoredChunk, Topic
    from spellbook.search.explain import ExplainedChunk, Explanation
    from spellbook.search.newest import Recent
    from spellbook.search.question import Answer
    from spellbook.search.related import Around, Related
    from spellbook.search.scores import Hit
    from spellbook.search.toc import Category, TopicSummary

_MOST_NEAR = 20  # notes that are listed as linked, or as related
_MOST_LINES = 6  # of a hit's text
_MOST_LINE = 200  # letters of such a line
_MOST_ROWS = 20  # candidates that an explanation lists


def answer(reply: Answer, vault: Path, *, by_words: bool = False, explain: bool = False) -> None:
    """
    Print a search's hits in `vault`, with the arithmetic of their scores if asked to `explain`.

    The closest notes where nothing is sure, and what the index could not do, go to stderr.
    """
    for hit in reply.hits:
        if hit.why["text"] == "overturned":
            click.echo(f"      {translated('overturned')}: {hit.marks.titles}  {place(hit)}  {name(hit.id)}")
        else:
            _hit(hit, explain)
    if not reply.index.notes:
        say_empty(vault)
    elif not reply.hits:
        say("Not sure; closest:" if reply.closest else "Nothing found.", err=True)
    for hit in reply.closest:
        _hit(hit, explain, err=True)
    unmatched(reply.unmatched)
    if reply.index.pending and not by_words:
        advice = "another process is embedding them now" if reply.index.embedding else "`spellbook reindex` does it"
        if covered := reply.index.meaning():
            say(f"Meaning: {covered[0]} % by the second encoder, {covered[1]} % by the embedder; {advice}.", err=True)
        else:
            say(f"{counted(reply.index.pending, 'text')} not embedded yet: {advice}.", err=True)
    if reply.index.degraded:
        say(f"Degraded: {one_line(reply.index.reason)}", err=True)


def _say_each(sentences: Sequence[str], *, err: bool = False) -> None:
    for sentence in sentences:
        say(f"      {sentence}", err=err)


def _hit(hit: Hit, explain: bool, *, err: bool = False) -> None:
    click.echo(f"{hit.score:.2f}  {click.style(hit.marks.titles, bold=True)}", err=err)
    click.echo(f"      {click.style(place(hit), fg='cyan')}  {name(hit.id)}", err=err)
    _say_each([*presentation.standing(hit), *presentation.labels(hit)], err=err)
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
        meaning = _leg(chunk, "semantic")
        by_words = _leg(chunk, "keyword")
        adjusted = sum(one["share"] for one in chunk.adjustments)
        sure = "" if chunk.evidence is None else f"{chunk.evidence:.2f}"
        click.echo(
            f"{chunk.place or '-':>3}  {chunk.score:5.2f} = {meaning} + {by_words} + {adjusted:+8.2f}   {sure:>4}"
        )
        click.echo(f"     {click.style(place(chunk), fg='cyan')}  {note_marks.titles(chunk)}")
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
    by, marks = old.get(rows[0].path), note_marks.of(rows[0])
    stands = marks.trust if by is None else presentation.superseded(by)
    _say_each([*filter(None, [stands]), *marks.lines(marks.properties)])
    for chunk in rows:
        click.echo(click.style(f"-- {name(chunk.id)}  {chunk.hash}", dim=True))
        click.echo(quoted(chunk.text.rstrip()))


def around(near: Around) -> None:
    """Print what links to a note, and what has to do with it, a line each."""

    def why(note: Related) -> str:
        return flat("; ".join(map(translated, note.why)))

    linked = [
        (
            f"{note.path}:{', '.join(map(str, note.lines))}",
            flat(note.title) + (f" ({', '.join(note.relations)})" if note.relations else ""),
        )
        for note in near.backlinks
    ]
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
        click.echo(f"{place(chunk)}  {note_marks.of(chunk).titles}  {name(chunk.id)}")


def recent(reply: Recent) -> None:
    """Print notes with their dates, a line each; on stderr, how many there are beyond these."""
    for chunk in reply.notes:
        title = note_marks.of(chunk).title
        click.echo(f"{chunk.day}  {click.style(place(chunk), fg='cyan')}  {title}  {name(chunk.note)}")
    if len(reply.notes) < reply.total:
        say(f"{counted(len(reply.notes), 'note', of=reply.total)}, newest first.", err=True)
    if not reply.total:
        say("No notes.", err=True)


def contents(listed: Sequence[Category], about: Callable[[Topic], TopicSummary]) -> None:
    """Print the table of contents as a tree: categories, their topics, and what each is about."""
    for category in listed:
        what = f"  {one_line(category.description)}" if category.description else ""
        named = note_marks.category_of(category.name, category.is_outside) or translated("(no category)")
        click.echo(click.style(named, bold=True) + what)
        for number, topic in enumerate(category.topics, 1):
            branch = "└─" if number == len(category.topics) else "├─"
            main = about(topic)
            summary = note_marks.stated(main.summary, main.is_outside)
            size = f"{translated(counted(topic.notes, 'note'))}, {translated(counted(topic.chunks, 'section'))}"
            named = note_marks.stated(topic.topic, topic.is_outside) or translated("(top folder)")
            named += note_marks.UNTRUSTED if topic.is_outside or main.is_outside else ""
            line = f"{branch} {named}  {size}, {topic.updated[:10]}"
            line += f"  {summary}" if summary else ""
            click.echo(line)


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
