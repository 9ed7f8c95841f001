"""
The command line: one command a verb; answers on stdout, everything else on stderr. A command is imported when it runs.
"""

from spellbook.cli.app import main as main
