"""
Detect the turns of a conversation in a note, a person's words in a session, and the date of a dated note. Pure.

Exports and pasted chats mark a turn by a heading (`## User`), a label (`Claude:`, `**나:**`), a callout, or a name with
a time. Other labels (`Note:`, `Example:`) do not count: unless the frontmatter says that it is a conversation, known
speakers of both sides, or names with times, must alternate through most of the note.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from spellbook.system.lazy import regex

if TYPE_CHECKING:
    from spellbook.notes.note import Note

_ASKING = {
    *("user", "human", "you", "me", "나", "나의 말", "내 말", "사용자", "유저", "질문자"),
    *("用户", "我", "你", "您", "ユーザー", "ユーザ", "あなた", "usuario", "tú", "utilisateur", "vous", "nutzer", "du"),
}
_ANSWERING = regex(
    r"(?:ai )?assistant|ai|asistente|assistent|chat ?gpt(?:의 말)?|gpt-?\d\S*"
    r"|claude(?: [\w.]+){0,2}|gemini(?: [\w.]+){0,2}"
    r"|copilot|grok|deepseek|perplexity|어시스턴트|클로드(?:의 말)?|챗지피티|챗 ?gpt|제미나이|助手|アシスタント"
)
_CONVERSATIONS = {
    *("conversation", "conversations", "chat", "chats", "dialogue", "dialog", "transcript"),
    *("대화", "대화록", "채팅", "対話", "会話", "对话", "聊天"),
}
_DATED = _CONVERSATIONS | {
    *("journal", "diary", "daily", "daily-note", "log", "worklog", "standup", "meeting", "meetings", "minutes"),
    *("일기", "일지", "업무일지", "데일리", "회의", "회의록", "日記", "日记", "会議", "会议", "議事録", "会议纪要"),
}
_NAME = r"(?P<name>[^\W_][^\n:：*_\[\]()#>|`]{0,30}?)(?: (?:said|says|responded|replied|wrote))?"
_TIME = r"(?P<time>[^()\[\]\n]{0,24}\d[^()\[\]\n]{0,24})"
_HEADING = regex(rf"\W{{0,4}}(?:role::? ?)?{_NAME}\s*[:：]?(?:\s*[-,·(\[（]\s*{_TIME}[)\]）]?)?\s*[:：]?")
_BETWEEN_KINDS = regex(r"[,\s/#]+")
_LINES = tuple(
    regex(r"[ \t]{0,3}" + pattern)
    for pattern in (
        rf"(?:> ?)?(?:\*\*|__)?\W{{0,3}}{_NAME}\s*(?:[(\[]{_TIME}[)\]]\s*)?"
        rf"(?:(?:\*\*|__)?[:：]|[:：](?:\*\*|__))(?=\s|$)",
        rf"(?P<bold>\*\*|__)\W{{0,3}}{_NAME}[:：]?(?P=bold)(?:\s*[-,·(\[]?\s*{_TIME}[)\]]?)?\s*$",
        rf"\[(?P<name>[^\[\]\n]{{1,30}})\] \[{_TIME}\] ",
        rf"> ?\[!{_NAME}\]",
    )
)
_SECTION = regex(r"^## (?=\d\d:\d\d)", re.M)
_WORDS = regex(r"^\*\*You:\*\*(.*?)(?=^\*\*[^*\n]+:\*\*|\Z)", re.M | re.S)
"""A person's words in a section of a captured session, one an exchange."""
_CLOCK = regex(r"\d{1,2}:\d\d")


class Turn(NamedTuple):
    """One turn of a speaker: lines of the body, 0-based, end exclusive."""

    start: int
    end: int


class _Mark(NamedTuple):
    """A line that may begin a turn; `level` is its heading's, 0 if it is none."""

    line: int
    level: int
    name: str
    timed: bool

    @property
    def side(self) -> str:
        if self.name in _ASKING:
            return "asking"
        return "answering" if _ANSWERING.fullmatch(self.name) else ""


def turns(note: Note, source: Sequence[str]) -> tuple[Turn, ...]:
    """Return the turns of `note`, whose body has the lines `source`; none if it is no conversation."""
    is_declared = is_conversation(note.meta)
    marks = _believe([*_marks(note, source)], is_declared)
    changes = sum(a.name != b.name for a, b in pairwise(marks))
    if len(marks) < (2 if is_declared else 3) or changes < (1 if is_declared else 2):
        return ()
    dialogue = tuple(_turns(note, marks, len(source)))
    spoken = sum(len(line) for turn in dialogue for line in source[turn.start : turn.end])
    return dialogue if is_declared or 2 * spoken > len(note.body) else ()


def date_of(note: Note) -> str:
    """Return the day of a journal, a meeting or a conversation by its frontmatter; "" for any other note."""
    return (note.created or "")[:10] if _kinds(note.meta) & _DATED else ""


def is_conversation(meta: Mapping[str, object]) -> bool:
    """Say whether a note's frontmatter calls it a conversation."""
    return not _kinds(meta).isdisjoint(_CONVERSATIONS)


def speaker(heading: str) -> str:
    """Return the name under whose heading a turn stands, "" for words such as `User` that name nobody."""
    name = _name_in(heading)
    return "" if name.casefold() in _ASKING else name


def is_answer(heading: str) -> bool:
    """Say whether a turn stands under the name of an assistant."""
    return _ANSWERING.fullmatch(_name_in(heading).casefold()) is not None


def _name_in(heading: str) -> str:
    match = _HEADING.fullmatch(heading.partition(" > ")[0])
    return match["name"].strip() if match else ""


def words(text: str) -> str:
    """Return the person's words in the last exchange of a captured session's text, "" if it has none."""
    found = _WORDS.search(_SECTION.split(text)[-1])
    return re.sub(r"(?m)^> ?", "", found[1].strip()) if found else ""


def _kinds(meta: Mapping[str, object]) -> set[str]:
    """Return the words by which a note's frontmatter names its kind."""
    words: set[str] = set()
    for key in ("kind", "category", "type", "tags", "tag"):
        value = meta.get(key)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                words.update(_BETWEEN_KINDS.split(item.casefold()))
    return words


def _marks(note: Note, source: Sequence[str]) -> Iterator[_Mark]:
    for block in note.blocks:
        if block.kind == "heading":
            if match := _HEADING.fullmatch(block.text):
                yield _mark(block.start, block.level, match)
        elif block.kind in {"paragraph", "blockquote"}:
            last = block.end if block.kind == "paragraph" else block.start + 1
            for number in range(block.start, min(last, len(source))):
                line = source[number]
                if (":" in line[:90] or "：" in line[:90] or line.lstrip().startswith(("**", "__", ">"))) and (
                    match := next(filter(None, (pattern.match(line) for pattern in _LINES)), None)
                ):
                    yield _mark(number, 0, match)


def _mark(line: int, level: int, match: re.Match[str]) -> _Mark:
    return _Mark(
        line, level, match["name"].strip().casefold(), bool(_CLOCK.search(match.groupdict().get("time") or ""))
    )


def _believe(marks: list[_Mark], is_declared: bool) -> list[_Mark]:
    """Return the marks that count: known speakers of both sides, else recurring names, with times or `is_declared`."""
    known = [mark for mark in marks if mark.side]
    if len({mark.side for mark in known}) == 2:
        return known
    named = [mark for mark in marks if is_declared or mark.timed]
    often = Counter(mark.name for mark in named)
    recurring = [mark for mark in named if often[mark.name] > 1]
    return recurring if len({mark.name for mark in recurring}) > 1 else []


def _turns(note: Note, marks: list[_Mark], last: int) -> Iterator[Turn]:
    """Yield the turns; each ends at the next, or at another heading that is not below the level of the turns."""
    spoken = {mark.line for mark in marks}
    others = [block for block in note.blocks if block.kind == "heading" and block.start not in spoken]
    above = next((block.level for block in reversed(others) if block.start < marks[0].line), 0)
    at = 0
    for mark, end in zip(marks, [*(mark.line for mark in marks[1:]), last], strict=True):
        while at < len(others) and others[at].start < mark.line:
            at += 1
        while at < len(others) and others[at].start < end and others[at].level > (mark.level or above):
            at += 1
        yield Turn(mark.line, min(end, others[at].start) if at < len(others) else end)
