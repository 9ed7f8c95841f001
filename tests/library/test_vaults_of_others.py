"""What other programs leave beside notes: placeholders, copies, bins, conflicts, a Logseq graph; nothing in silence."""

import json
import os
import random
import shutil
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from spellbook.editing import repair_links
from spellbook.editing.repair_links import BrokenLink
from spellbook.index import sync
from spellbook.index.filters import conditions
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.system import disk
from spellbook.system.errors import InvalidInput, MemoryNotFound, UnreadableNote
from tests.commands import spellbook_in
from tests.commands import spellbook_in as run
from tests.helpers import Counting, Write, from_scratch, opened, told

AWAY = "it is not on this machine"


def faults(book: Spellbook) -> dict[str, str]:
    """The reason of each fault by its path."""
    book.reindex()
    return {fault["path"]: fault["reason"] for fault in book.status()["faults"]}


def evict(note: Path) -> Path:
    """Do to a file what iCloud does to save space."""
    return note.rename(note.with_name(f".{note.name}.icloud"))


NAMES = [
    "여행 후기~", "またね~", "#draft#", "Conflict resolution", "my LOCAL notes", "a_LOCAL", "a_BASE_LINE", "Inner_Conflict",
    "copy (conflict of copyright)", "v1.conflict", "plan (Konflikt)", "2024_01_05",
]  # fmt: skip


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_copies_of_other_programs_are_named_once(
    book: Spellbook, write_note: Write, form: Literal["NFC", "NFD"]
) -> None:
    """
    A name that only looks like that of a copy is a note's, is found, and nothing is left out. Conflict copies are no
    notes, are counted in one line of status, and do not make `reindex` fail; locks are silent.
    """
    paths = {unicodedata.normalize(form, f"{name}.md") for name in NAMES}
    for path in paths:
        write_note(path, f"The marmot sleeps in {path}.")
    assert faults(book) == {}
    assert {hit.path for hit in book.find("marmot", limit=50, min_score=0).hits} == paths
    copies = [
        "a.sync-conflict-20260101-120000-ABC", "a (Ann's conflicted copy 2024-01-05)", "a (case conflict)",
        "a (In Konflikt stehende Kopie von Ann 2024-01-05)", "a (Copie en conflit de Ann 2024-01-05)",
        "a (Copia en conflicto de Ann 2024-01-05)", "a (Copia in conflitto di Ann 2024-01-05)",
        "a (Cópia em conflito de Ann 2024-01-05)", "a (cópia conflitante de Ann 2024-01-05)",
        "a (Conflicterende kopie van Ann 2024-01-05)", "a (Конфликтующая копия Ann 2024-01-05)",
        "a (Annの競合コピー 2024-01-05)", "a (Ann의 충돌된 복사본 2024-01-05)", "a (Ann 的冲突副本 2024-01-05)",
        "a (Ann 的衝突複本 2024-01-05)", "a (SFConflict ann@example.org 2024-01-05-10-10-10)",
        "a_DiskStation_Jan-05-1010-2024_Conflict", "a_nas_Jan-05-101010-2024_CaseConflict", "a_Conflict", "a.conflict1",
        "a_BASE_123", "a_LOCAL_123", "a_REMOTE_123", "a_BACKUP_123",
    ]  # fmt: skip
    write_note("a.md", "The marmot sleeps.")
    for name in ("~$a", *copies):
        write_note(unicodedata.normalize(form, f"{name}.md"), "The marmot wakes.")
    for folder in ("#recycle", "$RECYCLE.BIN/S-1", "@eaDir/x", ".Trashes", "logseq/bak/pages", "logseq/version-files"):
        write_note(f"{folder}/b.md", "The marmot is gone.")
    [(path, reason)] = faults(book).items()
    assert (path, reason) == (
        unicodedata.normalize(form, f"{min(unicodedata.normalize(form, each) for each in copies)}.md"),
        "the first of 24 conflict copies that another program made; not read",
    )
    assert book.status()["notes"] == 1 + len(paths)
    assert all(book.index.vault.stamp(f"{name}.md") is None for name in ("~$a", *copies))
    assert book.reindex().unread == ()


def test_what_is_not_read_is_named(book: Spellbook, vault: Path, tmp_path: Path, write_note: Write) -> None:
    """
    A link to a folder is not followed, and is named in status, doctor and `show`; not if it is ignored. The pointer of
    Git LFS is named as what is not here and not read as three lines; a note about pointers is a note.
    """
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
    write_note("big.md", pointer)
    write_note("about.md", f"```\n{pointer}```\n")
    assert faults(book) == {"big.md": f"{AWAY}, Git LFS has it"}
    assert book.status()["notes"] == 1
    with pytest.raises(UnreadableNote) as caught:
        book.index.vault.read("big.md")
    assert "git lfs pull" in caught.value.hint
    for name in ("big.md", "about.md"):
        (vault / name).unlink()
    write_note("a.md", "The marmot sleeps.")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.md").write_text("The marmot wakes.")
    (vault / "away").symlink_to(tmp_path / "elsewhere")
    assert "not followed" in faults(book)["away"]
    with pytest.raises(MemoryNotFound, match="away: a link to a folder"):
        book.show("away/b.md")
    book.close()
    assert "not read" in (said := spellbook_in(vault, "status").stdout)
    assert "finds every note that was read (see to fix), by words" in said
    spellbook_in(vault, "reindex")
    (vault / ".spellbookignore").write_text("away\n")
    assert "every note, by" in spellbook_in(vault, "status").stdout


def test_a_note_that_icloud_holds_back_is_there(book: Spellbook, vault: Path, write_note: Write) -> None:
    """Its last text is found, its links hold, its place is kept, and each answer says to download it; then it is read."""
    for path, text in (
        ("ops/keys.md", "The marmot sleeps."),
        ("log.md", "See [[keys]], ![[plan.png]]."),
        ("b.md", "x"),
    ):
        write_note(path, text)
    (vault / "plan.png").write_bytes(b"png")
    book.reindex()
    for path in ("plan.png", "ops/keys.md"):
        away = evict(vault / path)
    for watched in (False, True):
        if watched:
            sync.scan_paths(book.index, ["ops/keys.md"])
        assert AWAY in faults(book)["ops/keys.md"]
    assert [hit.path for hit in book.search("marmot", limit=1).hits] == ["ops/keys.md"]
    assert AWAY in (shown := spellbook_in(vault, "show", "ops/keys.md")).stderr
    assert "marmot" in shown.stdout
    assert repair_links.broken(book.index) == ()
    incoming = vault.parent / "in"
    (incoming / "ops").mkdir(parents=True)
    (incoming / "ops/keys.md").write_text("Other text.")
    attempts: list[Callable[[], object]] = [
        lambda: book.move("b.md", "ops/keys.md"),
        lambda: book.move("b.md", "ops/keys.md", dry_run=True),
        lambda: book.move("ops/keys.md", "c.md"),
        lambda: book.import_(incoming),
        lambda: book.import_(incoming, dry_run=True),
        lambda: book.erase("ops/keys"),
        lambda: book.erase("ops/keys", hard=True),
        lambda: book.revise("ops/keys", append="more"),
        lambda: book.index.vault.put("ops/keys.md", b"x", None),
        lambda: book.index.vault.create("ops", "keys", b"x"),
    ]
    for attempt in attempts:
        with pytest.raises(UnreadableNote, match=AWAY) as caught:
            attempt()
        assert "Download" in caught.value.hint
    if not disk.ignores_case(vault):  # else it is the same name
        assert book.index.vault.create("ops", "Keys", b"Other text.\n") == "ops/Keys 2.md"
    assert book.move("ops", "deep").new == "deep"
    assert (vault / "deep" / away.name).exists()
    assert AWAY in faults(book)["deep/keys.md"]
    (vault / "deep" / away.name).rename(vault / "deep/keys.md")
    assert faults(book) == {}
    assert told(book.index) == from_scratch(vault, vault.parent / "fresh")
    evict(vault / "deep/keys.md").unlink()
    book.reindex()
    assert {each.target for each in repair_links.broken(book.index)} == {"keys"}


CONFLICT = "<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>> other\n"
MERGED = {
    "bare": (CONFLICT, 1),
    "after frontmatter": (f"---\ntopic: x\n---\n\n{CONFLICT}", 5),
    "CRLF": (CONFLICT.replace("\n", "\r\n"), 1),
    "diff3": (CONFLICT.replace("=======", "||||||| base\nold\n======="), 1),
    "after a code block": (f"```\n{CONFLICT}```\n\nText.\n{CONFLICT}", 10),
    "after a list": (f"- one\n{CONFLICT}", 2),
    "the driver's, in code": (f"```\n{CONFLICT}```\n".replace("HEAD", "this copy"), 2),
    "both sides kept": ("Text.\n\n> [!merge] other copy, 26 Nov, Ann\n> theirs\n", 3),
    "in code": (f"```\n{CONFLICT}```\n", 0),
    "indented": ("".join(f"    {line}\n" for line in CONFLICT.split("\n")), 0),
    "a heading and a quote": ("mine\n=======\n\n>>>>>>> quoted\n", 0),
    "a callout in code": ("```\n> [!merge] other copy\n```\n", 0),
}


@pytest.mark.parametrize(("text", "line"), MERGED.values(), ids=MERGED)
def test_what_a_merge_left_is_a_fault(book: Spellbook, vault: Path, write_note: Write, text: str, line: int) -> None:
    """Markers of git and callouts of a merge are told with their line, by status, doctor and show; no marker is a title."""
    (vault / "merged.md").write_bytes(text.encode())
    book.reindex()
    assert [fault["line"] for fault in book.status()["faults"]] == [line] * bool(line)
    assert "keep one" in spellbook_in(vault, "show", "merged").stderr or not line
    assert dict(book.doctor())["note files"] == [
        f"{f['path']}, line {f['line']}: {f['reason']}" for f in book.status()["faults"]
    ]
    assert book.show("merged")[0].title == ("mine" if text.startswith("mine") else "merged")


GRAPH = {
    "logseq/config.edn": "{}",
    "pages/A___B.md": "- the nested page\n",
    "pages/C%2FD.md": "- the encoded page\n",
    "pages/Ann.md": "- somebody else\n",
    "pages/home.md": "- [[A/B]] [[a/b]] [[C/D]] [[Jan 5th, 2024]] [[2024-01-05]] [[Person/Ann]] [x](A___B.md)\n",
    "journals/2024_01_05.md": "- met [[A/B]]\n",
}


MOVES = [
    ("pages/A___B.md", "pages/E___F.md", {"[[A/B]]": "[[E/F]]", "[[a/b]]": "[[E/F]]", "(A___B.md)": "(E___F.md)"}),
    ("pages/A___B.md", "pages/Plain.md", {"[[A/B]]": "[[Plain]]", "[[a/b]]": "[[Plain]]", "(A___B.md)": "(Plain.md)"}),
    ("pages/C%2FD.md", "pages/G%2FH.md", {"[[C/D]]": "[[G/H]]"}),
    ("pages/C%2FD.md", "pages/C___D.md", {}),
    ("journals/2024_01_05.md", "journals/2024_01_06.md", {"Jan 5th": "Jan 6th", "2024-01-05": "2024-01-06"}),
]


def test_a_logseq_graph_is_read_in_place(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    Pages have their names as titles, links by these and by days lead there, and another page is no repair. A link by a
    page's name or a day gets the new name as Logseq has it, never the file's. What doctor writes for a page that somebody
    renamed is the name that Logseq gives it.
    """
    for path, text in GRAPH.items():
        write_note(path, text)
    book.reindex()
    assert [book.show(path)[0].title for path in ("pages/A___B", "pages/C%2FD", "pages/Ann")] == ["A/B", "C/D", "Ann"]
    assert repair_links.broken(book.index) == (BrokenLink("pages/home.md", 1, "Person/Ann", None),)
    assert not repair_links.mend(book.index, dry_run=True, scan=False).changed
    for path, linking in (("pages/A___B.md", ["journals/2024_01_05.md"]), ("journals/2024_01_05.md", [])):
        assert [back.path for back in book.around(path).backlinks] == [*linking, "pages/home.md"]
    broken = len(repair_links.broken(book.index))
    for old, new, changes in MOVES:
        wanted = GRAPH["pages/home.md"]
        for before, after in changes.items():
            wanted = wanted.replace(before, after)
        book.move(old, new)
        assert (vault / "pages/home.md").read_text() == wanted
        assert len(repair_links.broken(book.index)) == broken
        book.undo()
        assert {path: (vault / path).read_text() for path in GRAPH} == GRAPH
    (vault / "pages/A___B.md").rename(vault / "pages/E___F.md")
    book.reindex()
    book.mend_links()
    assert (vault / "journals/2024_01_05.md").read_text() == "- met [[E/F]]\n"


# -- vaults of nine kinds, put together by chance: what is counted in them is what was put in, known with

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


# -- a day with obsidian: daily notes, templates, a renamed folder, an attachment and a canvas, as obsidi

YESTERYEAR = "2019-05-06"
"""A day on which none of the files was written."""

FILES = {
    "일기/2026-10-15.md": "금요일에 오더허브 배포를 하지 않기로 했다. [[주간회의]] ![[구조.png]]\n",
    "일기/2026-10-16.md": "",
    "일기/2026-10-14.md": "---\ndate: 2019-05-06\n---\n날짜를 적은 일기\n",
    "회의/주간회의.md": "# 주간회의\n\n배포 일정 이야기. [[템플릿/회의|회의 틀]] [일기](../일기/2026-10-15.md)\n",
    "Projects/오더허브.md": "---\ntags: [decision]\n---\n# 캐시는 Redis로\n\n이유: 이미 쓰고 있다.\n",
    "Projects/결제.md": "---\ncategory: fact\ntags: [decision]\n---\n# 결제\n\n결제 대행사는 둘이다.\n",
    "메모/스택.md": "# 스택\n\n언어는 Go로 정했다. #decision/infra\n",
    "템플릿/회의.md": "---\ndate: {{date}}\n---\n# {{title}}\n",
    "템플릿/일기.md": "---\ncreated: <% tp.date.now() %>\n---\n\n",
    "첨부/구조.png": "not a note",
    "지도.canvas": '{"nodes":[{"id":"1","type":"file","file":"회의/주간회의.md","x":0,"y":0,"width":400,"height":400}]}',
    "보관/옛날.md": "지난 배포 이야기\n",
    ".obsidian/app.json": json.dumps({"userIgnoreFilters": ["보관/"], "newLinkFormat": "shortest"}),
    ".obsidian/daily-notes.json": json.dumps({"folder": "일기", "format": "YYYY-MM-DD", "template": "템플릿/일기"}),
    ".obsidian/templates.json": json.dumps({"folder": "템플릿"}),
    ".obsidian/workspace.json": "{}",
}
CATEGORIES = '[categories]\n"#decision" = "decision"\n"회의/" = "meeting"\ndecision = "What we decided"\n'


def put(vault: Path, path: str, text: str) -> None:
    """Write a file, with a time long after all days in it."""
    (vault / path).parent.mkdir(parents=True, exist_ok=True)
    (vault / path).write_text(text, "utf-8")
    os.utime(vault / path, (1_800_000_000, 1_800_000_000))


@pytest.fixture
def evening(vault: Path) -> Path:
    """The vault, as it lies on the disk in the evening."""
    for path, text in FILES.items():
        put(vault, path, text)
    return vault


def dates(book: Spellbook) -> dict[str, str]:
    """The dates of all notes as `recent` shows them."""
    return {note["path"]: note["when"][:10] for note in book.recent(limit=50).as_dict()["notes"]}


def test_templates_are_neither_notes_nor_faulty(evening: Path) -> None:
    """
    `reindex` says nothing of templates and excluded files and ends well; links to them are not broken, a backup has
    them, and nothing is written there.
    """
    done = run(evening, "reindex")
    assert "{{" not in done.output
    assert "7 notes" in done.stdout
    assert "leads nowhere" not in run(evening, "doctor", code=0).stdout
    exported = evening.parent / "out.zip"
    run(evening, "export", exported)
    assert "템플릿/회의.md" in zipfile.ZipFile(exported).namelist()
    with books.open(evening, embedder="hash") as book:
        assert not book.find("title").hits
        with pytest.raises(InvalidInput, match=r"\.obsidian leaves out"):
            book.scribe({"text": "a note", "metadata": {"topic": "나", "category": "템플릿", "keywords": ["a"]}})


def test_a_daily_note_is_from_its_day(book: Spellbook, evening: Path) -> None:
    """
    `recent`, filters and questions take the day of its name; what the frontmatter says goes before it. After a copy of
    the vault and for a token that sees less, a daily note is from the same day.

    After a folder was renamed, its notes are moved ones, and links of Obsidian's short form still lead there.
    """
    book.reindex()
    known = dates(book)
    assert known["일기/2026-10-15.md"] == "2026-10-15"
    assert known["일기/2026-10-14.md"] == YESTERYEAR
    assert known["회의/주간회의.md"].startswith("2027-01")
    for text, when, path in (("배포", "2026-10-15", "일기/2026-10-15.md"), ("날짜", YESTERYEAR, "일기/2026-10-14.md")):
        assert [hit.path for hit in book.search(text, filter={"when": when}, min_score=0).hits] == [path]
    copy = shutil.copytree(evening, evening.parent / "copy", copy_function=shutil.copyfile)
    with books.open(copy, embedder="hash") as other:
        other.reindex()
        assert dates(other)["일기/2026-10-15.md"] == "2026-10-15"
    (evening / "회의").rename(evening / "모임")
    canvas = evening / "지도.canvas"
    canvas.write_text(canvas.read_text("utf-8").replace("회의/", "모임/"), "utf-8")
    report = book.reindex()
    assert (report.moved, report.added, report.embedded) == (1, 0, 0)
    assert "leads nowhere" not in run(evening, "doctor").stdout
    put(evening, "일기/2026-10-13.md", "---\nprivacy_scope: team\ntags: [decision]\n---\n팀의 일기 배포\n")
    put(evening, ".spellbook/config.toml", CATEGORIES)
    with books.open(evening, embedder="hash") as again:
        again.reindex()
        [note] = limited.seen_by(again, "team").recent(limit=50).as_dict()["notes"]
        assert (note["path"], note["when"], note["category"]) == ("일기/2026-10-13.md", "2026-10-13", "decision")


def test_another_format_dates_notes_anew_and_embeds_none(evening: Path) -> None:
    """When Obsidian's format, categories or rules of scopes change, the next scan follows, without an embedding."""
    put(evening, "일기/16.10.2026.md", "다른 형식의 일기\n")
    model = Counting()
    with opened(evening, model) as index:
        sync.run(index)
        assert model.taken()
        day = {"path": "일기/16.10.2026.md"}
        assert index.catalog.at(day["path"])[0].created is None
        put(evening, ".obsidian/daily-notes.json", json.dumps({"folder": "일기", "format": "DD.MM.YYYY"}))
        sync.run(index)
        assert index.catalog.at(day["path"])[0].created == "2026-10-16"
        assert index.catalog.at("일기/2026-10-15.md")[0].created == "2026-10-15"
        put(evening, ".obsidian/app.json", "{}")
        assert sync.run(index).added == 1
        assert not [text for text in model.texts if "옛날" not in text and "지난" not in text]
    model.taken()
    for scope in ("acme", "globex"):
        put(evening, ".spellbook/config.toml", f'{CATEGORIES}[scopes]\n"Projects/" = "{scope}"\n')
        with opened(evening, model) as index:
            sync.run(index)
            assert index.catalog.at("Projects/오더허브.md")[0].category == "decision"
            assert index.catalog.paths(conditions({"scope": scope})) == ["Projects/결제.md", "Projects/오더허브.md"]
            assert not model.taken()


def test_half_of_a_vault_may_be_excluded(evening: Path) -> None:
    """Files that settings exclude are forgotten at once: a missing drive is told by what is not there."""
    for number in range(30):
        put(evening, f"클립/{number}.md", f"클립 {number}")
    with books.open(evening, embedder="hash") as book:
        assert book.reindex().added == 37
        put(evening, ".obsidian/app.json", json.dumps({"userIgnoreFilters": ["클립"]}))
        assert book.reindex().removed == 30
        put(evening, ".spellbook/config.toml", "obsidian = false\n")
    with books.open(evening, embedder="hash") as book:
        book.reindex()
        assert {"템플릿/회의.md", "보관/옛날.md", "클립/7.md"} <= dates(book).keys(), "one setting says no"


def test_a_tag_or_a_folder_stands_for_a_category(evening: Path) -> None:
    """Notes that are tagged so are decisions everywhere; frontmatter's own category goes before the mapping."""
    put(evening, ".spellbook/config.toml", CATEGORIES)
    with books.open(evening, embedder="hash") as book:
        book.reindex()
        decided = book.memories.decisions.find(kind="decision")
        assert {item.chunk.path for item in decided.items} == {"Projects/오더허브.md", "메모/스택.md"}
        shown = {item.chunk.path: item.as_dict() for item in decided.items}["Projects/오더허브.md"]
        assert (shown["type"], shown["reasoning"]) == ("decision", "이미 쓰고 있다.")
        named = {category.name: category for category in book.contents()}
        assert named["decision"].description == "What we decided"
        assert named["meeting"].topics[0].topic == "회의"
        assert "#decision" not in named
        assert [hit.path for hit in book.find("결제", filter={"category": "fact"}).hits] == ["Projects/결제.md"]
        id = shown["id"]
        assert book.memories.decisions.update(id, "success", "잘 된다")["outcome"] == "success"
