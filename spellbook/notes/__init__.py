"""A note as text: frontmatter, blocks, chunks, links. Pure: nothing here opens a file."""

from spellbook.system.lazy import late

late(__name__, "broken_headers", "chunks", "links", "markdown", "note", "splitter")
