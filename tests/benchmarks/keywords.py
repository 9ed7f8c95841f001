"""
Full-text search alone: `python -m tests.benchmarks.keywords [FOLDER] [--only NAME]…`.

Each tokenization runs the same questions in the same FTS5. FOLDER holds
`eval/xquad`, `eval/klue-sts` and `vaults/react-docs`; the default is a folder
`shared` beside the project. Missing sets are skipped. With kiwipiepy
installed, Korean morphemes are measured too.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sqlite3
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spellbook.index.catalog.tables import WEIGHTS
from spellbook.notes import chunks
from spellbook.notes.note import parse
from spellbook.search import fts_query
from spellbook.text import terms
from spellbook.text.expressions import Expression
from tests.helpers import empty_catalog

LANGUAGES = ("en", "de", "es", "ro", "tr", "vi", "ru", "el", "ar", "hi", "th", "zh")
_RUN = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]+")
_LETTERS = {"ko": re.compile("[가-힣]"), "en": re.compile("[a-z]")}
_SENTENCE = {"ko": 25, "en": 60}


@dataclass(frozen=True)
class Questions:
    """Texts, and questions with the index of the text that answers each."""

    asked: Sequence[tuple[str, int]]
    texts: Sequence[str]


Index = Callable[[str], str]
Ask = Callable[[str], str]


def xquad(folder: Path, language: str) -> Questions:
    """Questions and the paragraphs that answer them."""
    articles = json.loads((folder / f"eval/xquad/xquad.{language}.json").read_text("utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    asked = [(each["question"], number) for number, paragraph in enumerate(paragraphs) for each in paragraph["qas"]]
    return Questions(asked, [paragraph["context"] for paragraph in paragraphs])


def klue(folder: Path) -> Questions:
    """Korean sentences, each paired with one of the same meaning."""
    [file] = (folder / "eval/klue-sts").glob("*.json")
    pairs = json.loads(file.read_text("utf-8"))
    same = [i for i, pair in enumerate(pairs) if pair["labels"]["binary-label"] == 1 and pair["labels"]["label"] >= 4]
    return Questions([(pairs[i]["sentence1"], i) for i in same], [pair["sentence2"] for pair in pairs])


def sections(folder: Path, language: str) -> Iterator[tuple[str, str]]:
    """Yield the own heading ("" without one) and the text below it of every chunk of the React documentation."""
    for file in sorted((folder / "vaults/react-docs" / language).rglob("*.md")):
        for chunk in chunks.cut(parse(file.name, file.read_bytes())):
            first, _, rest = chunk.text.lstrip().partition("\n")
            own = first.startswith("#") and chunk.heading and "~" not in chunk.suffix
            yield (chunk.heading[-1], rest) if own else ("", rest if first.startswith("#") else chunk.text)


def headings(folder: Path, language: str) -> Questions:
    """Headings as questions for their sections, whose heading is removed."""
    found = list(sections(folder, language))
    times = Counter(heading for heading, _ in found)
    asked = [
        (heading, i)
        for i, (heading, text) in enumerate(found)
        if heading and times[heading] == 1 and len(text.split()) > 15
    ]
    return Questions(asked, [text for _, text in found])


def sentences(folder: Path, language: str, most: int = 800) -> Questions:
    """Sentences as questions for the sections they were removed from."""
    chance = random.Random(5)
    texts = [text for _, text in sections(folder, language)]
    prose = {}
    for i, text in enumerate(texts):
        lines = [
            line
            for line in text.split("\n")
            if len(_LETTERS[language].findall(line)) > _SENTENCE[language] and line[0] not in " \t|`<#"
        ]
        if len(lines) > 1:
            prose[i] = chance.choice(lines)
    asked = []
    for i in chance.sample(sorted(prose), min(most, len(prose))):
        split = re.split(r"(?<=[.!?])\s", prose[i])
        sentence = chance.choice([part for part in split if len(part) > 15] or split)
        texts[i] = texts[i].replace(sentence, " ")
        asked.append((re.sub(r"\]\([^)]*\)", " ", sentence), i))
    return Questions(asked, texts)


def score(questions: Questions, ask: Callable[[str], list[int]]) -> tuple[float, float, float]:
    """Return nDCG@10, R@1 and R@5 of `ask`, which returns indices of texts, best first."""
    ranks = []
    for question, text in questions.asked:
        found = ask(question)
        ranks.append(found.index(text) + 1 if text in found else 0)
    number = len(ranks)
    gain = sum(1 / math.log2(rank + 1) for rank in ranks if rank)
    return gain / number, sum(rank == 1 for rank in ranks) / number, sum(0 < rank <= 5 for rank in ranks) / number


def plain(tokenizer: str, form: Index, ask: Ask) -> Callable[[Questions], tuple[float, float, float]]:
    """Return a measurement with one column: `form` makes the indexed text, `ask` the FTS5 expression."""

    def measure(questions: Questions) -> tuple[float, float, float]:
        db = sqlite3.connect(":memory:")
        db.execute(f'CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = "{tokenizer}")')
        db.executemany(
            "INSERT INTO words (rowid, body) VALUES (?, ?)", [(i, form(text)) for i, text in enumerate(questions.texts)]
        )

        def found(question: str) -> list[int]:
            expression = ask(question)
            rows = (
                db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT 10", (expression,))
                if expression
                else ()
            )
            return [number for (number,) in rows]

        return score(questions, found)

    return measure


def spellbook(questions: Questions) -> tuple[float, float, float]:
    """Measure the product: its table, weights and query parser."""
    db = empty_catalog()
    db.executemany(
        "INSERT INTO words (rowid, body, parts) VALUES (?, ?, ?)",
        [(i, terms.index_form(text), terms.parts(text)) for i, text in enumerate(questions.texts)],
    )

    def frequency(part: Expression) -> int:
        return int(db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (str(part),)).fetchone()[0])

    def found(question: str) -> list[int]:
        expression = fts_query.parse(question).chosen(frequency).expression
        sql = (
            f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words, {', '.join(map(str, WEIGHTS))}) LIMIT 10"
        )
        return [number for (number,) in db.execute(sql, (str(expression),))] if expression else []

    return score(questions, found)


def nfc(text: str) -> str:
    """Return the text in NFC."""
    return unicodedata.normalize("NFC", text)


def pairs(text: str) -> str:
    """Return the text with runs of CJK and Thai as letter bigrams."""
    return _RUN.sub(lambda run: f" {' '.join(run[0][i : i + 2] for i in range(max(1, len(run[0]) - 1)))} ", nfc(text))


def any_word(form: Index, least: int = 1) -> Ask:
    """Return an asker for any word of at least `least` letters of `form(text)`."""
    return lambda text: " OR ".join(
        dict.fromkeys(f'"{word.lower()}"' for word in re.findall(r"\w+", form(text)) if len(word) >= least)
    )


def ways() -> dict[str, Callable[[Questions], tuple[float, float, float]]]:
    """Return the compared measurements by name."""
    found = {
        "unicode61": plain("unicode61 remove_diacritics 2", nfc, any_word(nfc)),
        "porter": plain("porter unicode61 remove_diacritics 2", nfc, any_word(nfc)),
        "trigram": plain("trigram", nfc, any_word(nfc, 3)),
        "pairs": plain("porter unicode61 remove_diacritics 2", pairs, any_word(pairs)),
        "spellbook": spellbook,
    }
    try:
        from kiwipiepy import Kiwi
    except ImportError:
        return found
    analyser = Kiwi()
    content = re.compile("NN|NR|NP|V[VAX]|MM|MAG|XR|S[LNH]|X[PS]N|IC")

    def morphemes(text: str) -> str:
        return " ".join(token.form for token in analyser.tokenize(nfc(text)) if content.match(token.tag))

    return {**found, "kiwi": plain("porter unicode61 remove_diacritics 2", morphemes, any_word(morphemes))}


def sets(folder: Path) -> dict[str, Callable[[], Questions]]:
    """Return the question sets by name."""
    found: dict[str, Callable[[], Questions]] = {"klue-sts": lambda: klue(folder)}
    for language in ("ko", "en"):
        found[f"react-{language} heading"] = lambda language=language: headings(folder, language)  # type: ignore[misc]
        found[f"react-{language} sentence"] = lambda language=language: sentences(folder, language)  # type: ignore[misc]
    for language in LANGUAGES:
        found[f"xquad-{language}"] = lambda language=language: xquad(folder, language)  # type: ignore[misc]
    return found


def speed(folder: Path) -> None:
    """Print the speed of making indexed text, and its size."""
    for language in ("en", "ko"):
        texts = [text for _, text in sections(folder, language)]
        size = sum(len(text.encode()) for text in texts) / 1e6
        for name, form in (("pairs", pairs), ("index_form", terms.index_form), ("parts", terms.parts)):
            start = time.process_time()
            stored = sum(len(form(text).encode()) for text in texts) / 1e6
            print(
                f"react-{language} {name:10} {size / (time.process_time() - start):6.1f} MB/s  {size:.1f} -> {stored:.1f} MB"
            )


def main() -> None:
    """Print a table of nDCG@10 / R@1 / R@5."""
    parser = argparse.ArgumentParser(description="Measure full-text search alone.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).resolve().parents[3] / "shared")
    parser.add_argument("--only", action="append", default=[], help="part of the name of a set to run; repeatable")
    options = parser.parse_args()
    compared = ways()
    print("| nDCG@10 / R@1 / R@5 |", " | ".join(compared), "|\n| --- |", " --- |" * len(compared))
    for name, load in sets(options.folder).items():
        if options.only and not any(part in name for part in options.only):
            continue
        try:
            questions = load()
        except (OSError, ValueError) as error:
            print(f"| {name} | missing: {error} |")
            continue
        print(f"| {name} ({len(questions.asked)}/{len(questions.texts)})", end="", flush=True)
        for way, measure in compared.items():
            cell = (
                ""
                if way == "kiwi" and "ko" not in name and "klue" not in name
                else "{:.3f} / {:.3f} / {:.3f}".format(*measure(questions))
            )
            print(f" | {cell}", end="", flush=True)
        print(" |")
    if (options.folder / "vaults").is_dir():
        speed(options.folder)


if __name__ == "__main__":
    main()
