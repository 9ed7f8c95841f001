"""`check` treats notes in two languages as translations, not as repetitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.models.embedders import HashEmbedder
from spellbook.settings import config
from spellbook.text import languages
from tests.helpers import Write

ENGLISH = (
    "The signing keys of the harbour are rotated every Monday by the harbour master, because an audit asked for it."
)
COPY = ENGLISH.replace("by the harbour", "by our harbour")
KOREAN = "항구의 서명 키는 감사에서 요구했기 때문에 매주 월요일에 항만장이 교체한다."
GERMAN = "Die Schlüssel zum Signieren werden im Hafen jeden Montag vom Hafenmeister erneuert, wie es die Prüfer nach dem Audit verlangten."
UNCLEAR = "Signing keys, harbour: rotated Mondays, audited."
CODE = "```sh\nport-admin rotate --keys signing --when monday --because audit\n```\n"


class Understanding(HashEmbedder):
    """An embedder that gives all texts about keys the same vector, in any language."""

    def embed_passages(self, texts: Sequence[str]) -> Any:
        keys = ("harbour", "항구의", "Hafen")
        return HashEmbedder.embed_passages(
            self, [ENGLISH if any(key in text for key in keys) else text for text in texts]
        )


@pytest.fixture
def repeated(vault: Path) -> Callable[[], list[list[str]]]:
    """The paths of what `check` calls duplicates."""

    def ask() -> list[list[str]]:
        with Spellbook(config.load(vault, embedder="hash"), Understanding()) as book:
            book.reindex()
            return [[place.path for place in each.chunks] for each in book.check().duplicates]

    return ask


def test_translations_are_no_repetitions(repeated: Callable[[], Any], write_note: Write) -> None:
    """Translations are recognized by letters and common words; copies within each language are reported."""
    write_note("keys.md", ENGLISH)
    write_note("열쇠.md", KOREAN)
    write_note("schluessel.md", GERMAN)
    assert repeated() == []
    write_note("copy.md", COPY)
    write_note("사본.md", f"{KOREAN} 확인했다.")
    assert repeated() == [["copy.md", "keys.md"], ["사본.md", "열쇠.md"]]


def test_what_no_language_owns_does_not_join_two(repeated: Callable[[], Any], write_note: Write) -> None:
    """A text of unclear language repeats texts of at most one language."""
    write_note("a.md", UNCLEAR)
    write_note("keys.md", ENGLISH)
    write_note("schluessel.md", GERMAN)
    [group] = repeated()
    assert len(group) == 2
    assert "a.md" in group


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("guide.ko.md", {}), ("guide.en.md", {})),
        (("guide.ko.md", {}), ("guide.md", {})),
        (("docs/ko/guide.md", {}), ("docs/en/guide.md", {})),
        (("guide.md", {"language": "ko-KR"}), ("leitfaden.md", {"language": "de"})),
        (("guide.md", {"lang": "ko"}), ("handbook.md", {"lang": "en"})),
    ],
)
def test_what_stays_the_same_in_a_translation(
    repeated: Callable[[], Any], write_note: Write, one: Any, other: Any
) -> None:
    """Code in two translated notes is no repetition if frontmatter or names mark their languages."""
    for (path, meta), said in ((one, KOREAN), (other, GERMAN)):
        write_note(path, f"# Keys\n\n{said}\n\n## Rotate\n\n{CODE}", **meta)
    assert repeated() == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("it/a.md", {}), ("ops/a.md", {})),
        (("setup.sh.md", {}), ("setup.md", {})),
        (("main.cs.md", {}), ("other.md", {})),
        (("a.md", {"language": "python"}), ("b.md", {})),
        (("a.en.md", {}), ("b.en.md", {})),
        (("a.md", {"language": "en"}), ("b.md", {"language": "English"})),
    ],
)
def test_a_copy_is_a_repetition(repeated: Callable[[], Any], write_note: Write, one: Any, other: Any) -> None:
    """A name that only looks like a language mark hides no copy."""
    for path, meta in (one, other):
        write_note(path, f"# Keys\n\n{ENGLISH}\n", **meta)
    [group] = repeated()
    assert group == sorted([one[0], other[0]])


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "latin:en"),
        (KOREAN, "hangul:ko"),
        (GERMAN, "latin:de"),
        ("PostgreSQL의 `max_connections` 값을 200으로 올렸다. pgbouncer를 앞에 두었다.", "hangul:ko"),
        (f"설치한다.\n\n{CODE * 20}", "hangul:ko"),
        ("セッションはデータベースに保存する。", "han:ja"),
        ("会话令牌存储在关系数据库中。", "han:zh"),
        ("Ключи не меняются, что было решено в марте.", "cyrillic:ru"),
        ("Signing keys: Mondays", "latin"),
        (f"{KOREAN} " * 30 + f"{ENGLISH} " * 20, "hangul:ko"),
        (f"{KOREAN} " * 15 + f"{ENGLISH} " * 22, "latin:en"),
        (f"{ENGLISH} " * 30 + KOREAN, "latin:en"),
        (CODE, ""),
        ("", ""),
    ],
)
def test_written_in(text: str, language: str) -> None:
    """The script of the prose and its language, where clear; code is ignored."""
    assert languages.written_in(text) == language


def test_marks_of_languages() -> None:
    """Language marks are read from names and frontmatter; names of programming languages are none."""
    assert languages.marked("a/guide.ko.md") == ("a/guide.md", "hangul:ko")
    assert languages.marked("a/guide-pt-BR.md") == ("a/guide.md", "latin:pt")
    assert languages.marked("a/ko/guide.md") == ("a/*/guide.md", "hangul:ko")
    assert languages.marked("a/guide.js.md") == ("a/guide.js.md", "")
    assert languages.marks(["ko/a.md", "en/a.md", "go.it.md", "b.md", "b.ko.md"]) == {
        "ko/a.md": "hangul:ko", "en/a.md": "latin:en", "b.md": "", "b.ko.md": "hangul:ko",
    }  # fmt: skip
    assert [languages.declared(each) for each in ("ko", "en_GB", "zh-Hant-TW", "go", "python", None, ["en"])] == [
        "hangul:ko", "latin:en", "han:zh", "", "", "", "",
    ]  # fmt: skip
