"""A new vault: its first files, and tags and folders of its notes that may stand for categories."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path

from spellbook.index.filters import fold
from spellbook.notes.note import parse
from spellbook.settings import paths
from spellbook.system.errors import SpellbookError, StorageError
from spellbook.vault.folder import Folder

_CONFIG = Path(__file__).with_name("config.toml")
"""The settings of a new vault: every key with its default, as a comment."""

_NAMES_OF_CATEGORIES = {
    "decision": ("decision", "decisions", "adr", "결정", "의사결정"),
    "project": ("project", "projects", "프로젝트"),
    "people": ("people", "person", "사람", "인물"),
    "preference": ("preference", "preferences", "취향", "선호"),
    "knowledge": ("knowledge", "지식"),
}
"""Names that people give to tags and folders of these categories."""

_MOST_READ = 3_000
"""Notes that are read to find them."""

_MOST_OFFERED = 10
"""Tags and folders that are offered."""


def categories_of(root: Path) -> dict[str, tuple[str, int]]:
    """Return tags and folders of the notes in `root` that may stand for a category, with it and how many notes."""
    known = {name: category for category, names in _NAMES_OF_CATEGORIES.items() for name in names}
    counts: Counter[str] = Counter()
    folder = Folder(root.resolve(), obsidian=True)
    for path in islice(folder.walk().files, _MOST_READ):
        with suppress(SpellbookError):
            note = parse(path, folder.read(path)[0])
            if note.category:
                continue
            counts.update({f"#{fold(tag).partition('/')[0]}" for tag in note.tags})
            parts = path.split("/")[:-1]
            counts.update("/".join(parts[: i + 1]) + "/" for i in range(len(parts)))
    offered = {
        key: (known[name], count)
        for key, count in counts.most_common()
        if (name := fold(key.strip("#/").rpartition("/")[2])) in known and not set("*?[") & set(key)
    }
    return dict(islice(offered.items(), _MOST_OFFERED))


def make(root: Path, *, with_guides: bool = False) -> tuple[list[Path], bool]:
    """
    Make `root` a vault; return the added files, and whether it had no notes or `with_guides` is set.

    Existing files stay. Only a folder without notes gets the guides, or one `with_guides`. Raises StorageError if it
    cannot be written, PathOutsideVault if a link leads a folder out of it.
    """
    added: list[Path] = []
    wanted = {}
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = Folder(root.resolve())
        if is_new := not folder.walk().files or with_guides:
            packaged = Path(paths.starter())
            wanted = {file.relative_to(packaged): file.read_bytes() for file in sorted(packaged.rglob("*.md"))}
        wanted[Path(paths.MARKER, "config.toml")] = _CONFIG.read_bytes()
        for path in wanted:  # all folders before any file: one of them may lead out of the vault
            folder.make(path.parent.as_posix())
        for path, data in wanted.items():
            place = root / path
            with suppress(FileExistsError), place.open("xb") as file:
                file.write(data)
                added.append(place)
    except OSError as error:
        raise StorageError(
            f"{error.filename or root}: {error.strerror}.", "Choose a folder that can be written."
        ) from error
    return added, is_new
