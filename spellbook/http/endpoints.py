"""Endpoints of the API, each with verb and function; its model, route and description are made of the verb."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import GenericAlias
from typing import Annotated, Any, Concatenate

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.http.faults import MOST_FIELDS, InvalidFields
from spellbook.http.jobs import Jobs
from spellbook.http.served import Served, caller_of, in_thread, language, served_of, waiting, writing
from spellbook.http.tokens import Caller, May
from spellbook.index.metrics import Meter
from spellbook.library.limited import Seen
from spellbook.mcp.arguments import bounded
from spellbook.notes.labels import listed
from spellbook.settings import translate
from spellbook.system.errors import InvalidInput
from spellbook.text import unicode
from spellbook.text.quoting import json_of, one_line
from spellbook.verbs import aliases
from spellbook.verbs.declare import MOST_ID, Argument, Verb

Fields = dict[str, Any]
"""The body of an answer, as JSON can hold it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request: the book as the caller sees it, and the `id` in the address, "" if it has none."""

    request: Request
    served: Served
    caller: Caller
    book: Seen
    id: str = ""

    @property
    def jobs(self) -> Jobs:
        """The long work that the caller may know of; none for a limited one, since it is of the machine."""
        return Jobs() if self.caller.is_limited else self.served.jobs

    def translated(self, message: str) -> str:
        """Return a message of the package in Korean or English, as the request asks."""
        return translate.translated(message, language(self.request))


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with another status than the endpoint's first, or with headers; None for `body` is an empty one."""

    body: Fields | None
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


Answering = Callable[Concatenate[Call, ...], Fields | Reply]
"""Answers a request, whose arguments it takes by name."""


@dataclass(frozen=True)
class Endpoint:
    """
    One method of one address: `verb` runs in a worker thread, its docstring is the description.

    `names` maps arguments renamed here to the table's names. `statuses` are those of an answer, the usual one first;
    304 has no body.
    """

    method: str
    path: str
    verb: Answering
    declared: Verb
    statuses: tuple[int, ...] = (200,)
    names: Mapping[str, str] = field(default_factory=dict)
    waits: bool = False
    """Whether the verb waits for other machines."""

    @property
    def right(self) -> May:
        """The right that it needs."""
        return self.declared.right

    @cached_property
    def taken(self) -> dict[str, Argument]:
        """The arguments that it takes, by name."""
        return self.declared.taken(self.verb, self.names)

    @cached_property
    def model(self) -> type[BaseModel]:
        """The model that checks its arguments, of a query or a JSON object. Unknown names are refused."""
        fields: dict[str, Any] = {name: _field(each, is_json=self.has_body) for name, each in self.taken.items()}
        return create_model(self.name.title(), __config__=ConfigDict(extra="forbid", frozen=True), **fields)

    @property
    def name(self) -> str:
        """The verb's name, by which errors are counted."""
        return self.verb.__name__.strip("_")

    @property
    def has_body(self) -> bool:
        """Whether it takes a JSON object; others take a query."""
        return self.method in {"POST", "PATCH"}

    @property
    def route(self) -> Route:
        """The route that answers it."""
        return Route(self.path.replace("{id}", "{id:path}"), partial(_answer, self), methods=[self.method])


async def _answer(endpoint: Endpoint, request: Request) -> Response:
    """Check the caller and the arguments, run the verb in a thread, and answer in JSON."""
    served = served_of(request)
    who = caller_of(request)
    body = await request.body() if endpoint.has_body and who.has(endpoint.right) else b""
    try:
        who.require(endpoint.right)
        usual = in_thread if endpoint.right == "read" else writing
        thread = waiting if endpoint.waits else usual
        return await thread(_run, endpoint, request, served, who, body)
    except Exception as error:
        await in_thread(_count_failure, served.book.meter, endpoint.name, error)
        raise


def _count_failure(meter: Meter, verb: str, error: Exception) -> None:
    """Count an error; what was sent is never kept."""
    meter.failed(verb, "http", error, message=error.kinds if isinstance(error, InvalidFields) else "")


def _run(endpoint: Endpoint, request: Request, served: Served, who: Caller, body: bytes) -> Response:
    arguments = _arguments_of(endpoint, request, body)
    id = request.path_params.get("id", "")
    if "{id}" in endpoint.path:
        check_id(id)
    book = served.book_of(who)
    done = endpoint.verb(Call(request, served, who, book, id), **dict(arguments))
    reply = done if isinstance(done, Reply) else Reply(done, endpoint.statuses[0])
    if reply.body is None:
        return Response(status_code=reply.status, headers=dict(reply.headers))
    return Response(json_of(book.qualified(reply.body)), reply.status, dict(reply.headers), "application/json")


def check_id(id: str) -> None:
    """Raise InvalidInput for a text that cannot be an id or a path."""
    unicode.check(id)
    if not id.strip() or len(id) > MOST_ID:
        raise InvalidInput(f"The id has {len(id):,} letters.", f"Give an id or a path of 1 to {MOST_ID:,}.")


def _arguments_of(endpoint: Endpoint, request: Request, body: bytes) -> BaseModel:
    """Return the arguments of a request, checked. Raises InvalidInput."""
    arguments: Any = _decode(body) if endpoint.has_body else {}
    if not isinstance(arguments, dict):
        raise InvalidInput("The body must be one JSON object.", 'For example {"text": "…"}.')
    query = request.query_params
    lists = {name for name, each in endpoint.taken.items() if each.kind == "texts"}
    for name in query:
        if endpoint.has_body or (len(query.getlist(name)) > 1 and name not in lists):
            wrong = "belongs into the body, not into the address" if endpoint.has_body else "given twice"
            raise InvalidFields({one_line(name[:60]): wrong})
        arguments[name] = query.getlist(name) if name in lists else query[name]
    unicode.check(arguments)
    try:
        named = aliases.own(arguments, endpoint.taken.keys(), f"{endpoint.method} {endpoint.path}")
    except InvalidInput as error:
        name, _, wrong = str(error).partition(" ")
        raise InvalidFields({name: wrong.removesuffix(".")}, "unknown") from error
    return checked(endpoint, named, is_json=endpoint.has_body)


def checked(endpoint: Endpoint, arguments: Mapping[str, Any], *, is_json: bool = False) -> BaseModel:
    """Return an endpoint's checked arguments; in a query or form the text `12` is a number. Raises InvalidFields."""
    unicode.check(arguments)
    model = endpoint.model
    try:
        if is_json:
            return model.model_validate_json(json.dumps(arguments), strict=True)
        return model.model_validate(arguments)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[:MOST_FIELDS]
        fields = {one_line(".".join(map(str, each["loc"]))[:60]) or "body": one_line(each["msg"]) for each in wrong}
        raise InvalidFields(fields, ", ".join(sorted({each["type"] for each in wrong}))) from error


def _field(of: Argument, *, is_json: bool) -> tuple[Any, Any]:
    """Return the type and the default of an argument, in a JSON body or else in an address."""
    default: Any = ... if of.is_needed else of.default
    decoded: tuple[Any, ...] = ()
    if of.kind == "object":
        form = {"type": "string", "contentMediaType": "application/json", "maxLength": of.most}
        form = {"type": "object", **of.schema} if is_json else form
        value: Any = Annotated[dict[str, Any], WithJsonSchema(form), AfterValidator(partial(_checked_size, of.most))]
        decoded = () if is_json else (BeforeValidator(_json),)
    elif of.kind == "texts":
        value = Annotated[
            GenericAlias(tuple, (bounded(of), ...)), Field(min_length=1 if default else 0, max_length=of.items)
        ]
        default = () if default is None else default
        # In an address a list may be one text; a value that is none is left to the model.
        decoded = (BeforeValidator(lambda given: tuple(m) if isinstance(m := listed(given, of.apart), list) else m),)
    else:
        value = bounded(of)
    value = value | None if default is None else value
    return Annotated[(value, *decoded, Field(description=of.about))], default


def _checked_size(most: int, value: Any) -> Any:
    """Return a value that is at most so long as JSON. Raises ValueError."""
    if (size := len(json.dumps(value, ensure_ascii=False))) > most:
        raise ValueError(f"{size:,} characters as JSON are too many, at most {most:,} are allowed")
    return value


def _decode(body: bytes) -> Any:
    """Return a body as JSON; without one it is an empty object. Raises InvalidInput."""
    try:
        return _json(body.decode("utf-8")) if body else {}
    except ValueError as error:
        reason = one_line(str(error))[:100]
        raise InvalidInput(f"The body is not JSON: {reason}.", "Send one JSON object in UTF-8.") from error


def _json(value: Any) -> Any:
    """Return a text as JSON, None for an empty one, and another value as it is. Raises ValueError."""
    if not isinstance(value, str):
        return value
    return from_json(value, allow_inf_nan=False) if value.strip() else None
