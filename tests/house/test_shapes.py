"""Extreme notes: reading, editing and undoing take linear time and space, and their text is found."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.editing import combine, edits
from spellbook.index import extract
from spellbook.index.catalog.text_bytes import unpacked
from spellbook.library.book import Spellbook
from spellbook.notes import chunks, links
from spellbook.notes.note import Note, Stamp, parse
from spellbook.text import diff
from spellbook.text.diff import changed_spans, unified
from tests.helpers import steps
from tests.shapes import SHAPES

RULES = extract.Rules(256, {}, "fingerprint")


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
    for name, shape in SHAPES.items():
        text = shape(6_000)
        found = entry(text)
        assert "".join(unpacked(row.text) for row in found.chunks) == note(text).body, name
        assert size(found) < 10 * len(text.encode()) + 300_000, name
        assert len(text.encode()) < 7_000, name


@pytest.mark.parametrize(
    "name",
    [
        "headings with tags",
        "headings with nested tags",
        "sections and labels",
        "header title",
        "equal headings",
        "long keys",
    ],
)
def test_labels_of_a_note_are_not_repeated_for_each_of_very_many_chunks(name: str) -> None:
    """Tags are not stored with each of very many chunks; 100 kB of them once took 100 MB."""
    text = SHAPES[name](100_000)
    assert size(entry(text)) < 10 * len(text) + 700_000


def test_labels_of_ordinary_notes_are_found_in_each_of_their_chunks() -> None:
    """Some tens of labels are indexed with each of some hundreds of chunks."""
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


def grows_with_its_square(action: Callable[[str], object], shape: Callable[[int], str], small: int) -> bool:
    few, many = shape(small), shape(8 * small)
    return seconds(lambda: action(many)) > 24 * seconds(lambda: action(few)) + 0.1


@pytest.mark.parametrize(
    ("name", "small"),
    [
        pytest.param("open fragments", 8_000, id="wikilinks that nobody closes"),
        pytest.param("open aliases", 8_000, id="those with another text"),
        pytest.param("comments in links", 20_000, id="comments that nobody closes"),
        pytest.param("one long tag", 20_000, id="a tag with many levels"),
        pytest.param("links in the header", 8_000, id="wikilinks in frontmatter that nobody closes"),
        pytest.param("header title", 10_000, id="a long title"),
        pytest.param("aliases in the header", 12_000, id="a value that is repeated by aliases"),
    ],
)
def test_reading_does_not_take_the_square(name: str, small: int) -> None:
    """Eight times the text takes about eight times as long."""
    assert not grows_with_its_square(lambda text: entry(text), SHAPES[name], small)


def test_merging_does_not_take_the_square() -> None:
    """Merging four times the sentences takes about four times as long."""

    def join(text: str) -> object:
        half = text.index("\n\n", len(text) // 2)
        return combine.join(
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


def edited(lines: list[str]) -> list[str]:
    """A text with other first, last and middle lines."""
    middle = len(lines) // 2
    return ["first\n", *lines[1:middle], "middle\n", *lines[middle:-1], "last\n"]


@pytest.mark.parametrize("name", ["equal lines", "two lines", "two paragraphs", "lines", "table", "blank lines"])
@pytest.mark.parametrize(
    "change",
    [edited, lambda lines: [f"{line}!" if i % 9 == 0 else line for i, line in enumerate(lines)]],
    ids=["few", "many"],
)
@pytest.mark.parametrize("count", [2_000, 40_000])
def test_a_difference_takes_seconds_at_most(name: str, change: Callable[[list[str]], list[str]], count: int) -> None:
    """The difference of two texts is whole, and found in little time, whatever changed and however long they are."""
    before = (SHAPES[name](100_000).splitlines(keepends=True) * 20)[:count]
    after = change(before)
    started = time.process_time()
    assert applied(before, after, changed_spans(before, after)) == after
    assert unified("".join(before), "".join(after)).count("\n") <= 200
    assert time.process_time() - started < 20


def test_a_few_edits_of_a_long_text_are_told_as_they_are() -> None:
    """Three edits of a long text are three differences; an edit of another place is merged with them."""
    lines = [line for n in range(1_500) for line in (f"line {n}\n", "\n")]
    assert len(changed_spans(lines, edited(lines))) <= 4
    other = [*lines[:1_000], "third\n", *lines[1_000:]]
    joined = edits.merged("".join(lines), "".join(edited(lines)), "".join(other))
    assert joined is not None
    assert [joined.count(f"{word}\n") for word in ("first", "third", "middle", "last")] == [1] * 4


LINES = st.lists(st.sampled_from("abc\n"), max_size=12)


@given(LINES, LINES)
def test_spans_are_all_that_differs(before: list[str], after: list[str]) -> None:
    """Text between the spans is equal, and spans neither touch nor cross."""
    spans = changed_spans(before, after)
    assert applied(before, after, spans) == after
    assert all(first[1] < second[0] or first[3] < second[2] for first, second in pairwise(spans))
    assert all(before[i:j] != after[k:m] for i, j, k, m in spans)


def test_a_unified_difference_is_as_diff_shows_it() -> None:
    """A hunk has one line of context, and hunks with at most two lines between them are joined."""
    before, after = "a\nb\nc\nd\ne\nf\ng\nh\n", "a\nB\nc\nd\nE\nf\ng\nh\ni\n"
    joined = " a\n-b\n+B\n c\n d\n-e\n+E\n f"
    assert unified(before, after, "x", "y") == f"--- x\n+++ y\n@@ -1,6 +1,6 @@\n{joined}\n@@ -8 +8,2 @@\n h\n+i"
    assert unified("", "a\n", "x", "y") == "--- x\n+++ y\n@@ -0,0 +1 @@\n+a"
    assert unified("a\n", "a\n") == ""
    assert unified("", "a\n" * 500).endswith("… 303 more lines")
    numbered = [f"{n}\n" for n in range(9_000)]
    assert unified("".join(numbered), "".join([*numbered[:8_000], "x\n", *numbered[8_001:]]), "x", "y") == (
        "--- x\n+++ y\n@@ -8000,3 +8000,3 @@\n 7999\n-8000\n+x\n 8001"
    )
    assert unified("".join(numbered), "x\n" * 8_000).endswith("\n… 16,803 more lines")


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
        taken.append(steps(book, waiting.in_order))
        assert len(waiting.in_order()) == parts + 1  # the note's title too
    assert taken[1] < 12 * taken[0]


def test_a_value_that_aliases_would_make_huge_is_refused() -> None:
    """Frontmatter with YAML aliases cannot expand to gigabytes: a fault says why, and the body is read."""
    read = note(SHAPES["aliases in the header"](200_000))
    assert not read.meta
    assert "too many" in read.faults[0].reason
    assert chunks.cut(read)[0].text == "Text.\n"
