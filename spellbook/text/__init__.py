"""Words and languages: terms of the keyword index, stop words, language detection, differences of two texts. Pure."""

ENDINGS = (".md", ".markdown", ".markdn", ".mdown", ".mdwn", ".mkd", ".mkdn", ".mkdown", ".mdtxt", ".mdtext")
"""Endings of Markdown files, in small letters: those that GitHub's Linguist and VS Code give to Markdown alone."""
