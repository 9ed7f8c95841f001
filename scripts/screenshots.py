"""
Make the pictures of the READMEs and of dashboard.md: pages of the dashboard over a small vault that this writes.

    python scripts/screenshots.py [en] [ko]

It makes those of both languages, or of the ones that are named. It needs chromium and playwright. Notes and the
browser's window are always the same, and so are all dates but those of what agents kept today.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from playwright.sync_api import sync_playwright

from spellbook.notes.decision_text import decision_text

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"

WIDE = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}

Pages: TypeAlias = tuple[tuple[str, str, dict[str, Any]], ...]

PAGES: Pages = (
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

KOREAN_NOTES = {
    "독서/데이터 중심 애플리케이션 설계": "#책\n\n복제 지연: 쓴 뒤 1분 동안은 리더에서 읽는다. [[Postgres]]",
    "여행/제주": "#여행\n\n나흘. 애월에 방을 잡고 우도에서 자전거를 탄다.",
    "요리/김치찌개": "#요리\n\n신 김치, 돼지고기, 두부. 30분 끓인다.",
    "업무/주문/Postgres": "#업무\n\n버전 16. 리더 하나, 복제본 둘. 지연은 1초가 안 된다.",
    "업무/주문/당직": "---\nreview: 2026-11-20\n---\n#업무\n\n밤에 알림이 오면 [[Postgres]]부터 보고 [[배포]]를 본다.",
    "업무/주문/배포": "#업무\n\n화요일에 배포하고 금요일에는 하지 않는다.",
    "일지/2026-11-15": "5장을 읽었다. 복제 지연이 결제에 어떤 일을 하는지 이제 알겠다.",
    "일지/2026-11-18": "세션이 두 시간 동안 사라졌다. 로그인은 [[Postgres]]로 옮긴다.",
}
KOREAN_DECISIONS = (
    ("인증", "세션은 Redis에 둔다", "빠르고 이미 쓰고 있다.", ""),
    ("인증", "세션은 PostgreSQL에 둔다", "로그아웃이 장애 뒤에도 남아야 한다.", "세션은 Redis에 둔다"),
    ("배포", "금요일에는 배포하지 않는다", "토요일에는 볼 사람이 없다.", ""),
)
KOREAN_MEMORIES = (
    (2, "Claude", "preference", "답하는 언어", "답은 한국어로, 코드와 커밋 메시지는 영어로 쓴다."),
    (9, "Claude Code", "project", "주문 API", "1월에 Postgres 17로 옮긴다. 복제 슬롯이 그대로 남기 때문이다."),
    (24, "Claude", "knowledge", "서연 생일", "4월 12일. 견과류 알레르기가 있어 딸기 케이크로 한다."),
    (47, "Codex", "project", "결제 테스트", "CI에서만 실패한다. 그곳의 시계는 UTC이니 작업 설정에 TZ를 넣는다."),
)


class Language(NamedTuple):
    """Pictures in one language: where they go, which pages, and the vault that they show."""

    folder: Path
    locale: str
    pages: Pages
    notes: Mapping[str, str]
    decisions: Sequence[tuple[str, str, str, str]]
    memories: Sequence[tuple[int, str, str, str, str]]


LANGUAGES = {
    "en": Language(FOLDER, "en-US", PAGES, NOTES, DECISIONS, MEMORIES),
    "ko": Language(FOLDER / "ko", "ko-KR", (("home", "/", WIDE),), KOREAN_NOTES, KOREAN_DECISIONS, KOREAN_MEMORIES),
}


def write(vault: Path, language: Language) -> None:
    """Write the notes and decisions, each with a time of its own, and the memories of today."""
    texts = dict(language.notes)
    for topic, title, reason, old in language.decisions:
        outcome = f'supersedes: "[[{old}]]"' if old else "confidence: 0.8"
        meta = f"category: decision\ntopic: {topic}\n{outcome}"
        texts[f"decision/{topic}/{title}"] = f"---\n{meta}\n---\n{decision_text(f'{title}.', reason)}"
    for number, (name, text) in enumerate(texts.items()):
        path = vault / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", "utf-8")
        at = (BEGUN + dt.timedelta(hours=7 * number)).timestamp()
        os.utime(path, (at, at))
    for number, (minutes, agent, category, title, text) in enumerate(language.memories):
        created = (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=minutes)).isoformat(timespec="seconds")
        labels = {"id": f"01M8DF0000000000000000000{number}", "topic": "inbox", "category": category, "agent": agent}
        head = "".join(f"{name}: {value}\n" for name, value in {**labels, "created": created}.items())
        path = vault / "Agent" / f"{title}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"---\n{head}---\n{text}\n", "utf-8")


@contextmanager
def serving(folder: Path, language: Language) -> Iterator[str]:
    """Serve the vault of a language in a folder, with all of its state there; yield the address."""
    vault = folder / "vault"
    write(vault, language)
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
    known, at, counts = np.unique(flat @ np.array([65536, 256, 1]), return_inverse=True, return_counts=True)
    rgb = np.stack([known >> 16, known >> 8 & 255, known & 255], 1)
    palette = rgb[np.argsort(-counts, kind="stable")[:COLOURS]]
    nearest = np.array([((palette - each) ** 2).sum(1).argmin() for each in rgb], np.uint8)
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 1:] = nearest[at.ravel()].reshape(height, width)

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", head),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(part(*each) for each in (*parts, (b"IEND", b"")))


def take(browser: Any, language: Language) -> None:
    """Write the pictures of one language."""
    language.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, serving(Path(name), language) as url:
        reader = browser.new_page()
        for page_name, place, window in language.pages:
            page = browser.new_page(locale=language.locale, color_scheme="light", reduced_motion="reduce", **window)
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
            file = language.folder / f"{page_name}.png"
            file.write_bytes(picture)
            print(f"docs/pictures/{file.relative_to(FOLDER).as_posix()}, {len(picture) / 1000:.0f} kB")
            page.close()


def main(chosen: Sequence[str]) -> None:
    """Write the pictures of the chosen languages, of all if none is chosen, into docs/pictures."""
    if unknown := set(chosen) - LANGUAGES.keys():
        sys.exit(f"No pictures in {', '.join(sorted(unknown))}: choose from {', '.join(LANGUAGES)}.")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name in chosen or LANGUAGES:
            take(browser, LANGUAGES[name])
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
