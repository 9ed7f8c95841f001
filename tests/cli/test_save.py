"""`spellbook save` as a person uses it: a text, a file, the same address again, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from spellbook.notes.note import parse
from tests.commands import spellbook

TEXT = "# Ports\n\nThe proxy listens on port 8443.\n"


def save(vault: Path, *args: str, stdin: str = "", code: int = 0) -> Result:
    return spellbook("--vault", vault, "save", *args, stdin=stdin, code=code)


def test_given_text_is_saved_and_found_again(vault):
    """From stdin, with labels; its path and id are printed; the same address again adds a category."""
    done = save(
        vault,
        *("https://example.com/a?utm_source=x", "--category", "ops", "--tag", "proxy", "--title", "Of ports"),
        *("--summary", "Which port it is.", "--text", "-"),
        stdin=TEXT,
    )
    path, _, id = done.stdout.strip().partition("  ")
    assert path == "article/ops/Of ports.md"
    note = parse(path, (vault / path).read_bytes())
    assert (note.meta["id"], note.meta["source"]) == (id, "https://example.com/a")
    assert note.body.strip() == f"> [!summary]\n> Which port it is.\n\n{TEXT.strip()}"
    again = save(vault, "https://example.com/a#top", "--category", "web", "--json")
    told = json.loads(again.stdout)
    assert (told["status"], told["id"], told["categories"]) == ("exists", id, ["ops", "web"])
    assert "nothing was fetched" in save(vault, "https://example.com/a", "--category", "web").stderr


def test_an_html_file(vault, tmp_path):
    """By its path, relative to where the command runs or not; its note says that it is untrusted."""
    page = "".join(
        f"<p>Rule {n}: a proxy of this house listens on port {8000 + n}, and on no other.</p>" for n in range(9)
    )
    (tmp_path / "ports.html").write_text(f"<html><title>Ports</title><body><article>{page}</article></body></html>")
    done = save(vault, str(tmp_path / "ports.html"), "--category", "ops", "--json")
    note = parse("a.md", (vault / json.loads(done.stdout)["path"]).read_bytes())
    assert (note.meta["trust"], note.meta["source_type"]) == ("untrusted", "html")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["https://example.com/a"], 2, "Missing option '--category'"),
        (["https://example.com/a", "--category", "x" * 61], 2, "is too long"),
        (["no-such-file.pdf", "--category", "x"], 2, "There is no file"),
        (["http://127.0.0.1:8080/", "--category", "x"], 2, "is not a page of the public web"),
        (["https://example.com/a", "--category", "x", "--text", "-"], 2, "--text has no text"),
    ],
)
def test_what_is_refused(vault, args, code, says):
    """In words, by its exit code, and nothing is written."""
    assert says in save(vault, *args, code=code).stderr
    assert not list(vault.rglob("*.md"))
