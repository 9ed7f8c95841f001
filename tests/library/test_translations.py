"""`check` treats notes in two languages as translations, not as repetitions."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.models.embedders import HashEmbedder
from spellbook.settings import config
from spellbook.text import languages
from tests.helpers import note_writer

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


Written = tuple[str, str, dict[str, str]]
"""A note: its path, its text and its frontmatter."""


@pytest.fixture
def repeated(vault: Path) -> Callable[..., list[list[str]]]:
    """Write notes, and return the paths of what `check` calls duplicates."""

    def ask(*notes: Written) -> list[list[str]]:
        files = [note_writer(vault)(path, text, **meta) for path, text, meta in notes]
        with Spellbook(config.load(vault, embedder="hash"), Understanding()) as book:
            book.reindex(full=True)
            found = [[place.path for place in each.chunks] for each in book.check().duplicates]
        for file in files:
            file.unlink()
        return found

    return ask


def test_translations_are_no_repetitions(repeated: Callable[..., list[list[str]]]) -> None:
    """
    Translations are recognized by letters and common words; copies within each language are reported. A text of unclear
    language repeats texts of at most one language.
    """
    three: list[Written] = [("keys.md", ENGLISH, {}), ("열쇠.md", KOREAN, {}), ("schluessel.md", GERMAN, {})]
    assert repeated(*three) == []
    copies: list[Written] = [("copy.md", COPY, {}), ("사본.md", f"{KOREAN} 확인했다.", {})]
    assert repeated(*three, *copies) == [["copy.md", "keys.md"], ["사본.md", "열쇠.md"]]
    [group] = repeated(("a.md", UNCLEAR, {}), three[0], three[2])
    assert (len(group), "a.md" in group) == (2, True)


def test_names_and_frontmatter_tell_translations_from_copies(repeated: Callable[..., list[list[str]]]) -> None:
    """
    Code in two translated notes is no repetition if frontmatter or names mark their languages. A name that only looks
    like a language mark hides no copy.
    """
    for one, other, *meta in (
        ("guide.ko.md", "guide.en.md"),
        ("guide.ko.md", "guide.md"),
        ("docs/ko/guide.md", "docs/en/guide.md"),
        ("guide.md", "leitfaden.md", {"language": "ko-KR"}, {"language": "de"}),
        ("guide.md", "handbook.md", {"lang": "ko"}, {"lang": "en"}),
    ):
        of_one, of_other = meta or ({}, {})
        texts = [f"# Keys\n\n{said}\n\n## Rotate\n\n{CODE}" for said in (KOREAN, GERMAN)]
        assert repeated((one, texts[0], of_one), (other, texts[1], of_other)) == []
    for one, other, *meta in (
        *(("it/a.md", "ops/a.md"), ("setup.sh.md", "setup.md"), ("main.cs.md", "other.md"), ("a.en.md", "b.en.md")),
        ("a.md", "b.md", {"language": "python"}, {}),
        ("a.md", "b.md", {"language": "en"}, {"language": "English"}),
    ):
        of_one, of_other = meta or ({}, {})
        text = f"# Keys\n\n{ENGLISH}\n"
        assert repeated((one, text, of_one), (other, text, of_other)) == [sorted([one, other])]


WRITTEN = [
    *((ENGLISH, "latin:en"), (KOREAN, "hangul:ko"), (GERMAN, "latin:de"), (CODE, ""), ("", "")),
    ("PostgreSQL의 `max_connections` 값을 200으로 올렸다. pgbouncer를 앞에 두었다.", "hangul:ko"),
    (f"설치한다.\n\n{CODE * 20}", "hangul:ko"),
    ("セッションはデータベースに保存する。", "han:ja"),
    ("会话令牌存储在关系数据库中。", "han:zh"),
    ("Ключи не меняются, что было решено в марте.", "cyrillic:ru"),
    ("Signing keys: Mondays", "latin"),
    (f"{KOREAN} " * 30 + f"{ENGLISH} " * 20, "hangul:ko"),
    (f"{KOREAN} " * 15 + f"{ENGLISH} " * 22, "latin:en"),
    (f"{ENGLISH} " * 30 + KOREAN, "latin:en"),
]


def test_the_language_of_a_text_and_of_a_name() -> None:
    """
    The script of the prose and its language, where clear; code is ignored. Language marks are read from names and
    frontmatter; names of programming languages are none.
    """
    for text, language in WRITTEN:
        assert languages.written_in(text) == language
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
