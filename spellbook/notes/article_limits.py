"""The most that a saved page is given: categories, keywords and tags, and letters of each text. It imports nothing."""

MOST_CATEGORIES = 10
"""Categories of an article; the first one is its topic."""

MOST_LETTERS = 60
"""Letters of a category."""

MOST_LABELS = 50
"""Keywords, and tags."""

MOST_SUMMARY = 2_000
"""Letters of a summary."""

PAGE = 3_000
"""Letters of an article's text that an agent gets at a time."""
