"""Korean text for people: no words of a translation, one word for one thing."""

from __future__ import annotations

import re

from spellbook.settings import translate
from tests.readme_tables import KOREAN_PAGES, ROOT

WORDS = {
    "되풀이하세요": "다시 실행하세요, 한 번 더 시도하세요",
    "되풀이하거나": "다시 실행하거나",
    "되풀이합니다": "여러 번 쓸 수 있습니다",
    "그리로": "이 노트를 가리키는, 이 자리로",
    "을 아는 ": "지원하다",
    "를 아는 ": "지원하다",
    "믿는다고": "신뢰하다, 허용하다",
    "서버에 묻": "요청하다, 연결하다",
    "여기에 묻": "요청하다, 연결하다",
    "에만 묻": "요청하다, 연결하다",
    "서버에 물어": "검색하다",
    "물어보세요": "검색하세요",
    "부르고": "호출하다",
    "부르면": "호출하다",
    "나열": "보여 주다, 목록",
    "구경": "써 보다",
    "낱말": "단어, 용어",
    "카테고리": "분류",
    "핵심어": "키워드",
    "되살립": "복원하다",
    "까닭": "이유",
}
"""Words that make a person stumble, or a second name of a thing, and better ones."""

FOR_TOOLS = ("chunk", "scribe", "metadata")
"""English words of messages that the writer of a tool reads, who knows chunks."""


def test_korean_has_no_words_of_a_translation() -> None:
    """
    No message, page of the dashboard, text of the plugin or page of docs has one of the words; chunks are sections but to
    those who write tools. Headings are nouns or polite sentences, never in plain style.
    """
    tables = {**translate.table(), **translate.table("spellbook.http.pages")}
    plugin = (ROOT / "spellbook/cli/clients/obsidian/main.js").read_text("utf-8")
    pages = {page.name: page.read_text("utf-8") for page in KOREAN_PAGES}
    texts = {**tables, **pages, "main.js": "\n".join(re.findall(r"'(.*[가-힣].*)'", plugin))}
    found = {place: [word for word in WORDS if word in text] for place, text in texts.items()}
    assert {place: words for place, words in found.items() if words} == {}
    chunks = [place for place, text in texts.items() if "청크" in text]
    assert [place for place in chunks if not any(word in place for word in FOR_TOOLS)] == []
    headings = [line for text in pages.values() for line in re.findall(r"(?m)^#+ (.+)$", text)]
    assert [line for line in headings if re.search(r"(?<!하)나$|(?<!니)[까다]$", line)] == []
