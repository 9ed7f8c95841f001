"""
Symbolic links of a vault that lead where they led after something in it got another path.

What is to become of each is planned before the move, so that a move that a
kill cut short can be finished, and noted in the journal, so that undo puts
back just that.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from spellbook.notes.links import Span
from spellbook.system import disk
from spellbook.vault.journal import Change, Rewrite
from spellbook.vault.vault import Vault


def planned(vault: Vault, old: str, new: str, then: Mapping[str, Rewrite]) -> dict[str, tuple[str, str]]:
    """
    Return what links say and what they are to say once `old` is at `new`, by their paths then.

    `then` is what the move that this one takes back did, by the paths before this one. Links that lead nowhere, and will lead
    somewhere by chance, are there with what they say.
    """
    found: dict[str, tuple[str, str]] = {}
    here, there = str(vault.root / old), str(vault.root / new)
    for path, said in vault.symlinks().items():
        noted = next((span for span in (then[path].links or () if path in then else ()) if span.at is None), None)
        source = str(vault.root / path)
        moved = _shifted(source, here, there)
        now, by_chance = _led(source, said), _led(moved, said)
        wanted = _shifted(now, here, there)
        if noted is not None and noted.after == said:
            after = noted.before
        elif os.path.lexists(now):
            after = said if by_chance == wanted else _saying(moved, wanted, said)
        else:
            after = said
        if after != said or (not os.path.lexists(now) and f"{by_chance}{os.sep}".startswith(f"{there}{os.sep}")):
            found[os.path.relpath(moved, vault.root).replace(os.sep, "/")] = said, after
    return found


def changes(plan: Mapping[str, tuple[str, str]]) -> list[Change]:
    """Return what the journal is to be told of links."""
    return [Change(path, None, None, links=(Span(None, *pair),)) for path, pair in plan.items()]


def write(vault: Vault, plan: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Let links say what they are to say; return why some do not, by their paths. What somebody changed meanwhile is left."""
    failed: dict[str, str] = {}
    for path, (before, after) in plan.items():
        place = vault.root / path
        try:
            said = os.readlink(place)
            if said == after:
                continue
            if said != before:
                failed[path] = "the link was changed by somebody else meanwhile, and is as they left it"
                continue
            aside = disk.aside(place.parent)
            # Windows tells links to folders from others.
            os.symlink(after, aside, target_is_directory=os.path.isdir(place.parent / after))
            try:
                os.replace(aside, place)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(aside)
                raise
            disk.sync_folder(place.parent)
        except OSError as error:
            failed[path] = f"the link could not be written anew ({error.strerror}), and says {before}"
    return failed


def _shifted(place: str, old: str, new: str) -> str:
    return new + place[len(old) :] if f"{place}{os.sep}".startswith(f"{old}{os.sep}") else place


def _led(place: str, said: str) -> str:
    """Return what a link at `place` that says `said` names, which may be a link itself."""
    return os.path.normpath(os.path.join(os.path.dirname(place), said))


def _saying(place: str, wanted: str, said: str) -> str:
    """Return what a link at `place` is to say so that it leads to `wanted`: from the root of the disk or not, as it did."""
    if os.path.isabs(said):
        return wanted
    relative = os.path.relpath(wanted, os.path.dirname(place))
    return f".{os.sep}{relative}" if said.startswith("./") and not relative.startswith("..") else relative
