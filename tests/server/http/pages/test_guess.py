"""The search page with a language model that guesses further texts."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from spellbook.library import book as books
from spellbook.server.http.app import make
from spellbook.server.http.guard import AccessRules
from spellbook.server.http.served import Served
from tests.guessing import Answer, Model, message, serving

from .conftest import Browser

QUESTION = "인증서는 얼마나 자주 바꾸지"
TYPED = {"hx-request": "true"}


@pytest.fixture
def opened(vault: Path, write_note: Callable[..., Path]) -> Callable[..., object]:
    """Open a dashboard whose vault has a note that only the guess has words of; `token` names what a login sees."""
    write_note("ops/keys.md", "# Rotation\n\nKeys are rotated every 90 days.\n", privacy_scope="public")
    write_note("tea.md", "# Tea\n\nGreen tea steeps for two minutes.\n")

    @contextmanager
    def open_(answer: Answer, language: str = "en", sees: str = "") -> Iterator[tuple[Browser, Model]]:
        with serving(answer) as model, pytest.MonkeyPatch.context() as patch:
            patch.setenv("SPELLBOOK_GUESSER", model.name)
            with books.open(vault, embedder="hash") as book:
                book.reindex()
                served = Served(book)
                app = make(served, AccessRules(is_local=not sees), live=False)
                with TestClient(app, "http://localhost:17950") as client:
                    browser = Browser(client, language)
                    if sees:
                        browser.send("/login", token=served.tokens.add("one", "read", sees))
                    yield browser, model

    return open_


def test_what_was_guessed_is_searched_by_and_shown(opened) -> None:
    """The page finds what the guess says, and shows both texts, escaped."""
    hostile = '<script>alert(1)</script> "onload=x'
    with opened(lambda *_: message(words=hostile)) as (browser, model):
        page = browser.open(f"/search?q={QUESTION}")
        assert "Also asked: Keys are rotated every 90 days. · &lt;script&gt;" in page
        assert "<script>alert" not in page
        assert re.search(r'<article.*?href="/note/[^"]*">(<mark>)?Rotation', page, re.S)
        assert model.questions == [QUESTION]
        # What explains a missing note explains this answer, and asks nobody again.
        assert "<details open>" in browser.open(f"/search?q={QUESTION}&missing=tea.md")
        assert model.questions == [QUESTION]


def test_it_is_said_in_korean(opened) -> None:
    """In Korean too, a failure included."""
    with opened(lambda *_: message(), "ko") as (browser, _):
        assert "함께 찾은 말: Keys are rotated" in browser.open(f"/search?q={QUESTION}")
    with opened(lambda *_: b"{}", "ko") as (browser, _):
        page = browser.open(f"/search?q={QUESTION}")
        assert "추측 없이 찾았습니다: The language model at http://" in page
        assert "요청한 글로 답하지 않았습니다" in page


def test_a_failure_leaves_the_plain_answer(opened) -> None:
    """If the model fails, that is said, and the page has the hits that it has without one."""
    with opened(lambda *_: b"<b>no</b>" * 9) as (browser, model):
        page = browser.open("/search?q=rotated keys")
        assert "Asked without a guess: The language model at http://127.0.0.1" in page
        assert "Rotation" in re.sub("</?mark>", "", page)
        assert model.questions == ["rotated keys"]


def test_nothing_is_sent_while_somebody_types(opened) -> None:
    """A part that a script asks for is the plain answer; it asks for the guess by itself, if it stays for a second."""
    with opened(lambda *_: message()) as (browser, model):
        part = browser.client.get(f"/search?q={QUESTION}", headers=TYPED).text
        assert not model.asked
        assert "Also asked" not in part
        place, waits = re.findall(r'hx-get="([^"]*)" hx-trigger="([^"]*)"', part)[0]
        assert waits == "load delay:1s"
        # What is typed meanwhile replaces it, so that an old answer never comes over a new one.
        assert 'hx-sync="#asking:replace"' in part
        assert '<form id="asking"' in browser.open("/search")
        then = browser.client.get(unescape(place), headers=TYPED).text
        assert "Also asked: Keys are rotated" in then
        assert "hx-trigger" not in then
        assert model.questions == [QUESTION]


def test_only_a_search_by_meaning_and_words_asks(opened) -> None:
    """The other modes take no further texts, so nothing is sent; an empty search neither."""
    with opened(lambda *_: message()) as (browser, model):
        for place in ("/search", "/search?q=%20", "/search?q=x&mode=find", "/search?q=x&mode=memorize"):
            for headers in ({}, TYPED):
                assert 'hx-sync="#asking' not in browser.client.get(place, headers=headers).text
        assert not model.asked


def test_a_limited_token_is_asked_for_too(opened) -> None:
    """Whoever sees public notes alone gets guesses too, and finds nothing else by them."""
    with opened(lambda *_: message("Green tea steeps for two minutes."), sees="public") as (browser, model):
        page = browser.open(f"/search?q={QUESTION}")
        assert "Also asked: Green tea" in page
        assert "tea.md" not in page
        assert model.questions == [QUESTION]


@pytest.mark.slow
def test_nobody_else_waits_for_it(opened) -> None:
    """While searches wait for a slow model, other pages are answered: none of the few computing threads waits."""
    with opened(lambda handler, _: handler.server.over.wait(60) and None) as (browser, model):
        waiting = [threading.Thread(target=browser.open, args=(f"/search?q=q{number}",)) for number in range(4)]
        for each in waiting:
            each.start()
        end = time.monotonic() + 30
        while len(model.asked) < 4:
            assert time.monotonic() < end
            time.sleep(0.01)
        browser.open("/contents")
        assert all(each.is_alive() for each in waiting)
        for each in waiting:
            each.join()


def test_by_default_nobody_is_asked(browser: Browser, full: dict[str, str]) -> None:
    """Without the setting, the page says nothing of a language model."""
    page = browser.open("/search?q=backup") + browser.client.get("/search?q=backup", headers=TYPED).text
    assert 'hx-sync="#asking' not in page
    assert "guess" not in page
