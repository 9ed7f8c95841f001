"""JSON that is larger than memory: read member by member, item by item."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import IO, Any

from spellbook.settings.limits import MOST_VALUE
from spellbook.system.errors import InvalidInput

_FIRST_READ = 1 << 16
_BLANK = " \t\r\n"
_AFTER = {*_BLANK, *",:]}"}


def members(file: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """
    Yield key and value of each member of the JSON object in `file`; a list is yielded item by item, one in memory.

    If the file holds a list, its items have the key "". Raises InvalidInput if the file, called `name`, is no JSON.
    """
    text = _HeldText(file, name)
    if text.sign("{[") == "[":
        yield from (("", item) for item in text.items())
    else:
        after = text.sign("}") if text.peek() == "}" else ","
        while after == ",":
            key = str(text.value())
            text.sign(":")
            if text.peek() == "[":
                text.sign("[")
                yield from ((key, item) for item in text.items())
            else:
                yield key, text.value()
            after = text.sign(",}")
    if text.peek():
        raise text.wrong("there is more after its end")


class _HeldText:
    """The text of the file, of which as much is held as the value that is read needs."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._json = json.JSONDecoder()
        self._held = ""
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """Return the next sign that is no blank, "" at the end."""
        while True:
            while (sign := self._held[self._at : self._at + 1]) and sign in _BLANK:
                self._at += 1
            if sign or self._ended:
                return sign
            self._read_on()

    def sign(self, expected: str) -> str:
        """Take one of the `expected` signs."""
        sign = self.peek()
        if not sign or sign not in expected:
            raise self.wrong(f"{' or '.join(expected)} is missing" if sign else "it breaks off")
        self._at += 1
        return sign

    def items(self) -> Iterator[Any]:
        """Yield the items of a list, whose opening sign is taken."""
        after = self.sign("]") if self.peek() == "]" else ","
        while after == ",":
            yield self.value()
            after = self.sign(",]")

    def value(self) -> Any:
        """Take the next value."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._held, self._at)
                # A number may go on behind the text that is held, or after its point.
                if self._ended or self._held[end : end + 1] in _AFTER:
                    self._at = end
                    return value
            except (ValueError, RecursionError) as error:
                if self._ended or isinstance(error, RecursionError):
                    breaks_off = self._ended and self._at >= len(self._held)
                    raise self.wrong("it breaks off" if breaks_off else str(error)) from error
            self._read_on()

    def _read_on(self) -> None:
        self._held = self._held[self._at :]
        self._at = 0
        if len(self._held) > MOST_VALUE:
            raise self.wrong("one of its values is too large")
        # Twice as much each time, so that a large value is not tried over and over.
        piece = self._file.read(max(_FIRST_READ, len(self._held)))
        try:
            self._held += self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            raise self.wrong("it is not UTF-8") from error
        self._ended = not piece

    def wrong(self, reason: str) -> InvalidInput:
        return InvalidInput(
            f"{self._name}: not the JSON of an export ({reason}).",
            "Is the file whole? docs/moving-in.md says what can be imported. Nothing was imported.",
        )
