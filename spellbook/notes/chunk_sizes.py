"""Every size in cutting notes, in estimated tokens, with its source ("By hand": none). It imports nothing."""

# -- a chunk

CHUNK_TOKENS = 256
"""
Most tokens of a chunk; the setting `chunk_tokens`. The answer is within the first 1,024 tokens of results for 0.966 of
the questions; with 384 for 0.895, with 512 for 0.882 (tests/benchmarks/README.md).
"""

OVERLAP = 48
"""
Tokens repeated from the chunk before, where running text without a heading or keywords was cut: it helps there (answer
within 500 tokens: .969 to .978), and hurts elsewhere (tests/benchmarks/README.md).
"""

# -- what precedes the text in `embedded`: all of it together, so that text of 256 tokens always fits the model's 512

MOST_PATH = 64
"""The most tokens of the title and the heading path. By hand."""

MOST_KEYWORDS = 48
"""The most tokens of the note's keywords. By hand."""

MOST_BEFORE = 64
"""The most tokens of the turn before, in a conversation. By hand."""

# -- a note

SECTIONS = 1_000
"""
Sections of any note with chunks of their own. By hand: a chunk takes about a kilobyte in the catalog, so more short
ones would take many times the size of the note.
"""

LETTERS_EACH = 400
"""A longer note has chunks for one more section for each so many letters. By hand."""

MOST_SUFFIX = 200
"""The most letters of a heading that an id takes. By hand: an id stands in every answer that names its chunk."""
