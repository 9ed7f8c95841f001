"""What notes say of themselves by keys of the Open Knowledge Format: in ranking, in hits, in filters, as links."""

from pathlib import Path

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.search import presentation
from tests.helpers import Write

PAIRS = [
    ("which day do we deploy", "The day that we deploy is Tuesday.", "We deploy on Thursday mornings now."),
    ("where do the logs of the shop go", "The logs of the shop go to Graylog.", "The shop writes its logs to Loki."),
    ("how long are backups kept", "Backups are kept for 30 days.", "We keep each backup for ninety days."),
    ("which port has staging", "Staging listens on port 5432.", "The staging database is on port 5433."),
    ("who approves invoices", "Mina approves invoices.", "Invoices are approved by Jonas since autumn."),
    ("how do we rotate signing keys", "Rotate the signing keys by hand each year.", "Signing keys rotate by a job."),
    ("what is the limit for uploads", "The limit for uploads is 10 MB.", "An upload may have up to 50 MB."),
    ("which queue do we use", "The queue that we use is RabbitMQ.", "Jobs wait in a queue in Postgres."),
    ("when is the standup", "The standup is at nine.", "Our daily standup begins at half past ten."),
    ("how is revenue computed", "Revenue is computed from orders.", "Recognized revenue is the sum of paid invoices."),
    ("배포는 무슨 요일에 하나요", "배포는 화요일 오전에 합니다.", "이제 배포는 목요일 아침에 합니다."),
    ("백업은 며칠 보관하나요", "백업은 30일 보관합니다.", "백업을 90일 동안 보관하도록 바꿨습니다."),
    ("스테이징 포트는 몇 번인가요", "스테이징 포트는 5432번입니다.", "스테이징 데이터베이스 포트가 5433번입니다."),
    ("청구서는 누가 승인하나요", "청구서는 미나가 승인합니다.", "가을부터 청구서 승인은 준호가 합니다."),
    ("업로드 크기 제한이 얼마인가요", "업로드 크기 제한은 10MB입니다.", "업로드는 50MB까지 됩니다."),
    ("회의는 몇 시에 하나요", "회의는 아홉 시에 합니다.", "매일 회의를 열 시 반에 시작합니다."),
    ("로그는 어디에 저장하나요", "로그는 그레이로그에 저장합니다.", "로그를 로키에 저장하고 있습니다."),
    ("서명 키는 어떻게 교체하나요", "서명 키는 해마다 손으로 교체합니다.", "서명 키 교체는 작업이 자동으로 합니다."),
    ("휴가 신청은 어디에서 하나요", "휴가 신청은 메일로 합니다.", "휴가는 인사 페이지에서 신청합니다."),
    ("테스트는 몇 분 걸리나요", "테스트는 20분 걸립니다.", "테스트가 이제 8분이면 끝납니다."),
]
"""A question, the note that does not hold any more, in the words of the question, and the one that does."""


@pytest.mark.model
@pytest.mark.slow
def test_what_holds_stands_above_what_is_deprecated_or_stale(vault: Path, prepared: Path) -> None:
    """In 20 pairs the note that holds is first, by search, by words and by meaning; the other one is found and marked."""
    for number, (_, old, new) in enumerate(PAIRS):
        gone = "status: Deprecated" if number % 2 else "stale_after: 2026-01-31"
        (vault / f"{number}-old.md").write_text(f"---\n{gone}\n---\n\n{old}\n", "utf-8")
        (vault / f"{number}-new.md").write_text(f"{new}\n", "utf-8")
    with books.open(vault) as book:
        book.reindex()
        for number, (asked, *_) in enumerate(PAIRS):
            hits = book.search(asked, limit=10, min_score=0.0).hits
            paths = [hit.path for hit in hits]
            assert f"{number}-new.md" in paths, (asked, paths)
            assert paths.index(f"{number}-new.md") < [*paths, f"{number}-old.md"].index(f"{number}-old.md"), asked
            mark = "deprecated" if number % 2 else "stale since 2026-01-31"
            assert [hit.marks.trust for hit in hits if hit.path == f"{number}-old.md"] in ([mark], [])
            near = [hit.path for hit in book.memorize(asked).hits]
            assert not near or not near[0].endswith("-old.md"), (asked, near)


def test_a_note_says_that_it_does_not_hold(book: Spellbook, write_note: Write) -> None:
    """
    A deprecated or stale note is marked in answers and in JSON, and found by `status`; it is no open decision.

    A date to come, or a word that nobody knows, changes nothing, and a question about an earlier time finds it as usual.
    """
    write_note("old.md", "The tide comes at six.", status="deprecated", category="decision", outcome="pending")
    write_note("stale.md", "The tide comes at seven.", stale_after="2026-02-01", created="2026-01-01")
    write_note("fresh.md", "The tide comes at eight.", stale_after="2999-01-01", status="in doubt")
    hits = {hit.path: hit for hit in book.find("tide").hits}
    trust = {path: hit.marks.trust for path, hit in hits.items()}
    assert trust == {"old.md": "deprecated", "stale.md": "stale since 2026-02-01", "fresh.md": ""}
    assert hits["fresh.md"].score > hits["old.md"].score
    assert "deprecated" in presentation.standing(hits["old.md"])
    assert [hits[path].as_dict()["stale"] for path in ("stale.md", "fresh.md")] == ["2026-02-01", ""]
    assert {hit.path for hit in book.find("tide", filter={"status": "draft"}).hits} == set()
    assert {hit.path for hit in book.find("tide", filter={"status": "stable"}).hits} == {"stale.md"}
    assert {hit.path for hit in book.find("tide", filter={"status": "deprecated"}).hits} == {"old.md"}
    assert book.memories.decisions.find(kind="decision", limit=5, outcome="pending").items == ()
    (then,) = [hit for hit in book.find("tide", as_of="2026-01-15").hits if hit.path == "stale.md"]
    assert not [each for each in then.why["adjustments"] if "stale" in each["reason"]]


def test_a_listing_stands_below_what_it_lists(book: Spellbook, write_note: Write) -> None:
    """`index.md` and `log.md` of any level are found, and never above a note of their folder that matches as well."""
    listed = "* [Tides](tides.md) - when the tide comes, and the harbour opens\n"
    write_note("index.md", f"# Tides of the harbour\n\n{listed}* [Ropes](ropes.md) - ropes\n")
    write_note("sea/index.md", f"# Tides of the harbour\n\n{listed}")
    write_note("sea/Log.md", f"# Tides of the harbour\n\n## 2026-05-01\n{listed}")
    write_note("sea/tides.md", "The tide comes at six, and the harbour opens.", description="Ebb and flood by the moon")
    for asked in ("does the tide come and the harbour open", "Tides of the harbour", "harbour"):
        paths = [hit.path for hit in book.find(asked.split(), limit=10).hits]
        assert paths[0] == "sea/tides.md", (asked, paths)
        assert {"index.md", "sea/index.md", "sea/Log.md"} <= {*paths}
    write_note("hooks/index.md", "Hooks of the boat hold its nets. They are made of steel.", title="Hooks")
    write_note("hooks/steel.md", "Hooks are made of steel, and so is the anchor.")
    assert book.find(["hooks", "boat", "steel"]).hits[0].path == "hooks/index.md"  # it lists nothing
    (hit, *_) = book.find("moon").hits
    assert "description Ebb and flood by the moon" in hit.properties
    assert [hit.path for hit in book.find("ropes").hits] == ["index.md"]


def test_a_source_that_is_a_note_is_a_link(book: Spellbook, vault: Path) -> None:
    """
    It counts for backlinks and survives a move, in each form of YAML; the rest of the file stays letter for letter.

    An address, a range of code and a description of several things are no links, and none is reported as broken.
    """
    (vault / "policies").mkdir()
    (vault / "policies" / "revenue.md").write_text("How revenue is recognized.\n")
    texts = {
        "a.md": "sources:\n  - id: rev  # first\n    resource: /policies/revenue.md#rules\n    title: Revenue\n",
        "sub/b.md": 'sources: [{resource: "../policies/revenue.md"}, {resource: https://x.org/a.md}]\n',
        "c.md": "sources: { resource: policies/revenue.md }\n",
        "d.md": "sources:\n  - resource: all queries in project X\n  - resource: src/retry.py#L1-L2\n  - revenue.md\n",
        "e.md": "resource: /policies/revenue.md\nother:\n  - resource: /policies/revenue.md\n",
    }
    for path, header in texts.items():
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(f"---\n{header}---\n\nText.\n")
    assert {each.path for each in book.around("policies/revenue.md").backlinks} == {"a.md", "sub/b.md", "c.md"}
    assert book.broken_links() == ()
    book.move("policies/revenue.md", "finance/rules.md")
    for path, header in texts.items():
        wanted = header if path in {"d.md", "e.md"} else header.replace("policies/revenue.md", "finance/rules.md")
        assert (vault / path).read_text() == f"---\n{wanted}---\n\nText.\n", path
    assert {each.path for each in book.around("finance/rules.md").backlinks} == {"a.md", "sub/b.md", "c.md"}
