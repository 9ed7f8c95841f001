"""What has no door and is asked by `driver.py`: the explanations of many questions, and the bytes after many edits."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from . import vault
from .place import Place, pretty

DRIVER = Path(__file__).with_name("driver.py")

OFF_TOPIC = (
    "zebra spaceship quantum",
    "How do I file my taxes?",
    "얼룩말은 무엇을 먹나",
    "best pizza in Naples",
    "오늘 날씨",
    "?",
    "the",
    "그리고",
    "SELECT * FROM users",
    "🚂",
)
FORMS = (
    "{0}",
    "what about {0}?",
    "{0} {1}",
    "왜 {0}인가",
    "where is {0} and {1}",
    "{0}는 언제",
    "how often {0} in 2026",
    '"{0}" {1}',
    "not {0}",
    "{0}은 누가 하나요?",
)


def questions(count: int) -> list[str]:
    """Return questions made of the vault's own words and titles, in both languages, and some off topic; always the same."""
    choose = random.Random(7)
    texts = [data.decode("utf-8", "ignore") for path, data in sorted(vault.notes().items()) if path.endswith(".md")]
    words = sorted({word for text in texts for word in re.findall(r"[\w가-힣]{3,}", text)})
    titles = [title for subject in vault.SUBJECTS for title in (*subject[2:4], subject[6], subject[7])]
    sentences = [text for subject in vault.SUBJECTS for text in (*subject[4:6], *subject[8:10])]
    made = []
    for number in range(count):
        pool = (words, titles, words, titles, sentences)[number % 5]
        made.append(
            choose.choice(FORMS).format(choose.choice(pool), choose.choice(words))
            if pool is not sentences
            else choose.choice(sentences)
        )
    made[:: max(1, count // len(OFF_TOPIC))] = OFF_TOPIC[: len(made[:: max(1, count // len(OFF_TOPIC))])]
    return made


def why(place: Place) -> None:
    """Record the explanations of 300 questions with the hash embedder."""
    _why(place, questions(300))


def why_model(place: Place) -> None:
    """Record those of 60 questions with the bundled embedder."""
    _why(place, questions(300)[::5])


def _why(place: Place, asked: list[str]) -> None:
    vault.make(place)
    file = place.root / "questions.json"
    file.write_text(json.dumps(asked), "utf-8")
    told = place.do(str(DRIVER), "why", str(file), str(place.vault), program=[str(place.python)])
    for number, line in enumerate(told.splitlines(), 1):
        place.write(f"{number:03d}.txt", pretty(json.loads(line)))


def edits(place: Place) -> None:
    """Record 400 edits, half of them undone, and the bytes of all notes then."""
    vault.make(place)
    told = place.do(str(DRIVER), "edits", str(place.clock), "400", str(place.vault), program=[str(place.python)])
    for number, line in enumerate(told.splitlines()):
        place.write(f"made/{number:03d}.txt", pretty(json.loads(line)))
    for path in sorted(place.vault.rglob("*")):
        name = path.relative_to(place.vault).as_posix()
        if path.is_file() and not name.startswith(".git/"):
            place.write(f"after/{name}.txt", path.read_bytes().decode("utf-8", "backslashreplace").replace("\r", "\\r"))
