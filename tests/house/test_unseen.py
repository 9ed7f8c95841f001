"""Letters that nobody sees: no answer, page, text of a hook or error shows a note's as they are, at any door."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from mcp.types import TextContent, TextResourceContents
from starlette.routing import Route
from starlette.testclient import TestClient

from spellbook.cli import main
from spellbook.http import admin, api, pages
from spellbook.http.served import Served
from spellbook.library.book import Spellbook
from spellbook.mcp.tool_names import TOOLSETS
from spellbook.text import quoting
from tests.commands import process
from tests.helpers import note_writer
from tests.http.running import asked
from tests.mcp.agent import Agent, talk

UNSEEN = (
    "\x1b\x85\xad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u202e\u2060\u2063\u2066\u206a"
    "\u2800\u3164\ufe00\ufe0e\ufe0f\ufeff\uffa0\ufff9\U00013430\U0001bca0\U0001d159\U0001d173\U000e0001\U000e0041\U000e007f\U000e0100\U000e01ef"
)
"""One or two of each kind: controls, marks of direction, fillers, joiners, variation selectors, tags."""

FILED = "".join(each for each in UNSEEN if each.isprintable() or each > "\x9f") if sys.platform != "win32" else "\u200b"
NAME = "q" + "q".join(UNSEEN)
RAW = re.compile(f"[{UNSEEN}]")

KEPT = {
    "a family, a farmer": "👨\u200d👩\u200d👧 👩🏽\u200d🌾",
    "flags": "🏳\ufe0f\u200d🌈 🏴\u200d☠\ufe0f 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f 🇰🇷",
    "a heart as a picture and as a letter, a key": "❤\ufe0f ❤\ufe0e 1\ufe0f\u20e3",
    "Persian": "می\u200cخواهم، ه\u200d.",
    "Hindi, Sinhala, Malayalam": "नमस्\u200dते क्\u200cष ක්\u200dෂ അവന്\u200d ",
    "Khmer and Thai words": "ភាសា\u200bខ្មែរ ภาษา\u200bไทย",
    "braille, hieroglyphs": "\u2813\u2811\u2800\u2813 \U00013000\U00013430\U00013001",
    "Korean, composed or not": "한글 \u1112\u1161\u11ab\u1100\u1173\u11af ㅋㅋ",
    "German, Hebrew, a tab": "Größe שלום\tx",
}
"""Texts that cannot be read without such letters."""

SPELT = {
    "between Latin letters": "a\u200db\u200cc\u200bd",
    "two in a row": "می\u200c\u200cخ 👩\u200d\u200d🌾 ❤\ufe0f\ufe0f",
    "behind a letter that has no picture": "a\ufe0f 1\ufe0f 한\ufe0f 葛\U000e0100",
    "a joiner that joins nothing": "👩\u200d a",
    "bytes behind a picture": "😀\U000e0141\U000e0142",
    "a flag of nowhere": "🏴\U000e0069\U000e0067\U000e007f",
    "a flag with more behind it": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f\U000e0041",
    "a name of nothing": "\u3164\u115f\u1160\uffa0",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_a_text_needs_is_kept(text: str) -> None:
    """Joiners, variation selectors and tags stand in names and texts where a script or an emoji has no form without."""
    assert quoting.plain(text) == text
    assert quoting.quoted(text) == f"> {text}"
    assert json.loads(quoting.json_of(text)) == text
    assert quoting.json_of(text) == json.dumps(text, ensure_ascii=False)
    assert quoting.flat(text) == " ".join(text.split())


@pytest.mark.parametrize("text", [*SPELT.values(), *UNSEEN], ids=[*SPELT, *map(ascii, UNSEEN)])
def test_what_nobody_sees_is_spelled_out(text: str) -> None:
    """Any other such letter is spelled out in names and in texts, and JSON gives it back."""
    hidden = re.compile(f"[{UNSEEN}\U000e0020-\U000e01ef]+")
    for shown in (quoting.plain(text), quoting.one_line(text), quoting.json_of(text), quoting.exact(f"a{text}b")):
        left = [run for run in hidden.findall(shown) if run not in {"\u200d", "\ufe0f"}]
        assert not left
        assert "\\" in shown
    assert json.loads(quoting.json_of(text)) == text
    assert json.loads(quoting.exact(f"a{text}b")) == f"a{text}b"


def written(text: str) -> str:
    """The text as YAML writes it, in double quotes."""
    return '"' + "".join(f"\\U{ord(each):08x}" if each in UNSEEN else each for each in text) + '"'


@pytest.fixture
def hostile(vault: Path, book: Spellbook) -> Spellbook:
    """A vault whose notes have such letters wherever a note has letters."""
    write, name = note_writer(vault), written(NAME)
    labels = dict.fromkeys(("title", "topic", "description", "agent", "author", "published", "own"), name)
    labels |= dict.fromkeys(("keywords", "tags", "aliases", "questions", "entities", "categories"), f"[{name}]")
    labels["review"] = "2020-01-01"
    text = f"# H {NAME}\n\nharbour {NAME} [[b{NAME}]] #tag{NAME}\n\n## Part {NAME}\n\n| {NAME} |\n|--|\n| `{NAME}` |\n"
    text += f'\n> [!note] {NAME}\n\n- [ ] {NAME}\n\n![[{NAME}.png]] [{NAME}](x{NAME}.md) value="{NAME}"\n'
    place = f"q{'q'.join(FILED)}"
    write(f"in/{place}.md", text, **labels, category=name, source=written(f"https://e.test/{NAME}"), id=written(NAME))
    write(f"b{place}.md", text.replace("harbour", "harbour crane"), **labels, category="project")
    write("said.md", f"## {NAME}\n\n**You:** harbour {NAME}\n", **labels, category="session", trust="agent", scope=name)
    write("page.md", text.replace("harbour", "harbour quay"), **labels, category="article", trust="untrusted")
    write("old.md", "The harbour of old.", **labels, category="decision", status="superseded", confidence=name)
    write(
        "new.md",
        "The new harbour.",
        **labels,
        created=name,
        confidence=name,
        category="decision",
        supersedes=f"[{written(place)}, old]",
        outcome=name,
    )
    write(f"broken{place}.md", f"---\n{NAME}: [\n---\nharbour {NAME}\n")
    book.reindex()
    for path in (f"b{place}.md", "page.md"):
        book.revise(path, append=f"More {NAME}.")
    write("gone.md", text, **labels)
    book.reindex()
    book.erase("gone.md")
    book.move("said.md", f"said{place}.md")
    return book


def found(said: str) -> list[str]:
    """Where a text has such a letter, with a little around it."""
    return [ascii(said[max(0, each.start() - 60) : each.end() + 10]) for each in RAW.finditer(said)][:3]


def test_no_command_shows_them(hostile: Spellbook) -> None:
    """Neither stdout nor stderr of a command, also for a hook, in either language, as text or as JSON."""
    one, other = (chunk.path for chunk in hostile.recent(2, filter={"category": ["project", "article"]}).notes)
    asked = ["search harbour --min-score 0", "find harbour", "memorize harbour --min-score 0", "why harbour", "recent"]
    asked += ["show", "status", "doctor", "log", "undo --dry-run", "reindex --full", "doctor --fix links"]
    named = [["show", one], ["history", one], ["merge", one, other], ["mv", one, f"x{NAME}.md", "--dry-run"]]
    named += [
        ["show", NAME],
        ["show", f"none{NAME}"],
        ["edit", one, "--replace", f"none{NAME}", "x"],
        ["topics", NAME],
        ["snapshot", "list"],
    ]
    named += [["search", "harbour", "--filter", f"topic=x{NAME}"], ["erase", f"x{NAME}"], ["import", f"x{NAME}"]]
    said = {}
    for command in (*(each.split() for each in asked), *named):
        for form, language in (([], "en"), ([], "ko"), (["--json"], "en")):
            done = CliRunner().invoke(
                main, ["--vault", str(hostile.config.vault), *command, *form], env={"SPELLBOOK_LANG": language}
            )
            said[" ".join([*command, *form, language])] = done.output
    for hook in (["--session-start"], ["--prompt", "harbour?"]):  # they end their process
        ended = process("--vault", str(hostile.config.vault), "context", *hook)
        said[hook[0]] = ended.stdout + ended.stderr
    assert {ascii(command)[:60]: where for command, text in said.items() if (where := found(text))} == {}
    assert sum("\\u200b" in text for text in said.values()) > 40


ARGUMENTS: dict[str, Any] = {"query": "harbour", "text": "harbour", "keywords": ["harbour"], "min_score": 0.0}


def test_no_tool_shows_them(hostile: Spellbook) -> None:
    """No answer and no error of a tool of any toolset, in text or JSON, no resource and no prompt."""
    ids = [chunk.note for chunk in hostile.recent(20).notes]

    async def ask(agent: Agent) -> list[tuple[str, str]]:
        said = []
        for tool in await agent.answered():
            assert tool.annotations is not None
            if not tool.annotations.read_only_hint and tool.name not in {"merge", "undo", "revise", "mama_update"}:
                continue
            taken = tool.input_schema["properties"]
            usual = {key: value for key, value in ARGUMENTS.items() if key in taken}
            named = [
                key for key in ("id", "chunk_id", "memory_id", "topic_id", "decision_id", "a", "old") if key in taken
            ]
            cases = [{**usual, **dict.fromkeys(named, id)} for id in (ids if named else [NAME])]
            cases += [{**usual, **dict.fromkeys(named, f"none{NAME}")}] * bool(named)
            for case in cases:
                case |= {"b": ids[-1]} if "b" in taken else {}
                case |= {"dry_run": True} if "dry_run" in taken else {}
                for form in ("text", "json") if "format" in taken else ("",):
                    done = await agent.ask(tool.name, **case, **({"format": form} if form else {}))
                    said.append((tool.name, done.content[0].text))
        for address in ("memory://index", "memory://search?query=harbour", f"memory://{ids[0]}"):
            if agent.server is not None:
                read = (await agent.client.read_resource(address)).contents
                said += [(address, each.text) for each in read if isinstance(each, TextResourceContents)]
        prompt = await agent.client.get_prompt("memory_injection", {"query": "harbour"})
        parts = [each.content for each in prompt.messages]
        said += [("memory_injection", each.text) for each in parts if isinstance(each, TextContent)]
        return said

    said = talk(hostile, ask, toolsets=[*TOOLSETS])
    assert [(tool, where) for tool, text in said if (where := found(text))] == []
    assert sum("200b" in text for _, text in said) > 40


SENT = re.compile(r'(?s)<textarea.*?</textarea>|(?<= )(?:action|for|form|href|hx-get|id|name|value)="[^"]*"')
"""What a form sends and a link leads to, which has to be the letters that the note has."""


def test_no_page_and_no_route_shows_them(hostile: Spellbook) -> None:
    """No page of a reader's or an owner's browser, no answer and no error of the API."""
    ids = [chunk.note for chunk in hostile.recent(20).notes]
    paths = [chunk.path for chunk in hostile.recent(20).notes]
    given = {"query": "harbour", "name": NAME, "id": ids[0], "q": "harbour"}
    routes = [each.path for each in pages.ROUTES if isinstance(each, Route) and "GET" in (each.methods or ())]
    places = [path for path in routes if "{" not in path]
    places += (
        [f"/note/{id}" for id in ids] + [f"/note/{id}?edit={id}" for id in ids] + [f"/history/{id}" for id in paths]
    )
    places += [f"/contents?{key}={NAME}" for key in ("topic", "category", "tag", "folder", "find")]
    places += ["/search?q=harbour&missing=old", f"/search?q=harbour&category=x{NAME}", f"/note/none{NAME}", f"/x{NAME}"]
    with asked(Served(hostile)) as client:
        told = [(place, shown(client, place, {"accept": "text/html"})) for place in places]
        for each in (*api.ENDPOINTS, *admin.ENDPOINTS):
            if each.method == "GET":
                query = {key: value for key, value in given.items() if key in each.taken}
                for id in ids if "{id}" in each.path else [""]:
                    told.append((each.path, client.get(quote(each.path.replace("{id}", id)), params=query).text))
        told.append(("error", client.get(quote(f"/api/notes/none{NAME}")).text))
        told.append(("error", client.get(quote(f"/api/none{NAME}")).text))
        told.append(("fields", client.get("/api/search", params={"query": "x", f"x{NAME}": "y"}).text))
    assert [(place, where) for place, text in told if (where := found(SENT.sub("", text)))] == []
    assert sum("200b" in text for _, text in told) > 20


def shown(client: TestClient, place: str, headers: dict[str, str]) -> str:
    answer = client.get(quote(place, safe="/?=&%"), headers=headers, follow_redirects=True)
    assert answer.status_code < 500, (place, answer.text)
    return answer.text


def test_what_a_form_sends_is_what_the_note_says(hostile: Spellbook) -> None:
    """The editor holds the letters of the note, so that saving it unchanged changes nothing."""
    note = hostile.resolve("page.md")
    with asked(Served(hostile)) as client:
        page = shown(client, f"/note/{note.note}?edit={note.note}", {"accept": "text/html"})
    assert NAME in re.findall("(?s)<textarea.*?</textarea>", page)[0].replace("&#34;", '"')
