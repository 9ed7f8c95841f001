"""Scopes: a server sees one project and shared notes, and writes into that project."""

import os
import subprocess
from pathlib import Path

import pytest

from spellbook.index.privacy import scopes_of
from spellbook.index.project_name import project_names
from spellbook.library import book as books
from spellbook.notes.note import parse
from spellbook.system.errors import InvalidInput, MemoryNotFound
from tests.helpers import Write

META = {"topic": "crane", "keywords": ["crane"]}
CHUNK = {"text": "The crane lifts the copper over the quay of the harbour.", "metadata": META}


SCOPES = [
    ("a.md", "", ()),
    ("a.md", "scope: Acme", ("acme",)),
    ("a.md", "scope: [acme, globex]", ("acme", "globex")),
    *[("a.md", f"scope: {shared}", ()) for shared in ("shared", "[acme, Shared]", "")],
    ("work/acme/b/a.md", "", ("acme",)),
    ("work/acme/b/a.md", "scope: globex", ("globex",)),
    ("work/acme/b/a.md", "scope: shared", ()),
    ("work/other.md", "", ("work",)),
    ("scopes/Globex/a.md", "", ("globex",)),
    ("scopes/a.md", "", ()),
]


def test_the_scope_of_a_note(vault: Path, write_note: Write) -> None:
    """
    Frontmatter decides first, then the first matching rule of the settings, then the folder scopes/NAME. An invalid rule
    is refused with file and key.
    """
    for path, frontmatter, scopes in SCOPES:
        note = parse(path, f"---\ntopic: t\n{frontmatter}\n---\ntext".encode())
        assert scopes_of(note, {"work/acme/": "acme", "work/*": "work"}) == scopes
    for settings, error in (
        ('[scopes]\n"a/" = 3', r"config\.toml: scopes\.a/ must be text"),
        ('[projects]\n"github.com/a/b" = 3', r"config\.toml: projects\.github\.com/a/b must be text"),
        ("projects = 3", r"config\.toml: projects must be a table"),
    ):
        write_note(".spellbook/config.toml", settings)
        with pytest.raises(InvalidInput, match=error):
            books.open(vault, embedder="hash")


@pytest.fixture
def notes(vault: Path, write_note: Write) -> Path:
    """Notes about copper in two scopes and without one, all in one topic."""
    write_note("acme.md", "# A\n\nThe copper harbour of acme.", scope="acme", topic="copper", tags="[acme, metal]")
    write_note("scopes/globex/g.md", "# G\n\nThe copper harbour of globex.", topic="copper", tags="[globex, metal]")
    write_note("all.md", "# S\n\nThe copper harbour of all.", topic="copper", tags="[all, metal]")
    return vault


def test_a_scope_sees_itself_and_what_all_share(notes: Path, write_note: Write) -> None:
    """
    Searches, topics, the table of contents and the counts of tags and folders show the scope and notes without one;
    without a scope, everything.
    Summaries of topics and categories come only from notes that the scope sees. A filter applies within the scope, and
    `why` names the scope if it hides a note.
    """
    everything = {"acme", "globex", "all"}
    for scope, seen in (("", everything), ("ACME", {"acme", "all"}), ("nobody", {"all"}), ("shared", everything)):
        with books.open(notes, embedder="hash", scope=scope) as book:
            book.reindex()
            search, memorize = (verb("copper harbour", min_score=0) for verb in (book.search, book.memorize))
            found = [[hit.text for hit in answer.hits] for answer in (search, memorize, book.find("copper"))]
            for texts in (*found, [chunk.text for chunk in book.topic("copper")]):
                assert {text.rpartition(" ")[2].strip(".") for text in texts} == seen
            assert book.topics()[0].chunks == len(seen)
            assert dict(book.tags()) == {"metal": len(seen), **dict.fromkeys(seen, 1)}
            assert book.folders()[""] == len(seen - {"globex"})
            assert book.show("scopes/globex/g")[0].text.endswith("globex.")  # who names an id may read it
    write_note("acme/category.md", "What acme works on.", scope="acme", category="port", topic="copper")
    write_note("z.md", "The piers of globex.", scope="globex", category="port", topic="copper")
    for scope, unfiled, port in (
        ("acme", ("", "The copper harbour of acme."), ("What acme works on.", "What acme works on.")),
        ("globex", ("", "The copper harbour of all."), ("", "The piers of globex.")),
    ):
        with books.open(notes, embedder="hash", scope=scope) as book:
            book.reindex()
            told = {
                each.name: (each.description, *(book.about(topic).summary for topic in each.topics))
                for each in book.contents()
            }
            assert told == {"": unfiled, "port": port}
            [row] = book.why("copper harbour", "scopes/globex/g").rows
            assert ("filter scope" in row.verdict) == (scope == "acme")
            if scope == "acme":
                assert [hit.path for hit in book.search("harbour", filter={"scope": "acme"}).hits][:1] == ["acme.md"]


def test_what_a_scope_writes_is_its_own(notes: Path) -> None:
    """A memory gets the scope it was written in, unless it names one; notes of other scopes are no duplicates."""
    with books.open(notes, embedder="hash", scope="acme") as book:
        [mine] = book.scribe(CHUNK).written
        assert "scope: acme" in (notes / mine.path).read_text("utf-8")
        assert book.scribe(CHUNK).written == ()
        [shared] = book.scribe(
            {"text": "Everybody may know of the ferry at noon.", "metadata": {**META, "scope": "shared"}}
        ).written
    with books.open(notes, embedder="hash", scope="globex") as book:
        assert [hit.path for hit in book.find("ferry").hits] == [shared.path]
        assert book.find("crane").hits[0].path == shared.path
        [theirs] = book.scribe(CHUNK).written
        assert "scope: globex" in (notes / theirs.path).read_text("utf-8")
        book.erase_topic("crane")
        assert (notes / mine.path).exists()
        assert not (notes / theirs.path).exists()
    with books.open(notes, embedder="hash", scope="nobody") as book, pytest.raises(MemoryNotFound):
        book.erase_topic("crane")


# -- a project is its repository


def git(folder: Path, *command: str) -> None:
    """Run git in `folder`, which is made if need be, without anybody's settings."""
    folder.mkdir(parents=True, exist_ok=True)
    who = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    mine = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_ALLOW_PROTOCOL": "file"}
    subprocess.run(("git", *command), cwd=folder, check=True, capture_output=True, env={**os.environ, **who, **mine})


def repository(folder: Path, origin: str = "") -> Path:
    """Make a git repository with a commit and perhaps an origin."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    if origin:
        git(folder, "remote", "add", "origin", origin)
    return folder


def with_files(folder: Path, files: dict[str, str]) -> Path:
    """Make a folder with these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def named(folder: Path, chosen: dict[str, str] | None = None) -> str:
    """The name of the project at `folder`, however the folder is handed over."""
    given = [({"CLAUDE_PROJECT_DIR": str(folder)}, ""), ({}, str(folder)), ({"CLAUDE_PROJECT_DIR": "/x"}, str(folder))]
    [name] = {project_names(chosen or {}, *each)[0] for each in given}
    return name


def test_worktrees_clones_and_folders_of_a_repository_are_one_project(tmp_path: Path) -> None:
    """A worktree has the name of its repository, with or without an origin; a submodule is a project of its own."""
    main = repository(tmp_path / "one")
    git(main, "worktree", "add", "-q", str(tmp_path / "wt-feature"))
    git(main, "worktree", "add", "-q", str(main / ".claude" / "worktrees" / "inner"))
    (main / "src" / "deep").mkdir(parents=True)
    worktrees = [main, tmp_path / "wt-feature", main / ".claude" / "worktrees" / "inner"]
    assert {named(folder) for folder in (*worktrees, main / "src" / "deep")} == {"one"}
    assert project_names({}, {}, str(tmp_path / "wt-feature")) == ["one", "wt-feature"]  # as it was written before

    git(main, "remote", "add", "origin", "git@github.com:Acme/api.git")
    clone = repository(tmp_path / "clone", "https://github.com/acme/api")
    assert {named(folder) for folder in (*worktrees, clone)} == {"api"}
    listed = ["api", "Acme-api", "github.com-Acme-api", "one", "wt-feature"]
    assert project_names({}, {}, str(tmp_path / "wt-feature")) == listed

    for name, folder in (("bare", "x.git"), ("hub", ".bare")):
        git(tmp_path / name, "clone", "-q", "--bare", str(main), str(tmp_path / name / folder))
        git(tmp_path / name / folder, "remote", "remove", "origin")
        git(tmp_path / name / folder, "worktree", "add", "-q", str(tmp_path / name / "feature"))
    with_files(tmp_path / "hub", {".git": "gitdir: ./.bare\n"})
    assert [named(tmp_path / "bare" / name) for name in ("x.git", "feature")] == ["x", "x"]
    assert [named(tmp_path / "hub" / name) for name in ("feature", ".")] == ["hub", "hub"]

    library = repository(tmp_path / "library")
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "vendor/inner")
    assert named(main / "vendor" / "inner") == "library"
    git(main / "vendor" / "inner", "remote", "remove", "origin")
    assert named(main / "vendor" / "inner") == "inner"


ADDRESSES = {
    "https://github.com/acme/api.git": ("api", "github.com/acme/api"),
    "https://me:se/cr@et@github.com:8443/acme/api/?token=secret#secret": ("api", "github.com/acme/api"),
    "https://secret@github.com/acme/api.git": ("api", "github.com/acme/api"),
    "ssh://git@github.com:22/acme/api": ("api", "github.com/acme/api"),
    "git@github.com:acme/api.git": ("api", "github.com/acme/api"),
    "me:secret@github.com:acme/api.git": ("api", "github.com/acme/api"),
    "github.com:acme/sub/api": ("api", "github.com/acme/sub/api"),
    "file:///srv/git/api.git": ("api", "srv/git/api"),
    "/srv/git/api.git/": ("api", "srv/git/api"),
    "../api.git": ("api", "api"),
    "/home/me/api/.git": ("api", "home/me/api"),
    "C:\\\\repos\\\\api.git": ("api", "c/repos/api"),
    "https://dev.azure.com/o/My%20P/_git/a%2F%2e%2e%2Fb": ("a-..-b", "dev.azure.com/o/my-p/_git/a-..-b"),
    "https://example.com/shared": ("example.com-shared", "example.com/shared"),
    "git@github.com:acme/회의록.git": ("회의록", "github.com/acme/회의록"),
    **dict.fromkeys(("..", "x" * 2_000, "https://me:secret@"), ("folder", "")),
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_the_address_of_an_origin(tmp_path: Path, url: str) -> None:
    """Each form of an address gives host and path; a user, a password and a query are neither shown nor kept."""
    name, origin = ADDRESSES[url]
    folder = with_files(tmp_path / "folder", {".git/HEAD": "x", ".git/config": f'[remote "origin"]\n\turl = "{url}"\n'})
    assert named(folder) == name
    kept = [file.read_text("utf-8") for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert [text.split("\n")[0] for text in kept] == ([origin] if origin else [])
    assert "secret" not in f"{kept}{project_names({}, {}, str(folder))}"


OTHER = '[remote "origin"]\nurl = https://github.com/acme/other.git\n'
HOSTILE = {
    "itself": {".git": "gitdir: .git"},
    "a loop": {".git": "gitdir: a", "a": "gitdir: .git"},
    "another repository": {".git": "gitdir: ../other/.git"},
    "a worktree that is another folder's": {".git": "gitdir: ../other/.git/worktrees/x"},
    "nowhere": {".git": "gitdir: ../nowhere"},
    "too long": {".git": "gitdir: " + "x/" * 10_000},
    "no path": {".git": "gitdir: \0/x"},
    "no gitdir": {".git": "../other/.git"},
    "empty": {".git": ""},
    "a commondir outside": {".git/commondir": "../../other/.git", ".git/gitdir": "x"},
    "include": {".git/config": f"[include]\npath = ../../other/.git/config\n{OTHER.replace('origin', 'x')}"},
    "huge": {".git/config": f'[remote "origin"]\n{" " * 1_100_000}\n{OTHER}'},
    "a folder": {".git/config/x": ""},
    "no url": {".git/config": '[remote "origin"]\nfetch = x\n[branch "url"]\nurl = a/b\n'},
}


def test_a_hostile_repository_is_its_folder(tmp_path: Path) -> None:
    """
    Files that lead elsewhere, in circles or are too large are not followed; the folder itself is the project. A FIFO in
    the place of a file does not block, and `.git` as a link to another repository names nothing.
    """
    git_of = {".git/config": OTHER, ".git/HEAD": "ref: x", ".git/worktrees/x/commondir": "../.."}
    other = with_files(tmp_path / "other", {**git_of, ".git/worktrees/x/gitdir": f"{tmp_path}/mine/.git"})
    assert named(other) == "other"
    for kind, files in HOSTILE.items():
        assert named(with_files(tmp_path / kind, files)) == kind
    if os.name != "nt":
        piped = with_files(tmp_path / "piped", {".git/HEAD": "x"})
        os.mkfifo(piped / ".git" / "config")
        os.mkfifo(piped / ".git" / "commondir")
        with_files(tmp_path / "linked", {"x": ""})
        (tmp_path / "linked" / ".git").symlink_to(other / ".git")
        assert [named(tmp_path / name) for name in ("piped", "linked")] == ["piped", "linked"]


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    """The first repository of a name has it, the second has its owner before it, everywhere; settings may choose."""
    acme, globex, third = (
        repository(tmp_path / owner / "api", f"git@{host}:{owner.casefold()}/api.git")
        for host, owner in (("github.com", "acme"), ("github.com", "globex"), ("gitlab.com", "Globex"))
    )
    named_in_turn = ["api", "globex-api", "gitlab.com-globex-api", "api"]
    assert [named(each) for each in (acme, globex, third, acme)] == named_in_turn
    assert named(repository(tmp_path / "again", "https://x@github.com/globex/api")) == "globex-api"
    assert project_names({}, {}, str(globex)) == ["globex-api", "github.com-globex-api"]  # `api` is another's
    assert project_names({"GitHub.com/globex/api": "Globex"}, {}, str(globex))[0] == "Globex"
    local = repository(tmp_path / "local")
    assert project_names({str(local): "mine"}, {}, str(local)) == ["mine", "local"]

    git(acme, "remote", "set-url", "origin", "https://gitlab.com/acme/api")  # moved: it keeps its name
    assert named(acme) == named(repository(tmp_path / "clone", "git@gitlab.com:acme/api.git")) == "api"
    git(acme, "remote", "set-url", "origin", "https://gitlab.com/acme/api2")
    assert project_names({}, {}, str(acme))[0] == "api2"
    assert "api" in project_names({}, {}, str(acme))


def test_notes_of_a_worktree_are_the_repositorys(
    vault: Path, tmp_path: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    `auto` is the folder named by the client, else the repository of the working folder, else no scope. A worktree reads
    notes of its old and its new name and writes the new one, which settings may choose.
    """
    main = repository(tmp_path / "one", "git@github.com:acme/api.git")
    git(main, "worktree", "add", "-q", str(tmp_path / "wt-feature"))
    for scope in ("api", "wt-feature", "one", "globex"):
        write_note(f"{scope}.md", f"The copper harbour of {scope}.", scope=scope)
    monkeypatch.chdir(tmp_path)
    assert project_names({}, {}) == []
    assert project_names({}, {"CLAUDE_PROJECT_DIR": "/x/Acme"}) == ["Acme"]
    monkeypatch.chdir(tmp_path / "wt-feature")
    with monkeypatch.context() as patch:  # where the names cannot be kept
        patch.setenv("SPELLBOOK_DATA", str(write_note("file")))
        assert project_names({}, {})[0] == "api"
    for settings, name in (("", "api"), ('[projects]\n"github.com/acme/api" = "Port"\n', "Port")):
        write_note(".spellbook/config.toml", settings)
        with books.open(vault, embedder="hash", scope="auto") as book:
            book.reindex()
            hits = book.find("harbour", filter={"path!": "knowledge/"}).hits
            assert {hit.path for hit in hits} == {"api.md", "wt-feature.md", "one.md"}
            [written] = book.scribe(CHUNK, force=True).written
            assert f"scope: {name}\n" in (vault / written.path).read_text("utf-8")
