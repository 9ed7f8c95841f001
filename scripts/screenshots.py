"""
Make the pictures of the READMEs and docs/dashboard.md: pages of the dashboard over a small vault that this writes.

    python scripts/screenshots.py

It needs chromium and playwright. Notes and the browser's window are always the same, and so are all dates but those of
what agents kept today.
"""

from __future__ import annotations

import base64
import datetime as dt
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"

WIDE = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}

PAGES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("note", "/note/work/orders/Release", WIDE),
    ("search", "/search?q=replication lag", WIDE),
    ("contents", "/contents", WIDE),
    ("graph", "/graph", WIDE),
    ("decisions", "/decisions", WIDE),
    ("health", "/upkeep", WIDE),
    ("home", "/", WIDE),
    ("new-note", "/new?text=The spare key is with Mina, on the third floor.&title=Spare key", PHONE),
)

COLOURS = 256
"""Colours of a picture; text on paper needs no more."""

BEGUN = dt.datetime(2026, 11, 1, 9, tzinfo=dt.UTC)
"""When the first note was written. Each further one is seven hours later."""

NOTES = {
    "books/Designing Data-Intensive Applications": "#book #databases\n\n## Replication lag\n\nRead your own writes:"
    " after a write, read from the leader for a minute.\n\n## Consistency\n\nLinearizability costs latency."
    " [[Postgres]]",
    "books/Thinking in Systems": "#book\n\nStocks and flows. Delays cause oscillation.",
    "journal/2026-11-03": "Weekly meeting: [[Release]] moves to Tuesdays.",
    "journal/2026-11-12": "Ran seven kilometres along the river. Bread: [[Sourdough]], second try.",
    "journal/2026-11-15": "Read chapter five of [[Designing Data-Intensive Applications]]. Now I see what replication"
    " lag does to a checkout.",
    "journal/2026-11-18": "Sessions were lost for two hours. [[Lost sessions]]",
    "kitchen/Kimchi stew": "#recipe\n\nSour kimchi, pork, tofu. Simmer for thirty minutes. Goes with [[Rice]].",
    "kitchen/Rice": "#recipe\n\nOne cup of rice, one and a quarter of water, twelve minutes.",
    "kitchen/Sourdough": "#recipe #baking\n\n500 g flour, 350 g water, 100 g starter, 10 g salt.",
    "kitchen/Rice again": "#recipe\n\nOne cup of rice, one and a quarter of water, twelve minutes.",
    "reference/Hooks": "#react\n\n[useState](/reference/useState), [useEffect](/reference/useEffect) and"
    " [useMemo](/reference/useMemo).",
    "travel/Jeju": "#travel\n\nFour days. A room in Aewol, bicycles on Udo. Food: [[Kimchi stew]]",
    "travel/Kyoto": "#travel\n\nFushimi Inari before seven. Buy the bus pass at the station.",
    "work/orders/API": "#work\n\nErrors are RFC 9457. Idempotency keys come in a header. [[Release]] [[Postgres]]",
    "work/orders/Lost sessions": "#work #incident\n\nRedis was full, and sessions had no time to live.\n\n## What we"
    " change\n\nAn alarm at 70 %. Sessions move to [[Postgres]].",
    "work/orders/On call": "---\nreview: 2026-11-20\n---\n#work\n\nAlarms at night: look at [[Postgres]] first, then at"
    " [[Release]].",
    "work/orders/Postgres": "#work #databases\n\nVersion 16. One leader, two replicas; the lag is below a second.",
    "work/orders/Release": "---\ntags: [work, runbook]\n---\nWe release on Tuesdays, never on Fridays.\n\n"
    "## Steps\n\n1. Tag the version\n2. `make release`\n3. Watch the dashboard for half an hour\n\n"
    "- [x] Announce it\n- [ ] Update the runbook of [[On call]]\n\n"
    "> [!warning] Roll back at once\n> If checkouts fail, do not look for the reason first.\n\n"
    "## Rolling back\n\n`git revert`, then release again. What happened last time: [[Lost sessions]].",
    "work/Hiring": "#work\n\nTwo engineers for [[API]]. Ask about queues and idempotency.",
}
DECISIONS = (
    ("auth", "Sessions live in Redis", "It is quick, and we run it anyway.", ""),
    ("auth", "Sessions live in PostgreSQL", "A logout must survive a failover.", "Sessions live in Redis"),
    ("release", "No release on Fridays", "Nobody is here on Saturdays to see it fail.", ""),
)
MEMORIES = (
    (2, "Claude", "preference", "Language of answers", "Answers in Korean; code and commit messages in English."),
    (9, "Claude Code", "project", "Orders API", "It moves to Postgres 17 in January, as replication slots survive it."),
    (24, "Claude", "knowledge", "Birthday of Seoyeon", "12 April. She is allergic to nuts, so a strawberry cake."),
    (47, "Codex", "project", "Checkout test", "It fails on CI alone: the clock there is UTC. Set TZ in the workflow."),
)
"""What agents kept today: minutes ago, agent, category, title and text."""


def write(vault: Path) -> None:
    """Write the notes and decisions, each with a time of its own, and the memories of today."""
    texts = dict(NOTES)
    for topic, title, reason, old in DECISIONS:
        outcome = f'supersedes: "[[{old}]]"' if old else "confidence: 0.8"
        meta = f"category: decision\ntopic: {topic}\n{outcome}"
        texts[f"decision/{topic}/{title}"] = f"---\n{meta}\n---\n{title}.\n\nReasoning: {reason}"
    for number, (name, text) in enumerate(texts.items()):
        path = vault / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", "utf-8")
        at = (BEGUN + dt.timedelta(hours=7 * number)).timestamp()
        os.utime(path, (at, at))
    for number, (minutes, agent, category, title, text) in enumerate(MEMORIES):
        created = (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=minutes)).isoformat(timespec="seconds")
        labels = {"id": f"01M8DF0000000000000000000{number}", "topic": "inbox", "category": category, "agent": agent}
        head = "".join(f"{name}: {value}\n" for name, value in {**labels, "created": created}.items())
        path = vault / "Agent" / f"{title}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"---\n{head}---\n{text}\n", "utf-8")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the vault in a folder, with all of its state there; yield the address."""
    vault = folder / "vault"
    write(vault)
    places = {"SPELLBOOK_STATE": str(folder / "state"), "HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
    command = [sys.executable, "-m", "spellbook", "--vault", str(vault)]
    env = {**os.environ, **places, "SPELLBOOK_EMBEDDER": "hash", "TZ": "UTC"}
    for step in ("reindex", "snapshot"):
        subprocess.run([*command, step], env=env, check=True, capture_output=True)
    server = subprocess.Popen([*command, "serve", "--port", "0"], env=env, stderr=subprocess.PIPE, encoding="utf-8")
    try:
        assert server.stderr is not None
        yield next(line.strip() for line in server.stderr if line.startswith("http"))
    finally:
        server.terminate()
        server.wait(20)


def pixels(page: Any, picture: bytes) -> np.ndarray:
    """Return the red, green and blue of a PNG, as the browser reads it."""
    text = page.evaluate(
        """async (text) => {
        const picture = new Image();
        picture.src = `data:image/png;base64,${text}`;
        await picture.decode();
        const canvas = new OffscreenCanvas(picture.width, picture.height), context = canvas.getContext("2d");
        context.drawImage(picture, 0, 0);
        const { data, width, height } = context.getImageData(0, 0, picture.width, picture.height);
        let bytes = "";
        for (let at = 0; at < data.length; at += 8192) bytes += String.fromCharCode(...data.subarray(at, at + 8192));
        return [width, height, btoa(bytes)];
        }""",
        base64.b64encode(picture).decode(),
    )
    width, height, data = text
    return np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4)[:, :, :3]


def small(image: np.ndarray) -> bytes:
    """Return a PNG of the commonest colours; any other becomes the nearest of them."""
    height, width, _ = image.shape
    flat = image.reshape(-1, 3).astype(np.int32)
    known, at, counts = np.unique(flat @ [65536, 256, 1], return_inverse=True, return_counts=True)
    rgb = np.stack([known >> 16, known >> 8 & 255, known & 255], 1)
    palette = rgb[np.argsort(-counts, kind="stable")[:COLOURS]]
    nearest = np.array([((palette - each) ** 2).sum(1).argmin() for each in rgb], np.uint8)
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 1:] = nearest[at.ravel()].reshape(height, width)

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", zlib.compress(rows, 9)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(part(*each) for each in (*parts, (b"IEND", b"")))


def main() -> None:
    """Write the pictures into docs/pictures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        reader = browser.new_page()
        for page_name, place, window in PAGES:
            page = browser.new_page(locale="en-US", color_scheme="light", reduced_motion="reduce", **window)
            page.goto(url + place)
            page.wait_for_load_state("networkidle")
            if page_name == "graph":
                page.locator("#graph[data-settled]").wait_for()
            if page_name == "health":
                page.get_by_role("button", name="Check", exact=True).click()
                merge, job = page.get_by_role("button", name="Preview a merge"), page.locator("#job:visible")
                while not merge.count() or job.count():
                    page.wait_for_timeout(200)
                    page.reload()
                page.wait_for_load_state("networkidle")
            picture = small(pixels(reader, page.screenshot(caret="hide")))
            (FOLDER / f"{page_name}.png").write_bytes(picture)
            print(f"docs/pictures/{page_name}.png, {len(picture) / 1000:.0f} kB")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
