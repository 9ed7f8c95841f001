"""Health in a real browser: what a script adds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..running import Server
from .conftest import IN_BROWSER

pytestmark = list(IN_BROWSER)


def test_health_looks_for_links_by_itself(
    tab: Any, serving: Callable[..., Server], full: dict[str, str], write_note: Callable[..., Path]
) -> None:
    """The page comes first, its links follow."""
    write_note("site.md", "[a](/reference/r1)")
    page = tab(locale="ko-KR", viewport={"width": 360, "height": 800})
    page.goto(serving().url + "/upkeep")
    page.locator("li", has_text="site.md:1 → /reference/r1").wait_for()
