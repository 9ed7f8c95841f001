"""dialogue.turns: which notes are conversations, and where their turns begin."""

from __future__ import annotations

import itertools

import pytest

from spellbook.notes.dialogue import turns
from spellbook.notes.note import lines, parse

CHATS = {
    "ChatGPT": "# Chat\n\n## You said:\n\nHow?\n\n## ChatGPT said:\n\nSo.\n\n### Steps\n\n1.\n\n## You said:\n\nThanks.\n",
    "labels": "User: hi\nAssistant: hello\nUser: how?\nAssistant: so\n",
    "bold labels": "**Human:** hi\n\n**Claude:** hello: so\n\nMore.\n\n**Human:** more\n",
    "bold lines": "**You**\n\nhi\n\n**ChatGPT**\n\nhello\n\n**You**\n\nmore\n",
    "Korean labels": "나: 안녕\n\n클로드: 네\n\n나: 질문\n",
    "Korean headings": "## 사용자\n\n안녕\n\n## 어시스턴트\n\n네\n\n## 사용자\n\n질문\n",
    "callouts": "> [!user]\n> hi\n\n> [!assistant]\n> yo\n\n> [!user]\n> more\n",
    "roles": "### role::user\n\nhi\n\n### role::assistant\n\nyo\n\n### role::user\n\nx\n",
    "pictures": "## 🧑 User\n\na\n\n## 🤖 Assistant\n\nb\n\n## 🧑 User\n\nc\n",
    "times": "## User (2026-11-21 10:00)\n\na\n\n## Claude 3.5 Sonnet (2026-11-21 10:01)\n\nb\n\n## User (2026-11-21 10:05)\n\nc\n",
    "people with times": "**Alice** (10:32)\nhi\n\n**Bob** (10:33)\nyo\n\n**Alice** (10:34)\nx\n\n**Bob** (10:35)\nz\n",
    "KakaoTalk": "[홍길동] [오후 3:14] 안녕\n[김철수] [오후 3:15] 네\n[홍길동] [오후 3:16] 그래\n[김철수] [오후 3:17] 응\n",
    "said to be one": "---\nkind: conversation\n---\nAlice: hi\nBob: ho\nAlice: x\nBob: y\n",
}
NO_CHATS = {
    "labels": "Note: a\n\nExample: b\n\nNote: c\n\nExample: d\n",
    "questions": "**Q:** a\n\n**A:** b\n\n**Q:** c\n\n**A:** d\n",
    "a page on roles": "## User\n\nThe user table.\n\n## Assistant\n\nThe assistant table.\n",
    "an example in a page": f"# Prompts\n\n{'Prose about prompts. ' * 20}\n\nUser: hi\nAssistant: yo\nUser: x\n",
    "an example in code": "```\nUser: hi\nAssistant: yo\nUser: x\n```\n",
    "a log": "10:32 INFO: a\n10:33 ERROR: b\n10:34 INFO: c\n10:35 ERROR: d\n",
    "a list of settings": "User: admin\nModel: x\nUser: b\nModel: y\n",
    "said to be one, with one speaker": "---\ncategory: chat\n---\nAlice: hi\nAlice: ho\n",
}


@pytest.mark.parametrize("name", CHATS)
def test_turns(name):
    """An exported conversation in any form is read as turns, in order."""
    note = parse("a.md", CHATS[name].encode())
    source = lines(note.body)
    found = turns(note, source)
    assert len(found) >= 3
    assert all(a.end == b.start for a, b in itertools.pairwise(found))
    assert found[-1].end == len(source)


@pytest.mark.parametrize("name", NO_CHATS)
def test_no_turns(name):
    """Text that only resembles a conversation is none."""
    note = parse("a.md", NO_CHATS[name].encode())
    assert turns(note, lines(note.body)) == ()
