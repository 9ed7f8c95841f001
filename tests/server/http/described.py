"""A client whose every answer is checked against the OpenAPI document of the app that it asks."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import httpx
from jsonschema import Draft202012Validator
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
    """Compare an answer with its description."""
    for known, operations in document["paths"].items():
        if method.lower() in operations and re.fullmatch(known.replace("{id}", ".+"), path):
            break
    else:
        return  # an address that is not there
    responses = operations[method.lower()]["responses"]
    response = responses.get(str(answer.status_code)) or responses["default"]
    if "$ref" in response:
        response = document["components"]["responses"]["Error"]
    if "content" not in response:
        assert not answer.content
        return
    schema = response["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    Draft202012Validator(whole).validate(answer.json())
