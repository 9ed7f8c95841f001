"""A client whose every answer is checked against the OpenAPI document of the app that it asks."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import httpx
from starlette.testclient import TestClient


class Described(TestClient):
    """Raises AssertionError for an answer that the document does not describe."""

    _document: dict[str, Any] | None = None

    def request(self, method: str, url: Any, **options: Any) -> httpx.Response:
        answer = super().request(method, url, **options)
        if self._document is None:
            self._document = super().request("GET", "/api/openapi.json").json()
        check(self._document, method, urlsplit(str(url)).path, answer)
        return answer


def check(document: dict[str, Any], method: str, path: str, answer: httpx.Response) -> None:
    """Compare an answer with its description: its status is named, and its body is an object where there is one."""
    for known, operations in document["paths"].items():
        if method.lower() in operations and re.fullmatch(known.replace("{id}", ".+"), path):
            break
    else:
        return  # an address that is not there
    response = operations[method.lower()]["responses"][str(answer.status_code)]
    if "content" in response or "$ref" in response:
        assert isinstance(answer.json(), dict)
    else:
        assert not answer.content
