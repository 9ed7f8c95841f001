"""Keys of frontmatter that relate a note to others. It imports nothing."""

MERGED = "merged"
"""The key with the ids and paths of notes that were merged into this one."""

SUPERSEDES = "supersedes"
RELATIONS = (SUPERSEDES, "derived_from", "contradicts")
"""Keys of frontmatter that name other notes. The newer note names the older one, never the reverse."""
