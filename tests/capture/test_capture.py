"""Sessions become notes: what is new once, nothing that was deleted, no secret, and only where a person said yes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse
from tests.capture.transcripts import (
    BILLING,
    DEPLOY,
    LONG,
    OTHER,
    ROTATE,
    SESSION,
    answered,
    asked,
    claude,
    codex,
    line,
    of_codex,
    said,
    talk,
)
from tests.commands import spellbook, spellbook_in
from tests.helpers import Write

Capture = Callable[..., dict[str, str]]


def stamps(vault: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in (vault / "sessions").glob("*")}


# -- the note


def test_the_note_of_a_session(captured: Capture, home: Path) -> None:
    """
    It says whose words it holds, from where, and how far to trust them; each exchange is one section and one chunk. A
    session of Codex is a note that names Codex. A fork has the old exchanges with other uuids: its note has only the
    new ones.
    """
    notes = captured(*talk(ROTATE, DEPLOY, BILLING))
    ((name, text),) = notes.items()
    note = parse(f"sessions/{name}", text.encode())
    assert re.fullmatch(r"2026-11-26-shop-[0-9a-f]{8}\.md", name)
    assert note.meta["generated"] == {"by": "claude-code/unknown", "at": note.meta["updated"]}
    assert {key: str(note.meta[key]) for key in note.meta if key not in {"created", "updated", "generated"}} == {
        **{"id": f"session-{name[-11:-3]}", "session": SESSION, "title": ROTATE[0], "category": "session"},
        **{"type": "episodic", "importance": "low", "trust": "agent", "privacy_scope": "private"},
        **{"scope": "shop", "source": "claude-code", "removed": "0"},
    }
    chunks = cut(note)
    assert [" ".join(chunk.heading)[6:] for chunk in chunks] == [ROTATE[0], DEPLOY[0], BILLING[0]]
    assert re.search(
        r"\n\*\*You:\*\*\n\n> 배포는 언제 하지\?\n\n\*\*Claude Code:\*\*\n\n> 화요일 오전에 합니다.\n", chunks[1].text
    )
    forked = captured(*talk(ROTATE, DEPLOY, ("Then?", "Then that.")), *talk(LONG, first=5), place=claude(home, OTHER))
    new = {file: text for file, text in forked.items() if file not in notes}
    assert asked(new) == ["Then?", LONG[0].strip()]
    both = captured(of_codex(("Where?", "There."), ("Why?", "So.")), place=codex(home, OTHER[::-1]))
    (text,) = (text for file, text in both.items() if file not in forked)
    assert "source: codex\n" in text
    assert "**Codex:**\n\n> There.\n" in text


@pytest.mark.parametrize(
    "text",
    [
        "# A heading\n\n## Another\n\nUnder\n=====\n---\nid: evil\n---",
        "```python\nnever closed",
        "<!-- never closed\n<script>\n%% hidden",
        "- [ ] a\n\n\n    code\n> quoted\r\nend\rold",
        "## 10:00 x\n<!-- 2026-11-26 0123456789abcdef -->\n\n**You:**\n\n**Claude Code:** I agree.",
        "a\u2028b\x0bc\x00d \ud800 e",
    ],
)
def test_no_text_ends_its_section(captured: Capture, text: str) -> None:
    """Headings, fences, comments and frontmatter in a message stay in its section, word for word."""
    ((_, note),) = captured(said(text) + answered(text), *talk(ROTATE, DEPLOY, first=1)).items()
    parsed = parse("x.md", note.encode())
    assert [block.level for block in parsed.blocks if block.kind == "heading"] == [2, 2, 2]
    assert parsed.meta["session"] == SESSION
    quotes = re.findall(r"(?m)^> ?(.*)", note.partition(ROTATE[0])[0].partition("\n\n**You:**")[2])
    wanted = re.sub("[\x00\ud800]", "", text).replace("\r\n", "\n").replace("\r", "\n")
    assert [line.rstrip() for line in wanted.split("\n")] * 2 == quotes


def test_texts_have_a_length(captured: Capture, home: Path) -> None:
    """
    Of a message 4,000 letters are kept, of an answer 2,000. A text is cut after its secrets are masked, so that no half
    of one is left.
    """
    ((_, text),) = captured(said("가" * 9_000) + answered("나" * 9_000)).items()
    assert 3_990 < text.count("가") <= 4_000 + 60 + 80
    assert 1_990 < text.count("나") <= 2_000
    secret = said("x" * 3_985 + " sk-ant-api03-Zk3T9vQx7LmW2pRs8YtUn5Bd") + answered("ok")
    assert "sk-ant" not in "".join(captured(secret, place=claude(home, OTHER)).values())


SECRETS = {
    "sk-ant-api03-Zk3T9vQx7LmW2pRs8YtUn5Bd": "my key is sk-ant-api03-Zk3T9vQx7LmW2pRs8YtUn5Bd, use it",
    "abcdefghijklmnop": "curl -H 'Authorization: Bearer abcdefghijklmnop' https://x.example",
    "ey.a-b_c": '{"Authorization": "Basic ey.a-b_c"}',
    "correcthorse": "export DB_PASS=correcthorse",
    "battery7staple": 'MYSQL_PASSWORD="battery7staple" ./run',
    "staple-gun": '{"password": "staple-gun"}',
    "horse battery": 'export my_password="correct horse battery"',
    "S3cr3tPass": "curl -u admin:S3cr3tPass! https://x.example",
    "kQx82hs": "curl -H 'Cookie: session=kQx82hsA' https://x.example",
    "MIIEow": "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEow" + "IBAAKC4d\n" * 700,
    "tiger-lily": "and <private>my sister is tiger-lily",
}


@pytest.mark.parametrize("secret", SECRETS, ids=map(str, range(len(SECRETS))))
def test_no_secret_is_kept(captured: Capture, vault: Path, secret: str) -> None:
    """Secrets and private parts are in no note, no title, no heading, no ledger; the note counts them."""
    text = SECRETS[secret]
    ((_, note),) = captured(said(text) + answered(f"Done: {text}"), *talk(ROTATE, first=1)).items()
    assert secret not in note
    assert "removed: 1\n" in note
    assert "Done:" not in note, "an answer may say it again"
    assert not [file for file in vault.parent.rglob("*.db*") if secret.encode() in file.read_bytes()]


COMMAND = "<command-name>/plan</command-name><command-args><private>tiger-lily</private></command-args>"
BETWEEN = {
    "nothing": b"",
    "a queued message": said("Be brief.", 1, promptSource="queued"),
    "an interruption": said("[Request interrupted by user]", 1),
    "a command": said("<command-name>/compact</command-name>", 1),
    "a part of the answer": answered("I look.") + line(type="user", toolUseResult="x"),
    "a tool that never ended": answered("I look.")
    + line(type="assistant", message={"content": [{"type": "tool_use"}]}),
    "a stopped answer": answered("It says tig") + said("[Request interrupted by user]", 1),
    "a part, and a queued message": answered("I look.") + said("Be brief.", 1, promptSource="queued"),
}


@pytest.mark.parametrize("secret", ["<private>tiger-lily</private>", "The password is tiger-lily7#"])
@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_no_answer_repeats_a_secret(captured: Capture, secret: str, between: bytes) -> None:
    """
    An answer belongs to all prompts since the answer before it: it is left out if one had a secret or a private part,
    also where the session ended between them. The next exchange is kept whole.
    """
    before = [*talk(ROTATE), said(f"{secret} is for Ann", 1), between]
    after = [said("Go on with it", 2), answered("So tiger-lily it is."), *talk(DEPLOY, first=3)]
    ended = captured(*before)
    for notes in (captured(*before, *after), ended):
        assert "tiger-lily" not in "".join(notes.values())
    assert asked(captured())[-2:] == ["Go on with it", DEPLOY[0]]
    assert DEPLOY[1] in "".join(captured().values())


def result(text: str) -> bytes:
    return said([{"type": "tool_result", "is_error": True, "content": text}], 1)


PRIVATE = "<private>tiger-lily</private> is for Ann"
HIDDEN = {
    "in an answer to a tool": said("Do it") + result(f"The user said: {PRIVATE}"),
    "in a run without a person": said(PRIVATE, entrypoint="sdk-cli") + said("Go on", 1),
    "in words of another source": said(PRIVATE, promptSource="suggestion") + said("Go on", 1),
    "under the id of another line": said("Look", uuid="a") + said(PRIVATE, 1, uuid="a"),
    "across blocks": said([{"type": "text", "text": text} for text in ("a <private>b", "tiger-lily</private> c")]),
    "behind an interruption": said("Do it") + said(f"[Request interrupted by user] {PRIVATE}", 1),
    "in a broken line": talk(BILLING)[0] + said(PRIVATE, 1).replace(b'"uuid"', b"uuid"),
    "in a line that is too long": talk(BILLING)[0] + said(PRIVATE + "x" * 5_000_000, 1),
}


@pytest.mark.parametrize("piece", HIDDEN.values(), ids=HIDDEN)
def test_where_private_words_may_be(captured: Capture, piece: bytes) -> None:
    """Wherever a person typed private words, neither they nor their answer are kept; the exchanges around are whole."""
    notes = "".join(captured(*talk(ROTATE), piece, answered("So tiger-lily it is."), *talk(DEPLOY, first=3)).values())
    assert "tiger-lily" not in notes
    assert ROTATE[1] in notes
    assert DEPLOY[1] in notes
    assert (BILLING[1] in notes) is (BILLING[0].encode() in piece)


def test_copies_answer_nothing(captured: Capture, home: Path) -> None:
    """
    Lines that a compaction repeats are no new prompts and no answers: what follows them still belongs to the private
    words before, also where these had no answer yet.
    """
    old, secret = talk(ROTATE, DEPLOY), said("<private>tiger-lily</private> is for Ann", 3)
    leak = answered("So tiger-lily it is.")
    for number, between in enumerate((b"", answered("I look."))):
        place = claude(home, f"{number}{SESSION[1:]}")
        pieces = [*old, secret, between, *old, leak, said("Go on", 5) if not between else b"", leak]
        notes = captured(*pieces, *talk(BILLING, first=6), place=place)
        assert "tiger-lily" not in "".join(notes.values())
        assert BILLING[1] in "".join(notes.values())


@pytest.mark.parametrize("cut", ["end", "answer"])
def test_a_turn_goes_on_after_the_end(captured: Capture, cut: str) -> None:
    """A session that ended within an answer, and is resumed, goes on with the same turn: it repeats no secret."""
    before = [*talk(ROTATE, DEPLOY), said("<private>tiger-lily</private> is for Ann", 3), answered("I look.")]
    after = {"end": said("[Request interrupted by user]", 4), "answer": line(type="user", toolUseResult="x")}[cut]
    captured(*before)
    go_on = [said("Go on", 5), answered("So tiger-lily it is."), *talk(BILLING, first=6)]
    notes = captured(*before, after, *go_on)
    assert "tiger-lily" not in "".join(notes.values())
    assert asked(notes) == [ROTATE[0], DEPLOY[0], "is for Ann", "Go on", BILLING[0]]
    assert captured(*before, after, *go_on) == notes


def test_a_long_paste_has_its_answer(captured: Capture) -> None:
    """A message with a long paste is cut, and its answer is kept; in one that nobody can look through it is not."""
    short, long = captured(said("log line\n" * 3_000), answered("A typo.")), said("log line\n" * 30_000, 5)
    assert "A typo." in "".join(short.values())
    assert "Too long." not in "".join(
        captured(said("log line\n" * 3_000), answered("A typo."), long, answered("Too long.")).values()
    )


def test_a_command_hides_its_words(captured: Capture) -> None:
    """Private words in a command are not kept, and no answer repeats them."""
    notes = captured(*talk(ROTATE, DEPLOY), said(COMMAND, 4), said("Go on", 5), answered("tiger-lily"))
    assert "tiger-lily" not in "".join(notes.values())


@pytest.mark.parametrize(
    "odd", [{"uuid": "\ud800"}, {"cwd": "/w/\ud800"}, {"cwd": "/w/a\0b"}, {"uuid": 5}, {"cwd": ["a"]}]
)
def test_an_odd_line_costs_itself_alone(captured: Capture, odd: dict[str, object]) -> None:
    """A line with an id or a folder that is none keeps no other exchange out."""
    for first in ([], talk(BILLING)):
        notes = captured(*first, said("Odd?", 1, **odd), answered("So."), *talk(ROTATE, DEPLOY, first=2))
        assert asked(notes)[-2:] == [ROTATE[0], DEPLOY[0]]


@pytest.mark.parametrize(
    ("asks", "title"),
    [
        (["go on", "Thanks, commit it!", "[Image #1]", ROTATE[0]], ROTATE[0]),
        (["계속해줘", "고마워요, 커밋해줘", DEPLOY[0]], DEPLOY[0]),
        (["[Image #1] What does this chart show?", ROTATE[0]], "What does this chart show?"),
        (["ok", "go on"], "ok"),
    ],
)
def test_the_title_says_something(captured: Capture, asks: list[str], title: str) -> None:
    """The title of a session is its first request that says what it is about, without a picture's mark."""
    ((_, text),) = captured(*talk(*((ask, "Yes.") for ask in asks))).items()
    assert parse("x.md", text.encode()).meta["title"] == title


def test_a_short_session_is_no_note(captured: Capture, home: Path) -> None:
    """One short exchange is none; the second one brings both, and one with 400 letters of the person is enough."""
    assert captured(*talk(ROTATE)) == {}
    assert asked(captured(*talk(ROTATE, DEPLOY))) == [ROTATE[0], DEPLOY[0]]
    assert len(captured(*talk(LONG), place=claude(home, OTHER))) == 2


@pytest.mark.slow
def test_long_sessions_have_parts(captured: Capture, home: Path, book: Spellbook) -> None:
    """After 200 exchanges or 400 KB a further note begins, each with an id of its own, and nothing is lost or twice."""
    many = [(f"question {number}", "yes") for number in range(250)] + [("긴 말 " * 1_300, "길다 " * 600)] * 60
    notes = captured(*talk(*many))
    assert len(notes) == 3
    assert len({parse(name, text.encode()).meta["id"] for name, text in notes.items()}) == 3
    assert all(len(text.encode()) < 420_000 and text.count("\n## ") <= 200 for text in notes.values())
    assert len(asked(notes)) == 310
    before = stamps(book.config.vault)
    assert captured(*talk(*many)) == notes, "with other uuids, as in a fork"
    assert stamps(book.config.vault) == before


# -- once, and never again


def test_twice_is_nothing(captured: Capture, vault: Path) -> None:
    """
    Capturing again, and what compaction repeats, changes no byte and no time. What is there stays byte for byte, but
    for its times and counts; what is new is appended.
    """
    pieces = talk(ROTATE, DEPLOY)
    notes, before = captured(*pieces), stamps(vault)
    assert captured(*pieces) == captured(*pieces, *pieces) == notes
    assert stamps(vault) == before
    ((_, after),) = captured(*pieces, *talk(BILLING, first=2)).items()
    assert after.partition("\n---\n\n")[2].startswith("".join(notes.values()).partition("\n---\n\n")[2])
    assert asked({"": after}) == [ROTATE[0], DEPLOY[0], BILLING[0]]


@pytest.mark.parametrize(
    "change", ["edit", "cut", "rename", "delete", "erase", "undo", "replace", "crlf", "bad header"]
)
def test_what_a_person_changed_stays(captured: Capture, book: Spellbook, change: str) -> None:
    """A section or note that was edited, moved, deleted or erased is neither written again nor restored."""
    old = talk(ROTATE, DEPLOY)
    ((name, text),) = captured(*old).items()
    file = book.config.vault / "sessions" / name
    cut_off = text[: text.index("\n## 09:01")]
    book.refresh()
    changes: dict[str, Callable[[], object]] = {
        "edit": lambda: file.write_text(text.replace("Every ninety", "My own"), "utf-8"),
        "cut": lambda: file.write_text(cut_off, "utf-8"),
        "rename": lambda: file.rename(book.config.vault / "kept.md"),
        "delete": file.unlink,
        "erase": lambda: book.erase(f"session-{name[-11:-3]}", whole=True),
        "undo": lambda: book.undo(book.log()[0].id),
        "replace": lambda: file.write_text("---\nid: mine\n---\nMine."),
        "crlf": lambda: file.write_bytes(text.replace("\n", "\r\n").encode()),
        "bad header": lambda: file.write_text(text.replace("removed: 0", "removed: ["), "utf-8"),
    }
    changes[change]()
    kept = file.read_bytes().partition(b"\n---")[2].partition(b"\n")[2] if file.exists() else b""
    before = captured(*old)
    assert captured(*old, *old) == before, "nothing that was there comes back"
    after = captured(*old, *talk(BILLING, first=7))
    new = "".join(after.values())
    assert new.count(BILLING[1]) == 1, "what is new goes on"
    if file.exists():
        assert kept in file.read_bytes()
    assert new.count("> Every ninety days.") == (
        0 if change in {"edit", "rename", "delete", "erase", "undo", "replace"} else 1
    )
    if change == "crlf":
        assert b"\n" not in file.read_bytes().replace(b"\r\n", b"")


def test_undo_takes_no_capture_back_by_itself(captured: Capture, book: Spellbook, write_note: Write) -> None:
    """An undo without a number takes back what somebody asked for; by its number a capture is taken back too."""
    write_note("a.md", "Old.")
    book.refresh()
    book.revise("a", content="New.")
    captured(*talk(ROTATE, DEPLOY))
    assert book.undo().paths == ("a.md",)
    assert [each.verb for each in book.undo_all("10m", dry_run=True)] == []
    book.undo(next(each.id for each in book.log() if each.verb == "capture"))
    assert not [*(book.config.vault / "sessions").glob("*.md")]


# -- forgetting


@pytest.mark.parametrize("by", ["session", "note", "project", "since"])
def test_forget(captured: Capture, vault: Path, home: Path, write_note: Write, by: str) -> None:
    """
    Forgotten sessions are in the trash, with undo; nothing of them comes back, nor of their forks. A session may be
    forgotten before anything of it was written.
    """
    old = talk(ROTATE, DEPLOY)
    ((name, _),) = captured(*old).items()
    write_note("mine.md", "My own.", category="session", scope="shop", updated="2026-11-27")
    args = {"session": [SESSION], "note": [f"session-{name[-11:-3]}"], "project": ["--project", "shop"]}
    chosen = args.get(by, ["--since", "2026-11-26"])
    assert "is known" in spellbook("--vault", vault, "capture", "forget", "a typo", code=2).stderr
    assert "0 notes" in spellbook_in(vault, "capture", "forget", OTHER[::-1]).stdout, "before it has a note"
    told = spellbook_in(vault, "capture", "forget", *chosen, "--dry-run").stdout
    assert told.splitlines() == [f"sessions/{name}", "1 note would go to the trash."]
    assert "1 note moved to the trash." in spellbook_in(vault, "capture", "forget", *chosen).stdout
    assert (vault / ".trash" / "sessions" / name).exists()
    assert captured(*old, *talk(BILLING, LONG, first=5)) == {}
    assert captured(*talk(ROTATE, DEPLOY, BILLING), place=claude(home, OTHER)) == {}, "a fork"
    assert (vault / "mine.md").exists(), "a person's own note of that category"


# -- finding


def test_a_session_is_found_by_its_own_words(captured: Capture, book: Spellbook) -> None:
    """
    The title of a session counts for its first section alone: another one is not found by it. A hit shows neither the
    key of an exchange, nor marks of quotes, nor the session's id.
    """
    captured(*talk(("Why do invoices get numbers twice?", "Two workers count."), DEPLOY, ("Crash now", "It crashed.")))
    book.refresh()
    shown = [str(hit.as_dict()) for hit in book.search("Crash now").hits]
    assert "Crash now" in shown[0]
    assert not [text for text in shown if "<!--" in text or "> Crash" in text or SESSION in text]
    own = [hit for hit in book.search("invoices").hits if hit.chunk.ordinal]
    assert not [hit for hit in own if "invoices" in str(hit.why.get("words"))]
