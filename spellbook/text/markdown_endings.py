"""Endings of the names of Markdown files. It imports nothing."""

ENDINGS = (".md", ".markdown", ".markdn", ".mdown", ".mdwn", ".mkd", ".mkdn", ".mkdown", ".mdtxt", ".mdtext")
"""Endings of Markdown files, in small letters: those that GitHub's Linguist and VS Code give to Markdown alone."""
