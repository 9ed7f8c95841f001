"""
A language model that guesses what the note says that a question looks for, if a person has set one up.

It gets the question and nothing else. Its answer is bounded, and is only searched for and shown. A search waits 3
seconds for it; a later answer, for example after the model was loaded, is kept for the next time.
"""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import Future
from functools import cache
from typing import Any

from spellbook.models.base import clean
from spellbook.models.services.client import UNHURRIED, Patience, ServiceClient
from spellbook.settings import config
from spellbook.system.errors import EmbeddingError, InvalidInput, SpellbookError

_SECONDS = 3
"""Seconds that a search waits for a guess."""

_LATE = Patience(UNHURRIED.rank, 1.0, 60.0, 1)
"""The model may have to be loaded first, and Ollama stops loading it when the caller disconnects."""

_MOST_BYTES = 1_000_000
"""Bytes of an answer."""

_MOST_LETTERS = 300
"""Letters of each of the two texts; the rest is cut off."""

_MOST_KEPT = 300
"""Questions whose guesses are kept for the next time."""

_MOST_RUNNING = 4
"""Questions that are open at the same time: each keeps a thread until it is answered."""

_PROMPT = """Somebody searches their own notes. Guess what the note they look for says: a wrong guess does little harm.
Answer with one JSON object and nothing else:
{"sentence": "the sentence you expect the note to contain, in the question's language, with likely names",
"words": "up to ten words such a note would use in another language: English for a Korean question, else Korean"}

The question: """


def guess(name: str, question: str) -> tuple[tuple[str, ...], str]:
    """Return up to two texts that the model of `Config.guesser` guesses in 3 seconds, or none and why."""
    model = _model(name)
    try:
        return model.future(clean(question).strip()).result(_SECONDS), ""
    except TimeoutError:
        return (), f"{model.client.who} did not answer within {_SECONDS} s."
    except SpellbookError as error:
        return (), error.message


class _Model:
    """The language model of this name, with what it guessed for the last questions. Raises InvalidInput."""

    def __init__(self, name: str) -> None:
        service = config.service(name)
        if service is None:
            raise InvalidInput("No language model is set up to guess.", config.GUESSER)
        self.client = ServiceClient(service, "The language model", "", ("SPELLBOOK_GUESSER_API_KEY",), _MOST_BYTES)
        self._name = service.model
        base = "" if re.search(r"[^/]/v\d", service.url) else "/v1"
        self._path = "" if service.url.endswith("/chat/completions") else f"{base}/chat/completions"
        self._guard = threading.Lock()
        self._kept: dict[str, Future[tuple[str, ...]]] = {}

    def future(self, question: str) -> Future[tuple[str, ...]]:
        """Return the guess for a question, which may still be made; one that failed is made again."""
        with self._guard:
            kept = self._kept.pop(question, None)
            if kept is None or (kept.done() and kept.exception()):
                if sum(not other.done() for other in self._kept.values()) >= _MOST_RUNNING:
                    raise EmbeddingError(f"{self.client.who} is still answering earlier questions.")
                kept = Future()
                threading.Thread(target=self._ask, args=(question, kept), daemon=True).start()
            self._kept[question] = kept
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            return kept

    def _ask(self, question: str, kept: Future[tuple[str, ...]]) -> None:
        body = {"model": self._name, "messages": [{"role": "user", "content": _PROMPT + question}], "stream": False}
        try:
            texts = _texts(self.client.post(self._path, body, _LATE))
            if not texts:
                raise EmbeddingError(f"{self.client.who} did not answer with the texts it was asked for.")
            kept.set_result(texts)
        except Exception as error:  # whatever it is, it belongs to whoever waits
            kept.set_exception(error)


def _texts(answer: Any) -> tuple[str, ...]:
    """Return the two texts of an answer, each on one line and cut; less or none if it does not have them."""
    try:
        content: str = answer["choices"][0]["message"]["content"].rpartition("</think>")[2]
        # Many models put it into a fence, or say something before it.
        guessed = json.loads(content[content.index("{") : content.rindex("}") + 1])
        values = [guessed.get(name) for name in ("sentence", "words")]
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError):
        return ()
    # Some give a list of words.
    lists = (value[:20] if isinstance(value, list) else [value] for value in values)
    texts = (" ".join(word for word in words if isinstance(word, str)) for words in lists)
    plain = (re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", " ", text) for text in texts)
    return tuple(line for text in plain if (line := " ".join(clean(text).split())[:_MOST_LETTERS]))


_model = cache(_Model)
