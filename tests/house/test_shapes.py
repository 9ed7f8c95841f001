"""Notes that no person writes: reading, editing and undoing take linear time and space, and their text is found."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from spellbook.editing import edits, joining
from spellbook.index import extract
from spellbook.index.catalog.rows import FileEntry, unpacked
from spellbook.library.book import Spellbook
from spellbook.notes import chunks, links
from spellbook.notes.files import Stamp
from spellbook.notes.note import Note, parse
from spellbook.text import diff
from spellbook.text.diff import changed_spans, unified
from tests.helpers import Write, steps

RULES = extract.Rules(256, {}, "fingerprint")
SAID = "the key is rotated every week and nobody knows why it was never written down in the notes of the team"
Shape = Callable[[int], str]
"""A text of about so many bytes."""


def many(unit: str, head: str = "", tail: str = "") -> Shape:
    """`unit` again and again; {0} in it is a number, {1} a sentence."""

    def text(size: int) -> str:
        words, units = SAID.split(), list[str]()
        room = size - len(head) - len(tail)
        while room > 0 or not units:
            number = len(units)
            sentence = " ".join(words[(number * 7 + i * (1 + number % 5)) % len(words)] for i in range(12))
            units.append(unit.replace("{0}", str(number)).replace("{1}", f"{sentence} {number}."))
            room -= len(units[-1].encode())
        return f"{head}{''.join(units[:-1]) or units[0]}{tail}"

    return text


def by_turns(first: str, other: str) -> Shape:
    """Two lines in the order of the Thue-Morse sequence, which never repeats."""
    return lambda size: "".join((first, other)[bin(i).count("1") % 2] for i in range(max(2, size // len(first))))


UNITS = (
    *("## Section {0}\n\n{1}\n\n", "## h{0}\n", "## Same\n", "## Same\n\nThe same text.\n\n"),
    *("## Same-{0}\n## Same\n", "## a\n### b\n#### c\n##### d\n###### e\n", "### Part {0}\n\n{1}\n\n"),
    *("## h{0}\n\n#a{0}/b{0}/c{0}\n\n", "## T {#a{0}}\n\nText.\n\n", "{1}\n\n", "{1}\n", "{1} ", "word ", "a"),
    *("The same line.\n", "#tag{0} ", "#tag{0}\n", "Text ^anchor{0}\n\n", "{#a "),
    *("[[note {0}]] and [text {0}](folder/file{0}.md)\n", "[[target]] ", "[[target]]\n"),
    *("## s{0}\n\n[[target|n{0}]]\n\n", "[d{0}]: file{0}.md\n", "text[^{0}]\n\n[^{0}]: {1}\n\n"),
    *("```python\nx{0} = {0}\n```\n\n", "````\n```\n", "    code {0}\n", "| |\n", "| a | b |\n", "- same\n"),
    *("- {1}\n", "- {1}\n\n", "{0}. {1}\n", "- a\n  - b\n    - c\n", "- ", "- [ ] task {0}\n", "> {1}\n", ">"),
    *("> ", "> [!note] Title {0}\n> {1}\n\n", "<div class='a{0}'>\n{1}\n</div>\n\n", "<div>\n", "<a href='"),
    *("<a ", "<!-- ", "<!--\n\n", "%% a [[b]] ", "<? ", "<!A ", "<![CDATA[", "*a", "*a_b", "**a"),
    *("## [[[[a*b_`c\n\n", "$a_b$ ", "[", "[]", "]", "[[", "[a](", "[a](<", '[a](b "', "(", "[a](b"),
    *("![a](b.png) ", "![[a#b|c]] ", "[[a/", "](a/", "`", "` ", "\\`", "\\", "\\*\\_", "&amp;", "---\n"),
    *("\n---\n\n", "a\n---\n", "a\n===\n", "\n", " ", "\t", "\r\n", "## Section {0}\r\n\r\n{1}\r\n\r\n"),
    *("## Section {0}\r\r{1}\r\r", "text \0 ", "a\f\v\x1c\u2028", "useState{0} snake_case_{0} v1.{0}.3 ", "aB"),
    *(".", "1.", "{0} kB, ", "1", "-", "!?", '"', ",", "https://example.com/{0} "),
    *("User: question {0}\n\nAssistant: {1}\n\n", "**User:** question {0}\n\n**Claude:** {1}\n\n", "a: "),
    *("**Label {0}**\n\n{1}\n\n", "## User\n\nquestion {0}\n\n## Assistant\n\n{1}\n\n", "가나다라마바사"),
    *("키를 매주 돌린다 {0}.\n", "密钥每周轮换", "กุญแจหมุนทุกสัปดาห์", "المفتاح يدور ", "\u0301\u0323"),
    *("\u1112\u1161\u11ab", "\U0001f1f0\U0001f1f7", "\U0001f468\u200d", "ＡＢＣ"),
)
BELOW = "---\n# Note\n\nText.\n"
HEADED = (
    *((item, f"---\n{key}:\n", BELOW) for key, item in (
        *((key, "- item {0}\n") for key in ("tags", "keywords", "questions", "aliases")),
        *(("up", "- '[[n{0}]]'\n"), ("entities", "- {name: n{0}, type: t}\n")),
    )),
    *(("a/", "#"), ("a", "https://example.com/"), ("a=b ", "<a "), ("{1}\n", "> begins\n"), ("{1}\n", "> [!warning]- T\n")),
    *(("- a\n", "---\n"), ("a: b\n", "---\n"), ("\u0301", "a"), ("| {0} | {1} |\n", "| a | b |\n| - | - |\n")),
    ("  | {0} | {1} |\n", "- i\n\n  | a | b |\n  | - | - |\n"),
    ("Ann (10:{0}): hello\nBob (11:{0}): {1}\n", "---\ncategory: chat\n---\n"),
    *(("a", "[[", "]]"), (" ", "", "text"), ("*a", "## ", "\n"), (" ", "[a]:", "<")),
    *(("value{0} = call({0})\n", "```\n", "```\n"), ("key{0}: value {0}\n", "---\n", BELOW)),
    ("word ", "---\nsummary: ", f"\n{BELOW}"),
)  # fmt: skip
"""A unit again and again after a beginning, or between it and an end."""
ONES: tuple[Shape, ...] = (
    by_turns("The one line.\n\n", "The two line.\n\n"),
    lambda size: f"---\ncategory: chat\n---\nAnn: {'words of it ' * (size // 12)}\n\nBob: {SAID}\n\n",
    lambda size: f"{'| a ' * (size // 12)}|\n{'| - ' * (size // 12)}|\n{'| 1 ' * (size // 12)}|\n",
    lambda size: "".join("`" * (3 + i % 300) + "\n" for i in range(size // 154)),
    lambda size: " ".join("`" * (1 + i % 200) for i in range(size // 101)),
    lambda size: "".join("  " * i + f"- item {i}\n" for i in range(int(size**0.5))),
    lambda size: "".join(">" * i + f" quote {i}\n" for i in range(1, int(size**0.5))),
)
TAGGED = many("## h{0}\n\n#tag{0}\n\n")
TITLED: Shape = lambda size: (  # noqa: E731
    f"---\ntitle: {'word ' * (size // 600 + 1)}\n---\n" + "## h\n\nText.\n\n" * (size // 13)
)
LABELLED: Shape = lambda size: (  # noqa: E731
    many("- label{0}\n", "---\nkeywords:\n", "---\n")(size // 2) + many("## Section {0}\n\nText.\n\n")(size // 2)
)
REPEATED_BY_ALIASES: Shape = lambda size: (  # noqa: E731
    f"---\na: &x {'x' * (size * 2 // 3)}\nb: [{'*x, ' * (size // 12)}*x]\n---\nText.\n"
)
LONG_KEYS: Shape = lambda size: (  # noqa: E731
    f"---\n? {'k' * (size // 2)}\n:\n" + "".join(f"  a{i}: {i}\n" for i in range(size // 40)) + "---\nText.\n"
)
LINKED = many("[[a#b", "---\nsummary: '", "'\n---\nText.\n")
NUMBERS = set("0123456789., kB")
"""What numbers over 2,000 letters consist of: they are data, which is not read as text."""

SHAPES = (
    *(*map(many, UNITS), *(many(*given) for given in HEADED), *ONES),
    *(TAGGED, TITLED, LABELLED, REPEATED_BY_ALIASES, LONG_KEYS, LINKED),
)


def note(text: str, path: str = "a.md") -> Note:
    return parse(path, text.encode("utf-8", "surrogatepass"))


def entry(text: str) -> FileEntry:
    return extract.entry(note(text), RULES, Stamp(0, 0, 0), 0, "")


def size(found: FileEntry) -> int:
    """Bytes of the texts that the catalog stores of a note."""
    columns = [each for row in found.chunks for each in (*row[:-1], *row.words)] + [
        each for row in found.fields for each in row
    ]
    texts = [each for each in columns if isinstance(each, str)] + [str(value) for value in (found.note or {}).values()]
    return sum(len(each.encode("utf-8", "surrogatepass")) for each in texts)


def test_any_shape_is_read_whole_and_in_proportion() -> None:
    """
    Each character of a body is in one chunk, and the catalog stores at most ten times the note. Some tens of labels are found
    in each of some hundreds of chunks; with very many chunks 100 kB of labels once took 100 MB.
    """
    for shape in SHAPES:
        text = shape(6_000)
        found, name = entry(text), repr(text[:60])
        read = "".join(unpacked(row.text) for row in found.chunks)
        assert read == note(text).body or (read == "…" and set(text) <= NUMBERS), name
        assert size(found) < 10 * len(text.encode()) + 300_000, name
        assert len(text.encode()) < 7_000, name
    for shape in (TAGGED, LABELLED, TITLED, LONG_KEYS, many("## Same\n")):
        text = shape(100_000)
        assert size(entry(text)) < 10 * len(text) + 700_000
    labels = "".join(f"- label {i}\n" for i in range(40))
    header = f"---\nkeywords:\n{labels}questions:\n{labels}aliases:\n{labels}---\n"
    rows = entry(header + "".join(f"## Part {i}\n\nSome text of it.\n\n" for i in range(100))).chunks
    words = {tuple(row.words[column] for column in (0, 2, 3)) for row in rows}
    assert (len(rows), len(words), "label 39" in rows[99].words[2]) == (100, 1, True)


def test_too_much_to_be_indexed_is_named_and_its_text_is_found(book: Spellbook, write_note: Write) -> None:
    """
    Only the first thousand tags and sections, and ten thousand links, are indexed one by one; a fault says so, and all text is
    found. Links are counted once for a note when texts are ordered for embedding.
    """
    write_note("many.md", "".join(f"## Part {i}\n\n#tag{i}\n\nword{i}\n\n" for i in range(1_300)))
    write_note("links.md", "[[x]] " * 10_400)
    assert sorted(fault.reason for fault in book.reindex(words_only=True).failed) == [
        "only its first 1,102 sections are indexed each by itself; the 198 from here on, by size",
        "only the first 1,000 of its 1,300 tags are indexed",
        "only the first 10,000 of its 10,400 links are indexed",
    ]
    assert book.around("links").links
    for word in ("word7", "word1103", "word1299", "tag1299"):
        assert [hit.path for hit in book.find(word).hits] == ["many.md"], word
    assert book.show("many#part-1000")[0].heading == "Part 1000"
    taken = []
    for parts in (50, 400):
        write_note("many.md", "".join(f"## Part {i}\n\n{'See [[many]] again. ' * 20}{i}\n\n" for i in range(parts)))
        write_note("links.md", "")
        book.reindex(words_only=True)
        taken.append(steps(book.index.catalog.waiting.in_order))
        assert len(book.index.catalog.waiting.in_order()) >= parts
    assert taken[1] < 12 * taken[0]


# -- time


def grows_with_its_square(action: Callable[[str], object], shape: Shape, small: int) -> bool:
    """Whether eight times the text takes much more than eight times the CPU time, the least of three."""

    def seconds(text: str) -> float:
        took = []
        for _ in range(3):
            started = time.process_time()
            action(text)
            took.append(time.process_time() - started)
        return min(took)

    return seconds(shape(8 * small)) > 24 * seconds(shape(small)) + 0.1


@pytest.mark.parametrize(
    ("shape", "small"),
    [
        pytest.param(many("[[a#b"), 8_000, id="wikilinks that nobody closes"),
        pytest.param(many("[[a|b"), 8_000, id="those with another text"),
        pytest.param(many("[<!-- "), 20_000, id="comments that nobody closes"),
        pytest.param(many("a/", "#"), 20_000, id="a tag with many levels"),
        pytest.param(LINKED, 8_000, id="wikilinks in frontmatter that nobody closes"),
        pytest.param(TITLED, 10_000, id="a long title"),
        pytest.param(REPEATED_BY_ALIASES, 12_000, id="a value that is repeated by aliases"),
    ],
)
def test_reading_does_not_take_the_square(shape: Shape, small: int) -> None:
    """Eight times the text takes about eight times as long."""
    assert not grows_with_its_square(entry, shape, small)


def test_merging_does_not_take_the_square() -> None:
    """Merging four times the sentences takes about four times as long."""

    def join(text: str) -> object:
        half = text.index("\n\n", len(text) // 2)
        other = f"{text[:half]}\n\nSomething else altogether.\n\n{text[half:].replace('rotated', 'changed')}"
        return joining.join(note(text), note(other, "b.md"))

    def distinct(size: int) -> str:
        chosen = random.Random(1)
        words = [f"{chosen.randrange(10**6):x}" for _ in range(size // 4)]
        return "".join(" ".join(chosen.choices(words, k=9)).capitalize() + " rotated.\n\n" for _ in range(size // 70))

    assert not grows_with_its_square(join, distinct, 10_000)


# -- differences


def applied(before: list[str], after: list[str], spans: list[diff.Span]) -> list[str]:
    put, at = [], 0
    for i, j, k, m in spans:
        put += [*before[at:i], *after[k:m]]
        at = j
    return [*put, *before[at:]]


@pytest.mark.parametrize(
    "shape",
    [many("same\n"), by_turns("The one line.\n", "The two line.\n"), by_turns("One.\n\n", "Two.\n\n"), many("{1}\n")],
    ids=["equal lines", "two lines", "two paragraphs", "lines"],
)
def test_a_difference_takes_seconds_at_most(shape: Shape) -> None:
    """The difference of two texts is whole, and found in little time, whatever changed and however long they are."""
    before = (shape(100_000).splitlines(keepends=True) * 20)[:20_000]
    few = ["first\n", *before[1:10_000], "middle\n", *before[10_000:-1], "last\n"]
    for after in (few, [f"{line}!" if i % 9 == 0 else line for i, line in enumerate(before)]):
        started = time.process_time()
        assert applied(before, after, changed_spans(before, after)) == after
        assert unified("".join(before), "".join(after)).count("\n") <= 200
        assert time.process_time() - started < 20


def test_a_difference_is_told_as_it_is() -> None:
    """
    Two edits of a long text are two differences; an edit of another place is merged with them. A hunk has one line of
    context, and what is beyond 200 lines is counted.
    """
    lines = [line for n in range(1_500) for line in (f"line {n}\n", "\n")]
    mine, theirs = ["first\n", *lines[1:], "last\n"], [*lines[:1_000], "third\n", *lines[1_000:]]
    assert len(changed_spans(lines, mine)) == 2
    joined = edits.merged("".join(lines), "".join(mine), "".join(theirs))
    assert joined is not None
    assert [joined.count(f"{word}\n") for word in ("first", "third", "last")] == [1] * 3
    assert unified("a\nb\nc\nd\n", "a\nb\nC\nd\n", "x", "y") == "--- x\n+++ y\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d"
    assert unified("a\n", "a\n") == ""
    assert unified("", "a\n" * 500).endswith("… 303 more lines")


# -- what is read in part


def test_a_text_that_is_read_in_part_is_named() -> None:
    """
    A text over a megabyte is found with its links but not by its sections, a fault says so, and edits still work.
    Frontmatter with YAML aliases cannot expand to gigabytes: a fault says why, and the body is read.
    """
    long = "# Long\n\n" + "a line\n" * 150_000 + "\n## Late\n\nLaterword and [[target]].\n"
    read = note(long)
    reason = "its text is over 1 MB; it is found as plain text, not by its sections"
    assert [fault.reason for fault in read.faults] == [reason]
    assert [link.target for link in links.find(read)] == ["target"]
    assert chunks.cut(read)[-1].text.endswith("## Late\n\nLaterword and [[target]].\n")
    edit, start = ("Laterword", "Last\n\n## Now"), len(long) - 60
    assert edits.replaced(read, start, len(long), edit) == long.replace(*edit)
    huge = note(REPEATED_BY_ALIASES(200_000))
    assert not huge.meta
    assert "too many" in huge.faults[0].reason
    assert chunks.cut(huge)[0].text == "Text.\n"
