"""
Bounds on arguments, for all doors: tools, the API, the command line and imports.

More is refused, with a message that names the bound. Bounds of arguments that no room checks by itself are in `verbs`,
the largest note is `notes.files.MOST_BYTES`, and an HTTP request is bounded in `http/guard.py`.
"""

from __future__ import annotations

# -- a question

MOST_QUERY = 20_000
"""Letters of a question, of each further text, and of all its phrases together: a model reads the first 2,000."""

MOST_ALSO = 3
"""Further texts of a question: each is another search."""

MOST_KEYWORDS = 200
"""Phrases to be found as they are: each is a look into the index of words."""

MOST_HITS = 100
"""Hits of an answer: each is packed, counted and shown."""

MOST_LISTED = 100
"""Notes that `recent` lists at a time; `offset` goes on from there."""

MOST_OFFSET = 10_000_000
"""Notes that may be left out before a list begins: more than any vault has."""

MOST_VERSIONS = 200
"""Versions of a note in one answer: each is read from git or the journal."""

# -- a filter

MOST_KEYS = 100
"""Keys of a filter: a judgement; SQLite allows expressions that are 1,000 deep."""

MOST_GLOBS = 2_000
"""Globs of paths in a filter: a judgement, far below the 32,766 values that SQLite takes."""

MOST_GLOB = 1_000
"""Letters of a glob, in a filter or in the settings: it is compared with every path."""

MOST_SCOPES = 200
"""Scopes in the settings of a vault, which may be anybody's: their globs are compared with every path."""

# -- a memory

MOST_LINE = 300
"""Letters of a label of one line, such as a topic or a title: it is shown with every hit."""

MOST_SOURCE = 2_000
"""Letters of a source, which may be an address."""

# -- an address

MOST_URL = 2_000
"""Letters of a web address: what browsers and servers take."""

# -- an import

MOST_VALUE = 500_000_000
"""Bytes of JSON of another program, or of a line of an export, which are held in memory: about four times as many."""

MOST_GROWTH = 200
"""Times that a zip may grow as it is unpacked: what people write does not, and what would fill the disk does."""
