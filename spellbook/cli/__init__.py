"""
The command line: one command a verb; answers on stdout, everything else on stderr.

Nothing heavy is imported before a command needs it, so that help and a re-index with nothing to do cost nothing.
"""

# In the order in which `--help` lists the commands.
from spellbook.cli import index, serve, search, context, editor, edit, backup, doctor, install, capture, sync  # noqa: F401, I001
from spellbook.cli import models, token, completion  # noqa: F401
from spellbook.cli.app import main as main
