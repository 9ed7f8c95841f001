"""A memory that cites code: it is silent while the lines are as they were, and tells what became of them."""

import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.search import cited_code
from spellbook.search.scores import hit_of
from tests.commands import git, spellbook_in
from tests.mcp.agent import Agent, talk
from tests.search.candidates import candidate

CODE = [f"line {number} of the retries" for number in range(1, 41)]
QUESTION = "how often do we retry a payment"
FACT = "We retry a payment three times, then we ask the customer for another card."


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which the tests run."""
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "src" / "retry.py").write_text("\n".join(CODE) + "\n", "utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def asked(book: Spellbook, vault: Path) -> Callable[[], list[Any]]:
    """What a tool, a command and JSON say of the one memory above its text."""

    def ask() -> list[Any]:
        async def conversation(agent: Agent) -> str:
            return await agent.call("search", query=QUESTION)

        by_json = [hit.why.get("cited", []) for hit in book.search(QUESTION).hits]
        return [talk(book, conversation), spellbook_in(vault, "search", QUESTION).output, by_json]

    return ask


def remember(book: Spellbook, *sources: object) -> Any:
    async def conversation(agent: Agent) -> Any:
        return await agent.answer("remember", content=FACT, sources=[*sources])

    return talk(book, conversation)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda file: None, ""),
    "another line": (lambda file: file.write_text("\n".join([*CODE[:5], "new", *CODE[6:]]), "utf-8"), ""),
    "other line ends": (lambda file: file.write_bytes("\r\n".join(CODE).encode()), ""),
    "moved down": (lambda file: file.write_text("\n".join(["#"] * 7 + CODE), "utf-8"), "src/retry.py#L17-L27 now, cited as L10-L20"),
    "moved up": (lambda file: file.write_text("\n".join(CODE[4:]), "utf-8"), "src/retry.py#L6-L16 now, cited as L10-L20"),
    "changed": (lambda file: file.write_text("\n".join(CODE).replace("12", "twelve"), "utf-8"), "src/retry.py changed since it was cited"),
    "emptied": (lambda file: file.write_text("", "utf-8"), "src/retry.py changed since it was cited"),
    "too large": (lambda file: file.write_text("x" * 1_100_000, "utf-8"), "src/retry.py changed since it was cited"),
    "deleted": (lambda file: file.unlink(), "the cited src/retry.py is gone"),
}  # fmt: skip


def test_what_became_of_cited_lines_is_said(book: Spellbook, vault: Path, project: Path, asked: Any) -> None:
    """Nothing while they are equal; else where they are now, that they changed, or that the file is gone."""
    written = remember(book, "src/retry.py#L10-L20")
    head = next(yaml.safe_load_all((vault / written["path"]).read_text("utf-8")))
    digest = sha256("\n".join(CODE[9:20]).encode()).hexdigest()
    assert (head["sources"], head["scope"]) == ([{"resource": "src/retry.py#L10-L20", "sha256": digest}], "shop")
    file = project / "src" / "retry.py"
    cited_then = file.read_bytes()
    for change, (make, remark) in CHANGES.items():
        file.write_bytes(cited_then)
        make(file)
        by_tool, by_command, by_json = asked()
        for answer in (by_tool, by_command):
            assert FACT in answer, change
            assert remark in answer, change
            assert bool(remark) == ("retry.py" in answer.replace(FACT, "")), change
        assert by_json == [[remark] if remark else []], change


def test_only_its_project_is_looked_at(
    book: Spellbook, vault: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worktree of the project compares too; in another project, and outside of one, nothing is said."""
    (project / ".git").rmdir()
    git(project, "init", "-q")
    git(project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
    remember(book, "src/retry.py#L10-L20")
    git(project, "worktree", "add", "-q", tmp_path / "feature")
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    for place, remark in (
        (tmp_path / "feature", ["the cited src/retry.py is gone"]),
        (other, []),
        (tmp_path, []),
        (project, []),
    ):
        monkeypatch.chdir(place)
        with books.open(vault, embedder="hash") as opened:
            assert [hit.why.get("cited", []) for hit in opened.search(QUESTION).hits] == [remark]


def test_bad_paths_are_refused(book: Spellbook, vault: Path, project: Path, tmp_path: Path) -> None:
    """
    No path leads out of the project, by name or by a link; lines that are not there, folders and large files are refused.
    A note that names such a path is not followed when it is recalled.
    """
    secret = tmp_path / "secret.txt"
    secret.write_text("a\nb\n", "utf-8")
    bad = [str(secret), "../secret.txt", "src/../../secret.txt", "~/secret.txt", "C:/secret.txt", "src\\retry.py", "/etc/hosts",
           "src/retry.py#L39-L41", "src/retry.py#L0", "src/retry.py#L5-L4", "src/retry.py#anchor", "src", "none.py", "a\0b"]  # fmt: skip
    if os.name != "nt":
        (project / "link.txt").symlink_to(secret)
        (project / "out").symlink_to(tmp_path)
        os.mkfifo(project / "pipe")
        bad += ["link.txt", "out/secret.txt#L1", "pipe"]
    for path in bad:
        assert "INVALID" in remember(book, path).split(":")[0], path
    assert not list(vault.glob("**/*.md"))
    note = yaml.safe_dump({"scope": "shop", "sources": [{"resource": path, "sha256": "0" * 64} for path in bad[:20]]})
    (vault / "evil.md").write_text(f"---\n{note}---\n{FACT}\n", "utf-8")
    book.reindex()
    answer = book.search(QUESTION)
    said = (answer.hits or answer.closest)[0].why.get("cited", [])
    assert not [line for line in said if "secret" in line and "is gone" not in line]


def test_addresses_and_whole_files(book: Spellbook, vault: Path, project: Path) -> None:
    """A whole file may be cited, and a file of a link within the project; an address is kept as it is."""
    done = book.memories.remember(
        FACT, sources=[{"resource": "src/retry.py", "author": "Mina"}, "https://example.com/a#b"]
    )
    head = next(yaml.safe_load_all((vault / done["path"]).read_text("utf-8")))
    assert [each.get("author") for each in head["sources"]] == ["Mina", None]
    assert [len(each.get("sha256", "")) for each in head["sources"]] == [64, 0]
    assert [hit.why.get("cited") for hit in book.search(QUESTION).hits] == [None]
    (project / "src" / "retry.py").write_text("other\n", "utf-8")
    assert [hit.why.get("cited") for hit in book.search(QUESTION).hits] == [["src/retry.py changed since it was cited"]]


def test_comparing_costs_little(project: Path) -> None:
    """A hit that cites lines of a file of 600 lines, which moved to its end, costs less than 2 ms of processor time."""
    file = project / "src" / "retry.py"
    sources, _ = cited_code.cite(["src/retry.py#L10-L30"], {})
    costs, hit = [], hit_of(candidate(sources=sources, scope="shop"))
    for number in range(20):
        file.write_text("\n".join([f"{number}"] * 570 + CODE), "utf-8")
        began = time.process_time()
        hits = cited_code.compared([hit], {"shop": "shop"})
        costs.append(time.process_time() - began)
        assert hits[0].why["cited"] == ["src/retry.py#L580-L600 now, cited as L10-L30"]
    assert sorted(costs)[10] < 0.02
