"""Title and file name of a memory: the title that it was given, else its first sentence and a few words of that."""

from __future__ import annotations

import pytest

from spellbook.editing.memory import Memory
from tests.helpers import leads


@pytest.mark.parametrize(
    ("text", "title", "name"),
    [
        ("Intro.\n\n# The *Keys* of [Ann](a.md)", None, "The Keys of Ann"),
        ("```sh\n# no heading\n```\n\n## Yes", None, "Yes"),
        ("just some words, and more of them than eight words", None, "just-some-words-more"),
        ("---", None, ""),
        ("# " + "long " * 50, None, "long long long long"),
        ("x", "Vec<T> isn't C++", "Vec<T> isn't C++"),
        ("x", 'Decision: why? "[draft]" of #3 | plan', "Decision why draft of"),
        ("x", "TCP/IP at 18:30", "TCP/IP at"),
        ("x", "여권 갱신은 2027년 3월까지 구청에서", "여권 갱신은 구청에서"),
        ("x", "wifi pw = bluewhale99!", "wifi pw"),
        ("x", "2026-11-26", ""),
        ("x", "harbour " * 30, "harbour harbour harbour harbour"),
    ],
)
def test_name(text, title, name):
    """
    Four words of a given title, else of the first heading or sentence, name the file: markup, digits, codes and secrets
    are left out, case and signs within a word stay.
    """
    assert Memory(text, {"title": title} if title else {}).name == name


SECRET = "ghp_" + "".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789"[i * 7 % 46] for i in range(36))


@pytest.mark.parametrize(
    ("text", "title", "name"),
    [
        (
            "프로젝트에서 TypeScript를 도입하기로 결정했다. 이유는 셋이다.",
            "프로젝트에서 TypeScript를 도입하기로 결정했다",
            "프로젝트에서-TypeScript를-도입하기로-결정했다",
        ),
        ("닭 모델은 복셀 16×16으로 만든다", "닭 모델은 복셀 16×16으로 만든다", "닭-모델은-복셀-만든다"),
        (
            "We deploy on Tuesdays, never on Fridays -\nat 14:00. And more.",
            "We deploy on Tuesdays, never on Fridays - at 14:00",
            "deploy-Tuesdays-never-Fridays",
        ),
        ("- [ ] buy **milk** and [[shop/Bread|bread]]\n- [ ] tea", "buy milk and bread", "buy-milk-bread"),
        ("> [!note] Hello\n> harbour", "Hello harbour", "Hello-harbour"),
        ("<!-- seen by nobody -->\nHello `harbour`", "Hello harbour", "Hello-harbour"),
        ("```py\nprint(1)\n```", "print(1)", ""),
        ("## Keys\n\nThey rotate.", "Keys", "Keys"),
        ("Don't ask. Ever.", "Don't ask", "Dont-ask"),
        (f"The key is {SECRET} here", "The key is …", "key"),
        ("배포 키는 AKIAIOSFODNN7EXAMPLE 이다", "배포 키는 AKIAIOSFODNN7EXAMPLE 이다", "배포-키는-이다"),
        ("고객은 900101-1234567 번이다", "고객은 …", "고객은"),
        ("word " * 80, ("word " * 23).strip() + "…", "word-word-word-word"),
        ("가" * 200, "가" * 119 + "…", "가" * 119),
        ("!!!", "!!!", ""),
        ("여권 갱신은 2027년 3월까지 한다", "여권 갱신은 2027년 3월까지 한다", "여권-갱신은"),
        ("The wifi password is Orchid-7731-sky", "The wifi password is …", "wifi-password"),
    ],
)
def test_without_a_title(text, title, name):
    """The first sentence is the title; a few of its words, without signs and secrets, name the file, Korean as Korean."""
    memory = Memory(text, {"topic": "t", "category": "c"})
    assert (memory.title, memory.name) == (title, name)
    assert all(word in text for word in name.split("-") if word != "Dont")


def test_the_title_is_in_the_note(book, vault, write_note):
    """
    It stands in the frontmatter, and stays when the note is moved; a note with a heading of its own has no second. A
    wikilink with the path of a note that was just written leads to it, whatever its title holds.
    """
    sentence = "Deploys are on Tuesdays, never on Fridays."
    [done] = book.scribe({"text": sentence, "metadata": {"topic": "t", "keywords": ["deploy"]}}).written
    assert book.show(done.chunk_id)[0].title == sentence.rstrip(".")
    assert "title: Deploys are on Tuesdays, never on Fridays" in (vault / done.path).read_text("utf-8")
    book.move(done.path, "elsewhere/release.md")
    assert book.show(done.chunk_id)[0].title == sentence.rstrip(".")
    [headed] = book.scribe({"text": "# Own\n\nText.", "metadata": {"topic": "own", "keywords": ["own"]}}).written
    assert "title:" not in (vault / headed.path).read_text("utf-8")
    titles = ["18:30 [draft] of #3", "a^b|c", "왜 16×16인가?", "100% & more"]
    for number, title in enumerate(titles):
        meta = {"topic": "t", "keywords": ["a"], "title": title}
        [written] = book.scribe({"text": f"Text of its own, number {number}.", "metadata": meta}).written
        write_note(f"{number}.md", f"See [[{written.path.removesuffix('.md')}]].")
        assert leads(vault)[f"{number}.md", 0] == written.path
        assert book.around(written.path).backlinks[0].path == f"{number}.md"
    names = sorted(path.name for path in (vault / "knowledge/t").iterdir())
    assert names == ["a-b-c.md", "draft of.md", "more.md", "왜.md"]
