"""Tombstones: what a person took back stays away, through whichever door it would come again."""

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spellbook.capture import jobs
from spellbook.capture.ledger import Ledger
from spellbook.library.book import Spellbook
from spellbook.settings import paths
from spellbook.system.errors import InvalidInput
from tests.capture.transcripts import claude
from tests.capture.transcripts import talk as exchanges
from tests.doors import World
from tests.helpers import PATIENCE

OURS = "Mira's brother mends tower clocks in Dorrenfeld."
OTHER = "The ferry to Lissavik leaves pier nine at dawn."
KEPT = "# Journal\n\nWe walked along the river for an hour.\n"


@pytest.fixture
def world(book: Spellbook, vault: Path, home: Path) -> World:
    (vault / "journal.md").write_text(KEPT, "utf-8")
    return World.of(book, home)


def _folder(world: World, text: str) -> Path:
    source = world.home / "incoming"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    (source / f"{text[:5].strip()}.md").write_text(f"# Family\n\n{text}\n", "utf-8")
    return source


def _export(world: World, text: str) -> None:
    folder = world.book.config.snapshot_folder / "exports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "old.md").write_text(f"# Family\n\n{text}\n", "utf-8")


def _imported_by_tool(world: World, text: str) -> Any:
    _export(world, text)
    return world.tool(("import", {"file_path": "old.md", "dry_run": False}))


def _imported_over_http(world: World, text: str) -> Any:
    _export(world, text)
    job = world.request("POST", "/api/import", file="old.md")["job"]
    return world.served.jobs.wait(job["id"], PATIENCE).as_dict()


def _session(text: str) -> dict[str, object]:
    return {"chunk": {"text": text, "metadata": {"topic": "family", "keywords": ["Mira"]}}, "session_id": _id}


def _id(answers: list[Any]) -> str:
    return str(answers[0]["session_id"])


def _captured(world: World, text: str) -> list[object]:
    ledger = Ledger(str(world.vault.resolve()))
    ledger.turn(True, world.vault)
    place = claude(world.home, f"{len(text):08}-2222-4333-8444-555555555555")
    place.write_bytes(
        b"".join(
            exchanges((text, "Noted."), ("Thanks, please look at the second file in the folder now.", "It is fine."))
        )
    )
    jobs.capture(world.book.index, ledger, str(place), is_over=True)
    world.book.refresh(whole=True)
    return [*ledger.all("erased").values()]


def _page(world: World, text: str, **more: str) -> str:
    headers = {"accept": "text/html", "origin": "http://localhost:17950"}
    return world.api.post("/do/new", data={"text": text, "topic": "family", **more}, headers=headers).text


Door = Callable[[World, str], Any]
DOORS: dict[str, tuple[Door, str]] = {
    "remember": (lambda w, text: w.tool(("remember", {"content": text})), "The person erased this on"),
    "remember in a title": (lambda w, text: w.tool(("remember", {"content": f"So {text[:4]} says above.", "title": text})), "The person"),
    "remember as a heading": (lambda w, text: w.tool(("remember", {"content": f"# {text}\n\nSo."})), "The person erased"),
    "scribe": (lambda w, text: w.tool(("rest", {}), ("scribe", _session(text)), ("rest_end", {"session_id": _id})), "The person"),
    "scribe_chunk": (lambda w, text: w.tool(("rest", {}), ("scribe_chunk", _session(text))), "The person erased"),
    "revise": (lambda w, text: w.tool(("revise", {"chunk_id": "journal", "append": text})), "The person erased"),
    "revise in metadata": (lambda w, text: w.tool(("revise", {"chunk_id": "journal", "metadata": {"description": text}})), "The person"),
    "article": (lambda w, text: w.tool(("save", {"source": "talk", "categories": ["family"], "text": text})), "The person"),
    "decision": (lambda w, text: w.tool(("mama_save", {"type": "decision", "topic": "family", "decision": text})), "The person"),
    "checkpoint": (lambda w, text: w.tool(("mama_save", {"type": "checkpoint", "summary": text})), "The person erased"),
    "import by a tool": (_imported_by_tool, "old.md"),
    "add": (lambda w, text: w.command("add", text), "You erased this on"),
    "scribe by command": (lambda w, text: w.command("scribe", "-", "--topic", "x", "-k", "y", stdin=text), "You erased"),
    "edit": (lambda w, text: w.command("edit", "journal", "-", "--append", stdin=text), "You erased this on"),
    "save": (lambda w, text: w.command("save", "talk", "--category", "x", "--text", "-", stdin=text), "You erased"),
    "import": (lambda w, text: w.command("import", _folder(w, text)), "erased here before, left out"),
    "POST": (lambda w, text: w.request("POST", "/api/notes", text=text, metadata={"topic": "family"}), "You erased this on"),
    "PATCH": (lambda w, text: w.request("PATCH", "/api/notes/journal", append=text), "You erased this on"),
    "import over HTTP": (_imported_over_http, "old.md"),
    "a page": (_page, "You erased this on"),
    "capture": (_captured, "1"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOORS)
def test_what_was_erased_comes_back_through_no_door(world: World, name: str) -> None:
    """Each door that writes takes another text, and refuses what a person erased, says so, and leaves no vector of it."""
    door, reason = DOORS[name]
    first = door(world, OTHER)
    assert world.holds(OTHER), first
    world.command("add", OURS)
    world.command("forget", _path_of(world), "--hard", "--yes")
    assert not world.holds(OURS)
    before = (world.vault / "journal.md").read_bytes()
    vectors = world.book.index.catalog.sizes()
    answer = door(world, OURS)
    assert not world.holds(OURS)
    assert reason in (answer if isinstance(answer, str) else json.dumps(answer))
    assert (world.vault / "journal.md").read_bytes() == before
    assert world.book.index.catalog.sizes().get("vectors") == vectors.get("vectors")


def _path_of(world: World) -> str:
    return world.files(OURS.rstrip(".").rpartition(" ")[2])[0]


def test_an_undo_takes_the_tombstone_away(world: World) -> None:
    """
    The undo of an erasure brings the text back and takes its tombstone away; so does a person's restore from the trash.
    An agent can neither undo nor restore what a person erased, but what agents erased.
    """
    world.command("add", OURS)
    path = _path_of(world)
    world.command("forget", path)
    entry = world.book.log(1)[0].id
    refused = world.tool(("undo", {"entry": entry}), ("restore", {"name": path}), ("remember", {"content": OURS}))
    assert ["The person erased this on" in answer for answer in refused] == [True, True, True]
    assert not world.holds(OURS)
    assert world.book.log(1)[0].id == entry
    world.command("undo", str(entry))
    assert world.holds(OURS)
    (world.vault / path).unlink()
    assert world.tool(("remember", {"content": OURS}))[0]["memory_id"]
    path = _path_of(world)
    world.command("forget", path)
    world.command("forget", path, "--restore")
    (world.vault / path).unlink()
    written = world.tool(("remember", {"content": OURS}))[0]
    world.tool(("forget", {"memory_id": written["memory_id"]}), ("undo", {}))
    assert world.holds(OURS)


def test_who_may_force(world: World) -> None:
    """
    What an agent forgot is refused with its name, until force; a person's force writes anything, and takes the tombstone
    away; an agent's force does nothing over what a person erased, though an agent erased it too.
    """
    first = world.tool(("remember", {"content": OURS}))[0]
    gone, again, forced = world.tool(
        ("forget", {"memory_id": first["memory_id"]}),
        ("remember", {"content": OURS}),
        ("remember", {"content": OURS, "force": True}),
    )
    assert gone["success"]
    assert " erased this on 20" in again
    assert "force=true" in again
    assert "The person" not in again
    assert forced["memory_id"]
    assert world.holds(OURS)
    world.command("forget", _path_of(world))
    assert "The person erased" in world.tool(("remember", {"content": OURS, "force": True}))[0]
    assert not world.holds(OURS)
    assert "You erased this" in world.command("add", OURS)
    world.command("add", OURS, "--force")
    assert world.holds(OURS)
    world.tool(("forget", {"memory_id": _path_of(world)}))
    [anyway] = re.findall(r'name="anyway" value="(\w+)"', _page(world, OURS))
    _page(world, OURS, anyway=anyway)
    assert world.holds(OURS)
    world.command("forget", _path_of(world))
    world.command("add", OTHER)
    assert "The person erased" in world.tool(("remember", {"content": OURS, "force": True}))[0]


WRITTEN = {
    "the same": OURS,
    "another case": OURS.upper(),
    "blanks": OURS.replace(" ", "   \n "),
    "an item": f"- [ ] **{OURS}**",
    "a quotation": f"> {OURS}\n",
    "look-alikes": OURS.replace("o", "\u043e").replace("e", "\u0435"),
    "wide letters": OURS.replace("Mira", "\uff2d\uff49\uff52\uff41"),
    "unseen letters": OURS.replace("t", "t\u200b").replace("m", "\u00adm"),
    "no marks": OURS.replace("'", " ").rstrip("."),
    "a short remark": f"{OURS} Yes.",
    "a hidden remark": f"{OURS} <!-- and much more that nobody sees in this note -->",
}


def test_a_tombstone_is_of_a_value(book: Spellbook) -> None:
    """Another way of writing the same is refused; one with two more sentences, a paraphrase and a part are not."""
    book.erase(book.scribe({"text": OURS, "metadata": {}}, labels="derived").written[0].path)
    for text in WRITTEN.values():
        with pytest.raises(InvalidInput, match="You erased this on"):
            book.scribe({"text": text, "metadata": {}}, labels="derived")
    more = f"{OURS} He came by train last week. He leaves on the second Sunday."
    for text in ("In Dorrenfeld a brother of hers repairs clocks.", "Mira's brother", more):
        assert book.scribe({"text": text, "metadata": {}}, labels="derived").written


def test_what_leaves_no_tombstone(world: World) -> None:
    """
    A text without a sentence that can be known again leaves none, and the erasing says so; nor do a merge, a move, a
    revision, the tidying of working memories, an undo, and the change of a section that keeps its text.
    """
    assert "long enough" in world.command("forget", world.command("add", "Ostrander Vey").split()[0])
    stones = Path(paths.tombstones(str(world.vault.resolve())))
    world.book.erase(world.book.scribe({"text": "So it is", "metadata": {}}, labels="derived").written[0].path)
    path = world.book.scribe({"text": OURS, "metadata": {"type": "working"}}, labels="derived").written[0].path
    world.book.revise(path, OTHER)
    world.book.revise(path, OURS)
    world.book.undo()
    world.book.undo()
    moved = "family/clocks.md"
    world.book.move(path, moved)
    world.book.forget_working(0)
    assert not world.holds(OURS)
    assert world.tool(("remember", {"content": OURS}))[0]["memory_id"]
    assert stones.stat().st_size < 100_000


def test_unreadable_tombstones_stop_agents_alone(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """If nobody can know what was erased, an agent writes nothing, and hears why; a person writes, and hears of it too."""
    world.command("add", OURS)
    world.command("forget", _path_of(world))
    stones = Path(paths.tombstones(str(world.vault.resolve())))
    whole = stones.read_bytes()
    if stones.stat().st_mode & 0o777 != 0o600:
        assert os.name == "nt"
    for data in (b"", b"no database at all" * 300, whole[:4096] + bytes(len(whole) - 4096)):
        stones.write_bytes(data)
        answer = world.tool(("remember", {"content": OTHER}))[0]
        assert "what was erased before cannot be read" in answer
        assert not world.holds(OTHER)
        said = world.command("add", f"{OTHER} It is blue, number {len(data)}.", "--force")
        assert "cannot be read" in said
        [written] = [note.path for note in world.book.recent(9).notes if OTHER in note.text]
        world.command("forget", written)
        assert stones.read_bytes() == data
    stones.write_bytes(whole)
    assert "The person erased" in world.tool(("remember", {"content": OURS}))[0]
    assert world.tool(("remember", {"content": OTHER}))[0]["memory_id"]


def test_snapshots_and_files_of_a_person(world: World) -> None:
    """
    A snapshot brings all back but what was erased since, which it names. What a person writes into a file, or git
    brings, stays, and `status` and `doctor` name it, with the line ends of Windows, too.
    """
    world.command("add", OURS)
    world.command("add", OTHER)
    ours = _path_of(world)
    world.book.snapshots.create()
    world.command("forget", ours, "--hard", "--yes")
    other = next(file for file in world.vault.rglob("*.md") if "Lissavik" in file.read_text("utf-8"))
    other.unlink()
    said = world.command("snapshot", "restore", "latest", "--yes")
    assert "erased since, left out" in said
    assert ours in said
    assert world.holds(OTHER)
    assert not world.holds(OURS)
    assert "it holds what was erased before" not in world.command("status")
    (world.vault / "again.md").write_text(f"# Clocks\n\n{OURS}\n", "utf-8", newline="\r\n")
    world.command("reindex")
    assert "again.md: it holds what was erased before" in world.command("status")
    assert "again.md: it holds what was erased before" in world.command("doctor")
    assert [row["path"] for row in world.request("GET", "/api/status")["faults"]] == ["again.md"]
    os.utime(world.vault / "again.md", (10**9, 10**9))  # one that was there before, as a copy that was kept
    world.command("reindex")
    assert "erased before" not in world.command("status")


def test_a_broken_note_does_not_let_it_in(world: World) -> None:
    """Nor does a note that cannot be read open the way to its place, for an import that overwrites it or a restore."""
    world.command("add", OURS)
    path = _path_of(world)
    taken = world.book.snapshots.create()
    (source := world.home / "incoming" / path).parent.mkdir(parents=True)
    shutil.copyfile(world.vault / path, source)
    world.command("forget", path)
    (world.vault / path).write_bytes(b"\xff broken")
    assert world.book.import_(world.home / "incoming", on_conflict="overwrite").erased == [path]
    assert world.book.restore_snapshot(taken.name).erased == (path,)
    assert (world.vault / path).read_bytes() == b"\xff broken"


def test_the_vault_alone_tells_no_secret(world: World) -> None:
    """
    Of a sentence with four unknown digits, neither the vault nor the state folder has anything to try them by: no text,
    no hash, no key. All tombstones are in one file of the data folder; it has no text either, and no path.
    """
    secret = "The safe behind the clock opens with 4821 today."
    path = world.book.scribe({"text": secret, "metadata": {"id": "safe"}}, labels="derived").written[0].path
    world.book.erase(path, hard=True)
    stones = Path(paths.tombstones(str(world.vault.resolve())))
    database = sqlite3.connect(stones)
    [[key]] = database.execute("SELECT key FROM secret")
    rows = database.execute("SELECT hash, day, note, by FROM stones").fetchall()
    database.close()
    assert rows
    assert all(len(stone) == 32 for stone, *_ in rows)
    places = (world.vault, world.book.config.state)
    held = [file.read_bytes() for place in places for file in place.rglob("*") if file.is_file()]
    for trace in (key, *(stone for stone, *_ in rows)):
        assert not any(trace in data or trace.hex().encode() in data for data in held)
    for data in (*held, stones.read_bytes()):
        assert not any(word in data for word in (b"4821", b"safe behind", path.encode()))
