"""The page of health, five things to look after, each with its repair; a person's settings; and logging in and out."""

from __future__ import annotations

import datetime as dt
import json

import segno
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from spellbook.capture.ledger import Ledger
from spellbook.http import admin
from spellbook.http.alerts import alerts
from spellbook.http.api import changes, notes
from spellbook.http.guard import COOKIE
from spellbook.http.pages import view
from spellbook.http.served import in_thread, language, served_of
from spellbook.http.tokens import COOKIE_SECONDS, PHONE, RIGHTS
from spellbook.settings.translate import translated


def health(shown: view.View, reply: object = None) -> Response:
    """Show what a person can look after: backup, duplicates, links (`reply`), broken notes, and what is not found."""
    is_admin = shown.may("admin")
    last = shown.jobs.last("check")
    alarms = shown.ask(alerts)["alerts"] if is_admin else []  # those about the machine are the API's
    listed = [each for each in alarms if each["id"] in {"degraded", "disk"}]
    return shown.page(
        "health.html",
        admin=is_admin,
        alerts=listed,
        status=shown.ask(notes.status),
        result=last.result if last else None,
        reply=reply,
    )


def links(shown: view.View) -> Response:
    """List the links that lead nowhere; a script of the page of health asks for them, since it takes a while."""
    return health(shown, shown.ask(admin.broken_links))


def mend(shown: view.View) -> Response:
    """Show which links would be repaired, then repair them."""
    is_sure = shown.form.get("sure") == "yes"
    reply = shown.ask(changes.mend_links, dry_run=not is_sure)
    return shown.back("doctor") if is_sure else shown.page("mend.html", reply=reply)


def merge(shown: view.View) -> Response:
    """Show what merging two similar notes would make, then do it."""
    a = shown.form.get("a", "")
    b = shown.form.get("b", "")
    is_sure = shown.form.get("sure") == "yes"
    done = shown.ask(changes.merge, a=a, b=b, keep=shown.form.get("keep", ""), dry_run=not is_sure)
    if is_sure:
        return shown.back("merge", to=view.note_address(done["id"]))
    return shown.page("merge.html", done=done, a=a, b=b)


def settings(shown: view.View, made: str = "") -> Response:
    """Show what a person can set, and how a client is told of this server; `made` is a token to be shown once."""
    url = shown.served.public or str(shown.request.base_url).rstrip("/")
    header = {"headers": {"Authorization": "Bearer TOKEN"}} if shown.caller.name else {}
    client = {"type": "http", "url": f"{url}/mcp", **header}
    is_admin = shown.may("admin")
    served = shown.served
    has_code = served.phone and (is_admin or (shown.caller.name == PHONE and shown.may("write")))
    return shown.page(
        "settings.html",
        vault=shown.book.config.vault if is_admin else "",
        tokens=served.tokens.all() if is_admin else (),
        grants=served.grants.all() if is_admin else (),
        made=made,
        rights=RIGHTS,
        ledger=Ledger(str(shown.book.config.vault)) if is_admin else None,
        clients=[(name, dt.datetime.fromtimestamp(at)) for name, at in [*served.clients.items()][::-1]],
        picture=Markup(segno.make_qr(served.phone).svg_inline(scale=5, border=3, light="#fff")) if has_code else "",
        client=json.dumps({"mcpServers": {"spellbook": client}}, indent=2, ensure_ascii=False),
    )


def appearance(shown: view.View) -> Response:
    """Keep the language or the colours that a person chose in this browser; "" goes by the browser again."""
    answer = shown.back(to="/settings")
    for what in {"lang", "theme"} & shown.form.keys():
        chosen = shown.form[what] if shown.form[what] in {"en", "ko", "light", "dark"} else ""
        _keep(shown.request, answer, f"spellbook-{what}", chosen, 365 * 24 * 3600)
    return answer


def add_token(shown: view.View) -> Response:
    """Make a token and show it, once. A browser that needed none until now is logged in with it."""
    tokens = shown.served.tokens
    made = tokens.add(shown.form.get("name", "").strip(), shown.form.get("may"))  # type: ignore[arg-type]  # it checks
    answer = settings(shown, made)
    return answer if shown.caller.name else _keep(shown.request, answer, COOKIE, tokens.cookie(made) or "")


def revoke(shown: view.View) -> Response:
    """Remove a token or a connected app: it is refused at once, and so is every browser that logged in with it."""
    if shown.served.grants.remove(shown.form.get("name", "")).name == PHONE:
        shown.served.phone = ""
    return shown.back()


def capture(shown: view.View) -> Response:
    """Switch on or off that sessions of agents on this machine become notes."""
    vault = shown.book.config.vault
    Ledger(str(vault)).turn(shown.form.get("on") == "yes", vault)
    return shown.back()


async def login(request: Request) -> Response:
    return view.bare(request, "login.html", to=view.local(request.query_params.get("to", "/")), message="")


async def enter(request: Request) -> Response:
    fields = await view.form_of(request)
    token = fields.get("token", "").strip()
    to = view.local(fields.get("to", "/"))
    guard = request.app.state.guard
    if wait := guard.wait(request.scope, token):
        message = translated(f"Too many wrong tokens came. Wait {wait} s.", language(request))
        return view.bare(request, "login.html", 429, {"retry-after": str(wait)}, to=to, message=message)
    cookie = await in_thread(served_of(request).tokens.cookie, token)
    if cookie is None:
        guard.count_wrong(request.scope)
        message = "The token is wrong, or its link was opened before."
        return view.bare(request, "login.html", 401, to=to, message=message)
    return _keep(request, RedirectResponse(to, 303), COOKIE, cookie)


def _keep(request: Request, answer: Response, name: str, value: str, seconds: int = COOKIE_SECONDS) -> Response:
    """Return an answer that gives the browser a cookie, which no script and no other site can use."""
    # The tunnel of a public server has the certificate.
    is_https = request.url.scheme == "https" or served_of(request).public == f"https://{request.url.hostname}"
    answer.set_cookie(name, value, seconds, secure=is_https, httponly=True, samesite="strict")
    return answer


def leave(shown: view.View) -> Response:
    """End the cookie, and take it away. The token itself is still let in."""
    shown.served.tokens.log_out(shown.request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    answer.headers["clear-site-data"] = '"cache"'
    return answer


ROUTES = [
    Route("/login", login),
    Route("/login", enter, methods=["POST"]),
    view.action("/logout", leave, "read"),
    view.page("/upkeep", health),
    view.page("/links", links),
    view.page("/settings", settings),
    view.action("/look", appearance, "read"),
    view.action("/do/token", add_token, "admin"),
    view.action("/do/revoke", revoke, "admin"),
    view.action("/do/capture", capture, "admin"),
    view.action("/do/mend", mend),
    view.action("/do/merge", merge),
]
