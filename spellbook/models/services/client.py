"""
An HTTP client of one service: JSON requests, each with a deadline.

Every failure is an EmbeddingError that names the service, the problem and the next step. The key is sent to the
configured address only, and never appears in a message.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from spellbook.models.services.exchange import Remote
from spellbook.settings.config import Service
from spellbook.system.errors import AuthenticationError, EmbeddingError, RateLimited
from spellbook.system.lazy import httpx, regex

_PAUSE = 30.0
"""Seconds without a request after a failure, so that not every search waits for the service."""

_MOST_PAUSE = 120.0
"""Seconds that a service may ask for by Retry-After."""

_BACKOFF = 0.2
"""Seconds before the second try, doubled before each further one."""

_TOO_LONG = regex(
    r"too (?:large|long)|larger than|exceed|context (?:size|length)|maximum context|less than \d+ tokens", re.I
)


POOLING = "Start it with `--pooling mean`, or as the model wants it."
"""The advice for a llama.cpp that gives a vector for each token."""


class TooLong(EmbeddingError):
    """The service takes no text of that length, or not so many at once."""


class NotThere(EmbeddingError):
    """The service has nothing at the path that was asked."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one request may take: `connect` and `total` in seconds, with `tries` and the pauses between them."""

    connect: float
    total: float
    tries: int


PASSAGES = Patience(1.0, 4.0, 2)
"""Somebody waits for new texts to be embedded."""

QUERY = Patience(1.0, 4.0, 3)
"""Somebody waits for an answer."""

UNHURRIED = Patience(5.0, 180.0, 5)
"""Nobody waits; a large model may be loaded first."""


class ServiceClient:
    """
    Asks `service` as `title`, and `start` tells how to start it; any number of threads.

    It connects, and reads the key from the environment, at the first request.
    """

    def __init__(self, service: Service, title: str, start: str, keys: tuple[str, ...]) -> None:
        self.who = f"{title} at {service.url}" + (f" ({service.model})" if service.model else "")
        self._service = service
        self._start = start
        self._keys = keys
        self._remote = Remote(self.who, service.url, self._headers)
        self._key = ""
        self._pauses: dict[bool, tuple[float, EmbeddingError]] = {}
        """The end of the pause, and the failure it follows: of questions (False), of passages (True)."""

    def post(self, path: str, body: Mapping[str, Any], patience: Patience) -> Any:
        """
        Return the JSON that answers `body`. Raises TooLong, NotThere, AuthenticationError, RateLimited, EmbeddingError.

        For a while after a failure it is asked by UNHURRIED alone, whose success ends the pause.
        """
        until, failure = self._pauses.get(patience is PASSAGES, (0.0, None))
        if failure and patience is not UNHURRIED and (rest := until - time.monotonic()) > 0:
            raise type(failure)(f"{failure.message.rstrip('.')}; it is asked again in {rest:.0f} s.", failure.hint)
        data = json.dumps(body, ensure_ascii=False).encode()
        until = time.monotonic() + patience.total
        for tried in range(1, patience.tries + 1):
            try:
                answer = self._once(path, data, patience, until)
                break
            except _Passing as passing:
                pause = passing.after or _BACKOFF * 2 ** (tried - 1)
                if tried == patience.tries or time.monotonic() + pause >= until or passing.spent:
                    again = time.monotonic() + min(max(passing.after, _PAUSE), _MOST_PAUSE)
                    self._pauses[True] = again, passing.failure
                    # A timeout of long texts does not mean that a question would time out.
                    if patience is not PASSAGES or not passing.spent:
                        self._pauses[False] = again, passing.failure
                    raise passing.failure from passing.__cause__
                time.sleep(pause)
        if patience is UNHURRIED:
            self._pauses.clear()
        return answer

    def refuse(self, what: str, hint: str = "") -> NoReturn:
        """Raise the EmbeddingError that the answer `what` deserves."""
        raise EmbeddingError(f"{self.who} {what}.", hint or "Check its address and its model.")

    def _once(self, path: str, data: bytes, patience: Patience, until: float) -> Any:
        try:
            response, content = self._remote.exchange(path, data, until, connect=patience.connect)
        except (httpx.ConnectTimeout, httpx.ConnectError) as error:
            failure = EmbeddingError(f"{self.who} cannot be reached ({self._clean(str(error))}).", self._start)
            raise _Passing(failure) from error
        except httpx.TimeoutException as error:
            waited = f"did not answer within {patience.total:.0f} s"
            raise _Passing(EmbeddingError(f"{self.who} {waited}.", self._start), spent=True) from error
        except httpx.TransportError as error:
            raise _Passing(EmbeddingError(f"{self.who} broke off ({self._clean(str(error))}).", self._start)) from error
        except (httpx.InvalidURL, OSError, ValueError) as error:  # the address names an invalid host
            reason = self._clean(str(error))
            raise EmbeddingError(f"{self.who} cannot be asked ({reason}).", "Check its address.") from error
        return self._read(path, response, content)

    def _read(self, path: str, response: httpx.Response, content: bytes) -> Any:
        status = response.status_code
        is_right = f"Is the address right? {self._service.url}{path} was asked."
        if status == 200:
            try:
                return json.loads(content)
            except (ValueError, RecursionError):
                kind = self._clean(response.headers.get("content-type", "")) or "something"
                self.refuse(f"answered with {kind} that is not JSON", is_right)
        reason = self._reason(content)
        because = f" ({reason})" if reason else ""
        if status in {401, 403}:
            # Its answer may repeat a part of the key.
            name = " or ".join(self._keys)
            refusal = f"{self.who} refuses the key" if self._key else f"{self.who} wants a key"
            raise AuthenticationError(f"{refusal} (HTTP {status}).", f"Put the right key into {name} and start again.")
        retry_after = response.headers.get("retry-after", "")
        after = float(retry_after) if re.fullmatch(r"[0-9]{1,9}", retry_after) else 0.0
        if status == 429:
            limited = RateLimited(f"{self.who} wants to be asked less often{because}.", "Wait, or raise its limit.")
            raise _Passing(limited, after)
        if status in {400, 413, 422, 500} and (status == 413 or _TOO_LONG.search(reason)):
            raise TooLong(
                f"{self.who} takes no text so long{because}.", "Give it a larger context, or make chunk_tokens smaller."
            )
        if status >= 500:
            raise _Passing(EmbeddingError(f"{self.who} failed: HTTP {status}{because}.", self._start), after)
        if 300 <= status < 400:
            self.refuse("sends on to another address, which is not followed", "Configure the address it is really at.")
        if status == 404 and self._service.kind == "ollama" and "model" in reason:
            self.refuse(f"has no such model{because}", f"Run `ollama pull {self._service.model}`.")
        if status in {404, 405}:
            raise NotThere(f"{self.who} has no {path}: HTTP {status}{because}.", is_right)
        self.refuse(f"refuses: HTTP {status}{because}", POOLING if reason.startswith("Pooling type") else "")

    def _headers(self) -> dict[str, str]:
        self._key = _key(self._keys)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        return {**headers, "Authorization": f"Bearer {self._key}"} if self._key else headers

    def _reason(self, content: bytes) -> str:
        """Return the sentence in an error's body, as Ollama, OpenAI, llama.cpp and TEI put it."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            return "" if b"<" in content[:200] else self._clean(content.decode("utf-8", "replace"))
        for name in ("error", "message", "detail"):
            if isinstance(body, dict) and name in body:
                body = body[name]
        return self._clean(body if isinstance(body, str) else json.dumps(body))

    def _clean(self, text: str) -> str:
        """Return `text` without the key, on one line, short."""
        if self._key:
            text = text.replace(self._key, "…")
        return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text).split())[:200].rstrip(".")


@dataclass(eq=False)
class _Passing(Exception):
    """A failure that may pass: worth another try after `after` seconds (0: soon) unless the time is `spent`."""

    failure: EmbeddingError
    after: float = 0.0
    spent: bool = False


def _key(names: tuple[str, ...]) -> str:
    for name in names:
        if key := os.environ.get(name, "").strip():
            if not re.fullmatch(r"[\x21-\x7e]+", key):
                raise AuthenticationError(f"{name} holds a blank or a letter that no key has.", "Copy the key again.")
            return key
    return ""
