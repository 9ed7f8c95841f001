"""The name of a memory's file: its title, first heading or first words, as a reader sees them."""

from __future__ import annotations

import pytest

from spellbook.editing.memory import Memory
from tests.helpers import leads


@pytest.mark.parametrize(
    ("text", "title", "name"),
    [
        ("프로젝트에서 TypeScript를 도입하기로 결정했다.", None, "프로젝트에서 TypeScript를 도입하기로 결정했다."),
        ("닭 모델은 복셀 16×16으로 만든다", None, "닭 모델은 복셀 16×16으로 만든다"),
        ("- [ ] buy **milk** and [[shop/Bread|bread]]\n- [ ] tea", None, "buy milk and bread"),
        ("> [!note] Hello\n> there", None, "Hello there"),
        ("<!-- seen by nobody -->\nHello `you`", None, "Hello you"),
        ("```py\nprint(1)\n```", None, "print(1)"),
        ("| a | b |\n| --- | --- |\n| c | d |", None, "a b --- --- c d"),
        ("One two three four five six seven, eight, nine", None, "One two three four five six seven, eight"),
        ("Intro.\n\n## The *Keys* of [Ann](a.md)", None, "The Keys of Ann"),
        ("x", "Vec<T> isn't C++", "Vec<T> isn't C++"),
        ("x", 'Decision: why? "[draft]" of #3 | plan', "Decision - why - '(draft)' of 3 - plan"),
        ("x", "TCP/IP at 18:30", "TCP/IP at 18:30"),
        ("x", "harbour " * 30, ("harbour " * 11).strip()),
    ],
)
def test_name(text, title, name):
    """Markup is left out, case and signs stay, and a long name ends with a whole word."""
    assert Memory(text, {"title": title} if title else {}).name == name


def test_a_link_to_a_new_note_works_as_its_path_says(book, vault, write_note):
    """A wikilink with the path of a note that was just written leads to it, whatever its title holds."""
    titles = ["18:30 [draft] of #3", "a^b|c", "왜 16×16인가?", "100% & more"]
    for number, title in enumerate(titles):
        meta = {"topic": "t", "keywords": ["a"], "title": title}
        [written] = book.scribe({"text": f"Text of its own, number {number}.", "metadata": meta}).written
        write_note(f"{number}.md", f"See [[{written.path.removesuffix('.md')}]].")
        assert leads(vault)[f"{number}.md", 0] == written.path
        assert book.around(written.path).backlinks[0].path == f"{number}.md"
    assert sorted(path.name for path in (vault / "knowledge/t").iterdir()) == [
        "100% & more.md", "18-30 (draft) of 3.md", "a-b-c.md", "왜 16×16인가.md",
    ]  # fmt: skip
