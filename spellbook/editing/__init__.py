"""
Changes of notes: write, revise, erase, merge, move, undo.

Each is one entry of the journal and changes only what was asked.
"""
