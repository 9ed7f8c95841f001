"""Print what `check`, `migrate` and its estimate found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from spellbook.cli.output import pad, row, say, widest, width_of
from spellbook.search.presentation import place, titles
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, one_line

if TYPE_CHECKING:
    from spellbook.index.catalog.schema import Place
    from spellbook.library.evaluate import Checked, Failed, Missed, Unlabelled
    from spellbook.library.migrate import Estimate, Migrated
    from spellbook.search.duplicates import AlikeChunks, Contradiction

_MOST_PARTS = 3  # pairs of words of a contradiction
_MOST_ALIKE = 5  # chunks of a group of duplicates


def checked(done: Checked, limit: int) -> None:
    """Print the figures of a check, then what to fix, at most `limit` of each kind."""
    memories = counted(done.memories, "memory", "memories")
    say(f"{counted(done.notes, 'note')}, {memories} among them; {counted(done.questions, 'question')}")
    if done.recall5 is not None:
        figures = {"recall@1": done.recall1, "recall@5": done.recall5, "recall@10": done.recall10, "MRR": done.mrr}
        click.echo(click.style("   ".join(f"{name} {value:.2f}" for name, value in figures.items()), bold=True))
    elif not done.questions:
        say("No note lists questions that it answers, so recall was not measured.")
    kinds: tuple[tuple[Sequence[Any], Callable[[Any], Iterator[str]], str, str], ...] = (
        (
            done.missed,
            _missed,
            f"{counted(len(done.missed), 'question')} did not find the right note",
            "answer the question in the text, or reword it",
        ),
        (
            done.golden_failed,
            _failed,
            f"{counted(len(done.golden_failed), 'golden query', 'golden queries', of=done.golden)} failed",
            "fix the notes, or the query",
        ),
        (
            done.contradictions,
            _contradiction,
            counted(len(done.contradictions), "contradiction"),
            "keep what is true, edit or erase the other",
        ),
        (
            done.duplicates,
            _alike,
            counted(len(done.duplicates), "duplicate"),
            "keep one and erase the others, or say what is different",
        ),
        (
            done.unlabelled,
            _unlabelled,
            f"{counted(len(done.unlabelled), 'note')} without a label",
            "add it to their frontmatter",
        ),
    )
    for findings, rows, name, step in kinds:
        if not findings:
            continue
        click.echo(f"\n{click.style(translated(name), bold=True)}: {translated(step)}")
        for line in (line for finding in findings[:limit] for line in rows(finding)):
            click.echo(f"  {line}")
        if len(findings) > limit:
            click.echo(click.style(translated(f"  … {len(findings) - limit:,} more: -n {len(findings)}"), dim=True))
    if done.lacking:
        counts = " and ".join(f"{count:,} without the key {name}" for name, count in sorted(done.lacking.items()))
        say(f"\nOf {counted(done.notes - done.memories, 'note')} that people wrote: {counts}; --all lists them.")


def ahead(estimate: Estimate) -> str:
    """Return in a sentence how much a migration must embed."""
    if not estimate.missing:
        return f"Nothing to embed: {counted(estimate.texts, 'text')} already embedded by {estimate.embedder}."
    return (
        f"{counted(estimate.missing, 'text', of=estimate.texts)} to embed by {estimate.embedder}: "
        f"about {_duration(estimate.seconds)}, and {max(1, round(estimate.bytes / 1e6)):,} MB on disk "
        "while both are kept."
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def migrated(done: Migrated) -> None:
    """Print what a migration did, and the results of `check` before and after it."""
    say(
        f"Now using {done.embedder}; {counted(done.embedded, 'text')} embedded."
        if done.switched
        else f"{done.embedder} was already in use."
    )
    checks = [check for check in (done.before, done.after) if check is not None]
    if not checks:
        return
    if not any(check.questions or check.golden for check in checks):
        say("No note lists questions and there are no golden queries, so recall cannot be compared.")
        return
    rows: dict[str, list[float | int | None]] = {
        "recall@1": [check.recall1 for check in checks],
        "recall@5": [check.recall5 for check in checks],
        "MRR": [check.mrr for check in checks],
        "golden queries failed": [len(check.golden_failed) for check in checks],
    }
    heads = [translated(head) for head in (("before", "after") if done.before else ("now",))]
    click.echo(" " * 24 + "".join(" " * (8 - width_of(head)) + head for head in heads))
    for name, values in rows.items():
        figures = ["-" if value is None else f"{value:.3g}" for value in values]
        click.echo(pad(translated(name), 24) + "".join(f"{value:>8}" for value in figures))
    if done.before and done.switched:
        say("To go back without embedding anything: spellbook migrate --rollback")


def _missed(miss: Missed) -> Iterator[str]:
    rank = f"its note is hit {miss.rank}" if miss.rank else "its note is not among ten hits"
    yield row(place(miss.note), miss.question)
    yield translated(f"    {rank}; first is {_first(miss.instead)}" if miss.instead else "    nothing is found")


def _failed(failure: Failed) -> Iterator[str]:
    yield row(f"queries.yaml:{failure.line}", failure.query)
    for name in failure.missing:
        yield translated(f"    not found: {one_line(name)}")
    for name in failure.unknown:
        yield translated(f"    not in this vault: {one_line(name)}")
    if failure.reason:
        yield translated(f"    {one_line(failure.reason)}")
    elif failure.missing:
        yield translated(f"    first is {_first(failure.found[0])}" if failure.found else "    nothing is found")


def _contradiction(pair: Contradiction) -> Iterator[str]:
    places = [place(chunk) for chunk in pair.chunks]
    width = widest(places)
    for at, *words in zip(places, *pair.parts[:_MOST_PARTS], strict=True):
        yield row(at, "   ".join(words), width)


def _alike(group: AlikeChunks) -> Iterator[str]:
    shown = group.chunks[:_MOST_ALIKE]
    width = widest([place(chunk) for chunk in shown])
    for number, chunk in enumerate(shown):
        yield f"{'' if number else f'{group.score:.2f}':4}  {row(place(chunk), titles(chunk), width)}"
    if len(group.chunks) > _MOST_ALIKE:
        yield translated(f"      … {len(group.chunks) - _MOST_ALIKE:,} more")


def _unlabelled(lacking: Unlabelled) -> Iterator[str]:
    yield row(place(lacking.note), translated(f"lacks {', '.join(lacking.lacks)}"))


def _first(at: Place) -> str:
    return row(place(at), titles(at), 0)
