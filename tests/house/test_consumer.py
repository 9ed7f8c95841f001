"""The public types: right uses pass mypy --strict, and wrong ones are reported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.helpers import PATIENCE

PROGRAM = """\
import spellbook


def best(question: str) -> dict[str, float]:
    with spellbook.open("~/notes", embedder="hash") as book:
        answer = book.search(question, limit=3, filter={"category": "system"}, min_score=0.5)
        found = book.find(["near duplicate", "revise"], match="all")
        lines: list[int] = [hit.line for hit in book.memorize(question).hits]
        counts: list[int] = [book.state().pending, answer.index.pending, book.reindex(words_only=True).embedded]
        names: list[str] = [topic.topic for topic in book.topics()]
        print(lines, counts, names)
        return {hit.path: hit.score for hit in answer.hits + found.hits}


def keep(book: spellbook.Spellbook, text: str) -> str:
    try:
        written = book.scribe_all([{"text": text, "metadata": {"topic": "deploy"}}], force=True).written
        book.revise(written[0].chunk_id, metadata={"importance": "high"})
        book.move("a.md", "b.md", dry_run=True)
        return book.undo(dry_run=True).difference
    except spellbook.SpellbookError as error:
        return f"{error.code}: {error.message} {error.hint}"


def use(book: spellbook.Spellbook) -> None:
    answer = book.search("x")
"""
WRONG = (
    *("spellbook.open('x', embeder='hash')", "spellbook.opened('x')", "book.searching('x')", "book.search(5)"),
    *("answer.hitz", "answer.hits[0].score.upper()", "answer.hits[0].line.upper()", "answer.index.pending.lower()"),
    *(
        "book.topics(filter=5)",
        "book.reindex(words=True)",
        "book.reindex().embeded",
        "book.erase()",
        "book.undo('latest')",
    ),
    *("book.move('a.md')", "book.show('a')[0].txt", "book.search('x', limt=5)", "book.find('x', min_scores=0.5)"),
    *("book.scribe({}, forced=True)", "book.revise('a', apend='x')", "book.import_('x', dryrun=True)"),
)


def test_wrong_uses_are_reported(tmp_path: Path) -> None:
    """
    mypy reports nothing in the program, and none of its types is Any. It reports unknown names, missing arguments, misspelt
    keywords and wrong types.
    """
    program = tmp_path / "program.py"
    lines = PROGRAM.splitlines() + [f"    {wrong}" for wrong in WRONG]
    program.write_text("\n".join(lines) + "\n", "utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in {"MYPYPATH", "PYTHONPATH"}}
    cache = Path(__file__).parents[2] / ".mypy_cache" / "consumer"
    options = ["--strict", "--config-file=", "--python-version=3.11", "--no-pretty", "--cache-dir", str(cache)]
    command = [sys.executable, "-m", "mypy", *options, program.name]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", done.stdout, re.M)
    assert {file for file, _, _ in found} == {program.name}, done.stdout + done.stderr
    assert {lines[int(number) - 1].strip() for _, number, _ in found} == set(WRONG)
