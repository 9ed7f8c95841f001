"""
Documents beside the vault are found, kept up and never written to, and no other folder is read.

`documents_found.tesh` and `documents_named.tesh` say how the tools show them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.memories import project_documentation
from spellbook.settings import config
from spellbook.system.errors import EmbeddingError, InvalidInput, PermissionDenied, VaultNotFound
from tests.helpers import Counting, Failing, Write, note_writer
from tests.mcp.agent import Agent, talk
from tests.trees import state_of

AUTH = """\
# AuthService

Logs people in.

## JWT 토큰 생성

Access tokens are signed with RS256 in `src/auth/jwt.ts`.

### Refresh

A refresh token lasts fourteen days.
"""
MAIL = "# Mail\n\n## Sending\n\nInvoices leave by SES from the worker queue.\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a wiki of two documents, in which the server is started."""
    root = tmp_path / "app"
    write = note_writer(root)
    write("zywiki/services/authService.md", AUTH)
    write("zywiki/services/mail.md", MAIL)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(root))
    return root


@pytest.fixture
def write(project: Path) -> Write:
    """Write a file of the project by its path."""
    return note_writer(project)


def found(book: Spellbook, query: str, path: str = "", **options: Any) -> list[str]:
    """The paths of a search's hits, each once."""
    return list(dict.fromkeys(hit.path for hit in book.wikis.search(query, path, **options).hits))


def documents(book: Spellbook, path: str = "") -> set[str]:
    """The paths of all documents in the index of the wikis, as they are shown."""
    listed = book.wikis.find(path)
    for each in listed:
        each.book.refresh()
    return {
        each.shown(name)
        for each in listed
        for name in each.book.index.catalog.paths(())
        if name.startswith(each.within)
    }


def test_each_search_looks_at_the_folder_first(book: Spellbook, project: Path, write: Write) -> None:
    """
    Where a look is still believed, a search that finds nothing looks once more. Where most documents are gone at once,
    as on another branch, the index follows.
    """
    book.config = replace(book.config, look_seconds=60)
    assert found(book, "kingfisher") == []
    for number in range(30):
        write(f"zywiki/all/{number}.md", f"# Page {number}\n\nkingfisher {number}\n")
    assert found(book, "kingfisher", limit=100)
    shutil.rmtree(project / "zywiki/all")
    book.config = replace(book.config, look_seconds=0)
    answer = book.wikis.search("kingfisher", min_score=0.6)
    assert (answer.hits, answer.index.notes, answer.index.degraded) == ((), 2, False)


# -- nothing is written


def test_nothing_is_written_into_the_folder(book: Spellbook, project: Path, tmp_path: Path) -> None:
    """Searching, indexing and writing through the wiki's book leave every byte and time as it was, and no journal."""
    wiki = project / "zywiki"
    litter = wiki / ".a.md.0123456789abcdef.spellbook-tmp"
    litter.write_text("left by a killed process")
    os.utime(litter, (1, 1))
    before = state_of(wiki)
    found(book, "tokens")
    book.wikis.index(full=True)
    book.wikis.status()
    opened = book.wikis.find()[0].book
    assert isinstance(opened, Spellbook)
    assert not list(opened.config.state.glob("journal*"))
    section = opened.search("RS256").hits[0].id
    for write in (
        lambda: opened.scribe({"text": "x", "metadata": {"topic": "t", "keywords": ["k"]}}),
        lambda: opened.revise(section, "other"),
        lambda: opened.erase("services/mail.md"),
        lambda: opened.erase("services/mail.md", hard=True),
        lambda: opened.move("services/mail.md", "mail.md"),
    ):
        with pytest.raises(PermissionDenied, match="only read"):
            write()
    assert state_of(wiki) == before
    assert [path.name for path in (tmp_path / "state" / "wikis").iterdir()] == [opened.config.state.name]
    assert opened.log() == []


# -- what is read

READ = ("a.md", "B.MD", "deep/er/c.md", "builds/a.md", "build.md", "deep/root-only/a.md")
LEFT_OUT = (
    *("code.py", "page.txt", ".hidden/a.md", ".a.md", "node_modules/x/README.md", "deep/vendor/a.md", "deep/dist/a.md"),
    *("build/a.md", "target/a.md", "mine/a.md", "root-only/a.md"),
)


def test_what_is_read(book: Spellbook, write: Write) -> None:
    """Markdown alone, less what the ignore files leave out as in git, dependencies, builds and dot-folders."""
    for path in READ + LEFT_OUT:
        write(f"zywiki/{path}", f"# {path}\n")
    write("zywiki/.spellbookignore", "mine/\n")
    write("zywiki/.gitignore", "# comment\n/root-only/\n!\n")
    given = {"zywiki/services/authService.md", "zywiki/services/mail.md"}
    assert documents(book) - given == {f"zywiki/{path}" for path in READ}
    write("zywiki/.gitignore", "")
    assert "zywiki/root-only/a.md" in documents(book)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_gitignore_is_read_as_git_reads_it(vault: Path, project: Path, write: Write) -> None:
    """
    Of these nested files with negations, git and the wiki leave out the same. In a repository the files above the wiki
    leave out what they leave out for git; without one they are not read; a wiki that the person named is read anyway.
    """
    names = ("a", "tmp-a", "keep", "x y", "한글")
    folders = ("", "one/", "one/two/", "out/", "out/in/", "한글 폴더/", "white/", "white/a/", "white/in/b/")
    for folder in folders:
        for name in names:
            write(f"packages/docs/{folder}{name}.md", f"# {folder}{name}\n")
    shutil.rmtree(project / "zywiki")
    write(".gitignore", "/packages/docs/out/in/a.md\n**/b/*\n")
    write("packages/.gitignore", "/docs/keep.md\n!docs/white/in/b/keep.md\n")
    write("packages/docs/.gitignore", "tmp-*\n!one/tmp-a.md\nout/*\n!out/in/\n한글.md\n/x\\ y.md\n")
    write("packages/docs/one/.gitignore", "*\n!keep.md\n!two/\n")
    write("packages/docs/one/two/.gitignore", "!a.md\n")
    write("packages/docs/white/.gitignore", "*\n!*/\n!keep.md\n!/in/**\n")
    write("packages/docs/out/in/.gitignore", "**/keep.md\n")
    wiki = project / "packages/docs"
    run = ["git", "-c", "core.quotePath=false", "ls-files", "--others", "--exclude-standard"]

    def listed(repository: Path) -> set[str]:
        subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
        done = subprocess.run(run, cwd=wiki, check=True, capture_output=True, encoding="utf-8").stdout
        return {f"docs/{path}" for path in done.splitlines() if path.endswith(".md")}

    with books.open(vault, embedder="hash", wikis=[wiki]) as book:
        expected = listed(wiki)
        assert 5 < len(expected) < len(names) * len(folders)
        assert documents(book) == expected
        shutil.rmtree(wiki / ".git")
        assert documents(book) == expected
        outside = listed(project)
        assert outside < expected
        assert documents(book) == outside
        write(".gitignore", "/packages/\ndocs\n/packages/docs/\n")
        write("packages/.gitignore", "")
        assert documents(book) == expected, "a person named the wiki"


@pytest.mark.skipif(os.name == "nt", reason="links and FIFOs of Unix")
def test_links_and_fifos_in_a_wiki(book: Spellbook, project: Path, tmp_path: Path) -> None:
    """
    A FIFO, linked folders and links out of the wiki are no documents and hold nothing up; status counts them. With an
    ignore file that cannot be read, search goes on from the index as it was and says which file to mend.
    """
    wiki = project / "zywiki"
    (tmp_path / "secret.md").write_text("# Secret\n\nthe heron's key\n")
    os.mkfifo(wiki / "pipe.md")
    links = {"round": wiki, "loop.md": wiki / "loop.md", "out.md": tmp_path / "secret.md", "outside": tmp_path}
    for name, target in links.items():
        (wiki / name).symlink_to(target)
    assert documents(book) == {"zywiki/services/authService.md", "zywiki/services/mail.md"}
    assert found(book, '"heron"') == []
    assert book.wikis.status()["faults"] == 5
    assert {each["path"] for each in book.wikis.index()["failed"]} == {f"zywiki/{name}" for name in (*links, "pipe.md")}
    os.mkfifo(wiki / ".gitignore")
    answer = book.wikis.search("tokens")
    assert answer.hits
    assert answer.index.degraded
    assert str(wiki / ".gitignore") in answer.index.reason
    with pytest.raises(InvalidInput, match=r"\.gitignore: cannot be read"):
        book.wikis.index()


def test_a_vault_inside_a_wiki_is_left_out(project: Path, write: Write) -> None:
    """
    The vault's notes have an index of their own, with its scopes; a wiki around it does not hold them. A server with a
    scope finds all documents of a wiki, whatever these say of a scope.
    """
    write("memory/own.md", "# Own\n\nthe heron's nest\n")
    write("zywiki/scopes/other/x.md", "# X\n\nheron\n", scope="other")
    with books.open(project / "memory", embedder="hash", wikis=[project], scope="acme") as book:
        names = ("scopes/other/x.md", "services/authService.md", "services/mail.md")
        assert documents(book) == {f"app/zywiki/{name}" for name in names}
        assert found(book, "heron") == ["app/zywiki/scopes/other/x.md"]


# -- which folder


def test_which_folder_is_the_wiki(
    vault: Path, project: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An argument goes before SPELLBOOK_WIKI, before zywiki/, before docs/ of the client's project or git repository."""
    write("docs/page.md", "# Page\n\nheron\n")
    for name in ("one", "two"):
        note_writer(tmp_path)(f"{name}/page.md", "# Page\n\nheron\n")

    def places(*given: Path | str) -> set[str]:
        with books.open(vault, embedder="hash", wikis=given) as book:
            return {str(each.root) for each in book.wikis.find()}

    assert places() == {str(project / "zywiki")}
    monkeypatch.setenv("SPELLBOOK_WIKI", os.pathsep.join([str(tmp_path / "one"), "", str(tmp_path / "two")]))
    assert places() == {str(tmp_path / "one"), str(tmp_path / "two")}
    assert places(tmp_path / "two") == {str(tmp_path / "two")}
    monkeypatch.delenv("SPELLBOOK_WIKI")
    shutil.rmtree(project / "zywiki")
    assert places() == {str(project / "docs")}
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    (project / ".git").mkdir()
    monkeypatch.chdir(project / "docs")
    assert places() == {str(project / "docs")}
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VaultNotFound, match=r"in no project.*--wiki"):
        places()
    (tmp_path / "zywiki").mkdir()
    assert places() == {str(tmp_path / "zywiki")}, "the seed's ./zywiki needs no git"


def test_a_folder_in_a_wiki_needs_no_second_index(book: Spellbook, project: Path, tmp_path: Path) -> None:
    """A folder of the wiki is a filter on its index, however it is named."""
    folder = "zywiki/services/a[b]" if os.name == "nt" else "zywiki/services/a[b]*"
    note_writer(project)(f"{folder}/x.md", "# X\n\ntokens of the heron\n")
    for path in (folder, str(project / folder), f"./zywiki/../{folder}/"):
        assert documents(book, path) == {f"{folder}/x.md"}
        assert found(book, "tokens", path) == [f"{folder}/x.md"]
        assert found(book, "zzqx unrelated", path) == []
        made = book.wikis.index(path)
        assert (made["documents"], made["indexed"]) == (1, 1)
    assert len(list((tmp_path / "state" / "wikis").iterdir())) == 1


def test_a_wiki_that_the_vault_leaves_out(vault: Path, write_note: Write) -> None:
    """One in a folder that the vault's ignore rules leave out has an index of its own, since the person named it."""
    write_note("private.md", "# Private\n\nRS256 tokens of the heron\n")
    write_note("generated/page.md", "# Page\n\nheron\n")
    write_note(".spellbookignore", "generated/\n")
    with books.open(vault, embedder="hash", wikis=[vault / "generated"]) as book:
        assert found(book, "heron") == ["generated/page.md"]
        assert {hit.path for hit in book.search("heron").hits} == {"private.md"}


@pytest.mark.skipif(os.name == "nt", reason="links of Unix")
def test_which_folders_may_be_read(book: Spellbook, project: Path, tmp_path: Path) -> None:
    """Wikis, the project and the vault, links resolved, without dot-folders; a refusal tells nothing of what is there."""
    for folder in (
        "elsewhere/docs",
        "app/.secrets",
        "app/src/manual",
        "vault/.trash",
        "app/zywiki-more",
        "vault/notes",
    ):
        note_writer(tmp_path)(f"{folder}/x.md", "# X\n\nheron\n")
    (project / "leads-out").symlink_to(tmp_path / "elsewhere")
    (project / "round").symlink_to(project / "round")
    (project / "zywiki" / "hidden").symlink_to(project / ".secrets")
    os.mkfifo(project / "pipe")
    denied = (
        *("/etc", "/", "~", "..", "../elsewhere/docs", "../elsewhere/nowhere", "zywiki/../../elsewhere", "leads-out"),
        *("leads-out/docs", ".secrets", "zywiki/hidden", "{}/vault/.trash", "{}/state", "{}/app-twin"),
    )
    absent = ("nowhere", "round", "zywiki/services/mail.md", "pipe", "services")
    allowed = ("src/manual", "zywiki-more", "notes", "{}/vault/notes", "zywiki/services", ".")
    codes = {
        **dict.fromkeys(denied, PermissionDenied.code),
        **dict.fromkeys(absent, VaultNotFound.code),
        **{"a\0b": InvalidInput.code, **dict.fromkeys(allowed, "")},
    }

    async def conversation(agent: Agent) -> None:
        for path, code in codes.items():
            named = path.replace("{}", str(tmp_path))
            for tool, arguments in (("wiki_search", {"query": "heron"}), ("wiki_index", {}), ("wiki_status", {})):
                if code:
                    assert f"{code}: " in await agent.refused(tool, path=named, **arguments)
                else:
                    await agent.call(tool, path=named, **arguments)

    talk(book, conversation, toolsets=["wiki"])


@pytest.mark.skipif(os.name == "nt", reason="links of Unix")
def test_docs_that_lead_out_of_the_project_are_refused(book: Spellbook, project: Path, tmp_path: Path) -> None:
    """
    A repository cannot have a folder of the person read by a link named docs; the person can name it. Nor can a vault
    that somebody hands you.
    """
    shutil.rmtree(project / "zywiki")
    note_writer(tmp_path)("elsewhere/x.md", "# X\n\nheron\n")
    (project / "docs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionDenied, match=r"out of the project.*--wiki"):
        book.wikis.search("heron")
    with books.open(book.config.vault, embedder="hash", wikis=[project / "docs"]) as named:
        assert found(named, "heron") == ["docs/x.md"]
    note_writer(book.config.vault)(".spellbook/config.toml", f"wikis = ['{tmp_path.as_posix()}']\n")
    with pytest.raises(InvalidInput, match="no setting 'wikis'"):
        config.load(book.config.vault)


def test_open_wikis_are_bounded(book: Spellbook, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client cannot open folders without end."""
    monkeypatch.setattr(project_documentation, "MOST_OPEN", 2)
    for number in range(3):
        write(f"src/{number}/x.md", "# X\n")
    for number in (0, 1, 0):
        book.wikis.status(f"src/{number}")
    with pytest.raises(InvalidInput, match="holds the others"):
        book.wikis.status("src/2")


def test_a_folder_that_vanishes_is_told(book: Spellbook, project: Path) -> None:
    """A wiki that is gone is an error that names it; when it is back it is found again."""
    found(book, "tokens")
    (project / "zywiki").rename(project / "away")
    for call in (lambda: book.wikis.search("tokens"), lambda: book.wikis.index(), lambda: book.wikis.status()):
        with pytest.raises(VaultNotFound, match="neither zywiki nor docs"):
            call()
    with (
        books.open(book.config.vault, embedder="hash", wikis=[project / "zywiki"]) as named,
        pytest.raises(VaultNotFound, match="does not exist"),
    ):
        named.wikis.search("tokens")
    (project / "away").rename(project / "zywiki")
    assert found(book, "tokens")


# -- models


def test_one_model_is_in_memory(vault: Path, project: Path) -> None:
    """
    The wiki has the vault's embedder, second encoder and reranker, also after the vault went over to another. What it
    holds in memory is freed with the vault's, and the next search has it again.
    """
    embedder = Counting()
    with Spellbook(config.load(vault, embedder="hash"), embedder) as book:
        found(book, "tokens")
        assert any("RS256" in text for text in embedder.texts)
        (beside,) = book.documents
        assert beside.index.embedder is book.index.embedder
        assert (beside.index.second, beside.index.reranker) == (book.index.second, book.index.reranker)

        other = Counting(fingerprint="other")
        book.use(replace(book.index, embedder=other))
        assert found(book, "tokens")
        assert any("RS256" in text for text in other.texts)
        assert book.documents == [beside]
        assert beside.index.embedder is other
        assert beside.loaded
        book.release(time.monotonic() + 1)
        assert beside.loaded is None
        assert found(book, "tokens")


def test_what_is_not_embedded_yet_is_said(book: Spellbook, write: Write) -> None:
    """A search embeds some 64 sections and says what is pending; wiki_index embeds all, with progress."""
    for number in range(150):
        write(f"zywiki/pages/{number}.md", f"# Page {number}\n\nThe heron number {number} waits.\n")
    told: list[str] = []
    assert 153 - 64 <= book.wikis.search("heron").index.pending < 154
    assert book.wikis.index(progress=lambda stage, *_: told.append(stage))["indexed"] == 154
    assert (book.wikis.status()["pending"], "embedding" in told) == (0, True)


def test_without_an_embedder_words_are_found(vault: Path, project: Path) -> None:
    """If the embedder is down, wiki_index says so and wiki_search answers by words, degraded."""
    with Spellbook(config.load(vault, embedder="hash"), Failing()) as book:
        answer = book.wikis.search("tokens")
        assert [hit.path for hit in answer.hits] == ["zywiki/services/authService.md"]
        assert answer.index.degraded
        with pytest.raises(EmbeddingError):
            book.wikis.index()
