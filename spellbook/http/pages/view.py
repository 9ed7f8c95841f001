"""
The basis of every page: the request, the API's verbs, the templates, and the language of the browser.

A page asks the same verbs as /api and /admin, with the same checks and rights. An action is a form's POST to /do/…,
which says what to do and goes back to a page; with a cookie it needs the value that only our own pages know.
"""

from __future__ import annotations

import datetime as dt
import hmac
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial, wraps
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from spellbook.capture.ledger import Ledger
from spellbook.editing import moves
from spellbook.http import admin, api, faults, served
from spellbook.http.api.notes import entry_of
from spellbook.http.endpoints import Answering, Call, Fields, Reply, check_id, checked
from spellbook.http.guard import COOKIE, OURS
from spellbook.http.jobs import Job
from spellbook.http.pages import differences, excerpts
from spellbook.http.tokens import May, Tokens
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.privacy import ON_PURPOSE
from spellbook.library import history
from spellbook.memories.memories import TYPES
from spellbook.notes.labels import INBOX
from spellbook.notes.titles import without_signs
from spellbook.search import newest, note_marks, toc
from spellbook.settings import translate
from spellbook.system.errors import InvalidInput, MemoryNotFound, PermissionDenied, SpellbookError
from spellbook.system.lazy import regex
from spellbook.text.quoting import counted, plain
from spellbook.text.unicode import without_ending

if TYPE_CHECKING:
    from jinja2 import Environment

DATE = "DAY MONTH YEAR"
"""A date as it is said; the Korean has NUMBER for the month."""

VALUES = {
    "category": (*toc.OURS, "people", "session"),
    "importance": ("high", "medium", "low"),
    "outcome": ("pending", "success", "partial", "failed"),
    "topic": (INBOX,),
    "trust": ("trusted", "agent", "untrusted"),
    "type": TYPES,
}
"""Values that Spellbook itself gives to properties: pages call them by a name, files and addresses keep them."""

ENDED = dt.timedelta(seconds=10)
"""How long a job that has ended stands on pages that are opened."""

_MOST_FIELDS = 100
_SENT = regex(r'(<textarea\b.*?</textarea>|\b(?:action|for|form|href|hx-get|id|name|value)="[^"]*")', re.S)
"""The attributes and texts that a form sends or a link follows: they stay letter for letter."""
_NOTES = regex("/(?:note|history)/")
_FOR_PROGRAMS = regex(r"\w\(|get_index|/api/|/admin/")

_ENDPOINTS = {each.verb: each for each in (*api.ENDPOINTS, *admin.ENDPOINTS)}
Handler = Callable[["View"], Response]
Thread = Callable[..., Awaitable[Response]]
"""Runs a function, with its arguments, in a worker thread."""


@cache
def environment() -> Environment:
    """
    Return the templates. They escape every value, and an undefined name is an error.

    All are read at the first call: an update of Spellbook under a running server changes the files, not its pages.
    """
    from jinja2 import DictLoader, Environment, StrictUndefined

    folder = resources.files(__package__) / "templates"
    loader = DictLoader({file.name: file.read_text("utf-8") for file in folder.iterdir()})
    made = Environment(autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "advice": advice,
        "author": note_marks.author,
        "chunk_address": chunk_address,
        "dated": newest.date_of,
        "day": lambda time: str(time or "")[:10],
        "differences": differences.of_patch,
        "folder_address": folder_address,
        "gist": excerpts.gist,
        "grouped": "{:,}".format,
        "marks": note_marks.of,
        "note_address": note_address,
        "without_signs": without_signs,
    }
    return made


@dataclass(frozen=True)
class View(Call):
    """One request of a browser, with its language and the fields of its form."""

    language: str = "en"
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def query(self) -> Mapping[str, str]:
        """The query in the address."""
        return self.request.query_params

    def number(self, name: str, default: int) -> int:
        """Return a number that the address asks, `default` for what is none."""
        text = self.query.get(name, "")
        return int(text[:7]) if text.isdecimal() else default

    def may(self, right: May) -> bool:
        """Return whether the caller has a right."""
        return self.caller.has(right)

    def ask(self, verb: Answering, id: str = "", /, **arguments: Any) -> Fields:
        """Return what a verb of the API answers. Raises as it does, and PermissionDenied, InvalidFields."""
        endpoint = _ENDPOINTS[verb]
        self.caller.require(endpoint.right)
        if "{id}" in endpoint.path:
            check_id(id)
        done = endpoint.verb(replace(self, id=id), **dict(checked(endpoint, arguments)))
        return done.body or {} if isinstance(done, Reply) else done

    @property
    def has_sessions(self) -> bool:
        """Whether the caller sees captured sessions, or may know that capture is on here."""
        is_on = not self.caller.is_limited and Ledger(str(self.book.config.vault)).switch().is_on
        return is_on or not self.book.index.catalog.unmatched((ON_PURPOSE,), self.book.index.visible)

    def say(self, english: str, *values: object) -> str:
        """Return a message in the browser's language; `{0}` is the first value."""
        return say(self.language, english, *values)

    def named(self, key: str, value: str) -> str:
        """Return the value of a property in the browser's language if Spellbook itself writes it, else as it is."""
        return self.say(value) if value in VALUES.get(key, ()) else value

    def count(self, number: int, noun: str) -> str:
        """Return a number of things, as `3 notes`."""
        return self.say(f"{{0}} {noun}s", f"{number:,}") if self.language == "ko" else counted(number, noun)

    def page(self, template: str, code: int = 200, **values: Any) -> HTMLResponse:
        """Return a page, or a part of one, by its template."""
        own = {
            "view": self,
            "job": self.job,
            "csrf": self.csrf,
            "translated": self.translated,
            "count": self.count,
            "named": self.named,
            "ago": lambda chunk: ago(chunk, self.say, self.count),
            "corrected": lambda chunk: history.is_corrected(self.book.index.vault, chunk.path),
        }
        return bare(self.request, template, code, **{**own, **values})

    @property
    def job(self) -> Job | None:
        """The running job, or the one that has just ended."""
        job = next(iter(self.jobs.all()), None)
        return job if job and (job.ended is None or dt.datetime.now(dt.UTC) - job.ended < ENDED) else None

    @property
    def csrf(self) -> str:
        """Return the value that a form must send back, "" where no cookie is needed."""
        return Tokens.csrf(self.request.cookies[COOKIE]) if self.caller.by_cookie else ""

    def back(self, verb: str = "", path: str = "", to: str = "") -> Response:
        """Go to a page after an action; after a `verb` its entry of the log, about a path, can be undone there."""
        place = local(to or self.form.get("to", ""))
        if done := verb and entry_of(self.book, verb, path):
            path, _, rest = place.partition("#")
            place = f"{path}{'&' if '?' in path else '?'}{urlencode({'done': done})}{'#' + rest if rest else ''}"
        return RedirectResponse(place, 303)

    def change(self, verb: Answering, id: str = "", /, **arguments: Any) -> Response:
        """Change a note by a verb of the API, and go to a page where that can be undone."""
        return self.back("edit", self.ask(verb, id, **arguments)["path"])

    def did(self, entry: str) -> tuple[str, list[str]]:
        """Return the verb of one of the latest entries of the log, and the folder or the places that it is about."""
        done = next((each for each in self.book.log() if str(each.id) == entry), None)
        if done is None:
            return "", []
        if done.verb == "add" and done.traces:
            return "add", [f"{done.traces[0].path.rpartition('/')[0]}/"]
        moved = moves.paths_of_move(self.book.index.vault.journal, done) or ()
        folders = [without_ending(path).rpartition("/")[0] for path in moved]
        names = [without_ending(path).rpartition("/")[2] for path in moved]
        quote = "‘{}’" if self.language == "ko" else "{}"
        places = folders if len({*folders}) > 1 else names  # the names, if the folder stays
        return done.verb, [quote.format(place or self.say("no folder")) for place in places]


def _seen(page: str) -> str:
    """Return a page without letters that nobody sees, but for what a form sends and where a link leads."""
    parts = _SENT.split(page)
    parts[::2] = map(plain, parts[::2])
    return "".join(parts)


def bare(
    request: Request, template: str, code: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Return a page that stands alone, for a person whom the server may not know, by its template."""
    tongue = served.language(request)
    own = {"_": partial(say, tongue), "language": tongue, "theme": request.cookies.get("spellbook-theme")}
    text = environment().get_template(template).render(own, **values)
    return HTMLResponse(_seen(text), code, {"vary": "Accept-Language, Cookie", **(headers or {})})


def say(language: str, english: str, *values: object) -> str:
    """Return a message of the pages, or one of a word that the package has too; `{0}` is the first value."""
    if language != "ko":
        return translate.fill(english, values)
    return translate.fill(translate.table(__package__).get(english) or translate.table().get(english, english), values)


def page(path: str, handler: Handler, right: May = "read") -> Route:
    """Return the route of a page; the caller needs `right`."""
    return _route("GET", path, handler, right, served.in_thread)


def action(path: str, handler: Handler, right: May = "write", *, waits: bool = False) -> Route:
    """Return the route of what a form does; the caller needs `right`. `waits`: it waits for other machines."""
    return _route("POST", path, handler, right, served.waiting if waits else served.writing)


def _route(method: str, path: str, handler: Handler, right: May, thread: Thread) -> Route:
    async def answer(request: Request) -> Response:
        form = await form_of(request) if method == "POST" else {}
        done = await thread(_answer, handler, request, form, right)
        if done.status_code == 303 and OURS in request.headers:
            done.status_code = 200  # the page's script goes there: a redirect that fetch follows has no fragment
        return done

    return Route(path, answer, methods=[method], name=handler.__name__)


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises InvalidInput."""
    try:
        return dict(parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise InvalidInput("The form could not be read.", "Open the page again.") from error


def is_ours(form: Mapping[str, str], csrf: str) -> bool:
    """Say whether a form is from a page of this server: it sends the value that goes with the cookie."""
    return hmac.compare_digest(csrf.encode(), form.get("csrf", "").encode("utf-8", "replace"))


def asking(verb: Answering) -> Handler:
    """Return a handler that asks a verb of the API, without arguments, and goes back to the page."""

    @wraps(verb)
    def ask(shown: View) -> Response:
        shown.ask(verb)
        return shown.back()

    return ask


def _answer(handler: Handler, request: Request, form: Mapping[str, str], right: May = "read") -> Response:
    who = served.caller_of(request)
    of = served.served_of(request)
    view = View(request, of, who, of.book_of(who), request.path_params.get("id", ""), served.language(request), form)
    try:
        if request.method == "POST" and who.by_cookie and not is_ours(form, view.csrf):
            raise PermissionDenied("This form is not from a page of this server, or you have logged in again since.")
        who.require(right)
        return handler(view)
    except Exception as error:
        of.book.meter.failed(handler.__name__, "http", error)
        error = faults.shown(request, error)
        status = faults.status_of(error)
        if isinstance(error, MemoryNotFound) and (form.get("id") or _NOTES.match(request.url.path)):
            return view.page("missing.html", status, is_note=True)
        return view.page("error.html", status, error=error)


async def missing(request: Request, error: Exception) -> Response:
    """Return a page to a browser that asks for an address that is not there; to a program, the error as JSON."""
    is_page = request.method in {"GET", "HEAD"} and wants_page(request)
    if not is_page or getattr(error, "status_code", 0) != 404:
        return faults.of_http(request, error)
    return await served.in_thread(_answer, _missing, request, {})


def _missing(shown: View) -> Response:
    return shown.page("missing.html", 404, is_note=False, path=shown.request.url.path[: faults.MOST_PATH])


def advice(error: SpellbookError) -> str:
    """Return an error's hint, "" for one that is for agents and programs: it names a tool or an address of the API."""
    return "" if _FOR_PROGRAMS.search(error.hint) else error.hint


def wants_page(request: Request) -> bool:
    """Return whether a browser asks, which is given a page; a program is given JSON."""
    return "text/html" in request.headers.get("accept", "")


def local(place: str) -> str:
    """Return an address of this server, `/` instead of one of another."""
    # A browser takes a backslash for a slash, leaves out control characters, and reads a name after two slashes.
    is_own = re.match(r"/(?![/\\])[^\\]*$", place.partition("?")[0]) and place.isprintable()
    return place if is_own else "/"


def note_address(id: str, page: str = "note") -> str:
    """Return the address of a note's page, by its id or path."""
    is_plain = not {".", "..", ""} & set(id.split("/"))  # a browser would leave these out
    return f"/{page}/{quote(id, safe='/' if is_plain else '')}"


def chunk_address(id: str) -> str:
    """Return the address of a chunk on its note's page."""
    note, _, suffix = id.rpartition("#")
    return f"{note_address(note)}#{quote(anchor(suffix))}"


def folder_address(path: str) -> str:
    """Return the address of a folder's page."""
    return f"/contents?{urlencode({'folder': path})}"


def folders_above(path: str) -> list[tuple[str, str]]:
    """Return the folders that a note or a folder lies in, the outermost first, each with its name and its page."""
    above = path.split("/")[:-1]
    return [(name, folder_address("/".join(above[: at + 1]))) for at, name in enumerate(above)]


def anchor(suffix: str) -> str:
    """Return the name of a section on its note's page; `suffix` is what follows # in the chunk's id."""
    return f"s-{suffix.partition('~')[0]}"


def date(day: dt.date, phrase: Callable[..., str]) -> str:
    """Return a day as a person writes it."""
    values = {"DAY": day.day, "MONTH": f"{day:%B}", "YEAR": day.year, "NUMBER": day.month}
    return re.sub("[A-Z]{3,}", lambda word: str(values[word[0]]), phrase(DATE))


def ago(chunk: StoredChunk, phrase: Callable[..., str], count: Callable[[int, str], str]) -> str:
    """Return a note's time as people say it: "3 minutes ago", "yesterday", or the day."""
    minutes = int(time.time() - chunk.when) // 60
    if len(newest.date_of(chunk)) > len("2026-01-01") and 0 <= minutes < 1440:
        number = count(minutes, "minute") if minutes < 60 else count(minutes // 60, "hour")
        return phrase("{0} ago", number) if minutes else phrase("just now")
    day = dt.date.fromisoformat(chunk.day)
    days = (dt.date.today() - day).days
    if days in (0, 1):
        return phrase("Yesterday" if days else "Today").lower()
    return phrase("{0} ago", count(days, "day")) if 1 < days < 7 else date(day, phrase)
