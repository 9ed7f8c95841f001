"""Notes that no person writes: reading, editing and undoing take linear time and space, and their text is found."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.editing import edits, merge
from spellbook.index import extract
from spellbook.index.catalog.text_bytes import unpacked
from spellbook.library.book import Spellbook
from spellbook.notes import chunks, links
from spellbook.notes.note import Note, Stamp, parse
from spellbook.text import diff
from spellbook.text.diff import changed_spans, unified
from tests.helpers import steps

RULES = extract.Rules(256, {}, "fingerprint")
SAID = "the key is rotated every week and nobody knows why it was never written down in the notes of the team"
Shape = Callable[[int], str]
"""A text of about so many bytes."""


def many(unit: str, head: str = "", tail: str = "") -> Shape:
    """`unit` again and again; {0} in it is a number, {1} a sentence."""

    def text(size: int) -> str:
        words, units = SAID.split(), []
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


def labels(key: str, item: str) -> Shape:
    return many(item, f"---\n{key}:\n", "---\n# Note\n\nText.\n")


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
HEADERS = (
    *(labels("tags", "- item {0}\n"), labels("keywords", "- item {0}\n"), labels("questions", "- item {0}\n")),
    *(
        labels("aliases", "- item {0}\n"),
        labels("up", "- '[[n{0}]]'\n"),
        labels("entities", "- {name: n{0}, type: t}\n"),
    ),
    many("key{0}: value {0}\n", "---\n", "---\n# Note\n\nText.\n"),
    many("word ", "---\nsummary: ", "\n---\n# Note\n\nText.\n"),
    *(many("- a\n", "---\n"), many("a: b\n", "---\n")),
    many("Ann (10:{0}): hello\nBob (11:{0}): {1}\n", "---\ncategory: chat\n---\n"),
    lambda size: f"---\ncategory: chat\n---\nAnn: {'words of it ' * (size // 12)}\n\nBob: {SAID}\n\n",
)
ONES = (
    *(
        many("a/", "#"),
        many("a", "[[", "]]"),
        many("a", "https://example.com/"),
        many("a=b ", "<a "),
        many(" ", "", "text"),
    ),
    *(many("*a", "## ", "\n"), many("{1}\n", "> begins\n"), many("{1}\n", "> [!warning]- T\n"), many(" ", "[a]:", "<")),
    *(many("value{0} = call({0})\n", "```\n", "```\n"), by_turns("The one line.\n\n", "The two line.\n\n")),
    *(
        many("| {0} | {1} |\n", "| a | b |\n| - | - |\n"),
        many("  | {0} | {1} |\n", "- i\n\n  | a | b |\n  | - | - |\n"),
    ),
    lambda size: f"{'| a ' * (size // 12)}|\n{'| - ' * (size // 12)}|\n{'| 1 ' * (size // 12)}|\n",
    *(lambda size: "".join("`" * (3 + i % 300) + "\n" for i in range(size // 154)), many("\u0301", "a")),
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
SHAPES = (*map(many, UNITS), *HEADERS, *ONES, TAGGED, TITLED, LABELLED, REPEATED_BY_ALIASES, LONG_KEYS, LINKED)


def note(text: str, path: str = "a.md") -> Note:
    return parse(path, text.encode("utf-8", "surrogatepass"))


def entry(text: str) -> extract.Entry:
    return extract.entry(note(text), RULES, Stamp(0, 0, 0), 0, "")


def size(found: extract.Entry) -> int:
    """Bytes of the texts that the catalog stores of a note."""
    told = [column for row in found.chunks for column in (*row[:-1], *row.words)] + [
        each for field in found.fields for each in field
    ]
    return sum(len(each.encode("utf-8", "surrogatepass")) for each in told if isinstance(each, str)) + sum(
        len(str(value)) for value in (found.note or {}).values()
    )


def test_any_shape_is_read_whole_and_in_proportion() -> None:
    """Each character of a body is in one chunk, and the catalog stores at most ten times the note."""
    for shape in SHAPES:
        text = shape(6_000)
        name = repr(text[:60])
        found = entry(text)
        assert "".join(unpacked(row.text) for row in found.chunks) == note(text).body, name
        assert size(found) < 10 * len(text.encode()) + 300_000, name
        assert len(text.encode()) < 7_000, name


def test_labels_are_indexed_with_each_of_some_hundreds_of_chunks() -> None:
    """Some tens of labels are found in each of them; with very many chunks 100 kB of labels once took 100 MB."""
    for shape in (TAGGED, LABELLED, TITLED, LONG_KEYS, many("## Same\n")):
        text = shape(100_000)
        assert size(entry(text)) < 10 * len(text) + 700_000
    labels = "".join(f"- label {i}\n" for i in range(40))
    header = f"---\nkeywords:\n{labels}questions:\n{labels}aliases:\n{labels}---\n"
    rows = entry(header + "".join(f"## Part {i}\n\nSome text of it.\n\n" for i in range(100))).chunks
    assert len(rows) == 100
    assert {tuple(row.words[column] for column in (0, 2, 3)) for row in rows} == {
        tuple(rows[0].words[column] for column in (0, 2, 3)),
    }
    assert "label 39" in rows[99].words[2]


def test_what_is_too_much_to_be_indexed_is_named_and_its_text_is_found(book: Spellbook, vault, write_note) -> None:
    """Only the first thousand tags and sections, and ten thousand links, are indexed one by one; a fault says so, and all text is found."""
    write_note("many.md", "".join(f"## Part {i}\n\n#tag{i}\n\nword{i}\n\n" for i in range(1_300)))
    write_note("links.md", "[[x]] " * 10_400)
    report = book.reindex(words_only=True)
    reasons = sorted(fault.reason for fault in report.failed)
    assert reasons == [
        "only its first 1,102 sections are indexed each by itself; the 198 from here on, by size",
        "only the first 1,000 of its 1,300 tags are indexed",
        "only the first 10,000 of its 10,400 links are indexed",
    ]
    assert book.around("links").links
    for word in ("word7", "word1103", "word1299", "tag1299"):
        assert [hit.path for hit in book.find(word).hits] == ["many.md"], word
    assert book.show("many#part-1000")[0].heading == "Part 1000"


# -- time


def seconds(action: Callable[[], object]) -> float:
    """CPU time of a call, the least of three."""
    took = []
    for _ in range(3):
        started = time.process_time()
        action()
        took.append(time.process_time() - started)
    return min(took)


def grows_with_its_square(action: Callable[[str], object], shape: Shape, small: int) -> bool:
    few, more = shape(small), shape(8 * small)
    return seconds(lambda: action(more)) > 24 * seconds(lambda: action(few)) + 0.1


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
        return merge.join(
            note(text),
            note(f"{text[:half]}\n\nSomething else altogether.\n\n{text[half:].replace('rotated', 'changed')}", "b.md"),
        )

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


def test_a_few_edits_of_a_long_text_are_told_as_they_are() -> None:
    """Two edits of a long text are two differences; an edit of another place is merged with them."""
    lines = [line for n in range(1_500) for line in (f"line {n}\n", "\n")]
    mine, theirs = ["first\n", *lines[1:], "last\n"], [*lines[:1_000], "third\n", *lines[1_000:]]
    assert len(changed_spans(lines, mine)) == 2
    joined = edits.merged("".join(lines), "".join(mine), "".join(theirs))
    assert joined is not None
    assert [joined.count(f"{word}\n") for word in ("first", "third", "last")] == [1] * 3


LINES = st.lists(st.sampled_from("abc\n"), max_size=12)


@given(LINES, LINES)
def test_spans_are_all_that_differs(before: list[str], after: list[str]) -> None:
    """Text between the spans is equal, and spans neither touch nor cross."""
    spans = changed_spans(before, after)
    assert applied(before, after, spans) == after
    assert all(first[1] < second[0] or first[3] < second[2] for first, second in pairwise(spans))
    assert all(before[i:j] != after[k:m] for i, j, k, m in spans)


def test_a_difference_is_shown_with_a_line_around_and_not_beyond_200() -> None:
    """A hunk has one line of context, and what is beyond 200 lines is counted."""
    assert unified("a\nb\nc\nd\n", "a\nb\nC\nd\n", "x", "y") == "--- x\n+++ y\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d"
    assert unified("a\n", "a\n") == ""
    assert unified("", "a\n" * 500).endswith("… 303 more lines")


# -- what is read in part


def test_a_text_over_a_megabyte_is_plain_text() -> None:
    """It is found with its links but not by its sections, a fault says so, and edits still work."""
    long = "# Long\n\n" + "a line\n" * 150_000 + "\n## Late\n\nLaterword and [[target]].\n"
    read = note(long)
    assert [fault.reason for fault in read.faults] == [
        "its text is over 1 MB; it is found as plain text, not by its sections"
    ]
    assert [link.target for link in links.find(read)] == ["target"]
    assert chunks.cut(read)[-1].text.endswith("## Late\n\nLaterword and [[target]].\n")
    start = len(long) - 60
    assert edits.replaced(read, start, len(long), ("Laterword", "Last\n\n## Now")) == long.replace(
        "Laterword", "Last\n\n## Now"
    )


def test_what_a_note_links_to_very_often_is_counted_once_for_it(book: Spellbook, vault, write_note) -> None:
    """Links are counted once for a note when texts are ordered for embedding."""
    taken = []
    for parts in (50, 400):
        write_note("note.md", "".join(f"## Part {i}\n\n{'See [[note]] again. ' * 20}{i}\n\n" for i in range(parts)))
        book.reindex(words_only=True)
        waiting = book.index.catalog.waiting
        taken.append(steps(waiting.in_order))
        assert len(waiting.in_order()) == parts + 1  # the note's title too
    assert taken[1] < 12 * taken[0]


def test_a_value_that_aliases_would_make_huge_is_refused() -> None:
    """Frontmatter with YAML aliases cannot expand to gigabytes: a fault says why, and the body is read."""
    read = note(REPEATED_BY_ALIASES(200_000))
    assert not read.meta
    assert "too many" in read.faults[0].reason
    assert chunks.cut(read)[0].text == "Text.\n"
