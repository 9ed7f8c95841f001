"""The command line: a command a verb; answers on stdout, all else on stderr. A command is imported when it runs."""

from spellbook.cli.app import main as main
