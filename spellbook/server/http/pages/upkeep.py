"""The page of health: alerts, faults, the last check, and the repairs; and the settings."""

from __future__ import annotations

import json

from starlette.responses import Response

from spellbook.server.http.admin import alerts, upkeep
from spellbook.server.http.api import changes, finding
from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View


def health(shown: View) -> Response:
    """Show alerts, faults and the last check, with their repairs."""
    is_admin = shown.may("admin")
    # It names notes that not every caller may see.
    last = None if shown.caller.is_limited else shown.served.jobs.last("check")
    listed = shown.ask(alerts.alerts)["alerts"] if is_admin else []
    return shown.page("health.html", status=shown.ask(finding.status), check=last, admin=is_admin, alerts=listed)


def examine(shown: View) -> Response:
    """Run the checks of `spellbook doctor` and list what they found."""
    return shown.page("examined.html", checks=[*shown.book.whole.doctor()])


def links(shown: View) -> Response:
    """List the links that lead nowhere; the page of health asks for it as a part, since it takes a while."""
    reply = shown.ask(upkeep.broken_links)
    return shown.page("links.html" if shown.is_part else "links_page.html", reply=reply)


def mend(shown: View) -> Response:
    """Show which links would be repaired, then repair them."""
    is_sure = shown.form.get("sure") == "yes"
    reply = shown.ask(changes.mend_links, dry_run=not is_sure)
    return shown.back(shown.entry("doctor")) if is_sure else shown.page("mend.html", reply=reply)


def merge(shown: View) -> Response:
    """Show what merging two similar notes would make, then do it."""
    a, b, is_sure = shown.form.get("a", ""), shown.form.get("b", ""), shown.form.get("sure") == "yes"
    done = shown.ask(changes.merge, a=a, b=b, keep=shown.form.get("keep", ""), dry_run=not is_sure)
    if is_sure:
        return shown.back(shown.entry("merge"), view.note_address(done["id"]))
    return shown.page("merge.html", done=done, a=a, b=b)


def settings(shown: View) -> Response:
    """Where everything is, and how a client is told of this server. Nothing is changed here."""
    url = str(shown.request.base_url).rstrip("/")
    header = {"headers": {"Authorization": "Bearer TOKEN"}} if shown.caller.name else {}
    client = {"type": "http", "url": f"{url}/mcp", **header}
    tokens = [each.as_dict() for each in shown.served.tokens.all()] if shown.may("admin") else []
    return shown.page(
        "settings.html",
        status=shown.ask(finding.status) if shown.may("admin") else None,
        config=shown.book.config if shown.may("admin") else None,
        toolsets=shown.served.toolsets,
        tokens=tokens,
        client=json.dumps({"mcpServers": {"spellbook": client}}, indent=2, ensure_ascii=False),
    )


ROUTES = [
    view.page("/upkeep", health),
    view.page("/links", links),
    view.page("/settings", settings),
    view.action("/do/examine", examine, "read"),
    view.action("/do/mend", mend),
    view.action("/do/merge", merge),
]
