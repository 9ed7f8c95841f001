"""Pages to log in and out: a token once, and a cookie that no script can read from then on."""

from __future__ import annotations

from functools import partial
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from spellbook.http.guard import COOKIE
from spellbook.http.pages import view
from spellbook.http.served import in_thread, language, served_of
from spellbook.http.tokens import COOKIE_SECONDS


def _form(request: Request, to: str, status: int = 200, message: str = "") -> HTMLResponse:
    own = {
        "_": partial(view.say, language(request)),
        "language": language(request),
        "theme": request.cookies.get("spellbook-theme"),
    }
    return HTMLResponse(view.environment().get_template("login.html").render(own, to=to, message=message), status)


async def page(request: Request) -> Response:
    return _form(request, view.local(request.query_params.get("to", "/")))


async def enter(request: Request) -> Response:
    try:
        fields = dict(parse_qsl((await request.body()).decode(), max_num_fields=10))
    except ValueError:
        fields = {}
    cookie = await in_thread(served_of(request).tokens.cookie, fields.get("token", "").strip())
    to = view.local(fields.get("to", "/"))
    if cookie is None:
        request.app.state.guard.failures.add(request.client.host if request.client else "")
        return _form(request, to, 401, "The token is wrong.")
    return keep(request, RedirectResponse(to, 303), COOKIE, cookie)


def keep(request: Request, answer: Response, name: str, value: str, seconds: int = COOKIE_SECONDS) -> Response:
    """Return an answer that gives the browser a cookie, which no script and no other site can use."""
    is_https = request.url.scheme == "https"
    answer.set_cookie(name, value, seconds, secure=is_https, httponly=True, samesite="strict")
    return answer


def leave(shown: view.View) -> Response:
    """End the cookie, and take it away. The token itself is still let in."""
    shown.served.tokens.log_out(shown.request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    answer.headers["clear-site-data"] = '"cache"'
    return answer


ROUTES = [Route("/login", page), Route("/login", enter, methods=["POST"]), view.action("/logout", leave, "read")]
