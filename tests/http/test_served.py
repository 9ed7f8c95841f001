"""All doors share a few threads, equal questions that wait for one are answered once, and a write waits for none."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest

from spellbook.http.app import make
from spellbook.http.served import Served, in_thread, once, writing
from spellbook.library.book import Spellbook
from spellbook.mcp.base import threaded
from spellbook.mcp.threads import computing, set_waiting
from tests.helpers import PATIENCE

ran: Counter[str] = Counter()


def answer(question: str) -> tuple[str, int]:
    """An answer that says the how many-th one it is to its question."""
    ran[question] += 1
    if question == "wrong":
        raise ValueError(f"wrong {ran[question]}")
    return question, ran[question]


async def busy(meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Run `meanwhile` while questions have all threads; these end when it has."""
    may_end, begun = threading.Event(), threading.Semaphore(0)

    def long() -> None:
        begun.release()
        assert may_end.wait(PATIENCE)

    async with anyio.create_task_group() as group:
        for _ in range(int(computing().total_tokens)):
            group.start_soon(in_thread, long)
        for _ in range(int(computing().total_tokens)):
            assert await anyio.to_thread.run_sync(begun.acquire, True, PATIENCE)
        await meanwhile()
        may_end.set()


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the server."""
    return "asyncio"


@pytest.mark.anyio
async def test_equal_questions_in_the_queue_are_answered_once():
    """Those that wait together share a result or an error; another one, or one that comes later, has its own."""
    ran.clear()
    done: list[object] = []

    async def ask(question: str) -> None:
        try:
            done.append(await once(question, answer, question))
        except ValueError as error:
            done.append(str(error))

    async with anyio.create_task_group() as group:

        async def meanwhile() -> None:
            for question in ("a", "a", "b", "a", "wrong", "wrong"):
                group.start_soon(ask, question)
            await anyio.wait_all_tasks_blocked()
            assert not done

        await busy(meanwhile)
    assert Counter(done) == {("a", 1): 3, ("b", 1): 1, "wrong 1": 2}
    await ask("a")
    assert done[-1] == ("a", 2)


@pytest.mark.anyio
async def test_who_sees_the_same_shares_an_answer(book: Spellbook):
    """Equal questions of two tokens that see all are answered once, and that of one that sees less by itself."""
    served = Served(book)
    given = [served.tokens.add("a"), served.tokens.add("b"), served.tokens.add("c", sees="team")]
    statuses: list[int] = []
    transport = httpx.ASGITransport(make(served, live=False))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def ask(token: str) -> None:
            headers = {"authorization": f"Bearer {token}"}
            statuses.append((await client.get("/api/search?q=river", headers=headers)).status_code)

        async with anyio.create_task_group() as group:

            async def meanwhile() -> None:
                for token in given:
                    group.start_soon(ask, token)
                await anyio.wait_all_tasks_blocked()

            await busy(meanwhile)
    counts = [reader.meter.read()[0]["search"].count for reader in (book, *book.beside)]
    assert (statuses, counts) == ([200] * 3, [1, 1])


@pytest.mark.anyio
async def test_who_goes_away_takes_no_answer_from_others():
    """If the first of several equal questions is given up, the others are answered."""
    ran.clear()
    done: list[object] = []

    async def ask() -> None:
        done.append(await once("a", answer, "a"))

    async with anyio.create_task_group() as group:

        async def meanwhile() -> None:
            async with anyio.create_task_group() as gone:
                gone.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                group.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                gone.cancel_scope.cancel()

        await busy(meanwhile)
    assert done == [("a", 1)]


@pytest.mark.anyio
async def test_what_comes_after_the_beginning_is_asked_anew():
    """A question that comes while an equal one is being answered sees what was written since that began."""
    begun, may_end, written = threading.Event(), threading.Event(), ["before"]

    def read() -> list[str]:
        seen = list(written)
        begun.set()
        assert may_end.wait(PATIENCE)
        return seen

    seen: list[list[str]] = []

    async def ask() -> None:
        seen.append(await once("a", read))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.to_thread.run_sync(begun.wait)
        written.append("since")
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        may_end.set()
    assert sorted(seen) == [["before"], ["before", "since"]]


@pytest.mark.anyio
async def test_a_write_waits_for_no_question():
    """A write runs while questions have all of their threads."""

    async def meanwhile() -> None:
        with anyio.fail_after(PATIENCE):
            assert await writing(answer, "write") == ("write", ran["write"])

    await busy(meanwhile)


@pytest.mark.anyio
async def test_agents_and_browsers_wait_in_one_queue():
    """A tool that only reads waits while questions have all threads; one that may take long does not."""
    ran.clear()

    def tool(name: str) -> str:
        return answer(name)[0]

    book: Any = SimpleNamespace(complaint="")
    async with anyio.create_task_group() as group:

        async def meanwhile() -> None:
            group.start_soon(threaded(tool, book, computes=True), "reads")
            with anyio.fail_after(PATIENCE):
                assert await threaded(tool, book)("long") == "long"
            await anyio.wait_all_tasks_blocked()
            assert ran == {"long": 1}

        await busy(meanwhile)
    assert ran == {"long": 1, "reads": 1}


@pytest.mark.anyio
async def test_a_question_that_never_began_is_asked_anew(monkeypatch):
    """An error before a thread was there is not the answer to the next equal question."""

    async def fails(*_: object) -> None:
        raise RuntimeError("no thread")

    with monkeypatch.context() as patched:
        patched.setattr("spellbook.http.served.in_thread", fails)
        with pytest.raises(RuntimeError, match="no thread"):
            await once("a", answer, "a")
    ran.clear()
    assert await once("a", answer, "a") == ("a", 1)


@pytest.mark.anyio
@pytest.mark.parametrize(("is_waiting", "threads"), [(False, 2), (True, 8)])
async def test_more_may_wait_for_other_machines(is_waiting: bool, threads: int):
    """Where a question waits for a database or a service, more of them are asked at once."""
    set_waiting(is_waiting)
    try:
        assert computing().total_tokens == threads
    finally:
        set_waiting(False)
