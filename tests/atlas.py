"""
The thirteen steps of a deletion, of the Agent Memory Atlas (neoneye, benchmarks, section 6), through one door.

Each step is done and looked at; nothing is taken for granted. The same steps are a test, and a row of the scorecard.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from spellbook.capture import jobs
from spellbook.capture.ledger import Ledger
from spellbook.index.vectors import follow
from spellbook.library.limited import seen_by
from spellbook.settings import paths
from tests.capture.transcripts import claude
from tests.capture.transcripts import talk as exchanges
from tests.doors import Way, World

TOKEN = "Vantablack-7"
CANARY = f"The dog of the user is named Plumbus {TOKEN}."
QUESTION = "dog of the user named"


def background(world: World) -> None:
    """Run all that runs by itself or once in a while: scans, Chroma, working memories, snapshots, a full index."""
    world.book.reindex(full=True)
    follow.complete(world.book.index)
    world.book.forget_working(0)
    world.book.snapshots.create()
    world.book.snapshots.prune()
    world.book.check()


def refeed(world: World, text: str, number: int = 1) -> None:
    """Give the sources of a memory again: a document, and the transcript of the session in which it was told."""
    source = world.home / f"source-{number}"
    source.mkdir(exist_ok=True)
    (source / f"talk-{number}.md").write_text(f"# Talk\n\n{text}\n", "utf-8")
    world.command("import", source)
    ledger = Ledger(str(world.vault.resolve()))
    ledger.turn(True, world.vault)
    place = claude(world.home, f"{number:08}-2222-4333-8444-555555555555")
    told = ((text, "Noted."), ("Please look at the second file in the folder now.", "It is fine as it is."))
    place.write_bytes(b"".join(exchanges(*told)))
    jobs.capture(world.book.index, ledger, str(place), is_over=True)
    world.book.refresh(whole=True)


def leaks(world: World, token: str) -> set[str]:
    """The names of the places that still give or hold a token: answers of each kind, an export, files."""
    id = "journal"
    answers = {
        "find": world.command("find", token),
        "memorize": world.tool(("memorize", {"query": CANARY, "min_score": 0.0}))[0],
        "contents": world.tool(("get_index", {}))[0],
        "recent": world.command("recent"),
        "related": world.tool(("show", {"id": id}))[0],
        "graph": world.request("GET", "/api/graph/whole"),
        "status": world.command("status", "--verbose"),
        "log": world.request("GET", "/api/log"),
        "pages": world.api.get("/", headers={"accept": "text/html"}).text,
        "json": world.command("export", "-", "--format", "json"),
    }
    found = {name for name, answer in answers.items() if token.casefold() in json.dumps(answer).casefold()}
    data = Path(paths.data(str(world.vault.resolve())))
    for place in (world.vault, world.book.config.state, data):
        files = (file for file in place.rglob("*") if file.is_file())
        found |= {file.name for file in files if token.encode() in file.read_bytes()}
    return found


def deletion(world: World, way: Way) -> Iterator[tuple[str, bool]]:
    """Yield each step in words, and whether it was as it must be; the positive controls are steps 1, 2 and 11."""

    def is_found(token: str = TOKEN) -> bool:
        return token in way.ask(world, QUESTION)

    way.write(world, CANARY)
    yield "1 a fact is written", world.holds(CANARY)
    yield "2 it is found", is_found()
    [path] = world.files(TOKEN)
    world.command("edit", path, "--set", "privacy_scope=team")
    world.tool(("export", {"format": "markdown"}))
    world.book.snapshots.create()
    team = seen_by(world.book, "team")
    is_shared = any(TOKEN in hit.text for hit in team.search(QUESTION, min_score=0.0).hits)
    ids = [chunk.note for chunk in world.book.show(path)]
    way.erase(world, path)
    yield "3 it is erased", not world.holds(CANARY)
    yield "4 it is not found", not is_found()
    refeed(world, CANARY)
    refeed(world, "The cat of the user is named Zephyrine Quasar-9.", 2)
    yield "5 its sources are given again, and others taken", is_found("Quasar-9")
    yield "6 it is not found", not is_found()
    background(world)
    yield "7 everything in the background runs", is_found("Quasar-9")
    yield "8 it is not found", not is_found()
    yield "9 nothing that is derived has it", not leaks(world, TOKEN)
    entries = [each for each in world.book.log(50) if each.verb == "forget"]
    yield (
        "10 the log tells of it, without its text",
        any(trace.path in ids for each in entries for trace in each.traces),
    )
    yield "11 it was shared, exported and kept before", is_shared
    exported = next(iter((world.book.config.snapshot_folder / "exports").glob("*")), None)
    yield "12 the original is erased, and the export that held it", exported is None
    world.command("snapshot", "restore", world.book.snapshots.names()[-1], "--yes")
    world.book.refresh(whole=True)
    is_left = any(TOKEN in hit.text for hit in (*team.search(QUESTION, min_score=0.0).hits, *team.search(CANARY).hits))
    team.close()
    yield "13 neither the others find it, nor does a snapshot bring it", not is_left and not world.holds(CANARY)
