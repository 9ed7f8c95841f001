"""
The command line: one command a verb; answers on stdout, everything else on stderr.

Nothing heavy is imported before a command needs it, so that help and a re-index
with nothing to do cost nothing.
"""

from spellbook.cli import keeping, finding, writing, revising, moving, archiving, health, migrating, installing, modelling  # noqa: I001 - in the order that the README lists them
from spellbook.cli.base import main

__all__ = ["archiving", "finding", "health", "installing", "keeping", "main", "migrating", "modelling", "moving", "revising", "writing"]
