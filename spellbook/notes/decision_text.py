"""
The text of decisions and checkpoints, composed and read: reason, outcomes, steps and open files. Pure.

A part begins with its label on a line of its own paragraph (`이유:`, `Outcome:`, …) and ends at the next label. Text
before the first label is the decision, or the checkpoint's summary; a note without labels is all decision.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from spellbook.notes.labels import DECISION
from spellbook.system.lazy import regex
from spellbook.text.terms import scripts

QUESTIONS = ("What was I doing last?", "Where did I stop?", "하던 일은?", "어디까지 했지?")
"""Questions that people ask for the last checkpoint; each checkpoint lists them as its questions."""

RESULTS: dict[str, tuple[str, str]] = {
    "success": ("성공", "success"),
    "partial": ("부분 성공", "partial"),
    "failed": ("실패", "failed"),
}
"""Outcomes by the value of the key `outcome`, in Korean and in English."""

PENDING: dict[str, Any] = {"category": [DECISION], "outcome!": [*RESULTS], "status!": ["superseded"]}
"""The filter of decisions whose outcome is awaited; `search.newest.living` leaves out those with a successor, too."""

_REASON, _OUTCOME = ("이유", "Reasoning"), ("결과", "Outcome")
_STEPS, _FILES = ("다음 할 일", "Next steps"), ("열린 파일", "Open files")
_LABELS = {word.casefold(): label for label in (_REASON, _OUTCOME, _STEPS, _FILES) for word in label}
_LABEL = regex(rf"(?P<label>{'|'.join(map(re.escape, _LABELS))}):[ \t]*(?P<rest>.*)", re.I | re.S)
_ITEM = regex(r"[ \t]*[-*+][ \t]+(?:\[(?P<box>[ xX])\][ \t]+)?(?P<text>.+)")
_CODE = regex(r"(?P<ticks>`+) ?(?P<code>.+?) ?(?P=ticks)")


class Decision(NamedTuple):
    """The content of a decision's note: the decision, why, and its outcomes, one line each, oldest first."""

    decision: str
    reasoning: str = ""
    outcomes: tuple[str, ...] = ()

    @property
    def outcome_reason(self) -> str:
        """Return the latest outcome without its date and result, "" if there is none."""
        if not self.outcomes:
            return ""
        words = "|".join(re.escape(word) for pair in RESULTS.values() for word in pair)
        return re.sub(
            rf"^(?:\d{{4}}-\d\d-\d\d[ :]*)?(?:(?:{words})(?:\s*[:：,]\s*|$))?", "", self.outcomes[-1], flags=re.I
        )


@dataclass(frozen=True, slots=True)
class CheckpointTask:
    """A task of a checkpoint that a person may have ticked."""

    text: str
    done: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint's note: where the work stands, what comes next, and which files are open."""

    summary: str
    steps: tuple[CheckpointTask, ...] = ()
    files: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "summary": self.summary,
            "next_steps": [{"text": step.text, "done": step.done} for step in self.steps],
            "open_files": list(self.files),
        }


def decision_text(decision: str, reasoning: str = "") -> str:
    """Return the body of a decision's note; its labels are Korean if the given text holds Hangul."""
    own = _language(decision, reasoning)
    reason = f"{_REASON[own]}: {reasoning.strip()}" if reasoning.strip() else ""
    return "\n\n".join(filter(None, (decision.strip(), reason)))


def checkpoint_text(summary: str, steps: Sequence[str] = (), files: Sequence[str] = ()) -> str:
    """Return the body of a checkpoint's note: steps as tasks to tick, files as code."""
    own = _language(summary, *steps)
    parts = [summary.strip()]
    if steps:
        parts.append("\n".join([f"{_STEPS[own]}:", *(f"- [ ] {' '.join(step.split())}" for step in steps)]))
    if files:
        lines = [f"{_FILES[own]}:"]
        for name in (" ".join(file.split()) for file in files):
            longest = max(map(len, re.findall("`+", name)), default=0)
            ticks, space = "`" * (longest + 1), " " if longest else ""
            lines.append(f"- {ticks}{space}{name}{space}{ticks}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def read_decision(body: str) -> Decision:
    """Return the content of a decision's note by its body."""
    parts = dict(_parts(body))
    outcomes = tuple(item["text"].strip() for item in _items(parts.get(_OUTCOME, "")))
    texts = [text for label, text in _parts(body) if label not in {_REASON, _OUTCOME} and text]
    return Decision("\n\n".join(texts), parts.get(_REASON, ""), outcomes)


def read_checkpoint(body: str) -> Checkpoint:
    """Return the content of a checkpoint's note by its body, with the boxes as a person left them."""
    parts = dict(_parts(body))
    steps = tuple(
        CheckpointTask(item["text"].strip(), (item["box"] or " ") in "xX") for item in _items(parts.get(_STEPS, ""))
    )
    files = []
    for item in _items(parts.get(_FILES, "")):
        code = _CODE.search(item["text"])
        files.append(code["code"] if code else item["text"].strip())
    texts = [text for label, text in _parts(body) if label not in {_STEPS, _FILES} and text]
    return Checkpoint("\n\n".join(texts), steps, tuple(files))


def with_outcome(body: str, outcome: str, reason: str, day: dt.date) -> tuple[str, str]:
    """
    Return a change of a decision's body that records an outcome of RESULTS: the old text, and the new one.

    The line comes after earlier outcomes; without any, the old text is "", and the new one is appended. If the last
    outcome is the same, both are equal.
    """
    own = _language(body, reason)
    words = " ".join(reason.split())
    line = f"- {day.isoformat()} {RESULTS[outcome][own]}" + (f": {words}" if words else "")
    listed = "\n".join(item[0] for item in _items(dict(_parts(body)).get(_OUTCOME, "")))
    if not listed:
        return "", f"{_OUTCOME[own]}:\n{line}"
    return listed, listed if listed.endswith(line) else f"{listed}\n{line}"


def _parts(body: str) -> Iterator[tuple[tuple[str, str] | None, str]]:
    """Yield each part's label, None for the text before the first one, and its text without the label."""
    label: tuple[str, str] | None = None
    paragraphs: list[str] = []
    for paragraph in re.split(r"\n[ \t]*\n", body.strip().replace("\r\n", "\n")):
        begins = _LABEL.match(paragraph)
        if begins:
            yield label, "\n\n".join(paragraphs).strip()
            label, paragraphs = _LABELS[begins["label"].casefold()], [begins["rest"]]
        else:
            paragraphs.append(paragraph)
    yield label, "\n\n".join(paragraphs).strip()


def _items(text: str) -> Iterator[re.Match[str]]:
    return (item for line in text.split("\n") if (item := _ITEM.fullmatch(line)))


def _language(*texts: str) -> int:
    """Return which label of a pair to use for a text: 0 for Korean, 1 for English."""
    return 0 if any("hangul" in scripts(text) for text in texts) else 1
