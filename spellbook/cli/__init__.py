"""
The command line: one command a verb; answers on stdout, everything else on stderr.

A command's module is imported when the command runs, so that `find` does not wait for `serve` or `sync`.
"""

from spellbook.cli.app import main as main
