"""A vault as Python programs and doors have it: reading, changing, and keeping it in order."""
