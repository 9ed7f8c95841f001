"""A server whose package is updated, or taken away, while it runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import spellbook

from .running import Server

pytestmark = [pytest.mark.slow]

PAGES = [
    "/",
    "/new",
    "/search?q=note",
    "/contents",
    "/decisions",
    "/articles",
    "/activity",
    "/statistics",
    "/upkeep",
    "/settings",
    "/nowhere",
]


def test_an_updated_server_shows_its_pages_or_says_so(
    vault: Path, tmp_path: Path, write_note: Callable[..., Path]
) -> None:
    """Pages are those of the start; what cannot be loaded any more is a page that says it, and no trace in the log."""
    write_note("a.md", "A note.")
    package = Path(shutil.copytree(Path(spellbook.__file__).parent, tmp_path / "installed" / "spellbook"))
    server = Server(vault, code=f"import sys; sys.path.insert(0, {str(package.parent)!r})")
    try:
        with httpx.Client(base_url=server.url, headers={"accept": "text/html"}, timeout=60) as browser:
            browser.get("/mcp")  # once its tools are imported
            for template in (package / "http/pages/templates").iterdir():
                template.write_text("{{ changed }}", "utf-8")
            assert [browser.get(page).status_code for page in PAGES] == [*[200] * 10, 404]
            shutil.rmtree(package)
            places = (*PAGES, "/note/a", "/graph", "/history/a", "/api/notes/a", "/api/openapi.json")
            answers = [browser.get(page) for page in places]
            browser.headers["accept-language"] = "ko"
            answers += [browser.get("/"), browser.post("/do/move", data={"id": "a.md", "name": "b"})]
        seen = {answer.status_code: answer.text for answer in answers}
    finally:
        server.end()
    assert "Spellbook이 업데이트되었습니다" in seen.pop(503)
    assert set(seen) <= {200, 303, 404}
    failed = [line for line in server.said if re.match("spellbook: (GET|POST) .* failed", line)]
    assert [line for line in failed if "Spellbook was updated" not in line] == []
    assert failed
