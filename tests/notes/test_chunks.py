"""
chunks.cut: a note in, its sections out; dialogue.turns: the turns of a conversation.

`cases/NAME.md` is a note, byte for byte; `cases/NAME.txt` what it is cut into,
a line a chunk: the file's lines, the suffix of the id, the
heading path, how its text begins, and behind `+` what else is shown before and
after it. A line with `!` is a fault.
"""

import base64
import itertools
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.notes.chunks import Chunk, cut
from spellbook.notes.dialogue import turns
from spellbook.notes.note import Note, lines, parse
from spellbook.text.terms import token_weight
from spellbook.text.unicode import slug

CASES = Path(__file__).parents[1] / "cases"

PIECES = [
    *("# Title", "## Part", "## Part", "### Sub", "#### 소제목", "Setext\n---", "Big\n===", "##", "---", "## 🚀", "## a-2", "## a"),
    *("```", "~~~~", "    ## code", "- item", "  - nested", "1. one", "> ## quoted", "| a | b |\n| - | - |\n| 1 | 2 |"),
    *("<!--", "-->", "<div>", "</div>", "[a]: /b", "%%", "title: x", "\ufeff", "\0", "\u2028", "\x0c## x", "#tag `#no`"),
    *("", "", "", "\t", " ", "word", "한글 문장입니다. " * 40, "가" * 700, "x " * 300, "a.b! c? " * 50),
]  # fmt: skip
markdown = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["\n", "\n\n", "\r\n", "\r", ""]))).map(
    lambda pairs: "".join(piece + end for piece, end in pairs)
)
texts = st.one_of(
    markdown,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    markdown.map(lambda text: f"---\ntitle: x\n---\n{text}"),
).filter(lambda text: text.count("\0") * 3 <= len(text))  # what is mostly NUL is not a note


def shown(note: Note) -> str:
    faults = [f"! {fault.line} {fault.reason}" for fault in note.faults]
    return "".join(f"{line}\n" for line in [*faults, *map(row, cut(note))])


def row(chunk: Chunk) -> str:
    begins = ascii_safe(next((line.strip() for line in lines(chunk.text) if line.strip()), ""))
    around = [ascii_safe(" / ".join(part.strip() for part in lines(each))) for each in (chunk.lead, chunk.tail)]
    added = f" + {around[0]} … {around[1]}".rstrip() if any(around) else ""
    return f"{chunk.line}-{chunk.end_line} {chunk.suffix} [{' > '.join(chunk.heading)}] {begins[:60]}".rstrip() + added


def ascii_safe(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.md")), ids=lambda path: path.stem)
def test_case(path: Any) -> None:
    """Each note in `cases/` is cut, numbered and named as its `.txt` says, and none lacks the other."""
    assert {path.stem for path in CASES.glob("*.md")} == {path.stem for path in CASES.glob("*.txt")}
    note = parse(path.name, path.read_bytes())
    assert shown(note) == path.with_suffix(".txt").read_text(encoding="utf-8")


@given(texts, st.sampled_from([8, 40, 256]))
def test_any_note_is_cut_whole(text: str, most: int) -> None:
    """
    The chunks joined are the body and encode to the file's bytes. Each is at its position, has an id of its own, and
    lines `line` to `end_line` contain exactly its text.
    """
    data = text.encode()
    note = parse("a.md", data)
    chunks, source = cut(note, most), lines(note.text)
    assert "".join(chunk.text for chunk in chunks) == note.body
    assert [note.text[chunk.start : chunk.end] for chunk in chunks] == [chunk.text for chunk in chunks]
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert note.encode() == data
    assert len({chunk.suffix for chunk in chunks}) == len(chunks) > 0
    for chunk in chunks:
        if written := chunk.text.strip():
            span = source[chunk.line - 1 : chunk.end_line]
            assert written in "".join(span)
            assert lines(written)[0].rstrip("\r\n") in span[0]
            assert lines(written)[-1] in span[-1]


@given(texts, st.sampled_from([40, 256]))
def test_what_is_embedded_is_bounded(text: str, most: int) -> None:
    """
    A chunk has at most the requested tokens, and at most as many again for its headings. However long titles, keywords,
    headers and turns are, the text itself always fits into what a model reads.
    """
    note = parse("a.md", text.encode())
    chunks = cut(note, most)
    for chunk in chunks:
        assert token_weight(chunk.text) <= 2 * most + 1
        assert token_weight(chunk.embedded) <= 3 * most + 200
        assert len(chunk.embedded) <= 12 * most + 1600
    assert cut(note, most) == chunks


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param("a\n\n", id="one-word paragraphs"),
        pytest.param("### a\n", id="headings alone"),
        pytest.param("- a\n", id="list items"),
        pytest.param("*", id="a line of marks"),
        pytest.param("가", id="a line of Hangul"),
    ],
)
def test_small_things_add_up(unit: str) -> None:
    """A long section of small pieces is divided into chunks of about the requested size."""
    note = parse("a.md", ("## A\n\n" + unit * 5000).encode())
    weights = [token_weight(chunk.text) for chunk in cut(note)]
    assert max(weights) <= 300
    assert len(weights) < 3 * token_weight(note.body) / 256 + 2


def test_the_text_is_never_pushed_out() -> None:
    """
    With the longest possible context before it, a chunk's whole text is within the 2,000 letters that are embedded. A
    heading path of few tokens stays whole; of one with too many, each name is shortened.
    """
    title, heading = f"{'Deploying services to production ' * 3}at night", "Waiting for connections to drain"
    for times in (1, 4):
        path = cut(parse("a.md", f"# {title * times}\n## {heading}\ntext".encode()))[-1].embedded.partition("\n")[0]
        assert (path.startswith("Deploying services"), path.endswith(f" > {heading}")) == (True, True)
        assert (path == f"{title} > {heading}", token_weight(path) <= 64) == (times == 1, True)
    keywords = ", ".join(f"keyword number {i}" for i in range(200))
    headings = "".join(f"{'#' * level} {'heading ' * 24}{level}\n\n" for level in range(1, 7))
    prose = " ".join(f"Sentence number {i} goes on for some words." for i in range(100))
    text = f"---\nkind: conversation\ndate: 2026-11-21\ntitle: {'title ' * 500}\nkeywords: [{keywords}]\n---\nAnn: {prose}\n\nBob: {prose}\n\n"
    chunks = cut(parse("a.md", (text + f"Ann: yes\n\n{headings}{prose}\n\nBob: no\n").encode()))
    assert len(chunks) > 8
    for chunk in chunks:
        assert " ".join(chunk.text.split()) in " ".join(chunk.embedded[:2000].split())
        assert token_weight(chunk.embedded) <= 510 or token_weight(chunk.text) > 256


CLUSTERS = ["e\u0301", "👩\u200d👩\u200d👧", "🇰🇷", "👍🏽", "नि", "क्ष", "ที่", "각", "한", "⚙\ufe0f", "a", "漢", "น้ำ"]


@given(st.lists(st.sampled_from(CLUSTERS), min_size=40, max_size=400), st.sampled_from([16, 64]))
def test_no_letter_is_torn(clusters: Any, most: int) -> None:
    """Long text without blanks is cut between letters as a reader sees them."""
    bounds, at = {0}, 0
    for cluster in clusters:
        at += len(cluster)
        bounds.add(at)
    assert {chunk.start for chunk in cut(parse("a.md", "".join(clusters).encode()), most)} <= bounds


@pytest.mark.parametrize(
    ("paragraph", "ends"),
    [
        pytest.param("We went there, e.g. by train. It was far! Was it? " * 40, (".", "!", "?"), id="English"),
        pytest.param("컨테이너를 다시 만든다. 그러면 설정을 읽습니다. " * 40, ("다.",), id="Korean"),
        pytest.param("これは文です。次の文です！「本当？」そうです。" * 60, ("。", "！", "」"), id="Japanese"),
        pytest.param("我们重新部署容器。然后读取配置！" * 60, ("。", "！"), id="Chinese"),
        pytest.param("การตั้งค่าเซิร์ฟเวอร์ ต้องใช้เวลา " * 60, ("์", "า"), id="Thai: at blanks"),
    ],
)
def test_long_paragraphs_are_cut_at_sentences(paragraph: str, ends: tuple[str, ...]) -> None:
    """A paragraph that is too long is cut where a sentence ends, and never within inline code or a link."""
    link = "[a long link. With words](https://example.org/a.b?c=d)"
    for whole in ("`git push --force. Then go`", link, "[[Some note. Yes#Part|shown. So]]", "https://a.org/b?c=d.e"):
        chunks = cut(parse("a.md", f"{whole} and so on ".encode() * 80), 64)
        assert sum(chunk.text.count(whole) for chunk in chunks) == 80 > len(chunks) > 5
    chunks = cut(parse("a.md", paragraph.encode()))
    assert len(chunks) > 2
    assert all(chunk.text.rstrip().endswith(ends) and not chunk.text.rstrip().endswith("e.g.") for chunk in chunks)


def test_what_fits_stays_whole() -> None:
    """
    A subsection that fits into a chunk is never divided; if it does not fit beside another, it starts its own chunk. A
    part never ends with a heading whose text is in the next part.
    """
    text = "".join(f"### Part {i}\n\n#### Below\n\n{'word ' * (i * 7 % 190)}\n\n" for i in range(60))
    for chunk in cut(parse("a.md", text.encode()))[:-1]:
        assert not chunk.text.rstrip().splitlines()[-1].startswith("#")
    text = "## A\n\n" + "".join(
        f"### Part {i}\n\nFirst {'word ' * (40 + 37 * i % 60)}\n\n- a\n- b\n\nLast {i}.\n\n" for i in range(20)
    )
    chunks = cut(parse("a.md", text.encode()))
    assert len(chunks) > 5
    for i in range(20):
        (home,) = [chunk for chunk in chunks if f"### Part {i}\n" in chunk.text]
        assert f"Last {i}." in home.text


def test_bold_lines_serve_as_headings() -> None:
    """Parts below a bold line carry it in their embedded text until a heading or another bold line."""
    text = "".join(f"**{name}**\n\n" + "\n\n".join([f"{name[0]} " * 150] * 4) + "\n\n" for name in ("Setup", "Use:"))
    chunks = cut(parse("a.md", (text + "### Removal\n\n" + "r " * 600).encode()))
    for chunk in chunks:
        letter = chunk.text.strip()[-1]
        name = {"S": "Setup", "U": "Use", "r": "Removal"}[letter]
        assert name in chunk.embedded
        assert name == "Removal" or "Removal" not in chunk.embedded


@pytest.mark.parametrize(
    ("above", "overlaps"),
    [
        pytest.param("", True, id="nothing"),
        pytest.param("# Title\n\n", False, id="a title"),
        pytest.param("---\nkeywords: [a]\n---\n", False, id="keywords"),
    ],
)
def test_overlap(above: str, overlaps: bool) -> None:
    """Parts of a paragraph without heading path or keywords begin with the last sentences of the one before."""
    sentences = " ".join(f"Sentence {i} goes on for some words." for i in range(120))
    first, second, *_ = cut(parse("a.md", f"{above}{sentences}\n".encode()))
    last = first.text.rstrip()[-30:]
    assert (last in second.embedded) is overlaps
    assert last not in second.text


def chat(*questions: str, label: str = "## ") -> Note:
    said = "".join(
        f"{label}User\n\n{question}\n\n{label}Assistant\n\nAbout {question} {f'word{i} ' * 90}\n\n"
        for i, question in enumerate(questions)
    )
    return parse(
        "a.md", f"---\nkind: conversation\ncreated: 2026-11-21T10:00:00+09:00\n---\n# Docker\n\n{said}".encode()
    )


@pytest.mark.parametrize("label", ["## ", "### "])
def test_a_turn_keeps_the_one_before_and_the_date(label: str) -> None:
    """The embedded text of a turn begins with the day and the previous turn's beginning; one that fits is whole."""
    chunks = cut(chat("How to mount?", "Read-only?", "Which user?", label=label))
    for chunk in chunks[1:]:
        assert chunk.embedded.startswith("2026-11-21\nDocker")
    for i, question in enumerate(("How to mount?", "Read-only?", "Which user?")):
        (home,) = [chunk for chunk in chunks if f"word{i}" in chunk.text]
        assert home.text.count(f"word{i} ") == 90
        assert f"User\n\n{question}" in home.embedded or f"User {question}" in home.embedded


def test_an_edit_embeds_what_it_touches() -> None:
    """
    Editing one subsection of a long section does not change the embedded text of later ones. An edit of a turn changes
    the embedded text of that turn and the next only.
    """
    parts = [f"### Part {i}\n\n{f'word{i} ' * 90}\n\n" for i in range(20)]
    asked = ["How to mount?", "Read-only?", "Which user?", "Why?"]
    notes = [parse("a.md", ("## A\n\n" + "".join(parts)).encode()), chat(*asked)]
    before = [{chunk.embedded for chunk in cut(note)} for note in notes]
    parts[5], asked[1] = parts[5].replace("word5", "other"), "Writable?"
    notes = [parse("a.md", ("## A\n\n" + "".join(parts)).encode()), chat(*asked)]
    after = [{chunk.embedded for chunk in cut(note)} for note in notes]
    # Of the turns: the question, its answer (which names it here), and the question after that.
    assert [len(new - old) for new, old in zip(after, before, strict=True)] == [1, 3]


@pytest.mark.parametrize(
    ("header", "text", "first"),
    [
        pytest.param("category: journal\ndate: 2026-11-21", "# Saturday\n\nx\n", "2026-11-21", id="journal"),
        pytest.param("tags: [daily/work]\ncreated: 2026-11-21T08:00:00", "x\n", "2026-11-21", id="a daily tag"),
        ("category: journal\ndate: 2026-11-21", "# 2026-11-21\n\nx\n", "2026-11-21"),
        pytest.param("category: journal\nupdated: 2026-11-21", "x\n", "x", id="never of the last edit"),
        pytest.param("category: project\ndate: 2026-11-21", "x\n", "x", id="not of other notes"),
    ],
)
def test_date(header: str, text: str, first: str) -> None:
    """The embedded text has the day only in journals and meetings, once, and never a date that an edit changes."""
    (chunk,) = cut(parse("a.md", f"---\n{header}\n---\n{text}".encode()))
    assert chunk.embedded.startswith(f"{first}\n") or chunk.embedded == first
    assert chunk.embedded.splitlines().count("2026-11-21") <= 1


SLUGS = {"Hello, World!": "hello-world", "설치 방법": "설치-방법", "snake_case - and more": "snake_case---and-more"}
SLUGS |= {"ที่นี่": "ที่นี่", "⚙️": "section", "": "section"}


@pytest.mark.parametrize(
    ("text", "embedded"),
    [
        ("---\ntitle: T\nkeywords: [a, b]\n---\n## A\n\nx\n", ["T > A\na, b\n## A\n\nx"]),
        pytest.param("# T\n\nx\n", ["T\n# T\n\nx"], id="title from the text"),
        pytest.param("x\n", ["x"], id="no title: the file's name is not embedded"),
        pytest.param("## A\0B\n", ["A B\n## A B"], id="NUL is a blank"),
        pytest.param("| a     |  b |\r\n\r\n\r\n\r\n\t\tx\n", ["| a | b |\n\nx"], id="padding is nothing"),
        pytest.param("a\r\r\r  b\t\u3000c\x0bd \r e\n", ["a\n\nb c d\ne"], id="CR alone ends a line, too"),
        pytest.param("한글\n", ["한글"], id="NFC"),
    ],
)
def test_embedded(text: str, embedded: list[str]) -> None:
    """
    The embedded text is heading path, keywords and text, without the file's path. A slug is the one GitHub makes of the
    heading, and never empty.
    """
    assert {heading: slug(heading) for heading in SLUGS} == SLUGS
    assert [chunk.embedded for chunk in cut(parse("folder/name.md", text.encode()))] == embedded


SIZE = 80_000
HOSTILE = {
    "backtick runs": "#a " + "".join("`" * i + "x" for i in range(1, 400)),
    "clashing headings": "".join(f"## a\n## a-{i}\n" for i in range(SIZE // 16)),
    "heading of comments": "# " + "{/*" * (SIZE // 3),
    "unclosed fence": "```py\n" + "x = 1\n\n" * (SIZE // 7),
    "a long table": "| a | b |\n| - | - |\n" + "| 1 | 2 |\n" * (SIZE // 10),
    "a wide table": f"|{'a |' * 2_000}\n|{'-|' * 2_000}\n" + f"|{'1 |' * 2_000}\n" * 10,
    "code in list items": "- ```\n  x\n  ```\n" * (SIZE // 16),
    "a nested list, deeper": "".join("  " * (i % 1000) + "- a\n" for i in range(1000)),
    "turns": "User: a\nAssistant: b\n" * (SIZE // 21),
    "marks": "e" + "\u0301" * SIZE,
    "joined pictures": "👩\u200d" * (SIZE // 2),
    "links": "[a](b " * (SIZE // 6),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time(name: str) -> None:
    """Cutting 80 kB takes at most a few seconds of CPU time, whatever the text; quadratic rules would take minutes."""
    begin = time.process_time()
    note = parse("a.md", HOSTILE[name].encode())
    chunks = cut(note)
    assert note.tags is not None
    assert time.process_time() - begin < 5
    assert "".join(chunk.text for chunk in chunks) == note.body


BASE64 = base64.b64encode(bytes(i * i % 251 for i in range(9000))).decode()
DRAWING = """---
excalidraw-plugin: parsed
---
==⚠  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu of this document. ⚠== You can decompress it.

# Excalidraw Data

## Text Elements
The garden plan ^a1

%%
## Drawing
```{0}
```
%%
"""
SHAPES = ",\n".join(f'{{"type": "text", "text": "Shape {i}"}}' for i in range(900))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(f"A ![p](data:image/png;base64,{BASE64}) b", "A ![p](…) b", id="a picture"),
        (f"A ![p][i]\n\n[i]: <data:image/png;base64,{BASE64}>\n", "A ![p][i]\n\n[i]: <…>"),
        pytest.param(
            f"A\r\n```\r\n{re.sub('(.{76})', chr(92) + '1' + chr(13) + chr(10), BASE64)}\r\n```\r\nb",
            "A\n```\n…\n\n```\nb",
            id="in lines",
        ),
        pytest.param(f"{'Long words. ' * 200}{BASE64}{' so long.' * 200}", None, id="in a long paragraph"),
        pytest.param(f"{'a' * 500} {'-' * 500} {'가' * 500} {'a1' * 90} {'31' * 500}", "", id="words"),
        pytest.param(
            DRAWING.format("compressed-json\n" + re.sub("(.{256})", "\\1\n\n", BASE64)),
            "Text Elements\n…\n\n…\n\n## Text Elements\nThe garden plan ^a1\n\n…",
            id="a drawing",
        ),
        pytest.param(
            DRAWING.format(f'json\n{{"elements": [{SHAPES}]}}'),
            "Text Elements\n…\n\n…\n\n## Text Elements\nThe garden plan ^a1\n\n…",
            id="a drawing as JSON",
        ),
    ],
)
def test_data_is_no_text(text: str, words: str | None) -> None:
    """Of encoded data an ellipsis is embedded and shown; it makes no section, and no character of the note is lost."""
    note = parse("plan.md", text.encode())
    chunks = cut(note)
    if words is None:
        assert len(chunks) == len(cut(parse("plan.md", text.replace(BASE64, "").encode())))
    else:
        assert [chunk.embedded for chunk in chunks] == [words] if words else "…" not in chunks[0].text
    assert not any(BASE64[at : at + 30] in chunk.text for chunk in chunks for at in range(0, len(BASE64), 100))
    assert "".join(note.text[chunk.start : chunk.end] for chunk in chunks) == note.body
    assert note.title == "plan"
    assert [chunk.line for chunk in chunks][:1] == [note.body_line]


# -- turns: which notes are conversations, and where their turns begin


CHATS = {
    "ChatGPT": "# Chat\n\n## You said:\n\nHow?\n\n## ChatGPT said:\n\nSo.\n\n### Steps\n\n1.\n\n## You said:\n\nThanks.\n",
    "labels": "User: hi\nAssistant: hello\nUser: how?\nAssistant: so\n",
    "bold labels": "**Human:** hi\n\n**Claude:** hello: so\n\nMore.\n\n**Human:** more\n",
    "Korean headings": "## 사용자\n\n안녕\n\n## 어시스턴트\n\n네\n\n## 사용자\n\n질문\n",
    "pictures": "## 🧑 User\n\na\n\n## 🤖 Assistant\n\nb\n\n## 🧑 User\n\nc\n",
    "times": "## User (2026-11-21 10:00)\n\na\n\n## Claude 3.5 Sonnet (2026-11-21 10:01)\n\nb\n\n## User (2026-11-21 10:05)\n\nc\n",
    "people with times": "**Alice** (10:32)\nhi\n\n**Bob** (10:33)\nyo\n\n**Alice** (10:34)\nx\n\n**Bob** (10:35)\nz\n",
    "KakaoTalk": "[홍길동] [오후 3:14] 안녕\n[김철수] [오후 3:15] 네\n[홍길동] [오후 3:16] 그래\n[김철수] [오후 3:17] 응\n",
    "said to be one": "---\nkind: conversation\n---\nAlice: hi\nBob: ho\nAlice: x\nBob: y\n",
}
NO_CHATS = {
    "labels": "Note: a\n\nExample: b\n\nNote: c\n\nExample: d\n",
    "questions": "**Q:** a\n\n**A:** b\n\n**Q:** c\n\n**A:** d\n",
    "a page on roles": "## User\n\nThe user table.\n\n## Assistant\n\nThe assistant table.\n",
    "an example in a page": f"# Prompts\n\n{'Prose about prompts. ' * 20}\n\nUser: hi\nAssistant: yo\nUser: x\n",
    "an example in code": "```\nUser: hi\nAssistant: yo\nUser: x\n```\n",
    "a list of settings": "User: admin\nModel: x\nUser: b\nModel: y\n",
    "said to be one, with one speaker": "---\ncategory: chat\n---\nAlice: hi\nAlice: ho\n",
}


@pytest.mark.parametrize("name", CHATS)
def test_turns(name: str) -> None:
    """An exported conversation in any form is read as turns, in order."""
    note = parse("a.md", CHATS[name].encode())
    source = lines(note.body)
    found = turns(note, source)
    assert len(found) >= 3
    assert all(a.end == b.start for a, b in itertools.pairwise(found))
    assert found[-1].end == len(source)


@pytest.mark.parametrize("name", NO_CHATS)
def test_no_turns(name: str) -> None:
    """Text that only resembles a conversation is none."""
    note = parse("a.md", NO_CHATS[name].encode())
    assert turns(note, lines(note.body)) == ()
