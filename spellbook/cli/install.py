"""Commands that put Spellbook where people work: install, completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from spellbook.cli.app import Command, command, json_option, main, scope_option
from spellbook.cli.clients.known_clients import CLIENTS
from spellbook.settings.defaults import ADDRESS

_HOOKS, _MERGE, _PLUGIN = "git-hooks", "git-merge", "obsidian"


@command(
    click.argument("client", metavar="CLIENT", required=False, type=click.Choice((*CLIENTS, _PLUGIN, _HOOKS, _MERGE))),
    click.option(
        "--project",
        type=click.Path(),
        metavar="DIR",
        help="For this project folder only, instead of for you everywhere.",
    ),
    click.option(
        "--file", type=click.Path(), metavar="FILE", help="The client's settings file, if it is not in the usual place."
    ),
    click.option(
        "--name",
        default="spellbook",
        show_default=True,
        metavar="NAME",
        help="What the client calls it; one for each vault.",
    ),
    click.option(
        "--force", is_flag=True, help="Replace, or remove, an entry of that name even if it is another server."
    ),
    click.option(
        "--url",
        is_flag=False,
        flag_value=ADDRESS,
        metavar="URL",
        help=f"Write the address of a running spellbook serve instead of a command [{ADDRESS}].",
    ),
    click.option(
        "--with-token", is_flag=True, help="Ask for the token of that server, and write it into the settings."
    ),
    click.option("--toolsets", default="", metavar="NAMES", help="Toolsets that the client gets, with commas."),
    click.option("--uninstall", is_flag=True, help="Remove the entry, or the lines in the hooks."),
    click.option("--hooks", is_flag=True, help="Also tell each session what is open, and hand its end to capture."),
    click.option("--recall", is_flag=True, help="With --hooks: at each prompt also find what is surely related to it."),
    click.option(
        "--capture/--no-capture", default=None, help="With --hooks: keep sessions as notes, or do not; no question."
    ),
    click.option(
        "--claude-memory/--no-claude-memory", default=None, help="Also search Claude Code's own memory, or not."
    ),
    click.option("--dry-run", is_flag=True, help="Print what would change, as a diff, and change nothing."),
    json_option,
    scope_option,
    json=False,
    opens=False,
)
def install(ctx: click.Context, /, client: str | None, uninstall: bool, dry_run: bool, **options: Any) -> None:
    """
    Add Spellbook to the settings of CLIENT, or to the hooks of the vault's git repository.

    Without CLIENT it lists the clients on this machine, and what each would get.
    CLIENT is claude-desktop, claude-code, codex, cursor, vscode, copilot-cli,
    gemini-cli, qwen-code, cline, opencode, antigravity, zed, lmstudio, windsurf,
    devin, goose, openclaw, obsidian, git-hooks or git-merge. Nothing else in the
    client's settings changes. A backup of the file is kept beside it, and
    --uninstall removes the entry. For goose and openclaw it prints what to add.
    obsidian puts a plugin into the vault, which asks a running spellbook serve.
    git-hooks update the index in the background when git has changed the vault's
    files. git-merge lets git merge frontmatter by its keys: where both sides
    differ, both stay. --hooks are of claude-code and codex.

    \b
    spellbook install
    spellbook install claude-desktop --vault ~/notes
    spellbook install claude-code --vault ~/notes --hooks --recall
    spellbook install claude-code --project . --dry-run
    spellbook install obsidian --vault ~/notes
    """
    if (client and options["as_json"]) or (not client and (uninstall or dry_run or options["hooks"])):
        raise click.UsageError("Name a client. Without one, those of this machine are listed, also with --json.")
    from spellbook.cli import install_client, install_vault

    if not client:
        install_client.show_all(options["name"], options["as_json"])
        return
    if wrong := _misuse(client, options):
        raise click.UsageError(wrong)
    if client == _PLUGIN:
        install_vault.obsidian(ctx, uninstall, dry_run, options)
    elif client == _HOOKS:
        install_vault.git_hooks(ctx, uninstall, dry_run)
    elif client == _MERGE:
        install_vault.git_merge(ctx, uninstall, dry_run)
    elif uninstall:
        install_client.remove(client, dry_run, options)
    else:
        install_client.add(ctx, client, dry_run, options)


def _misuse(client: str, options: Mapping[str, Any]) -> str:
    """Say what is wrong with options for `client`, "" for nothing."""
    hooks = options["hooks"]
    asks_capture = options["capture"] is not None
    about = CLIENTS.get(client)
    has_hooks = about and any(about.hooks)
    rules = {
        "--project, --file and --force are for clients; hooks belong to the repository that holds the vault.": (
            client == _HOOKS and (options["project"] or options["file"] or options["force"])
        ),
        "--project, --file and --with-token are not for obsidian: paste a token into the plugin's settings.": (
            client == _PLUGIN and (options["project"] or options["file"] or options["with_token"])
        ),
        "--file and --project each name the file: give one.": options["file"] and options["project"],
        "--recall needs --hooks.": options["recall"] and not hooks,
        "--hooks are for claude-code and codex, in their own file; --project names another.": (
            hooks and (not has_hooks or options["file"])
        ),
        "--capture needs --hooks.": asks_capture and not hooks,
        "--claude-memory is for claude-code.": options["claude_memory"] is not None and client != "claude-code",
        "--with-token needs --url.": options["with_token"] and not options["url"],
        "--toolsets and --url: give the toolsets to `spellbook serve`.": options["toolsets"] and options["url"],
    }
    return next((message for message, is_broken in rules.items() if is_broken), "")


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
