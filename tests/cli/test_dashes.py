"""Words that begin with dashes can be searched for, and options stay options."""

from __future__ import annotations

import json

import pytest

from tests.commands import spellbook


@pytest.fixture(autouse=True)
def notes(vault, write_note, monkeypatch):
    """A note that names options, in the vault named by the environment."""
    monkeypatch.setenv("SPELLBOOK_VAULT", str(vault))
    write_note("options.md", "# Options\n\nUse --vault DIR, --dry-run and --json, or -x; there is no --limt.")
    write_note("other.md", "# Other\n\nNothing of the sort.")


@pytest.mark.parametrize("verb", ["find", "search", "memorize", "why"])
def test_a_word_with_dashes_is_looked_for(verb):
    """
    A word that is no option is searched for; after `--` every word is. A misspelt option is refused with the right
    option and the way to search for the word.
    """
    for args, query in (
        (["--dry-run"], "--dry-run"),
        (["-x"], "-x"),
        (["--", "--vault"], "--vault"),
        (["--", "--json"], "--json"),
        (["-n3", "--dry-run", "--limit=2"], "--dry-run"),
    ):
        found = spellbook(verb, "--json", *args)
        answer = json.loads(found.stdout)
        assert answer["query"] == query
        assert ("taken as a word" in found.stderr) == ("--" not in args)
        if verb == "find":
            assert [hit["path"] for hit in answer["hits"]] == ["options.md"]
    option = {"find": "--limt", "search": "--filtr", "memorize": "--max-token", "why": "--minscore"}[verb]
    refused = spellbook(verb, "dry", option, "3", code=2).stderr
    assert "No such option" in refused
    assert "Did you mean" in refused or "Possible options" in refused  # as the version of click has it
    assert f"spellbook {verb} -- --word" in refused


def test_an_option_stays_one(vault, tmp_path):
    """
    Options may stand before, between and after the words, which keep their order. `--vault` with a value names the
    vault; if the words are missing then, the error says how to search for such a word.
    """
    args = ["find", "dry", "--limit", "3", "--dry-run", "--vault", vault, "Use", "--json"]
    assert json.loads(spellbook(*args).stdout)["query"] == "dry --dry-run Use"
    spellbook("find", "dry", "--vault", tmp_path / "none", code=1)
    said = spellbook("find", "--vault", "words", code=2).stderr
    assert "Missing argument" in said
    assert "spellbook find -- --word" in said
