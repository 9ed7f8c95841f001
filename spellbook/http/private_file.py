"""A file beside the vault's state that says who is let in: hashes alone, for its owner, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from spellbook.system import disk
from spellbook.system.errors import StorageError

T = TypeVar("T")
_PATIENCE = 10.0


class KeptFile(Generic[T]):
    """A JSON file that several processes read and change; it is read at each request, so a change holds at once."""

    def __init__(self, file: Path, parse: Callable[[Any], T], empty: Any) -> None:
        """
        `parse` returns what the JSON means, `empty` is the JSON of a file that is not there.

        It may raise AttributeError, ValueError, TypeError and KeyError.
        """
        self.file = file
        self._parse, self._empty = parse, empty

    def value(self) -> T:
        """Return what the file holds. Raises StorageError for a damaged file."""
        try:
            return self._parse(json.loads(disk.read_small(self.file)))
        except FileNotFoundError:
            return self._parse(self._empty)
        except OSError as error:
            raise self._fault(error.strerror or str(error)) from error
        except (AttributeError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._fault("it is not as Spellbook wrote it") from error

    @contextmanager
    def alone(self) -> Iterator[T]:
        """Yield what the file holds; other processes and threads wait. Raises StorageError."""
        busy = StorageError(f"{self.file}: another process is changing it.", "Try again in a moment.")
        with disk.explain_errors(str(self.file)):
            self.file.parent.mkdir(0o700, parents=True, exist_ok=True)
            with disk.alone(self.file.with_suffix(".lock"), _PATIENCE, busy):
                yield self.value()

    def write(self, value: Any) -> None:
        """Replace the file by `value` as JSON; only within `alone`."""
        data = json.dumps(value, ensure_ascii=False, indent=1).encode()
        disk.put(self.file, data, 0o600)

    def _fault(self, reason: str) -> StorageError:
        return StorageError(
            f"{self.file}: {reason}, so nobody is let in.", "Mend the file, or delete it and make new tokens."
        )
