"""The up-to-date check ("seal"): a no-op reindex ends without opening the index, and only then."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from filelock import FileLock
from platformdirs import user_state_path

from spellbook.cli import main
from spellbook.index import reindex_seal
from spellbook.index.reindex_seal import nothing_to_do
from spellbook.settings import config, paths
from spellbook.vault.vault import Vault
from tests.helpers import PATIENCE, Write, finished, note_writer, python, until

SENTENCE = "2 notes: nothing new. 2 sections, 0.0 s."
timeless = pytest.mark.skipif(sys.platform == "win32", reason="Windows tells no time of the last change of a file")
PROGRAM = [sys.executable, "-c", "import sys; sys.argv[0] = 'spellbook'; from spellbook.__main__ import main; main()"]


@pytest.fixture(autouse=True)
def _embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")


def reindex(vault: Path, *options: str) -> str:
    """Run the command without the shortcut and return what it prints."""
    result = CliRunner().invoke(main, ["--vault", str(vault), "reindex", *options])
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def run(*arguments: object, **environment: str) -> tuple[list[str], set[str]]:
    """Run the program as a person does; return what it prints, and the modules that it imports."""
    environment = {**os.environ, **environment, "PYTHONPROFILEIMPORTTIME": "1"}
    command = [*PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=True)
    return done.stdout.splitlines(), set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))


def sealing(vault: Path) -> str | None:
    """Run until the notes' stamps are old enough to be trusted, and return what the seal says."""
    until(lambda: reindex(vault) and reindex_seal.answer(str(vault)))
    return reindex_seal.answer(str(vault))


def made(folder: Path) -> Path:
    """Write a vault of two notes, index it and seal it."""
    write = note_writer(folder)
    write(".spellbook/config.toml", "exact_most = 1\n")
    write("a.md", "# A\n\nfirst", age=100)
    write("deep/er/b.md", "# B\n\nsecond", age=100)
    reindex(folder)
    assert reindex_seal.answer(str(folder)) is None, "a run that took in notes seals nothing"
    assert sealing(folder) == SENTENCE
    return folder


@pytest.fixture
def sealed(vault: Path) -> Path:
    """A sealed vault of two notes."""
    return made(vault)


def state(vault: Path) -> Path:
    return config.load(vault).state


def put(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def edit_in_place(file: Path) -> None:
    """Change a file's bytes, and neither its size nor its time."""
    status = file.stat()
    file.write_bytes(file.read_bytes().swapcase())
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_alike(file: Path) -> None:
    """Replace a file by one with the same time and size, as a restored backup does."""
    status, new = file.stat(), file.with_suffix(".new")
    new.write_bytes(file.read_bytes().upper())
    os.utime(new, ns=(status.st_mtime_ns, status.st_mtime_ns))
    new.replace(file)


SCRIBED = "import sys, spellbook; book = spellbook.open(sys.argv[1]); book.erase('a'); book.restore('.trash/a.md')"
CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda vault: put(vault / "a.md", "# A\n\nother"),
    "added, in capitals": lambda vault: put(vault / "deep/C.MD", "c"),
    "removed": lambda vault: (vault / "a.md").unlink(),
    "moved": lambda vault: (vault / "a.md").rename(vault / "deep/z.md"),
    "edited in place, with the same size and time": lambda vault: edit_in_place(vault / "a.md"),
    "edited in place in a folder": lambda vault: edit_in_place(vault / "deep/er/b.md"),
    "replaced by one of the same size and time": lambda vault: replace_alike(vault / "a.md"),
    "a folder renamed": lambda vault: (vault / "deep").rename(vault / "deeper"),
    "a folder gone": lambda vault: shutil.rmtree(vault / "deep"),
    "a note ignored": lambda vault: put(vault / ".spellbookignore", "a.md\n"),
    "a folder of templates": lambda vault: put(vault / ".obsidian/templates.json", '{"folder": "deep"}'),
    "a format of daily notes": lambda vault: put(vault / ".obsidian/daily-notes.json", '{"format": "YYMMDD"}'),
    "another setting": lambda vault: put(vault / ".spellbook/config.toml", "chunk_tokens = 128\n"),
    "the settings gone": lambda vault: (vault / ".spellbook/config.toml").unlink(),
    "the index gone": lambda vault: shutil.rmtree(state(vault)),
    "the catalog gone": lambda vault: (state(vault) / "catalog.db").unlink(),
    "the catalog damaged": lambda vault: (state(vault) / "catalog.db").write_bytes(b"no database"),
    "Chroma gone": lambda vault: shutil.rmtree(state(vault) / "chroma-1"),
    "the index changed by another process": lambda vault: finished(python(SCRIBED, vault)),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A sealed vault with its state, to be copied for each change."""
    folder = tmp_path_factory.mktemp("sealed") / "kept"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPELLBOOK_STATE", str(folder.parent / "state"))
        patch.setenv("SPELLBOOK_EMBEDDER", "hash")
        made(folder)
        yield folder


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, id=name, marks=timeless if "edited in place" in name else ())
        for name, change in CHANGES.items()
    ],
)
def test_whatever_there_is_to_do_breaks_the_seal(
    original: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    """After any change of notes, settings or index, by any process, the seal is invalid."""
    monkeypatch.setenv("SPELLBOOK_STATE", str(original.parent / "state"))
    assert sealing(original)
    for folder in (original, original.parent / "state"):
        shutil.rmtree(f"{folder}.copy", ignore_errors=True)
        shutil.copytree(folder, f"{folder}.copy")
    change(original)
    assert reindex_seal.answer(str(original)) is None
    for folder in (original, original.parent / "state"):
        shutil.rmtree(folder)
        Path(f"{folder}.copy").rename(folder)


def test_other_files_do_not_matter(sealed: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Files that are no notes leave the seal valid: git's files, pictures. A folder that is away and back does too. Another
    embedder or Chroma setting in the environment makes the seal invalid.

    No seal is stored after a very recent save, while a note has faults, or while a process catches Chroma up.
    """
    put(sealed / ".git/note.md", "x")
    put(sealed / "picture.png", "x")
    (sealed / "empty").mkdir()
    assert reindex_seal.answer(str(sealed)) is None, "a new folder may hold notes"
    reindex(sealed)
    for file in ("picture.png", ".git/note.md"):
        put(sealed / file, "xyz")
    assert reindex_seal.answer(str(sealed)) == SENTENCE
    (sealed / "deep").rename(sealed / "elsewhere")
    assert reindex_seal.answer(str(sealed)) is None
    (sealed / "elsewhere").rename(sealed / "deep")
    for name in ("SPELLBOOK_EMBEDDER", "SPELLBOOK_CHROMA_URL", "OLLAMA_HOST"):
        assert reindex_seal.answer(str(sealed)) == SENTENCE
        with monkeypatch.context() as patch:
            patch.setenv(name, "http://localhost:1")
            assert reindex_seal.answer(str(sealed)) is None
    for path, text, age in (("young.md", "text", -3600), ("broken.md", "---\na: [\n---\ntext", 100)):
        note = write_note(path, text, age=age)
        for _ in range(2):
            CliRunner().invoke(main, ["--vault", str(sealed), "reindex"])
            assert reindex_seal.answer(str(sealed)) is None
        note.unlink()
    sealing(sealed)
    with FileLock(state(sealed) / "chroma-follow.lock"):
        write_note("c.md", "text", age=100)
        for _ in range(3):
            reindex(sealed)
            assert reindex_seal.answer(str(sealed)) is None
    assert sealing(sealed)


def test_the_program_says_it_without_importing_anything(sealed: Path, write_note: Write) -> None:
    """
    With a valid seal a few small modules print the usual words, or the JSON of the long way; other forms go to click. If
    the reader of stdout is gone, the program ends quietly. While texts are pending, only a run with `--words-only` has
    nothing to do.
    """
    for form in ("reindex --vault {}", "--vault {} reindex", "reindex --quiet --vault {}", "reindex"):
        printed, modules = run(*form.format(sealed).split(), SPELLBOOK_VAULT=str(sealed))
        assert printed == ([] if "--quiet" in form else [SENTENCE])
        of_translation = {"spellbook.settings.translate", "spellbook.text", "spellbook.text.korean"}
        names = (
            "__main__",
            "index",
            "index.reindex_seal",
            "settings",
            "settings.environment",
            "settings.paths",
            "system",
            "system.lazy",
            "system.platform",
            "text.markdown_endings",
        )
        own = {name for name in modules if name.startswith("spellbook")} - of_translation
        assert own == {"spellbook", *(f"spellbook.{name}" for name in names)}
        assert not modules & {"click", "sqlite3", "dataclasses", "pathlib", "json", "platformdirs"}
    [shown], modules = run("--vault", sealed, "reindex", "--json")
    assert "click" not in modules
    one, other = (re.sub(r'"seconds": [\d.]+', "", each) for each in (shown, reindex(sealed, "--json")))
    assert one == other
    assert nothing_to_do(["--vault", str(sealed), "reindex"])
    for options in (["--full"], ["--full", "--words-only"], ["--quiet", "--json"], ["--nonsense"], ["more"]):
        assert not nothing_to_do(["--vault", str(sealed), "reindex", *options])
    assert not nothing_to_do([str(sealed), "--vault"])
    for asked in (["reindex"], ["reindex", "--words-only"]):
        ours, theirs = os.pipe()
        os.close(ours)
        command = [*PROGRAM, "--vault", str(sealed), *asked]
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        os.close(theirs)
        assert (done.returncode, done.stderr) == (0, "")
    write_note("c.md", "third", age=100)
    until(lambda: reindex(sealed, "--words-only") and reindex_seal.answer(str(sealed), file=reindex_seal.WORDS))
    said = reindex(sealed, "--words-only")
    assert not nothing_to_do(["--vault", str(sealed), "reindex"])
    printed, modules = run("--vault", sealed, "reindex", "--words-only")
    assert printed == ["3 notes: nothing new; 1 text still to embed. 3 sections, 0.0 s."]
    assert (printed[0][:-6], "click" in modules) == (said[:-6], False)
    assert not nothing_to_do(["--words-only", "reindex", "--vault", str(sealed)]), "click knows no such option there"
    reindex(sealed)
    assert not nothing_to_do(["--vault", str(sealed), "reindex", "--words-only"]), "nothing waits any more"


def test_a_reindex_with_nothing_to_do_writes_nothing(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    A no-op reindex changes no byte of the index; it lists each folder once and opens no note. A seal cut off anywhere, a
    damaged one, one of other files or of another Spellbook is invalid, without an error.
    """
    catalog = state(sealed) / "catalog.db"
    before = catalog.stat().st_mtime_ns, catalog.read_bytes()
    seen = reindex_seal.stamps(str(sealed), str(state(sealed)))
    for options in ([], ["--json"], ["--quiet"]):
        reindex(sealed, *options)
    assert (catalog.stat().st_mtime_ns, catalog.read_bytes()) == before
    assert reindex_seal.stamps(str(sealed), str(state(sealed))) == seen
    listed, scandir = [], os.scandir

    def noted(place: Any) -> Any:
        listed.append(os.readlink(f"/proc/self/fd/{place}") if isinstance(place, int) else str(place))
        return scandir(place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", noted)
        for stamps in (lambda: reindex_seal.answer(str(sealed)), Vault(sealed, state(sealed)).walk):
            listed.clear()
            stamps()
            own = sorted(place.rstrip("/") for place in listed if place.startswith(str(sealed)))
            assert own == [str(sealed / folder).rstrip("/") for folder in ("", "deep", "deep/er")]
    file = state(sealed) / reindex_seal.FILE
    whole = file.read_bytes()
    for size in (*range(0, len(whole) - 100, 97), *range(len(whole) - 100, len(whole))):
        file.write_bytes(whole[:size])
        assert reindex_seal.answer(str(sealed)) is None, size
    sentence, text, seen = whole.split(b"\n", 2)
    for other in (seen[:-50] + bytes(50), seen + b"\n", seen.replace(b"b.md", b"c.md"), b"\xff" + seen[1:]):
        file.write_bytes(b"\n".join((sentence, text, other)))
        assert reindex_seal.answer(str(sealed)) is None, other
    file.write_bytes(whole)
    code = "import sys; sys.path.insert(0, sys.argv[2]); from spellbook.index.reindex_seal import answer; print(answer(sys.argv[1]))"
    package = Path(reindex_seal.__file__).parents[1]
    (tmp_path / "elsewhere").symlink_to(package.parent, target_is_directory=True)
    assert finished(python(code, sealed, package.parent)) == [SENTENCE]
    assert finished(python(code, sealed, tmp_path / "elsewhere")) == ["None"]


@pytest.mark.parametrize(
    "variables", [{}, *({"XDG_STATE_HOME": home} for home in ("/elsewhere", "", "elsewhere"))], ids=str
)
def test_the_folder_of_an_index(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """
    The state folder is named after the vault and a hash of its path, so that the next version finds it. By default it is
    where platformdirs puts it.
    """
    for name, shown in (("notes", "notes"), ("My notes (2)", "My-notes-2"), ("메모", "vault"), ("a\n.b", "a-b")):
        digest = hashlib.sha256(os.fsencode(f"/home/somebody/{name}")).hexdigest()[:10]
        assert paths.state(f"/home/somebody/{name}", "/base") == os.path.abspath(f"/base/{shown}-{digest}")
    for name in ("SPELLBOOK_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if sys.platform == "linux":  # elsewhere platformdirs is asked
        assert Path(paths.state("/home/x")).parent == user_state_path("spellbook", appauthor=False)
