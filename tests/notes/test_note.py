"""Notes: bytes to a note and back, whatever the bytes are."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spellbook.notes.files import MOST_BYTES
from spellbook.notes.frontmatter import KEYS, compose, dump
from spellbook.notes.note import blocks, decode, heading_text, lines, newline, parse
from spellbook.system.errors import UnreadableNote

anything = st.text(st.characters(exclude_categories=["Cs"]))
KOREAN = "한글로 쓴 메모입니다. 도커를 설치하는 방법을 적었습니다.\n" * 20
JAPANESE = "これは日本語で書かれたメモです。設定の方法を書きました。\n" * 20
ENGLISH = "A note in plain English, saved by Notepad.\n" * 20


def of(header: str, body: str = "", path: str = "folder/name.md") -> Any:
    return parse(path, f"---\n{header}\n---\n{body}".encode())


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff\0")),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]),
)
def test_encoding_comes_back(text: str, encoding: Any) -> None:
    """UTF-8 with or without BOM and UTF-16 with BOM decode to text and encode to the same bytes."""
    data = (("\ufeff" if encoding.startswith("utf-16") else "") + text).encode(encoding)
    note = parse("a.md", data)
    assert note.text.removeprefix("\ufeff") == text
    assert note.encode() == data


@given(st.binary())
def test_bytes_are_read_or_refused(data: Any) -> None:
    """Any bytes give a note that encodes to them, or UnreadableNote with the place; never another exception."""
    try:
        note = parse("a.md", data)
    except UnreadableNote as error:
        assert error.message.startswith("a.md, line ")  # noqa: PT017
        return
    assert note.encode() == data


@given(anything)
def test_any_header_is_read(header: Any) -> None:
    """Any frontmatter gives a note, and a fault has a line of the file."""
    note = of(header, "## A\n")
    assert isinstance(note.meta, dict)
    for fault in note.faults:
        assert 1 <= fault.line <= len(lines(note.text)) + 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (KOREAN.encode("cp949"), "a.md, line 1: not UTF-8 (it looks like cp949, the encoding of Korean Windows)."),
        pytest.param(b"ok\nok\r\nno \xff\xfe", "a.md, line 3: not UTF-8", id="the line is the line"),
        pytest.param(JAPANESE.encode("shift_jis"), "a.md, line 1: not UTF-8 (it looks like ", id="Shift_JIS"),
        (ENGLISH.encode("utf-16-le"), "a.md, line 1: it looks like utf_16_le"),
        (KOREAN.encode("utf-16-le"), "not UTF-8 (it looks like utf_16_le)"),
        pytest.param("회의록\n".encode("cp949"), "not UTF-8 (it looks like cp949", id="one word of cp949"),
        pytest.param(b"\xff\xfea\0b", "a.md, line 1: broken UTF-16 (truncated data)", id="UTF-16 cut short"),
        pytest.param(b"\0" * 4096, "a.md, line 1: binary, mostly NUL bytes.", id="all NUL"),
        pytest.param(b"#" * (MOST_BYTES + 1), "a.md: 10.0 MB, and notes are read up to 10 MB.", id="too large"),
        pytest.param("\ud800".encode("utf-8", "surrogatepass"), "a.md, line 1: not UTF-8", id="half a letter"),
    ],
)
def test_unreadable(data: bytes, says: str) -> None:
    """Bytes in an unsupported encoding are refused with a guess of the encoding and what to do."""
    with pytest.raises(UnreadableNote) as caught:
        parse("a.md", data)
    assert says in caught.value.message
    assert caught.value.hint
    assert len(data) <= MOST_BYTES or decode("a.md", data[:MOST_BYTES])[1] == "utf-8", "the largest is read"


DEEP = "depth|too deep|a bracket in front"  # which of them, libyaml decides
"""What libyaml says where it has a limit of its own, or else we."""

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{c}: &{c} {{<<: [{', '.join([f'*{p}'] * 9)}]}}\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("header", "line", "says"),
    [
        pytest.param("a: 1\nb: [x", 3, "close the list", id="unclosed list"),
        pytest.param("a: *nobody", 2, "a sign in front", id="unknown alias"),
        pytest.param("a: !custom x", 2, "a sign in front", id="tag"),
        pytest.param("a: !!python/object:os.system x", 2, "a sign in front", id="Python tag"),
        pytest.param("한글: 가나다\nb: \x01", 3, r"the character '\x01' is not allowed", id="control character"),
        pytest.param("{a: b}: c", 2, "unhashable key", id="mapping as key"),
        pytest.param("a: 1\n...\nb: 2", 4, "not YAML (", id="two documents"),
        pytest.param("text", 2, "plain text, not `key: value` lines", id="text"),
        pytest.param("a: 1\nb:\n  c: 2\n  c: 3", 5, "the key 'c' is there twice", id="repeated key inside"),
        pytest.param(BOMB, None, "too many or too deep", id="alias bomb"),
        pytest.param(MERGE_BOMB, None, "too many or too deep", id="merge bomb"),
        pytest.param("a: &a [*a]", 2, "too many or too deep", id="recursive alias"),
        pytest.param("a: " + "[" * 100_000, 2, DEEP, id="deep and open"),
        pytest.param("a: " + "[" * 100_000 + "]" * 100_000, 2, DEEP, id="deep"),
        pytest.param("a: [" + "1," * 100_000 + "]", None, "too many or too deep", id="many values"),
        pytest.param("a: " + "x" * 300_000, 2, "over 256 kB", id="300 kB"),
    ],
)
def test_bad_header(header: Any, line: int | None, says: Any) -> None:
    """Faulty frontmatter is reported with line and reason, and the note and its sections are still indexed."""
    note = of(header, "## A\n")
    reasons = [fault.reason for fault in note.faults]
    assert [any(each in reason for each in says.split("|")) for reason in reasons] == [True], reasons
    assert line is None or note.faults[0].line == line
    assert not note.editable
    assert note.body.endswith("## A\n")
    assert note.blocks[-1].text == "A"


@pytest.mark.parametrize(
    ("header", "meta", "odd"),
    [
        pytest.param(
            "a: [1.10, 1e3, -.5, .INF, 12, -0, +7, 0x1F, 0o17, True, FALSE, ~, Null]\nb:",
            {"a": [1.1, 1000.0, -0.5, float("inf"), 12, 0, 7, 31, 15, True, False, None, None], "b": None},
            0,
            id="values of YAML 1.2",
        ),
        pytest.param(
            "a: [no, Off, y, yes, on, 12:30, 1:30.5, 0755, -012, 1_000, 0b11, 0899, 01.5, tRUE, =, 1.2.3, -]",
            {"a": "no Off y yes on 12:30 1:30.5 0755 -012 1_000 0b11 0899 01.5 tRUE = 1.2.3 -".split()},  # noqa: SIM905
            0,
            id="texts of YAML 1.2",
        ),
        pytest.param(
            "Title: 1.10\nTAGS: [1.0, 2024, 1e3, true]\nscope: {a: 0x1}\nd: [2026-01-02]\nBirthday: 1\nkind: ~",
            {"title": "1.10", "tags": ["1.0", "2024", "1e3", "true"], "scope": {"a": "0x1"}, "kind": None}
            | {"d": [dt.date(2026, 1, 2)], "Birthday": 1},
            0,
            id="labels as written",
        ),
        pytest.param("Tags: a\ntags: b\nTAGS: c", {"Tags": "a", "tags": "b", "TAGS": "c"}, 0, id="keys of two cases"),
        ("1: a\nyes: b\n2026-01-01: c\n~: d", {"1": "a", "yes": "b", "2026-01-01": "c", "~": "d"}, 0),
        pytest.param("a: &x {k: 1}\nb: {<<: *x, l: 2}", {"a": {"k": 1}, "b": {"k": 1, "l": 2}}, 0, id="merge"),
        ("b:\n  c: {<<: &x {k: 1}, k: 2}\nd: {<<: *x, k: 3}", {"b": {"c": {"k": 2}}, "d": {"k": 3}}, 0),
        ("a: !!timestamp x\nb: !!bool x\nc: !!int ''", {"a": "x", "b": "x", "c": ""}, 3),
        pytest.param("a: " + "1" * 5000, {"a": "1" * 5000}, 1, id="too many digits"),
        pytest.param("a: 0x" + "f" * 5000, {"a": "0x" + "f" * 5000}, 1, id="too many hexadecimal digits"),
        pytest.param("a: 1" + ":1" * 100_000, {"a": "1" + ":1" * 100_000}, 0, id="sixtieths are text"),
        ("a: !!set {x, y}\nb: !!binary aGk=", {"a": ["x", "y"], "b": "b'hi'"}, 0),
        pytest.param('a: "x\\0y"', {"a": "x y"}, 0, id="NUL by escape"),
        ("questions: [방법은?]\n카테고리: 메모", {"questions": ["방법은?"], "카테고리": "메모"}, 0),
        pytest.param("", {}, 0, id="nothing"),
        pytest.param("a: " + "{b: " * 18 + "1" + "}" * 18, None, 0, id="as deep as may be"),
    ],
)
def test_meta(header: str, meta: dict[str, Any] | None, odd: int) -> None:
    """Frontmatter is read as YAML 1.2, keys as written; an odd value becomes text with a fault, and edits still work."""
    note = of(header)
    assert note.editable
    assert len(note.faults) == odd
    assert meta is None or note.meta == meta


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#one and #two/three, [#five] [six #six](x) >#no", "one two/three five six"),
        pytest.param("#한글", "한글", id="NFD"),
        pytest.param('(#a) "#b" list:#c .#d x—#e \\#f &amp;#g [h](#i) ![#j](x)', "", id="after a mark"),
        ("#a#b/#c x[#d] `x`#e [[x]]#f $x$#g <b>#h</b> \\*#i", "a b c d e f g h i"),
        pytest.param("_#a_ **#b** ~~#c~~ ==#d== _#e_f_ g_h_#i", "a b c d e_f i", id="in emphasis"),
        pytest.param("_#a *#b\n\na_#c_d ~~#e\n\n#f_ \\_g_ __#h", "f_", id="in no emphasis"),
        pytest.param("#हिन्दी #เที่ยว, #தமிழ்: #বাংলা #to/📝 #🌱", "हिन्दी เที่ยว தமிழ் বাংলা to/📝 🌱", id="scripts, emoji"),
        pytest.param("#👩\u200d🌾 #a‐b #c⸀d\u3000#e\u00a0#f", "👩 a c e f", id="two ranges of marks end a tag"),
        pytest.param("x <!-- #a\n#b --> #c\n\n<!-- #d -->#e\n\nx <!-- #f -->#g %% #h %%", "c g h", id="comments"),
        pytest.param("$#a$ x $b #c$ $$ #d $$\n\n$$\n#e\n\n#f\n$$\n#g", "g", id="formulas"),
        pytest.param("$5 #a $6 $10–$20 #b\n\nUS$ #c $ #d$\n\n\\$e #f$ $g #h$7", "a b c d f h", id="money"),
        pytest.param("`#a``\n`` #b ` #c `` #d", "c d", id="runs of unequal length"),
        pytest.param("```\n#a\n```\n\n    #b\n\n<div>\n#c\n</div>\n\n#d", "d", id="blocks of code and HTML"),
        ("- #a\n\n  ~~~\n  #b\n  ~~~\n- #c\n\n> #d\n>\n>     #e", "a c d"),
        pytest.param("[x](#part) [[#part]] ![[#part]] [[note#part]] https://x/#y [z]: #w", "w", id="links into a page"),
        pytest.param("[z]: #w", "", id="a definition's target"),
        pytest.param("## Heading #a\n\n| #b | c |\n| - | - |\n|#d|e\\|#f|", "a b d f", id="headings and tables"),
        pytest.param("---\ntags: [x, '#y', z/w]\n---\n#x #a", "x y z/w a", id="frontmatter first, each once"),
        pytest.param("---\ntag: x\n---\n", "x", id="tag"),
        pytest.param("---\ntags:\n---\n", "", id="empty"),
    ],
)
def test_tags(text: str, tags: str) -> None:
    """Tags are read as Obsidian reads them."""
    assert " ".join(parse("a.md", text.encode()).tags) == tags


@pytest.mark.parametrize(
    ("header", "name", "value"),
    [
        ("title: Given", "title", "Given"),
        ("title: |\n  two\n  lines", "title", "two lines"),
        ("title: ''", "title", "Heading"),
        ("title: {a: b}", "title", "Heading"),
        ("x: y", "topic", "folder"),
        ("title: 1.10", "title", "1.10"),
        ("Aliases: [22:22, 1.0]", "aliases", ("22:22", "1.0")),
        ("Tag: [no, 2024]", "tags", ("no", "2024")),
        ('category: "[[Books]]"', "category", "Books"),
        ("Category: '[[lib/Books.md#Old|x]]'", "category", "Books"),
        ("category: ['[[Books]]', '[[B|b]]']", "categories", ("Books", "B")),
        ("topic: [[Books]]", "topic", "Books"),
        ('topic: "[[Books\\\\|x]]"', "topic", "Books"),
        ('category: "[Books](lib/Books.md)"', "category", "Books"),
        ("category: '[all](<lib/My Books.md> \"All\")'", "category", "My Books"),
        (
            "categories: x\ncategory: ['[a](lib/My%20Books.md#Old)', '![b](A_(b).md)']",
            "categories",
            ("My Books", "A_(b)"),
        ),
        ("category: '[Books](https://example.org/Books.md)'", "category", "[Books](https://example.org/Books.md)"),
        ("tags: '[a](lib/A.md), [b](./나.md)'", "tags", ("A", "나")),
        ("tags: 茶、客，冬；夜 a b", "tags", ("茶", "客", "冬", "夜", "a", "b")),
        ("keywords: a b、c；d", "keywords", ("a b", "c", "d")),
        ("aliases: شاي، ضيوف", "aliases", ("شاي", "ضيوف")),
        ("topic: '[[#part]]'", "topic", "[[#part]]"),
        ("tags: '[[a b]] [[c]], #d'", "tags", ("a b", "c", "d")),
        ("keywords: '[[A, B]], c'", "keywords", ("A, B", "c")),
        ("x: y", "kind", "note"),
        ("id: 01KAJ3", "kind", "memory"),
        ("id: a b", "declared_id", None),
        ("id: true", "declared_id", None),
        ("id: 42", "declared_id", "42"),
        ("keywords: a, b , a", "keywords", ("a", "b")),
        ("keywords: [1, b, null, [c]]", "keywords", ("1", "b", "c")),
        ("question_this_answers: [a]", "questions", ("a",)),
        ("alias: a", "aliases", ("a",)),
        ("entities: [{name: Docker, type: technology}, Compose, {type: x}]", "entities", ("Docker", "Compose")),
        ("importance: High", "importance", 0.8),
        ("importance: '0.9'", "importance", 0.9),
        ("importance: 7", "importance", 1.0),
        ("importance: .nan", "importance", 0.5),
        ("importance: true", "importance", 0.5),
        ("created: 2026-11-21", "created", "2026-11-21"),
        ("date: 2026-11-21T20:15:00+09:00", "created", "2026-11-21T20:15:00+09:00"),
        ("date: 2026-11-20\nDate-Created: 2026-11-21\ncreated: 2026-11-22", "created", "2026-11-22"),
        ("createdAt: 2026-11-21", "created", "2026-11-21"),
        ("last edited time: 2026-11-21", "updated", "2026-11-21"),
        ("created:", "created", None),
        ("updated: soon", "updated", None),
    ],
)
def test_fields(header: str, name: str, value: Any) -> None:
    """Each field is read from every usual form, dates as ISO 8601; an invalid one counts as missing, and the file's name is the last title."""
    assert getattr(of(header, "# Heading\n"), name) == value
    assert parse("a/My note.md", b"text").title == "My note"


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("a  b", "a b"),
        ("`<T>` and `*`", "<T> and *"),
        ("snake_case 2 * 3 * 4", "snake_case 2 * 3 * 4"),
        ("[a](b) ![c](d) <https://x.y>", "a c https://x.y"),
        ("a {/*id*/}", "a"),
        ("a <!-- b --> c", "a c"),
        ("C\\# &amp; 1\\.", "C# & 1."),
        ("x" * 1000, "x" * 200),
    ],
)
def test_heading_text(source: str, seen: str) -> None:
    """A heading's text is what a reader sees of it."""
    assert heading_text(source) == seen


@given(st.sampled_from(["", "\ufeff", "---\na: b\n---\n", "---\r\na: b\r\n---\r\n"]), anything)
def test_lines(header: Any, text: str) -> None:
    """
    The lines of a note are those of its body. Lines joined are the text, and only CR, LF and CRLF end one; a file's
    line ending is the first one in it.
    """
    note = parse("a.md", (header + text.replace("\0", " ")).encode())
    found = lines(text)
    assert (note.body_lines, "".join(found)) == (tuple(lines(note.body)), text)
    ended = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    assert [line.rstrip("\r\n") for line in found] == ended.split("\n") or not text
    for written, end in (("a\r\nb\n", "\r\n"), ("a\rb\n", "\r"), ("a\nb\r\n", "\n"), ("a", "\n")):
        assert newline(written) == end


def test_blocks() -> None:
    """
    Top-level blocks have their lines, a list its items, with code inside it. A link definition of more than 50 lines is
    read as text: markdown-it takes quadratic time to find its end. A case that crashes the parser (an HTML block in a
    list in a quote without a final line ending) is still a note.
    """
    for height, kinds in ((40, []), (60, ["paragraph"])):
        assert [block.kind for block in blocks('[a]: b "' + "c\n" * height + '"\n')] == kinds
    for text in ("\t--|--\n       <div>\n-1. -->\n\xa0####### no\n12. 1. :-:|\n> - <!-- c\n>", "> - <!-- c\n>"):
        assert parse("a.md", text.encode()).blocks
    found = list(blocks("# T\n\n- a\n- b\n\n  ```\n  c\n  ```\n\n> d\n\nx\ny\n"))
    assert [(block.kind, block.start, block.end) for block in found] == [
        ("heading", 0, 1),
        ("bullet_list", 2, 9),
        ("blockquote", 9, 10),
        ("paragraph", 11, 13),
    ]
    assert (found[1].items, found[1].code) == ((2, 3), ((5, 8),))


values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63),
        st.floats(allow_nan=False),
        st.none(),
        st.dates(),
        anything.filter(lambda t: "\0" not in t),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(anything.filter(lambda t: "\0" not in t), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        anything.filter(lambda key: key and "\0" not in key and len(key) < 80 and key.casefold() not in KEYS),
        values,
        min_size=1,
        max_size=5,
    ),
    anything,
)
@settings(max_examples=30)
def test_compose(meta: Any, body: Any) -> None:
    """A composed note has the given metadata and body. A dumped value is one line and reads back as it was."""
    assert all(len(lines(dump(value))) == 1 for value in meta.values())
    note = parse("a.md", compose(meta, body).encode())
    assert note.faults == ()
    assert note.meta == meta
    assert list(note.meta) == list(meta)
    assert note.body.strip("\n") == body.strip("\n")
