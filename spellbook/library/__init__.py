"""A vault as Python programs and doors have it: what reads it, what changes it, and what keeps it in order."""
