"""
What the program does, as text files: recorded before a change and after it, and compared.

A scaffold of the second rebuild, which goes when that is over. It goes through the doors alone, so that an older tree can be recorded.
"""
