"""Commands in one vault with the hash embedder."""

from __future__ import annotations

from click.testing import CliRunner

from spellbook.cli import main


def spellbook(vault, *args, stdin=None, code=0):
    result = CliRunner().invoke(
        main, ["--vault", str(vault), *map(str, args)], input=stdin, env={"SPELLBOOK_EMBEDDER": "hash"}
    )
    assert result.exit_code == code, result.output
    return result
