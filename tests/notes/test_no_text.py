"""Numbers, dumps and drawings of other programs in a note are no text; what a person reads is."""

import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.notes.chunks import cut
from spellbook.notes.note import parse

DICE = random.Random(1)


def numbers(count: int, form: str = ".12f") -> list[str]:
    return [format(DICE.random() * 100, form) for _ in range(count)]


def dumped(rows: int, *, form: str) -> str:
    """Rows as `hexdump -C`, `xxd` and `od -x` print them."""
    lines = []
    for at in range(rows):
        row = bytes(DICE.choice([0, 72, 101, 108, DICE.randrange(256)]) for _ in range(16))
        pairs, words = row.hex(" "), row.hex(" ", 2)
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(
            {
                "hexdump -C": f"{at * 16:08x}  {pairs[:23]}  {pairs[24:]}  |{shown}|",
                "xxd": f"{at * 16:08x}: {words}  {shown}",
                "od -x": f"{at * 16:07o} {words}",
            }[form]
        )
    return "\n".join(lines)


def coordinates(indent: int | None = None) -> str:
    pairs = [[float(each) for each in numbers(2)] for _ in range(150)]
    return json.dumps({"type": "LineString", "coordinates": pairs}, indent=indent)


PATHS = "\n".join(
    f'<path d="M{a} {b}l4-3c1 2 3 4z" fill="none"/>'
    for a, b in zip(numbers(50, ".2f"), numbers(50, ".2f"), strict=True)
)
CELL = '<mxCell id="3" style="rounded=0;html=1;" vertex="1"><mxGeometry x="120" y="40" width="80" as="geometry"/></mxCell>\n'
SHAPE = {"typeName": "shape", "type": "draw", "x": 1.5, "props": {"color": "black", "segments": [{"type": "free"}]}}
START, END = (f"!!!_{word}_OF_TLDRAW_DATA__DO_NOT_CHANGE_THIS_PHRASE_!!!" for word in ("START", "END"))
DATA = {
    "hexdump": dumped(60, form="hexdump -C"),
    "xxd": dumped(60, form="xxd"),
    "od": dumped(60, form="od -x"),
    "svg": f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">\n{PATHS}\n</svg>',
    "svg with a style": f"<SVG><style>.a {{ fill: red }}</style>{PATHS}</SVG>".replace("SVG", "svg"),
    "draw.io": f'<mxfile host="app"><diagram><mxGraphModel><root>{CELL * 30}</root></mxGraphModel></diagram></mxfile>',
    "GeoJSON": coordinates(),
    "GeoJSON on many lines": coordinates(2),
    "bytes in JSON": json.dumps([DICE.randrange(256) for _ in range(900)]),
    "bytes in C": "\n".join(
        "  " + ", ".join(f"0x{DICE.randrange(256):02x}" for _ in range(12)) + "," for _ in range(60)
    ),
    "a matrix": "\n".join(" ".join(numbers(6, ".6f")) for _ in range(60)),
    "bits": "\n".join("".join(DICE.choices("01", k=80)) for _ in range(40)),
    "ink": json.dumps([{"x": float(x), "y": 2.5, "p": 0.5} for x in numbers(90)]),
    "tldraw": f"{START}\n{json.dumps([SHAPE] * 30, indent=1)}\n{END}",
    "a mesh": "\n".join("v " + " ".join(numbers(3, ".6f")) for _ in range(90)),
    "KML": ("\n".join(f"{x},{y},0" for x, y in zip(numbers(90), numbers(90), strict=True))),
}
"""Data as other programs write it, by program or format."""

TEXT = {
    "a table": "| year | sum |\n| --- | --- |\n" + "\n".join(f"| {1900 + i} | {i * 37}.5 |" for i in range(200)),
    "CSV": "year,sum,part\n" + "\n".join(f"{1900 + i},{i * 37},{i}.25" for i in range(200)),
    "a log": "\n".join(f"2024-01-05 12:00:{i % 60:02d}.{i:03d} INFO [main] GET /a/{i} 200 {i}ms" for i in range(90)),
    "a list of days": "\n".join(f"- [[2024-01-{1 + i % 28:02d}]] 12:30" for i in range(150)),
    "days in a paragraph": "\n".join(f"[[2024-01-{1 + i % 28:02d}]] 12:30 0.12345" for i in range(150)),
    "phones": "\n".join(f"김철수 010-{i:04d}-{i * 7:04d} 02-{i:04d}" for i in range(150)),
    "code": "\n".join(f"x{i} = f({i}, {i * 7}, 0x{i:02x}) + y[{i}]" for i in range(120)),
    "a budget": "\n".join(f"2024-01-{1 + i % 28:02d}  12,000  3,400  {i * 991}" for i in range(120)),
    "a small drawing": "<svg viewBox='0 0 9 9'><path d='M1 2l3 4z'/></svg>",
    "verses": "\n".join(f"{i}:{j} And it was so, {i}." for i in range(20) for j in range(12)),
    "a short dump": dumped(20, form="xxd"),
    "measured": "\n".join(f"Station {i} measured 12.34567 and 0.98765 at noon" for i in range(90)),
}
"""What looks like it, and is read."""


def note_with(middle: str, fence: str) -> str:
    return f"# Marmots\n\nThe marmot sleeps.\n\n{fence}{middle}{fence[::-1]}\n\nThe yak grazes.\n"


@pytest.mark.parametrize("fence", ["", "```\n"])
@pytest.mark.parametrize("name", DATA)
def test_data_of_programs_is_not_embedded(name: str, fence: str) -> None:
    """Nine tenths of it are data; the words around it are one section, and the note's bytes are as they were."""
    text = note_with(DATA[name], fence)
    note = parse("a.md", text.encode())
    assert sum(end - start for start, end in note.data) > 0.9 * len(DATA[name])
    assert note.encode() == text.encode()
    embedded = " ".join(piece.embedded for piece in cut(note, 300))
    assert "The marmot sleeps." in embedded
    assert "The yak grazes." in embedded
    assert len(embedded) < 600


@pytest.mark.parametrize("fence", ["", "```\n"])
@pytest.mark.parametrize("name", TEXT)
def test_what_a_person_reads_is_text(name: str, fence: str) -> None:
    """Tables, logs, lists, code, ledgers and short pieces of data are text."""
    assert parse("a.md", note_with(TEXT[name], fence).encode()).data == ()


def test_a_drawing_of_many_tags_takes_linear_time() -> None:
    """A drawing of 150,000 tags, each of them data, is cut within seconds."""
    note = parse("a.md", b"# Map\n\n<svg>" + b"<g/>a\n" * 150_000 + b"</svg>\n")
    began = time.process_time()
    assert len(note.data) > 150_000
    assert "".join(piece.text for piece in cut(note)).count("a") > 150_000
    assert time.process_time() - began < 4


def test_words_in_a_drawing_are_text() -> None:
    """The tags of an SVG are data, and its labels are found."""
    note = parse("a.md", note_with(DATA["svg"].replace("</svg>", "<text>burrow plan</text></svg>"), "").encode())
    assert not any(start <= note.text.index("burrow plan") < end for start, end in note.data)


@given(st.lists(st.sampled_from([*DATA.values(), *TEXT.values(), "Prose.", "<svg ", "</svg>", START, END]), max_size=5))
def test_any_mixture_is_read(parts: list[str]) -> None:
    """Data is in order, does not overlap, begins after the frontmatter, and leaves every byte."""
    text = "---\na: 1\n---\n" + "\n\n".join(parts)
    note = parse("a.md", text.encode())
    ends = [note.body_at, *(at for span in note.data for at in span), len(text)]
    assert ends == sorted(ends)
    assert note.encode() == text.encode()
