"""The command `completion`: commands and options by the tab key in bash, zsh and fish."""

from __future__ import annotations

import click

from spellbook.cli.app import Command, main


@main.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """
    Print a script that completes commands and options by the tab key.

    \b
    echo 'eval "$(spellbook completion bash)"' >> ~/.bashrc
    echo 'eval "$(spellbook completion zsh)"' >> ~/.zshrc
    spellbook completion fish > ~/.config/fish/completions/spellbook.fish
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kind = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}[shell]
    click.echo(kind(main, {}, "spellbook", "_SPELLBOOK_COMPLETE").source())
