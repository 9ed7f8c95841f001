"""Parts that every command shares: the group, errors in words, the vault, and options."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import update_wrapper
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import spellbook
from spellbook import __version__
from spellbook.cli import first_help, output
from spellbook.cli.translated_help import TranslatedCommand
from spellbook.index.filters import conditions, from_pairs
from spellbook.mcp.tool_names import DEFAULT
from spellbook.notes.files import MOST_BYTES
from spellbook.settings.translate import translated
from spellbook.system import disk
from spellbook.system.errors import Conflict, SpellbookError, UnreadableNote
from spellbook.system.lock import listening
from spellbook.text import unicode
from spellbook.text.quoting import one_line, quoted
from spellbook.verbs import memories, table
from spellbook.verbs.declare import Verb

if TYPE_CHECKING:
    from spellbook.library.book import Spellbook
    from spellbook.library.reader import Reader

F = TypeVar("F", bound=Callable[..., Any])

_WRONG_USAGE = {"INVALID_INPUT", "PATH_OUTSIDE_VAULT", "PERMISSION_DENIED"}


class Command(TranslatedCommand):
    """Refuses arguments that are not valid Unicode; only paths may be any bytes."""

    def invoke(self, ctx: click.Context) -> Any:
        for param in self.params:
            check_text(param, ctx.params.get(param.name or ""))
        return super().invoke(ctx)


class _TranslatedWarnings(logging.Formatter):
    """Warnings in the person's language."""

    def format(self, record: logging.LogRecord) -> str:
        return translated(super().format(record))


class Group(TranslatedCommand, click.Group):
    """Turns Spellbook's errors into a sentence, the next step and an exit code."""

    command_class = Command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a console of another code page must not end the program
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_TranslatedWarnings("spellbook: %(message)s"))
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
        if os.environ.get("NO_COLOR"):
            kwargs["color"] = False
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.ClickException as error:
            error.show(file=(shown := io.StringIO()))  # the usage in it is translated already
            click.echo(translated(shown.getvalue().rstrip("\n")), err=True)
            code = error.exit_code
        except click.Abort:
            output.say("Aborted!", err=True)
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _hide_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _hide_pipes():
                return super().invoke(ctx)
        except SpellbookError as error:
            tell(error)
            if isinstance(error, Conflict) and error.difference:
                click.echo(quoted(error.difference), err=True)
            ctx.exit(2 if error.code in _WRONG_USAGE and not isinstance(error, UnreadableNote) else 1)


def tell(error: SpellbookError) -> None:
    """Print an error and what to do next."""
    output.say(f"spellbook: {one_line(error.message)}", err=True)
    if error.hint:
        click.echo(_as_typed(translated(f"  {one_line(error.hint)}")), err=True)


def _as_typed(hint: str) -> str:
    """Return a hint as the command line takes it: `--force` for `force=true`, and commands for tools."""
    hint = re.sub(r"\b([a-z_]+)=true\b", lambda named: f"--{named[1].replace('_', '-')}", hint)
    hint = re.sub(
        r"\b([a-z]+)\(([a-z]+)\)", lambda call: f"`spellbook {TOOLS.get(call[1], call[1])} {call[2].upper()}`", hint
    )
    return hint.replace("get_index", "`spellbook show`")


@contextmanager
def _hide_pipes() -> Iterator[None]:
    """Take the number from the error of a closed pipe: by it click would exit with 1; `__main__` knows better."""
    try:
        yield
    except BrokenPipeError as error:
        raise BrokenPipeError(error.strerror) from error


def check_text(param: click.Parameter, value: object) -> None:
    """Raise InvalidInput, naming the argument, for a value that is no valid Unicode, unless it is a path."""
    if not isinstance(param.type, click.Path):
        is_option = isinstance(param, click.Option)
        unicode.check(value, max(param.opts, key=len) if is_option else (param.name or "").strip("_").upper())


def _remember(ctx: click.Context, option: click.Parameter, value: str | tuple[str, ...] | None) -> None:
    if value not in {None, ()}:
        check_text(option, value)
        ctx.ensure_object(dict)[option.name] = value


def _remembered(name: str, metavar: str, text: str, **settings: Any) -> Callable[[F], F]:
    """Return an option whose value is for `opened` instead of the command."""
    return click.option(name, metavar=metavar, help=text, expose_value=False, callback=_remember, **settings)


vault_option = _remembered(
    "--vault",
    "DIR",
    "The vault. Default: SPELLBOOK_VAULT, the nearest parent folder with .spellbook/, the one of `spellbook use`, or "
    "~/spellbook.",
    type=click.Path(),
)


def option(verb: Verb, name: str, *flags: str, **settings: Any) -> Callable[[F], F]:
    """Return the option of an argument, with default, bounds and help from the table; a flag is off unless typed."""
    argument = verb.arguments[name]
    number = click.IntRange(argument.least, argument.most)
    words = click.Choice([each for each in argument.choices if each])
    has_opposite = any("/" in each for each in flags)
    shown = {"default": argument.default or None, "show_default": True}
    forms: dict[str, dict[str, Any]] = {
        "number": {"type": number, "metavar": "N", "default": argument.default, "show_default": True},
        "share": {"type": float, "metavar": "S"},
        "flag": shown if has_opposite else {"is_flag": True},
        "choice": {"type": words, **shown},
        "texts": {"multiple": True, "metavar": "TEXT"},
    }
    common = {"help": argument.typed or argument.about, **settings}
    return click.option(*(flags or (f"--{name.replace('_', '-')}",)), **forms.get(argument.kind, {}) | common)


scope_option = _remembered(
    "--scope",
    "NAME",
    "Use only this scope and notes that all scopes share; auto is the project of the working directory "
    "[SPELLBOOK_SCOPE].",
)
wiki_option = _remembered(
    "--wiki",
    "DIR",
    "A folder of documents for the toolset wiki, which is only read; repeat for more [SPELLBOOK_WIKI]. "
    "Default: zywiki/ or docs/ of the project.",
    type=click.Path(),
    multiple=True,
)
toolsets_option = click.option(
    "--toolsets",
    default=lambda: os.environ.get("SPELLBOOK_TOOLSETS", DEFAULT),
    metavar="NAMES",
    help=f"Toolsets, with commas [{DEFAULT}].",
)
debug_option = click.option(
    "--debug-log",
    is_flag=True,
    help="Log each call of a tool, without arguments and texts, into mcp_debug.log of the state folder.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _filter(ctx: click.Context, option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, object] | None:
    check_text(option, pairs)
    return from_pairs(pairs) if pairs else None


filter_option = option(table.SEARCH, "filter", multiple=True, metavar="K=V", callback=_filter)


def read_stdin(ctx: click.Context | None = None, param: click.Parameter | None = None) -> bytes:
    """Return the bytes of stdin. Raises BadParameter if they are more than a note may have."""
    with click.open_file("-", "rb") as stdin:
        data: bytes = stdin.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise click.BadParameter(f"stdin: it is over {MOST_BYTES / 1e6:g} MB.", ctx, param)
    return data


def _read(ctx: click.Context, param: click.Parameter, value: str | None) -> bytes | None:
    if value is None:
        return None
    if value == "-":
        return read_stdin(ctx, param)
    try:
        return disk.read_small(Path(value), MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.BadParameter(
            f"{one_line(value)}: {reason}. Give a regular file, or pipe the text into -.", ctx, param
        ) from error


text_option = option(memories.SAVE, "text", type=click.Path(allow_dash=True), callback=_read, metavar="FILE")


def file_argument(*, required: bool) -> Callable[[F], F]:
    """Add the argument FILE: the bytes of a regular file, or of stdin for `-`; at most as many as a note may have."""
    return click.argument("file", type=click.Path(allow_dash=True), callback=_read, required=required)


class Asking(Command):
    """A command whose words may begin with a dash, as in `find --dry-run`; a misspelt option is refused."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.ignore_unknown_options = True
        known = {name for param in self.get_params(ctx) for name in param.opts}
        try:
            for word in args[: args.index("--")] if "--" in args else args:
                name = word.partition("=")[0]
                if len(word) > 1 and word[0] == "-" and not {name, word[:2]} & known:
                    from difflib import get_close_matches

                    if near := get_close_matches(name, known, cutoff=0.8):
                        raise click.NoSuchOption(name, possibilities=near, ctx=ctx)
                    output.say(f"spellbook: {one_line(word)} is taken as a word to look for.", err=True)
            return super().parse_args(ctx, [*args])
        except click.UsageError as error:
            if type(error) is click.BadParameter or not any(arg.startswith("-") for arg in args):
                raise  # a wrong value of an option is no word to look for
            hint = f"To look for a word that begins with a dash, put -- before it: spellbook {ctx.info_name} -- --word"
            raise click.UsageError(f"{error.format_message()}\n{hint}", ctx) from error


_STAYING = {"watch"}
"""Commands that stay, and tell of their work in a log."""


def command(
    *options: Callable[[Any], Any],
    group: click.Group | None = None,
    kind: type[click.Command] = Command,
    json: bool = True,
    opens: bool = True,
) -> Callable[[F], click.Command]:
    """
    Make a function a command with `options`, `--json` and `--vault`; without `group`, of `main`.

    The function is given the opened vault or, without `opens`, click's context.
    """

    def decorate(function: F) -> click.Command:
        @click.pass_context
        def run(ctx: click.Context, /, *args: Any, **kwargs: Any) -> None:
            is_for_people = not (kwargs.get("as_json") or kwargs.get("quiet") or ctx.info_name in _STAYING)
            waits = listening(output.say_wait) if is_for_people else nullcontext()
            with waits, opened(ctx) as book:
                ctx.invoke(function, book, *args, **kwargs)

        decorated: Any = update_wrapper(run, function) if opens else click.pass_context(function)
        for option in reversed((*options, *([json_option] if json else []), vault_option)):
            decorated = option(decorated)
        return (group or main).command(name=function.__name__.strip("_"), cls=kind)(decorated)

    return decorate


def vault_of(ctx: click.Context) -> Path:
    """Return the real path of the vault that the options name. Raises VaultNotFound."""
    from spellbook.settings.config import find_vault

    return find_vault(ctx.ensure_object(dict).get("vault"))


def named(ctx: click.Context) -> dict[str, Any]:
    """Return what the options say of the vault, for `spellbook.open`."""
    options = ctx.ensure_object(dict)
    return {"vault": options.get("vault"), "scope": options.get("scope"), "wikis": options.get("wiki", ())}


@contextmanager
def opened(ctx: click.Context) -> Iterator[Spellbook]:
    """Open the vault that the options name, and count the errors that a command ends with."""
    with spellbook.open(**named(ctx)) as book:
        ctx.ensure_object(dict)["book"] = book
        try:
            yield book
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            book.meter.failed(ctx.command_path.removeprefix(ctx.find_root().command_path).strip(), "cli", error)
            raise


_COMMANDS = {
    "init use reindex watch mcp": "index",
    "serve": "serve",
    "search memorize find recent show history": "search",
    "context": "context",
    "open": "editor",
    "scribe add save forget edit merge": "edit",
    "log undo": "undo",
    "mv keep": "edit",
    "export import snapshot": "backup",
    "status doctor demo": "doctor",
    "install": "install",
    "capture": "context",
    "merge-driver": "merge_driver",
    "sync": "sync",
    "model": "models",
    "token": "serve",
    "completion": "install",
}
"""The commands of each module of this room."""

TOOLS = {"revise": "edit", "erase": "forget"}
"""Tools whose names are commands, too, and the same commands as a person calls them."""


class _Main(Group):
    """Imports the module of a command when the command runs, all of them for help and for a word that is none."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = TOOLS.get(name, name)
        if name not in self.commands:
            of_it = [module for names, module in _COMMANDS.items() if name in names.split()]
            for module in of_it or _COMMANDS.values():
                import_module(f"spellbook.cli.{module}")
        return super().get_command(ctx, name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        self.get_command(ctx, "")
        self.commands = {name: self.commands[name] for names in _COMMANDS for name in names.split()}
        return super().list_commands(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        first_help.write(formatter, sorted(name for names in _COMMANDS for name in names.split()))


_FOLDER = str(Path(__file__).parents[1]).replace("%", "%%")
_ORIGIN = f"%(prog)s %(version)s from {_FOLDER} (Python {sys.version.partition(' ')[0]})"


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spellbook", message=_ORIGIN)
@vault_option
def main() -> None:
    """
    Spellbook: a memory for you and your AI agents, in Markdown files you own.

    \b
    spellbook init ~/notes
    spellbook add "Keys are rotated every 90 days."
    spellbook search "how do we rotate keys"

    Notes change only when you ask, and nothing leaves this machine.
    """
    if os.environ.get("SPELLBOOK_CONTAINER"):  # every command of an image uses what its server uses
        from spellbook.http import container

        os.environ.update(container.layout().environment)


def warn_of_unmatched(book: Reader, filter: dict[str, object] | None) -> None:
    """Say on stderr which values of a filter no note has, for commands whose answers do not."""
    if filter:
        output.unmatched(book.index.catalog.unmatched(conditions(filter), book.index.visible))
