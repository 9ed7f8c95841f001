"""All doors share a few threads, equal questions that wait for one are answered once, and a write waits for none."""

from __future__ import annotations

import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest

from spellbook.http.app import make
from spellbook.http.served import Queue, Served, in_thread, once, writing
from spellbook.mcp.base import computing, set_waiting, threaded
from tests.helpers import PATIENCE

pytestmark = pytest.mark.anyio
ran: Counter[str] = Counter()
queued: Queue = {}


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the server."""
    return "asyncio"


def answer(question: str) -> tuple[str, int]:
    """An answer that says the how many-th one it is to its question."""
    ran[question] += 1
    if question == "wrong":
        raise ValueError(f"wrong {ran[question]}")
    return question, ran[question]


class Busy:
    """Questions have all threads, until this ends and all that was begun meanwhile with it."""

    async def __aenter__(self) -> Busy:
        ran.clear()
        self.may_end, begun = threading.Event(), threading.Semaphore(0)

        def long() -> None:
            begun.release()
            assert self.may_end.wait(PATIENCE)

        self.group = await anyio.create_task_group().__aenter__()
        for _ in range(int(computing().total_tokens)):
            self.group.start_soon(in_thread, long)
        for _ in range(int(computing().total_tokens)):
            assert await anyio.to_thread.run_sync(begun.acquire, True, PATIENCE)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await anyio.wait_all_tasks_blocked()
        self.may_end.set()
        await self.group.__aexit__(*raised)


async def test_equal_questions_in_the_queue_are_answered_once():
    """
    Those that wait together share a result or an error; another one, or one that comes later, has its own.

    If the first of several is given up, the others are answered.
    """
    done: list[object] = []

    async def ask(question: str) -> None:
        try:
            done.append(await once(queued, question, answer, question))
        except ValueError as error:
            done.append(str(error))

    async with Busy() as busy:
        with anyio.CancelScope() as gone:
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(ask, "a")
                await anyio.wait_all_tasks_blocked()
                for question in ("a", "a", "b", "a", "wrong", "wrong"):
                    busy.group.start_soon(ask, question)
                await anyio.wait_all_tasks_blocked()
                gone.cancel()
        assert not done
    assert Counter(done) == {("a", 1): 3, ("b", 1): 1, "wrong 1": 2}
    await ask("a")
    assert done[-1] == ("a", 2)


async def test_who_sees_the_same_shares_an_answer(book):
    """Equal questions of two tokens that see all are answered once, and that of one that sees less by itself."""
    served = Served(book)
    given = [served.tokens.add("a"), served.tokens.add("b"), served.tokens.add("c", sees="team")]
    statuses: list[int] = []
    transport = httpx.ASGITransport(make(served, live=False))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def ask(token: str) -> None:
            headers = {"authorization": f"Bearer {token}"}
            statuses.append((await client.get("/api/search?q=river", headers=headers)).status_code)

        async with Busy() as busy:
            for token in given:
                busy.group.start_soon(ask, token)
    counts = [reader.meter.read()[0]["search"].count for reader in (book, *book.beside)]
    assert (statuses, counts) == ([200] * 3, [1, 1])


async def test_what_comes_after_the_beginning_is_asked_anew(monkeypatch):
    """
    A question that comes while an equal one is being answered sees what was written since that began.

    An error before a thread was there is not the answer to the next equal question.
    """
    begun, may_end, written = threading.Event(), threading.Event(), ["before"]

    def read() -> list[str]:
        seen = list(written)
        begun.set()
        assert may_end.wait(PATIENCE)
        return seen

    seen: list[list[str]] = []

    async def ask() -> None:
        seen.append(await once(queued, "a", read))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.to_thread.run_sync(begun.wait)
        written.append("since")
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        may_end.set()
    assert sorted(seen) == [["before"], ["before", "since"]]

    async def fails(*_: object) -> None:
        raise RuntimeError("no thread")

    with monkeypatch.context() as patched:
        patched.setattr("spellbook.http.served.in_thread", fails)
        with pytest.raises(RuntimeError, match="no thread"):
            await once(queued, "b", answer, "b")
    ran.clear()
    assert await once(queued, "b", answer, "b") == ("b", 1)


async def test_writes_and_agents_beside_questions():
    """While questions have all threads, a write and a tool that may take long run; one that only reads waits."""
    book: Any = SimpleNamespace(complaint="")

    def tool(name: str) -> str:
        return answer(name)[0]

    async with Busy() as busy:
        with anyio.fail_after(PATIENCE):
            assert await writing(answer, "write") == ("write", 1)
            busy.group.start_soon(threaded(tool, book, computes=True), "reads")
            assert await threaded(tool, book)("long") == "long"
        await anyio.wait_all_tasks_blocked()
        assert ran == {"write": 1, "long": 1}
    assert ran["reads"] == 1


@pytest.mark.parametrize(("is_waiting", "threads"), [(False, 2), (True, 8)])
async def test_more_may_wait_for_other_machines(is_waiting, threads):
    """Where a question waits for a database or a service, more of them are asked at once."""
    set_waiting(is_waiting)
    try:
        assert computing().total_tokens == threads
    finally:
        set_waiting(False)
