"""The OpenAPI 3.1 document of the API: the arguments of each endpoint by its model; a result is just an object."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.http.endpoints import Endpoint
from spellbook.http.headers import API
from spellbook.http.served import caller_of, in_thread
from spellbook.text.quoting import json_of
from spellbook.verbs.declare import MOST_ID

PATH = "/api/openapi.json"

_FAILING = (400, 401, 403, 404, 405, 409, 413, 421, 429, 500, 502, 503)
_ERRORS = {str(status): {"$ref": "#/components/responses/Error"} for status in (*_FAILING, "default")}
_JSON = {"application/json": {"schema": {"type": "object"}}}
_OTHERS = {"/health": "Whether the vault is there.", PATH: "This document."}
_REF = "#/components/schemas/{model}"


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the document of the endpoints, and of the two addresses that are none."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    for path, about in _OTHERS.items():
        paths[path] = {"get": {**_head("GET", path, about), "responses": _ERRORS | _responses((200,))}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Spellbook",
            "version": API,
            "description": "A vault of Markdown notes over HTTP. An id is a note's id, its path, or a chunk's id, "
            "percent-encoded. A conflict is answered 409 with the difference, also where If-Match was sent. "
            "`q` is another name of `query`; filter keys are in docs/reference.md.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "security": [{"token": []}, {}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Error": {"description": "An error.", "content": _JSON}},
        },
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    id = {"type": "string", "minLength": 1, "maxLength": MOST_ID}
    parameters: list[dict[str, Any]] = []
    if "{id}" in endpoint.path:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": id})
    body: dict[str, Any] = {}
    whole = endpoint.model.model_json_schema(schema_generator=_PlainSchema, ref_template=_REF)
    schemas.update(whole.pop("$defs", {}))
    needed = whole.get("required", ())
    if endpoint.has_body:
        name = f"{endpoint.model.__name__}Request"
        schemas[name] = whole
        schema = {"$ref": _REF.format(model=name)}
        body["requestBody"] = {"required": bool(needed), "content": {"application/json": {"schema": schema}}}
    else:
        for name, schema in whole.get("properties", {}).items():
            # A missing one is left out, so null is neither a value nor a default.
            kept = {key: value for key, value in schema.items() if key != "default" or value is not None}
            for each in kept.pop("anyOf", []):
                kept |= each if each != {"type": "null"} else {}
            parameters.append({"name": name, "in": "query", "required": name in needed, "schema": kept})
    return {
        **_head(endpoint.method, endpoint.path, inspect.getdoc(endpoint.verb) or ""),
        **({"parameters": parameters} if parameters else {}),
        **body,
        "responses": _ERRORS | _responses(endpoint.statuses),
        "x-right": endpoint.right,
    }


def _head(method: str, path: str, about: str) -> dict[str, Any]:
    name = re.sub(r"\W+", "_", f"{method.lower()}{path}").strip("_")
    return {"operationId": name, "summary": about.splitlines()[0] if about else path, "tags": [path.split("/")[1]]}


def _responses(statuses: Iterable[int]) -> dict[str, Any]:
    """Return the responses with these statuses: each has a JSON object, but 304 has no body."""
    answer = {"description": "The answer.", "content": _JSON}
    return {str(status): {"description": "Nothing new."} if status == 304 else answer for status in statuses}


class _PlainSchema(GenerateJsonSchema):
    """JSON Schema without pydantic's titles of names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def route(endpoints: Sequence[Endpoint]) -> Route:
    """Return the route of the document, which is made at the first request and kept."""
    made = cache(lambda: json_of(document(endpoints)))

    async def openapi(request: Request) -> Response:
        caller_of(request).require("read")
        return Response(await in_thread(made), media_type="application/json")

    return Route(PATH, openapi)
