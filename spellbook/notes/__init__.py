"""A note as text: frontmatter, blocks, chunks, links. Pure: nothing here opens a file."""
