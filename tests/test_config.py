"""config: which vault is meant, and what its settings are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spellbook import config
from spellbook.errors import InvalidInput, VaultNotFound


def test_the_vault_named_comes_before_environment_neighbourhood_and_home(tmp_path, monkeypatch):
    """Argument, SPELLBOOK_VAULT, nearest folder upwards with `.spellbook/`, `~/spellbook`: the first of them that is there."""
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


@pytest.mark.parametrize(
    ("name", "what"),
    [
        pytest.param("nowhere", "does not exist", id="missing"),
        pytest.param("file.md", "is a file", id="file"),
        pytest.param("a\0b", "does not exist", id="NUL"),
        pytest.param("~nobody-of-that-name/x", "does not exist", id="unknown home"),
    ],
)
def test_what_is_no_folder_is_refused_with_the_next_step(tmp_path, monkeypatch, name, what):
    """A vault that is no folder is VAULT_NOT_FOUND, says so, and tells of `--vault`."""
    (tmp_path / "file.md").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VaultNotFound, match=what) as caught:
        config.find_vault(name)
    assert "--vault" in caught.value.hint


def test_a_working_folder_that_is_gone_falls_back_to_home(tmp_path, monkeypatch):
    """Where the working folder was deleted, `~/spellbook` is still found."""
    (tmp_path / "home" / "spellbook").mkdir(parents=True)
    (tmp_path / "gone").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "gone")
    os.rmdir(tmp_path / "gone")
    try:
        assert config.find_vault() == tmp_path / "home" / "spellbook"
    finally:
        os.chdir(tmp_path)


def test_two_ways_to_one_vault_share_one_state(tmp_path, vault):
    """A link to the vault leads to the same real path and the same state folder; another vault of that name does not."""
    (tmp_path / "link").symlink_to(vault)
    (tmp_path / "other" / "vault").mkdir(parents=True)
    direct, linked, other = (config.load(path) for path in (vault, tmp_path / "link", tmp_path / "other" / "vault"))
    assert (linked.vault, linked.state) == (direct.vault, direct.state)
    assert other.state != direct.state
    assert direct.state.parent == Path(os.environ["SPELLBOOK_STATE"])


def test_settings_travel_in_the_vault_and_yield_to_environment_and_flag(vault, monkeypatch):
    """config.toml is below SPELLBOOK_EMBEDDER, which is below the argument."""
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "config.toml").write_text('\ufeffembedder = "filed"\nchunk_tokens = 128\n', "utf-8")
    assert (config.load(vault).embedder, config.load(vault).chunk_tokens) == ("filed", 128)
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "set")
    assert config.load(vault).embedder == "set"
    assert config.load(vault, embedder="said").embedder == "said"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("chunk_tokens = ", "cannot be read", id="no TOML"),
        pytest.param("colour = 1", "there is no setting 'colour'", id="unknown key"),
        pytest.param("chunk_tokens = 0", "positive whole number", id="zero"),
        pytest.param("cache_mb = true", "positive whole number", id="a truth for a number"),
        pytest.param("embedder = 3", "must be text", id="a number for a text"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_file(vault, text, said):
    """A wrong config.toml is INVALID_INPUT and names the file."""
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "config.toml").write_text(text)
    with pytest.raises(InvalidInput, match=said) as caught:
        config.load(vault)
    assert "config.toml" in caught.value.message
