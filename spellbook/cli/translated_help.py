"""Help of commands in the person's language; in English it is click's own, byte for byte."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterable

import click

from spellbook.cli import output
from spellbook.settings.translate import language, translated
from spellbook.system.lazy import regex

_FILLER = "\ue000"
"""Behind each letter that takes two columns while help is laid out, since click counts letters; it is never printed."""

_LEAST_COLUMNS, _MOST_COLUMNS = 30, 80
"""Columns of help; click itself writes at least 50, which a narrow terminal breaks."""

_TAIL = regex(r"(\S {2,})(\S.*)")


class _Formatter(click.HelpFormatter):
    """Lays out help in Korean."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        args = " ".join(_wide(translated(word)) for word in args.split(" "))
        super().write_usage(prog, args, prefix or f"{_wide(translated('Usage:'))} ")

    def write_heading(self, heading: str) -> None:
        super().write_heading(_wide(translated(heading)))

    def write_text(self, text: str) -> None:
        super().write_text("\n\n".join(map(_paragraph, re.split(r"\n\s*\n", text))))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(term, _option(text)) for term, text in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_FILLER, "")


class _Context(click.Context):
    def make_formatter(self) -> click.HelpFormatter:
        formatter = click.HelpFormatter if language() == "en" else _Formatter
        columns = min(shutil.get_terminal_size().columns, self.max_content_width or _MOST_COLUMNS)
        return formatter(width=self.terminal_width or max(columns - 2, _LEAST_COLUMNS))


class TranslatedCommand(click.Command):
    """A command whose help is in the person's language."""

    context_class: type[click.Context] = _Context

    def get_short_help_str(self, limit: int = 45) -> str:
        if language() == "en":
            return super().get_short_help_str(limit)
        first = inspect.cleandoc(self.help or "").split("\n\n")[0]
        sentence = re.match(r".*?\.(?=\s|$)", _paragraph(first))
        return sentence[0].removesuffix(".") if sentence else ""


def _paragraph(text: str) -> str:
    if text.startswith("\b"):  # examples: what stands behind two blanks says what they do
        return _wide(
            "\n".join(_TAIL.sub(lambda tail: tail[1] + translated(tail[2]), line) for line in text.split("\n"))
        )
    return _wide(translated(" ".join(text.split())))


def _option(described: str) -> str:
    """Translate an option's help and what click adds in brackets; a command's help is in Korean already."""
    text, _, extra = described.partition("  [") if described.endswith("]") else (described, "", "")
    parts = "; ".join(translated(part) for part in extra.removesuffix("]").split("; "))
    return _wide(translated(text)) + (f"  [{_wide(parts)}]" if extra else "")


def _wide(text: str) -> str:
    return "".join(letter + _FILLER * (output.width_of(letter) - 1) for letter in text.replace(_FILLER, ""))
