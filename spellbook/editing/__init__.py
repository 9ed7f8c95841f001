"""Changes of notes: write, revise, erase, merge, move, undo. Each is one journal entry and changes what was asked."""
