"""Keep, the standing of a note by the keys of the Open Knowledge Format, and who may claim what."""

import datetime as dt
from pathlib import Path

import pytest
from mcp.types import Implementation

from spellbook.editing import threeway
from spellbook.editing.memory import AGENT
from spellbook.index import privacy
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.notes.frontmatter import load
from spellbook.search import note_marks
from spellbook.system.errors import InvalidInput
from tests.mcp.agent import Agent, talk

ROWS = {
    "none": ("type: X\n", ""),
    "mapping": ("verified: { by: human:ada, at: 2026-06-25T09:00:00Z } # seen\nstatus: Draft # d\n", ""),
    "block": (
        'verified:\n  # first\n  - by: "human:ada"  # x\n    at: 2026-06-25T09:00:00Z\nz: 1\n',
        'by: "human:ada"',
    ),
    "flow": ("verified: [ {by: 'process:n', at: 2026-01-01} ]\nclaimed: verified\n", "'process:n', at: 2026-01-01"),
    "a date": ("verified: 2026-01-01\n", "2026-01-01"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_person_keeps_a_note_and_takes_it_back(book: Spellbook, vault: Path, name: str) -> None:
    """
    The person is added to `verified`, whatever its form, a draft becomes stable, and a stranger's claim ends.

    What others wrote in the list stays letter for letter. A second time changes nothing, and undo gives all bytes back.
    """
    header, kept = ROWS[name]
    file = vault / "a.md"
    file.write_bytes(before := f"---\n{header}---\n\nWe deploy on Tuesdays.\n".replace("\n", "\r\n").encode())
    done = book.keep("a.md")
    text = file.read_bytes().decode()
    meta = load(text.replace("\r\n", "\n").partition("\n\n")[0] + "\n")[0]
    assert meta["verified"][-1]["by"] == "human:me" == done.by
    assert kept in text
    assert meta.get("status") in {None, "stable"}
    assert "claimed" not in meta
    (chunk,) = book.show("a.md")
    assert note_marks.of(chunk).trust == f"kept by you on {dt.date.today()}"
    assert (done.changed, book.keep("a.md").changed) == (True, False)
    assert book.log(1)[0].verb == "keep"
    book.undo()
    assert file.read_bytes() == before


NOW = dt.datetime(2026, 11, 1, 12).timestamp()
ADA = {"by": "human:ada", "at": "2026-06-25T09:00:00Z"}
NIGHTLY = {"by": "process:nightly", "at": "2026-06-26T02:00:00Z"}


@pytest.mark.parametrize(
    ("meta", "updated", "tier"),
    [
        ({}, None, "unverified"),
        ({"verified": True}, None, "unverified"),
        ({"verified": ["human:ada", {"at": 1}]}, None, "unverified"),
        ({"verified": NIGHTLY}, None, "machine-confirmed"),
        ({"verified": [NIGHTLY, ADA]}, None, "human-reviewed"),
        ({"verified": ADA, "claimed": "verified"}, None, "machine-confirmed"),
        ({"verified": ADA, "generated": {"by": "x/1", "at": "2026-06-25T09:00:01Z"}}, None, "changed since"),
        ({"verified": ADA, "generated": {"by": "x/1", "at": "2026-06-25T09:00:00Z"}}, "2026-10-01", "human-reviewed"),
        ({"verified": ADA}, "2026-10-01", "changed since"),
        ({"verified": {"by": "human:ada", "at": "2099-01-01"}}, "2026-10-01", "changed since"),
        ({"verified": {"by": "human:ada"}}, "2026-10-01", "changed since"),
        ({"verified": ADA, "generated": "yes"}, None, "human-reviewed"),
    ],
)
def test_tiers(meta: dict[str, object], updated: str | None, tier: str) -> None:
    """A tier is of what `verified` says, and of when the text changed; what cannot be read confirms nothing."""
    assert privacy.standing(meta, updated, NOW).tier == tier


def test_an_agent_names_itself_and_no_person(book: Spellbook, vault: Path) -> None:
    """
    A memory says by which agent and version it was written, and a revision by which it was changed; then it is not kept
    any more. No agent writes `verified`, `generated` or `claimed`, and a client cannot call itself a person.
    """
    forged = {"verified": {"by": "human:me", "at": "2026-01-01"}, "Generated": {"by": "human:me"}, "CLAIMED": None}
    path = ""

    async def first(agent: Agent) -> None:
        nonlocal path
        done = await agent.json("remember", content="We deploy on Tuesdays, before noon.")
        path = done["path"] if "path" in done else book.resolve(done["memory_id"]).path
        wrong = await agent.answer("revise", chunk_id=path, metadata=forged)
        assert "metadata.verified is set by Spellbook" in wrong

    async def second(agent: Agent) -> None:
        await agent.call("revise", chunk_id=path, replace={"old": "Tuesdays", "new": "Fridays"})

    talk(book, first, client_info=Implementation(name="claude-code", version="2.1.0"))
    header = (vault / path).read_text("utf-8")
    assert "generated: {by: claude-code/2.1.0, at: 20" in header
    assert "agent:" not in header
    assert "verified" not in header
    (chunk,) = book.recent(filter={"by": "claude-code"}).notes
    assert note_marks.author(chunk) == ("agent", "Claude Code")
    assert note_marks.of(chunk).trust == "by Claude Code, not reviewed"
    assert book.recent(filter={"tier": "unverified"}).total == 1
    book.keep(path)
    assert [book.recent(filter={"tier": each}).total for each in ("unverified", "human-reviewed")] == [0, 1]
    talk(book, second, client_info=Implementation(name="human:me", version="1\n2"))
    (chunk,) = book.recent(filter={"by": "human-me/1-2"}).notes
    assert note_marks.of(chunk).trust == "changed since you kept it"
    (hit,) = book.find("Fridays").hits
    assert {
        "by": "human-me/1-2",
        "tier": "changed since",
        "status": "stable",
        "stale": "",
    }.items() <= hit.as_dict().items()
    book.keep(path)
    assert note_marks.of(book.resolve(path)).trust == f"kept by you on {dt.date.today()}"


def test_older_notes_are_read_as_they_are(book: Spellbook, vault: Path) -> None:
    """A note with `agent:` is by that agent; it gets `generated` when an agent changes it, and not before."""
    (vault / "old.md").write_text("---\nid: o1\nagent: Codex\n---\n\nThe tide comes at six.\n")
    assert note_marks.author(book.resolve("o1")) == ("agent", "Codex")
    book.revise("o1", replace=("six", "seven"))
    assert "generated" not in (vault / "old.md").read_text()
    token = AGENT.set("claude-code/3")
    book.revise("o1", replace=("seven", "eight"))
    AGENT.reset(token)
    assert note_marks.author(book.resolve("o1")) == ("agent", "Claude Code")


@pytest.mark.parametrize(
    "header",
    [
        "---\nverified: {by: human:me, at: 2026-01-01}\n---\n",
        '---\n"\\u0076erified":\n- by: "\\x68uman:me"\n  at: 2026-01-01\n---\n',
        '+++\ntitle = "x"\n[[verified]]\nby = "human:me"\n+++\n',
        "---\nx: &a [{by: 'human:me'}]\nVerified: *a\n---\n",
    ],
)
def test_what_is_imported_is_confirmed_by_nobody_here(
    book: Spellbook, vault: Path, tmp_path: Path, header: str
) -> None:
    """A stranger's `verified` stays and counts as a machine's until the person keeps the note; --keep-trust ends that."""
    source = tmp_path / "theirs"
    source.mkdir()
    (source / "a.md").write_text(f"{header}\nThe harbour opens at dawn.\n")
    done = book.import_(source)
    assert "person confirmed it" in done.warnings[0].reason
    (chunk,) = book.show("a.md")
    assert privacy.standing(chunk.meta).tier == "machine-confirmed"
    assert book.recent(filter={"tier": "human-reviewed"}).total == 0
    text = (vault / "a.md").read_text()
    assert (
        text.replace("claimed: verified\n", "").replace('claimed = "verified"\n', "") == (source / "a.md").read_text()
    )
    with pytest.raises(InvalidInput, match="claimed"):
        book.revise("a.md", metadata={"claimed": None})
    book.keep("a.md")
    assert privacy.standing(book.resolve("a.md").meta).tier == "human-reviewed"
    book.import_(source, into="own", keep_trust=True)
    assert privacy.standing(book.resolve("own/a.md").meta).tier == "human-reviewed"


def test_a_claim_that_cannot_be_taken_back_is_not_imported(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """Frontmatter in which no line can be added without changing others is refused, by name."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "a.md").write_text("---\n{verified: {by: human:me}}\n---\n\nx\n")
    with pytest.raises(InvalidInput, match=r"a\.md: it says that a person confirmed it"):
        book.import_(tmp_path / "theirs")
    assert not [*vault.glob("*.md")]


def test_merged_notes_are_not_kept_by_their_parts(book: Spellbook, vault: Path) -> None:
    """A note that took another in has its own `verified` alone; git's merge takes the later `generated`."""
    kept = "---\nverified: [{by: human:me, at: 2026-01-01}]\n---\n\n"
    (vault / "a.md").write_text("---\ngenerated: {by: x/1, at: 2026-01-01}\n---\n\nThe tide comes at six.\n")
    (vault / "b.md").write_text(f"{kept}The tide comes at six. It goes at noon.\n")
    book.merge("a.md", "b.md", keep="both", apply=True)
    (left,) = [path for path in ("a.md", "b.md") if (vault / path).exists()]
    standing = privacy.standing(book.resolve(left).meta, book.resolve(left).updated)
    assert standing.tier != "human-reviewed"
    base, ours, theirs = (
        f"---\ngenerated: {{by: {by}, at: 2026-0{at}-01}}\n---\n\nx\n".encode() for by, at in ("a1", "b3", "c2")
    )
    assert b"b, at" in threeway.merge("a.md", base, ours, theirs).data
    assert b"<<<" not in threeway.merge("a.md", base, theirs, ours).data


def test_the_person_has_a_name(vault: Path) -> None:
    """`name` under `[memories]` is who keeps, and a hit names that person."""
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "config.toml").write_text('[memories]\nname = "jin"\n')
    (vault / "a.md").write_text("The tide comes at six.\n")
    with books.open(vault, embedder="hash") as book:
        assert book.keep("a.md").by == "human:jin"
        assert note_marks.of(book.resolve("a.md")).trust == f"kept by jin on {dt.date.today()}"
    (vault / ".spellbook" / "config.toml").write_text('[memories]\nname = "jin: x"\n')
    with pytest.raises(InvalidInput, match=r"memories\.name"):
        books.open(vault, embedder="hash")
