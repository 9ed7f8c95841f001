"""
Rerankers run by a service: they read a question and a text together.

They have a timeout set by the caller, and either score every text or fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from spellbook.models.base import clean
from spellbook.models.services.client import QUERY, Patience, ServiceClient
from spellbook.settings.config import Service
from spellbook.system.errors import InvalidInput

KEY = "SPELLBOOK_RERANKER_API_KEY"
"""Environment variable of the reranker's key: another service, which must not see the embedder's key."""


class ServiceReranker:
    """A reranker behind TEI's `/rerank` (`tei`), or the one that Jina, Cohere, vLLM and llama.cpp have (`rerank`)."""

    def __init__(self, service: Service) -> None:
        if service.options:
            raise InvalidInput(
                f"{service.kind} has no option {min(service.options)!r:.80}.", "Leave out what stands after ?."
            )
        self._service = service
        self.name = f"{service.kind}:{service.model}" if service.model else f"{service.kind}@{service.url}"
        self._client = ServiceClient(service, "The reranker", "Start it, or unset SPELLBOOK_RERANKER.", (KEY,))
        self._raw = False

    def rerank(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return how well each text answers `query`, 0..1. Raises EmbeddingError on a failure, and after `seconds`."""
        if not texts:
            return []
        body: dict[str, Any] = {"query": clean(query)}
        if self._service.kind == "tei":
            body |= {"texts": [clean(text) for text in texts], "raw_scores": False, "truncate": True}
        else:
            body |= {"model": self._service.model, "documents": [clean(text) for text in texts]}
        answer = self._client.post("/rerank", body, Patience(min(QUERY.connect, seconds), seconds, 2))
        try:
            scores = _scores(answer, len(texts))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self._client.refuse(
                "did not score every text", "Is it a reranker? Check the address, or unset SPELLBOOK_RERANKER."
            )
        # llama.cpp gives logits, others what a sigmoid (here by tanh) has made of them; once seen, so it stays.
        self._raw = self._raw or not all(0 <= score <= 1 for score in scores)
        return [0.5 * (1 + math.tanh(score / 2)) for score in scores] if self._raw else scores


def _scores(answer: Any, count: int) -> list[float]:
    items = answer["results"] if isinstance(answer, dict) else answer
    scores = {
        item["index"]: float(item["relevance_score"] if "relevance_score" in item else item["score"]) for item in items
    }
    if len(items) != count or not all(map(math.isfinite, scores.values())):
        raise ValueError
    return [scores[i] for i in range(count)]
