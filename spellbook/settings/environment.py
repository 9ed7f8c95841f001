"""Environment variables of Spellbook and their kinds, for modules that read `os.environ`. A `reindex` loads it."""

from __future__ import annotations

VARIABLES = {
    "SPELLBOOK_VAULT": "",
    "SPELLBOOK_SCOPE": "",
    "SPELLBOOK_STATE": "folder",
    "SPELLBOOK_DATA": "folder",
    "SPELLBOOK_MODELS": "folder index",
    "SPELLBOOK_CACHE": "folder index",
    "SPELLBOOK_EMBEDDER": "entry index",
    "SPELLBOOK_RERANKER": "entry index",
    "SPELLBOOK_SECOND_ENCODER": "entry index",
    "SPELLBOOK_ENGINE": "entry",
    "SPELLBOOK_CHROMA_URL": "entry index",
    "SPELLBOOK_TOOLSETS": "entry",
    "SPELLBOOK_WIKI": "folders",
    "SPELLBOOK_WATCH": "entry",
    "SPELLBOOK_HOST": "",
    "SPELLBOOK_PORT": "",
    "SPELLBOOK_ALLOWED_HOSTS": "",
    "SPELLBOOK_AUTH": "",
    "SPELLBOOK_RATE": "",
    "SPELLBOOK_DEBUG_LOG": "",
    "SPELLBOOK_LANG": "",
    "SPELLBOOK_FETCH_LOCAL": "",
    "SPELLBOOK_CAPTURE": "",
    "OLLAMA_HOST": "entry index",
    "SPELLBOOK_CONTAINER": "",
    "SPELLBOOK_API_KEY": "secret",
    "SPELLBOOK_RERANKER_API_KEY": "secret",
    "SPELLBOOK_CHROMA_TOKEN": "secret",
    "SPELLBOOK_TOKEN": "secret",
    "OPENAI_API_KEY": "secret",
}
"""
Each variable with its kinds.

`folder`, `folders` (with the separator of PATH between them) and `entry`: `spellbook install` copies it into a client's
settings, since the server that the client starts does not see this shell. `index`: a change of it breaks the seal of
`reindex`. `secret`: never written into a file.
"""


def variables(kind: str) -> tuple[str, ...]:
    """Return the names of the variables of one kind."""
    return tuple(name for name, kinds in VARIABLES.items() if kind in kinds)
