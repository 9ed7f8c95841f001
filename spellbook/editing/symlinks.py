"""Keep a vault's symbolic links on the same file after a move, planned before it and recorded for undo."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from spellbook.notes.links import Span
from spellbook.system import disk
from spellbook.vault.journal import Change, Rewrite
from spellbook.vault.names import after_move
from spellbook.vault.vault import Vault


def planned(vault: Vault, old: str, new: str, then: Mapping[str, Rewrite]) -> dict[str, tuple[str, str]]:
    """Return old and new targets of links for a move, by new path; `then` is what the move that this undoes did."""
    found: dict[str, tuple[str, str]] = {}
    here, there = str(vault.root / old), str(vault.root / new)
    for path, said in vault.symlinks().items():
        noted = next((span for span in (then[path].links or () if path in then else ()) if span.at is None), None)
        source = str(vault.root / path)
        moved = after_move(source, here, there, os.sep)
        now, by_chance = _led(source, said), _led(moved, said)
        wanted = after_move(now, here, there, os.sep)
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
    """Return the journal records for links."""
    return [Change(path, None, None, links=(Span(None, *pair),)) for path, pair in plan.items()]


def write(vault: Vault, plan: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Write the new targets of links that nobody changed; return why others were not written, by path."""
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
            aside = disk.temporary_name(place.parent)
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


def _led(place: str, said: str) -> str:
    """Return the path that a link at `place` with the target `said` points to, which may be a link itself."""
    return os.path.normpath(os.path.join(os.path.dirname(place), said))


def _saying(place: str, wanted: str, said: str) -> str:
    """Return the target text for a link at `place` to `wanted`: absolute if `said` was, else relative."""
    if os.path.isabs(said):
        return wanted
    relative = os.path.relpath(wanted, os.path.dirname(place))
    return f".{os.sep}{relative}" if said.startswith("./") and not relative.startswith("..") else relative
