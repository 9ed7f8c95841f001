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
    """The page comes first, its links follow; one press leaves out all that begin alike, and another takes it back."""
    write_note("site.md", "[a](/reference/r1) [b](/reference/r2) [c](/reference/r3)")
    page = tab(locale="ko-KR", viewport={"width": 360, "height": 800})
    page.goto(serving().url + "/upkeep")
    row = page.locator("li", has_text="/reference/ 아래로 가는 끊어진 링크 3개")
    row.get_by_role("button", name="검사하지 않기").click()
    page.get_by_text("검사하지 않는 링크:").wait_for()
    assert row.count() == 0
    page.get_by_role("button", name="다시 검사하기").click()
    row.wait_for()
