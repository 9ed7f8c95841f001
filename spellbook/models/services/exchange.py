"""
One request over HTTP and its whole answer, before a deadline, whatever the server does meanwhile.

A timeout of a socket ends one wait alone: a server that sends a letter a second would be waited for without end, and
the system's resolver has no timeout. So each exchange has a thread, and nobody waits for it after its deadline.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from spellbook.settings.config import is_local
from spellbook.system.errors import EmbeddingError
from spellbook.system.lazy import httpx

MOST_BYTES = 64_000_000
"""Bytes of an answer: 32 vectors of 4,096 numbers are 3 MB of JSON, 300 are 28 MB."""

_LEAST = 0.05
"""Seconds that an exchange has at least."""


class Remote:
    """
    Sends requests to the server at `url`, which messages call `who`; for any number of threads.

    `headers` are asked for at the first request, `options` are those of httpx.Client. No redirect is followed, and no
    proxy is used for this machine.
    """

    def __init__(self, who: str, url: str, headers: Callable[[], Mapping[str, str]], **options: Any) -> None:
        self._who, self._url, self._headers, self._options = who, url, headers, options
        self._guard = threading.Lock()
        self._http: httpx.Client | None = None

    def exchange(
        self, path: str, data: bytes | None, until: float, *, connect: float = 2.0, most: int = MOST_BYTES
    ) -> tuple[httpx.Response, bytes]:
        """
        Return the answer to `data` (to a GET, if that is None) and its body, by `until` (monotonic clock).

        `connect` is the time to connect, in seconds. Raises httpx.TransportError, ReadTimeout at the deadline;
        EmbeddingError for a body of more than `most` bytes; InvalidURL, OSError or ValueError for an invalid address.
        """
        http, left = self._connect(), max(_LEAST, until - time.monotonic())
        timeout = httpx.Timeout(left, connect=min(connect, left))
        outcome: list[tuple[httpx.Response, bytes] | Exception] = []

        def run() -> None:
            try:
                method, content = "GET" if data is None else "POST", bytearray()
                with http.stream(method, self._url + path, content=data, timeout=timeout) as response:
                    # Undecoded, because it asked for no compression: a small answer stays small.
                    for part in response.iter_raw(65_536):
                        content += part
                        if time.monotonic() > until:
                            return
                        if len(content) > most:
                            size = f"{self._who} gave an answer of more than {most // 1_000_000} MB."
                            raise EmbeddingError(size, "Check its address and its model.")
                outcome.append((response, bytes(content)))
            except Exception as error:
                outcome.append(error)

        thread = threading.Thread(target=run, name="spellbook-exchange", daemon=True)
        thread.start()
        thread.join(left)
        result = outcome[0] if outcome else httpx.ReadTimeout("the answer takes too long")
        if isinstance(result, Exception):
            raise result
        return result

    def _connect(self) -> httpx.Client:
        with self._guard:
            if self._http is None:
                self._http = connect(self._who, self._url, self._headers(), **self._options)
                weakref.finalize(self, self._http.close)
            return self._http


def connect(who: str, url: str, headers: Mapping[str, str], **options: Any) -> httpx.Client:
    """Return an httpx client for `url`, which uses no proxy for this machine. Raises EmbeddingError."""
    headers = {"Accept-Encoding": "identity", **headers}
    try:
        return httpx.Client(headers=headers, trust_env=not is_local(url), **options)
    except (ValueError, ImportError, OSError) as error:
        raise EmbeddingError(f"{who} cannot be asked ({error}).", "Check the proxy in your environment.") from error
