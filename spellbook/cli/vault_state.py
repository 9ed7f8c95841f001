"""
Print the state of a vault: five lines for a person, or everything that is known.

The five say how many notes there are, what search finds of them, what to fix, where the vault is and who has it open.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from spellbook.cli.output import chroma, pad
from spellbook.notes.note import Fault
from spellbook.settings.translate import translated
from spellbook.text.quoting import counted, flat, one_line
from spellbook.verbs.admin import ENOUGH

_COLUMNS = 11
"""Of the names in front of the lines."""


def show(state: Mapping[str, Any], *, verbose: bool) -> None:
    """Print the five lines; `verbose` adds places, engines, sizes, times and every fault."""
    rows = [
        ("notes", f"{state['notes']:,}" if state["notes"] else translated(_FIRST)),
        ("search", _found(state)),
        ("to fix", _faults(state)),
        ("vault", state["vault"]),
        ("in use", _users(state)),
        *(_details(state) if verbose else ()),
    ]
    for head, value in rows:
        if value:
            click.echo(f"{pad(translated(head), _COLUMNS)} {value}")


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
    faults = state["faults"]
    first = _fault(faults[0]) if faults else ""
    more = translated(f"and {len(faults) - 1:,} more: `spellbook doctor`") if len(faults) > 1 else ""
    warning = translated(one_line(state.get("warning", "")))
    return "; ".join(filter(None, (warning, first, more))) or translated("nothing")


def _users(state: Mapping[str, Any]) -> str:
    kinds = Counter(process["kind"] for process in state["processes"])
    names = ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in kinds.items())
    return "; ".join(filter(None, (names, "" if state["watched"] else _unwatched(state))))


def _unwatched(state: Mapping[str, Any]) -> str:
    reason = f", {one_line(state['unwatched'])}" if "unwatched" in state else ""
    return translated(f"nothing watches it{reason}: each command looks for changes first")


def _details(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    categories = ", ".join(
        f"{translated('(none)') if name == '(none)' else flat(name)} {count:,}"
        for name, count in state["categories"].items()
    )
    reused = f"{state['embedded']:,} embedded, {state['reused']:,} reused from the cache in 30 days"
    errors = ", ".join(f"{code} {count}" for code, count in state["day"]["errors"].items())
    total = state["vectors_in_use"] + state["pending"]
    embedded = translated(counted(state["vectors_in_use"], "text", of=total))
    yield "state", f"{state['state']} ({state['bytes'] / 1e6:.1f} MB)"
    yield "chunks", f"{state['chunks']:,}"
    yield "embedded", f"{embedded}, {state['embedder']}"
    yield "engine", translated(state.get("engine", ""))
    yield "second", _second(state) if "second_encoder" in state else ""
    yield "looked at", _minute(state["looked_at"]) if state["looked_at"] else ""
    yield "open in", _processes(state["processes"])
    yield "chroma", translated(chroma(state["chroma"]))
    yield "snapshots", translated(_snapshots(state["snapshots"]))
    yield "categories", f"{categories} ({translated('chunks')})" if categories else translated("none")
    yield "texts", translated(reused) if state["embedded"] else ""
    yield "answers", _timings(state["timings"])
    yield "errors", translated(f"{errors} in 24 hours") if errors else ""
    for fault in state["faults"]:
        yield "to fix", _fault(fault)


def _processes(listed: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for process in listed:
        since = dt.datetime.fromtimestamp(process["since"])
        parts.append(translated(f"{process['kind']} (process {process['pid']}, since {since:%m-%d %H:%M})"))
    return ", ".join(parts)


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


def _minute(at: str) -> str:
    return f"{dt.datetime.fromisoformat(at):%Y-%m-%d %H:%M}"


def _fault(fault: Mapping[str, Any]) -> str:
    return translated(one_line(str(Fault(**fault))))


def _second(state: Mapping[str, Any]) -> str:
    total = state["vectors_in_use"] + state["pending"]
    pending = state["second_encoder"]["pending"]
    done = translated(counted(total - (total if pending is None else pending), "text", of=total))
    return f"{done}, {state['second_encoder']['name']} ({state['second_encoder']['engine']})"
