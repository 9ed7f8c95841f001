"""Articles: what is worth reading again is saved from an address or a file, found, listed, read and asked, in one call each."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from spellbook.library.book import Spellbook
from tests.archive.pages.documents import pdf
from tests.archive.pages.site import Site
from tests.mcp.agent import Agent, conversation

SETS = ("articles",)
TEXT = (
    "입장권이 아니라 주행 횟수로 돈을 번다. 한 사람이 평균 세 번을 타고, 그때마다 기록을 남긴다. 기록은 순위가 된다. "
    * 6
)
PAGE = f"""<!doctype html><html lang="ko"><head><meta charset="utf-8"><title>중력으로 달리는 테마파크</title>
<meta name="author" content="홍길동"><meta property="article:published_time" content="2026-03-14T09:00:00+09:00">
</head><body><article><h1>중력으로 달리는 테마파크</h1><h2>수익 구조</h2><p>{TEXT}</p></article></body></html>"""


async def saved(agent: Agent, site: Any, name: str, *categories: str, **metadata: object) -> dict[str, Any]:
    page = PAGE.replace("중력으로", f"{name} 중력으로")
    source = site.add(f"/{quote(name)}", page)
    return dict(await agent.json("save", source=source, categories=list(categories), metadata=metadata or None))


@conversation(SETS)
async def test_each_thing_is_one_call(agent: Agent, book: Spellbook, vault: Path, site: Site, tmp_path: Path) -> None:
    """
    수집: save tells the kind apart by itself, and keeps title, author, date, source, categories and length.

    search(query, category, limit): one entry an article, with score and excerpt. list(category, limit): the categories
    with their numbers, and the newest articles. get(article_id, include_content): facts and a beginning; the text only
    when asked, in pieces. ask(question, article_id, limit): passages, and each source once. delete(article_id): gone from
    every answer, and in the trash.
    """
    (tmp_path / "report.pdf").write_bytes(pdf(["The lighthouse report. " * 20, "Second page. " * 20], title="Report"))
    one = await saved(agent, site, "제주", "business", "travel", summary="주행 횟수로 번다.", keywords=["테마파크"])
    assert {"id", "title", "categories", "content_length"} <= set(one)
    assert one["categories"] == ["business", "travel"]
    got = await agent.json("get", article_id=one["id"])
    assert (got["author"], str(got["published_date"])[:10], got["source_type"]) == ("홍길동", "2026-03-14", "url")
    assert got["url"] == site.url(f"/{quote('제주')}")
    assert "주행 횟수로 번다" in got["summary"]
    report = await agent.json("save", source=str(tmp_path / "report.pdf"), categories=["report"])
    assert (await agent.json("get", article_id=report["id"]))["source_type"] == "pdf"

    two = await saved(agent, site, "부산", "travel")
    hits = await agent.json("search", query="주행 횟수로 버는 테마파크", category="business", format="json")
    assert [hit["id"] for hit in hits] == [one["id"]]
    assert {"id", "title", "score", "author", "excerpt"} <= set(hits[0])

    listed = await agent.json("list", format="json")
    assert {each["name"]: each["count"] for each in listed["categories"]} == {"business": 1, "travel": 2, "report": 1}
    assert {"id", "title", "categories", "author", "created_at"} <= set(listed["articles"][0])
    assert listed["articles"][0]["id"] == two["id"]
    assert len((await agent.json("list", category="business", format="json"))["articles"]) == 1

    short = await agent.json("get", article_id=two["id"])
    assert "content" not in short
    assert len(short["content_preview"]) <= 500 + 150  # the fence around it says where it is from
    whole = await agent.json("get", article_id=two["id"], include_content=True)
    assert "평균 세 번" in whole["content"]
    assert len(whole["content"]) <= 3_000

    answer = await agent.json("ask", question="무엇으로 돈을 버나? 주행 횟수", article_id=one["id"], format="json")
    assert {"article_id", "title", "content", "score"} <= set(answer["chunks"][0])
    assert [each["id"] for each in answer["sources"]] == [one["id"]]

    for each in (one, two, report):
        await agent.call("delete", article_id=each["id"])
    assert (await agent.json("list", format="json"))["articles"] == []
    assert "MEMORY_NOT_FOUND" in await agent.refused("get", article_id=one["id"])
    assert len([*Path(vault, ".trash").rglob("*.md")]) == 3


@conversation(SETS)
async def test_answers_are_small(agent: Agent, book: Spellbook, vault: Path, site: Site) -> None:
    """크기: the sizes that the design names, in letters, for one call each."""
    first = await saved(agent, site, "제주0", "business")
    note = next(vault.rglob("*.md")).read_text("utf-8")
    for number in range(1, 10):
        text = (
            note.replace(first["id"], f"A{number}")
            .replace("제주0", f"제주{number}")
            .replace(quote("제주0"), quote(f"제주{number}"))
        )
        (vault / f"{number}.md").write_text(text, "utf-8")
    sizes = {
        "save": len(await agent.call("save", source=site.url(f"/{quote('제주0')}"), categories=["business"])),
        "search": len(await agent.call("search", query="주행 횟수", limit=5)),
        "list": len(await agent.call("list", limit=10)),
        "get": len(await agent.call("get", article_id=first["id"])),
        "get whole": len(await agent.call("get", article_id=first["id"], include_content=True)),
        "ask": len(await agent.call("ask", question="무엇으로 돈을 버나", limit=5)),
        "delete": len(await agent.call("delete", article_id=first["id"])),
    }
    most = {"save": 500, "search": 2_500, "list": 3_500, "get": 1_800, "get whole": 4_800, "ask": 6_000, "delete": 400}
    assert {name: size for name, size in sizes.items() if size > most[name]} == {}
