"""Filters and ids: parsed once, and met by the fields, categories, dates and names of notes; invalid ones are named."""

import contextlib
import datetime as dt
import itertools
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spellbook.index import lookup, sync
from spellbook.index.filters import Condition, conditions, from_pairs
from spellbook.library.book import Spellbook
from spellbook.library.doctor import checks
from spellbook.system.errors import InvalidInput, MemoryNotFound
from tests.helpers import Write, held, note_writer, opened, rows


def at(year: int, month: int, day: int) -> float:
    return dt.datetime(year, month, day).timestamp()


DATES: list[tuple[object, float | None, float | None]] = [
    ("2026-11-21", at(2026, 11, 21), at(2026, 11, 22)),
    ("2026-11", at(2026, 11, 1), at(2026, 12, 1)),
    ("2026-12", at(2026, 12, 1), at(2027, 1, 1)),
    *[(value, at(2026, 1, 1), at(2027, 1, 1)) for value in ("2026", 2026)],
    ("2026-11-01..2026-11-15", at(2026, 11, 1), at(2026, 11, 16)),
    *[(value, at(2026, 11, 1), None) for value in ("2026-11-01..", ">=2026-11-01", {"from": "2026-11-01", "to": None})],
    ("..2026-11", None, at(2026, 12, 1)),
    *[(value, None, at(2026, 11, 2)) for value in ("<=2026-11-01", {"to": dt.date(2026, 11, 1)})],
    ("2026-11-21T20:15:00+09:00..", dt.datetime(2026, 11, 21, 11, 15, tzinfo=dt.UTC).timestamp(), None),
]
NONSENSE: list[tuple[Any, str]] = [
    ("category=x", "map keys to values"),
    *[({"category": value}, "category") for value in (None, {"a": 1})],
    *(({"category": []}, "category"), ({"created": {}}, "created")),
    ({"!": "x"}, "key without a name"),
    *[({"importance": value}, "importance") for value in ("often", 2, "nan", True)],
    *[({"created": value}, "created") for value in ("soon", "2026-13", "2026-1-2-3", "2026-02-30", "..", "")],
    *[({"created": value}, "created") for value in ({"from": None}, {"since": "2026"})],
    ({"updated": "99999-01-01"}, "updated"),
    *[({"path": value}, "too much") for value in (["x"] * 2_001, "x" * 1_001)],
]
ODD: list[object] = [
    None,
    True,
    0,
    -1.5,
    float("nan"),
    float("inf"),
    "",
    " ",
    "\0",
    "\ud800",
    [],
    [""],
    ["a", "\ud800"],
    {},
    {"from": 1},
]
PAIRS = [
    ([], {}),
    (["a=b=c"], {"a": "b=c"}),
    (["a=x", "a=y", "a=z"], {"a": ["x", "y", "z"]}),
    (["a!=x", "b="], {"a!": "x", "b": ""}),
]


def test_forms_of_a_filter() -> None:
    """
    A date is the whole day, month or year, in local time; a range may be open; a time with a zone is that instant. An
    invalid filter, or one of too many or too long globs, is refused by its key, with an example; 2,000 globs of 1,000
    letters are accepted.

    KEY=VALUE pairs become a filter; a repeated key takes any of its values; no other form is accepted. Any filter becomes
    one condition for each key, or InvalidInput.
    """
    for value, low, high in DATES:
        (found,) = conditions({"created": value})
        assert found.low == low
        assert found.high == (None if high is None else pytest.approx(high, abs=0.01))
        assert high is None or (found.high or 0) < high
    for refused, names in NONSENSE:
        with pytest.raises(InvalidInput, match=names) as caught:
            conditions(refused)
        assert caught.value.hint
    globs = ("x" * 1_000,) * 2_000
    assert conditions({"path": [*globs]}) == (Condition("path", globs),)
    for pairs, expected in PAIRS:
        assert from_pairs(pairs) == expected
    for pair in ("a", "=x", "!=x", ""):
        with pytest.raises(InvalidInput, match="not KEY=VALUE"):
            from_pairs([pair])
    for key, odd in itertools.product(("created", "importance", "tags", "path!", "!x", "\ud800\0"), ODD):
        with contextlib.suppress(InvalidInput):
            assert len(conditions({key: odd})) == 1


# -- what notes meet them

NOTES: dict[str, dict[str, object]] = {
    "infra/docker.md": {"category": "project", "topic": "infra", "tags": "[ops/deploy/k8s, Linux]", "keywords": "[Docker]", "importance": "high",
                        "entities": "[{name: Docker, type: technology}]", "created": "2026-01-10", "updated": "2026-03-01", "status": "open"},
    "infra/keys.md": {"category": "decision", "topic": "infra", "tags": "[ops]", "keywords": "[keys, Rotation]", "importance": "0.9",
                      "created": "2026-02-10", "updated": "2026-02-20", "street": "Seestraße", "owner": "{name: Kim, team: [a, b]}"},
    "개인/일기.md": {"category": "project", "topic": "diary", "tags": "[개인]", "kind": "journal", "importance": "low",
                    "created": "2025-12-31T23:30:00", "rating": "5.0", "done": "true"},
    "plain.md": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The paths of NOTES that meet a filter."""
    folder = tmp_path_factory.mktemp("filtered")
    for path, meta in NOTES.items():
        note_writer(folder / "vault")(path, "text", **meta)
    with opened(folder / "vault", state=folder / "state") as index:
        sync.scan(index)
        yield lambda filter: index.catalog.paths(conditions(filter))


DOCKER, KEYS, DIARY, PLAIN = NOTES


MET: list[tuple[set[str], list[Any]]] = [
    ({DOCKER, KEYS, DIARY, PLAIN}, [None]),
    ({DOCKER, DIARY}, [{"category": "project"}, {"created": "..2026-01-10"}]),
    ({KEYS}, [{"category": ["decision", "nothing"]}, {"keywords": "rotation"}, {"importance": 0.85}]),
    ({KEYS}, [{"owner.team": "b"}]),  # a key within a key
    ({KEYS, PLAIN}, [{"category!": "project"}]),
    (
        {DOCKER, KEYS},
        [{"topic": "INFRA"}, {"tags": "ops"}, {"importance": "high"}, {"importance": "0.8"}, {"created": "2026"}],
    ),
    ({KEYS}, [{"street": "Seestraße"}, {"street": "SEESTRASSE"}]),
    ({DOCKER, KEYS}, [{"path": "infra/*"}, {"path": "infra"}, {"path": "infra/"}]),
    ({DOCKER}, [{"tags": "#ops/deploy"}, {"entities": "docker"}, {"created": "2026-01"}, {"status": "open"}]),
    ({DOCKER}, [{"updated": {"from": "2026-02-21", "to": "2026-03-01"}}, {"category": "project", "tags": "linux"}]),
    ({DIARY}, [{"tags": "개인"}, {"kind": "journal"}, {"importance!": "medium"}, {"created": "2025-12-31"}]),
    (
        {DIARY},
        [
            {"rating": 5},
            {"done": True},
            {"rating": "5"},
            {" topic ": " Diary "},
            {"tags": "\u1100\u1162\u110b\u1175\u11ab"},
        ],
    ),
    ({DOCKER, KEYS, PLAIN}, [{"kind": "note"}]),  # by default
    ({KEYS, DIARY}, [{"path": ["*/keys.md", "개인/*"]}]),
    ({DIARY, PLAIN}, [{"created!": "2026"}]),
    (set(), [{"tags": "op"}, {"scope": "nobody has one"}, {"topic": "x' OR '1'='1"}, {"path": "*' OR 1=1 --"}]),
    (set(), [{"tags": "\ud800\0"}]),  # half a letter
    ({DOCKER}, [{"tags": [f"t{i}" for i in range(40_000)] + ["linux"]}]),
    ({PLAIN}, [{"path": [f"t{i}" for i in range(1_500)] + ["plain.md"]}]),
]


def test_filters(filtered: Any) -> None:
    """
    A filter leaves the notes that meet all of its keys. Values compare without case, blanks and number form. A key that no note has is INVALID_INPUT and lists the keys in
    use; so are hundreds of keys, without a list.
    """
    for expected, filters in MET:
        for filter in filters:
            assert set(filtered(filter)) == expected, str(filter)[:200]
    for key in ("colour", "1=1; DROP TABLE notes; --", 'ca"tegory'):
        with pytest.raises(InvalidInput) as caught:
            filtered({key: "x"})
        assert {"status", "owner.team", "category"} <= set(caught.value.hint.rstrip(".").replace(",", "").split())
    assert len(filtered(None)) == 4
    with pytest.raises(InvalidInput, match="150 keys"):
        filtered({f"k{i}": "x" for i in range(150)})


# -- what fields notes have

KOREAN = "어제 회의에서 저장소를 나누기로 했다. `git mv` 로 옮긴다.\n\n```python\nfor the_file in that_list: print('of')\n```"
ENGLISH = "We decided to split the repository, and this is what it was for."
LANGUAGES = [
    (KOREAN, {}, ["ko"]),
    (ENGLISH, {}, ["en"]),
    (KOREAN, {"language": "en-GB"}, ["en", "en-gb"]),
    (ENGLISH, {"lang": "fr"}, ["fr"]),
    ("x = 1", {}, []),
    (ENGLISH, {"language": "Klingon"}, ["klingon"]),
]


def test_notes_have_a_language_of_their_own_or_by_their_text(vault: Path, write_note: Write) -> None:
    """The declared language wins, also under `lang` and with a region; unclear text has none."""
    for number, (text, meta, _) in enumerate(LANGUAGES):
        write_note(f"{number}.md", text, **meta)
    with opened(vault) as index:
        sync.run(index)
        sql = "SELECT path, value FROM fields JOIN notes USING (note) WHERE key = 'language' ORDER BY 1, 2"
        found = [(f"{number}.md", each) for number, (*_, expected) in enumerate(LANGUAGES) for each in expected]
        assert rows(index.catalog, sql) == found


ASKED = [
    *({"event": "10:30"}, {"country": "no"}, {"mode": "0755"}, {"tags": "1.10"}, {"TAGS": "on"}, {"title": "12:30"}),
    *({"category": "Books"}, {"category": "[[Books]]"}, {"topic": "Art"}, {"author": "Ann"}, {"pinned": "true"}),
    *({"author": "[[People/Ann]]"}, {"Birthday": "1990-05-12"}, {"when": "2024-01-05"}, {"updated": "2024-01-06"}),
]


def test_a_value_is_found_as_it_is_written(book: Spellbook, write_note: Write) -> None:
    """
    A filter finds a note by the values of its frontmatter as Obsidian reads them, whatever the case of keys. Where no
    note has a key that tools write, `categories` or `type`, nothing is found.

    A date that is not understood is named with the file and the key, and the file's time counts; a date, an empty key
    and another key are no fault.
    """
    write_note(
        "a.md",
        "---\nTitle: 12:30\nTags: [1.10, on]\nevent: 10:30\ncountry: no\nmode: 0755\nPinned: true\nBirthday: 1990-05-12\n"
        'Category: "[[Books]]"\ntopic: "[[lib/Art|x]]"\nauthor: "[[People/Ann]]"\ndate created: January 5, 2024\n'
        "date modified: Saturday, January 6th 2024, 3:04 PM\n---\ntext\n",
    )
    write_note("Books.md", "---\ntitle: 1.1\ntags: 1.1\nevent: 630\npinned: yes\n---\nother\n")
    book.reindex()
    for asked in ASKED:
        assert [hit.path for hit in book.find("text", filter=asked).hits] == ["a.md"], asked
    assert [(hit.path, hit.backlinks) for hit in book.find("other").hits] == [("Books.md", 1)]
    meta = book.show("a")[0].meta
    told = book.show("a")[0].title, meta["tags"], meta["country"], meta["event"]
    assert told == ("12:30", ["1.10", "on"], "no", "10:30")
    for key in ("categories", "type"):
        answer = book.search("text", filter={key: "x"})
        assert (answer.hits, [str(each) for each in answer.unmatched]) == ((), [f"No note has {key} x."])
    write_note("c.md", "---\ndate created: soon\n---\nmore\n", age=3600)
    write_note("d.md", "---\ncreated: 2024-01-05\nupdated:\ndue: soon\n---\nmore\n")
    book.reindex()
    named = ["c.md: the date date created is not understood: 'soon'"]
    assert dict(checks(book.index, ""))["note files"] == named
    assert [fault["path"] for fault in book.status()["faults"]] == ["c.md"]
    assert book.show("c")[0].created is None


def test_a_note_is_found_by_each_of_its_categories_and_filed_by_the_first(book: Spellbook, write_note: Write) -> None:
    """
    A filter finds it by any of them, also negated; a text with a comma is one category; `categories` is a list. The
    table of contents and the hit name the first; a topic is there once. Of more than a thousand values that notes have, a
    misspelt one is compared with those of its beginning.
    """
    for name, category in (("both", "[decision, 프로젝트]"), ("one", "decision"), ("comma", "decision, project")):
        write_note(f"{name}.md", f"# {name}\n\ntext of {name}", category=category, age=100)
    write_note("empty.md", "# Empty\n\ntext of Empty", category="[null, project]", age=100)
    write_note("article.md", "# Article\n\ntext", category="article", categories="[longblack, business]", age=100)
    book.reindex()
    for filter, names in (
        ({"category": "decision"}, ["both", "one"]),
        ({"category": "프로젝트"}, ["both"]),
        ({"category": "project"}, ["empty"]),
        ({"category": "decision, project"}, ["comma"]),
        ({"category!": ["프로젝트", "project"]}, ["article", "comma", "one"]),
        ({"category": "article", "categories": "business"}, ["article"]),
        ({"categories": ["longblack", "x"]}, ["article"]),
    ):
        assert book.index.catalog.paths(conditions(filter)) == [f"{name}.md" for name in names], filter
    contents = {each.name: [topic.notes for topic in each.topics] for each in book.contents()}
    assert contents == {"decision": [2], "decision, project": [1], "project": [1], "article": [1]}
    [hit] = book.search("both", filter={"category": "프로젝트"}).hits
    assert (hit.path, hit.category) == ("both.md", "decision")
    for name in "pq":
        write_note(f"{name}.md", "many", keywords=[f"word{name}x{each}" for each in range(600)])
    book.reindex()
    [each] = book.find("many", filter={"keywords": "wordqy7"}).unmatched
    assert "wordqx7" in each.suggestions


# -- what an id means

HERON = "P/Heron HTTP API"


@pytest.fixture
def notes(write_note: Write) -> None:
    write_note(
        f"{HERON}.md",
        "# Heron API\n\nTop.\n\n## Why: not?\n\nOne.\n\n## C\n\nTwo.\n\n## C++\n\nThree.\n",
        aliases="[Grey bird]",
    )
    write_note("sketch.excalidraw.md", "drawn")
    write_note("n/keys.md", "# Other\n\na", id="01KEYS")
    write_note("o/lamp.md", "# Keys\n\nb")
    write_note(f"{unicodedata.normalize('NFD', '회의록')}/{unicodedata.normalize('NFD', '첫째')}.md", "x")
    write_note("twin/a.md", "# Twice\n\na", aliases="[Both]")
    write_note("twin/b.md", "# Twice\n\nb", aliases="[Both]")
    write_note("x/plan.md", "## Goal\n\nc\n\n## Goal\n\nd")
    write_note("y/plan.md", "d")
    write_note(" odd.md", "e")
    write_note("Plan B/C#.md", "# Sharp\n\n## One\n\nf\n")


MEANT = [
    *[(name, HERON) for name in (HERON, f"{HERON}.md", f"./{HERON}.md", f"/{HERON}.md", f"{{vault}}/{HERON}.md")],
    *[(name, HERON) for name in ("Heron HTTP API", "heron http api.md", "Heron API", " heron  api ", "GREY BIRD")],
    *[(name, HERON) for name in ("[[Heron HTTP API]]", "![[P/heron http api.md|text]]", "[[Grey bird\\|t]]")],
    ("p/HERON http api", HERON),
    *[(f"{name}#Why: not?", f"{HERON}#why-not") for name in ("Heron API", HERON, f"./{HERON}.md", f"{{vault}}/{HERON}.md")],
    *[(f"Heron HTTP API#{name}", f"{HERON}#why-not") for name in ("why-not", "WHY:  NOT?", "Why not")],
    ("[[Heron HTTP API#Why: not?|so]]", f"{HERON}#why-not"),
    ("Heron API#C++", f"{HERON}#c-2"),
    ("Heron API#Heron API", f"{HERON}#"),
    ("sketch.excalidraw", "sketch.excalidraw"),
    ("01keys", "01KEYS"),
    ("keys", "o/lamp"),  # a title goes before the name of a file
    ("[[keys]]", "01KEYS"),  # which a link finds
    ("n/keys", "01KEYS"),
    ("첫째", "회의록/첫째"),
    ("회의록/첫째.md", "회의록/첫째"),
    (" odd", " odd"),
    ("Plan B/C#.md", "Plan B/C#"),
    ("C##One", "Plan B/C##one"),
]  # fmt: skip
REFUSED = [
    ("Twice", InvalidInput, "twin/a, twin/b"),
    ("both", InvalidInput, "twin/a, twin/b"),
    ("[[plan]]", InvalidInput, "x/plan, y/plan"),
    ("plan.md#Goal", InvalidInput, "x/plan, y/plan"),
    ("x/plan#Goal", InvalidInput, "x/plan#goal, x/plan#goal-2"),
    ("Heron API#Nothing", MemoryNotFound, f"{HERON}#why-not"),
    *[(name, MemoryNotFound, "There is no memory") for name in ("[[nothing]]", "../n/keys.md", "/etc/passwd")],
]


@pytest.mark.usefixtures("notes")
def test_what_an_id_means(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    Whatever a person or an agent has at hand names a note or a section, as a link would. Two notes of a name are both
    named, with their ids, by every verb; nothing is changed. A path that the index does not know yet names its file,
    and no other note of that name.
    """
    book.refresh()
    for id, meant in MEANT:
        chunks, is_note = lookup.named(book.index, id.replace("{vault}", str(vault)))
        assert unicodedata.normalize("NFC", chunks[0].note if is_note else chunks[0].id) == meant, id
    before = held(vault)
    for id, error, told in REFUSED:
        for expected, act in (
            *((error, book.show), (error, lambda id: book.revise(id, append="more")), (error, book.erase)),
            *((error, book.memories.pin), (error, lambda id: book.why("x", id))),
            (InvalidInput if error is InvalidInput else Exception, lambda id: book.move(id, "z.md")),
        ):
            with pytest.raises(expected) as raised:
                act(id)
            assert expected is Exception or told in str(raised.value)
    assert before == held(vault)
    write_note("keys.md", "new\n")
    book.revise("keys", append="more")
    changed = {path: text for path, text in held(vault).items() if before.get(path) != text}
    assert changed == {"keys.md": b"new\n\nmore\n"}
