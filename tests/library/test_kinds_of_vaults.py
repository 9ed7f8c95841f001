"""Vaults of nine kinds, put together by chance: what is counted in them is what was put in, known without a parser."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from spellbook.library.book import Spellbook

PIECES: list[tuple[str, set[str], int]] = [
    ("Text with #plain and #프로젝트/앱, and [[Target]].", {"plain", "프로젝트", "프로젝트/앱"}, 1),
    ("`#code` and `[[none]]`, ``[[`none]]``", set(), 0),
    ("So $[[A]]=D$ holds, and $$ #rb $$ too.", set(), 0),
    ("$$\nQ^n = [[1,2],[3,4]]\n=\n#rc\n-\n$$", set(), 0),
    ("It costs $5 and $6 for #money", {"money"}, 0),
    ("| a | b |\n| --- | --- |\n| ` | a tick |\n| x | [[Target]] #two |\n| y | `[[code]]` `#no` |", {"two"}, 1),
    ("- a lone ` tick\n- see [[Target\\|it]] and [[Target|it]] #three\n- [ ] `#no`", {"three"}, 2),
    ("> - quoted ` tick\n> - [md](Target.md) #four", {"four"}, 1),
    ("(#paren) list:#colon <!-- #hid [[hidden]] -->", set(), 0),
    ("_#under_ **#bold** #one#other", {"under", "bold", "one", "other"}, 0),
    ("#हिन्दी #เที่ยว #🌱 #to/📝 #2024", {"हिन्दी", "เที่ยว", "🌱", "to", "to/📝"}, 0),
    ("```\n#no [[none]]\n## none\n```", set(), 0),
    (f"![](data:image/png;base64,{'iVBORw0KGgo' * 60}) #seen", {"seen"}, 0),
    ("---\n\nA rule above, 표와 ~~[[Target]]~~.", set(), 1),
]
"""A piece of text, its tags with those above them, and its links."""

KINDS: dict[str, tuple[str, str, set[str], int]] = {
    "Obsidian": ("{}.md", "tags: [own, Off, 12:30]\ncreated: 2024-01-05", {"own", "Off", "12:30"}, 0),
    "the Linter": ("{}.md", "date created: Friday, January 5th 2024, 3:04:05 PM\ntags: own", {"own"}, 0),
    "Hugo": ("{}.md", "Title: T\nDate: 2024-01-05T10:00:00+09:00\nTAGS: own, no", {"own", "no"}, 0),
    "links as values": ("{}.md", 'created: "[[2024-01-05]]"\ncategory: "[[Books]]"', set(), 2),
    "Korean days": ("{}/2024년 1월 5일.md", "", set(), 0),
    "German days": ("{}/5. Januar 2024.md", "태그: x", set(), 0),
    "Logseq": ("journals{}/2024_01_05.md", "", set(), 0),
    "Dendron": ("a.b.{}.md", "id: n{}\ncreated: 1704412800000", set(), 0),
    "a program": ("{}~.md", "created_at: January 5, 2024\naliases: 22:22", set(), 0),
}
"""Name of a file, frontmatter, its tags and its links, for each kind of vault; all are of 5 January 2024."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_counted_is_what_was_put_in(book: Spellbook, vault: Path, kind: str) -> None:
    """Tags, links, sections and dates of 40 notes are those of their pieces, whatever stands beside them."""
    name, header, own, held = KINDS[kind]
    chance = random.Random(kind)
    tags, links, sections = Counter[str](), 0, 0
    for number in range(40):
        parts = [chance.sample(PIECES, chance.randint(1, 4)) for _ in range(chance.randint(1, 5))]
        body = "\n\n## Part\n\n".join("\n\n".join(text for text, _, _ in part) for part in parts)
        head = f"---\n{header.format(number)}\n---\n" if header else ""
        file = vault / name.format(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        ends = "\r\n" if chance.random() < 0.3 else "\n"
        file.write_bytes(f"{head}Lead.\n\n{body}\n".replace("\n", ends).encode())
        tags.update(own | {tag for part in parts for _, given, _ in part for tag in given})
        links += held + sum(count for part in parts for _, _, count in part)
        sections += len(parts)
    book.reindex(words_only=True)
    catalog = book.index.catalog
    assert dict(catalog.commonest("tags", (), 1_000)) == dict(tags)
    assert len(catalog.links.to()) == links
    assert {chunk.created[:10] for chunk in catalog.newest((), 100, 0)[0] if chunk.created} == {"2024-01-05"}
    assert catalog.counts().notes == 40
    assert catalog.counts().chunks == sections
    assert not [fault for fault in catalog.notes.faults() if fault.path in catalog.paths(())]
