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


def plan(vault: Vault, old: str, new: str, then: Mapping[str, Rewrite]) -> dict[str, tuple[str, str]]:
    """
    Return the old and the new target of each symbolic link that a move changes, by its new path.

    `then` is what was done to links by the move that this one undoes.
    """
    links: dict[str, tuple[str, str]] = {}
    here, there = str(vault.root / old), str(vault.root / new)
    for path, target in vault.symlinks().items():
        noted = next((span for span in (then[path].links or () if path in then else ()) if span.at is None), None)
        source = str(vault.root / path)
        moved = after_move(source, here, there, os.sep)
        now, by_chance = _resolve(source, target), _resolve(moved, target)
        wanted = after_move(now, here, there, os.sep)
        if noted is not None and noted.after == target:
            after = noted.before
        elif os.path.lexists(now):
            after = target if by_chance == wanted else _spell(moved, wanted, target)
        else:
            after = target
        if after != target or (not os.path.lexists(now) and f"{by_chance}{os.sep}".startswith(f"{there}{os.sep}")):
            links[os.path.relpath(moved, vault.root).replace(os.sep, "/")] = target, after
    return links


def journal_changes(plan: Mapping[str, tuple[str, str]]) -> list[Change]:
    """Return the journal records for links."""
    return [Change(path, None, None, links=(Span(None, *pair),)) for path, pair in plan.items()]


def write(vault: Vault, plan: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Write the new targets of links that nobody changed; return why others were not written, by path."""
    failed: dict[str, str] = {}
    for path, (before, after) in plan.items():
        place = vault.root / path
        try:
            target = os.readlink(place)
            if target == after:
                continue
            if target != before:
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


def _resolve(place: str, target: str) -> str:
    """Return the path that a link at `place` with this `target` points to, which may be a link itself."""
    return os.path.normpath(os.path.join(os.path.dirname(place), target))


def _spell(place: str, wanted: str, target: str) -> str:
    """Return the target text for a link at `place` to `wanted`: absolute if `target` was, else relative."""
    if os.path.isabs(target):
        return wanted
    relative = os.path.relpath(wanted, os.path.dirname(place))
    return f".{os.sep}{relative}" if target.startswith("./") and not relative.startswith("..") else relative
