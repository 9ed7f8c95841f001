"""Lines that a merge left in a note, in the forms of git, Mercurial and Jujutsu: named once, and not read as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.notes.note import parse

FORMS = {
    "git": "<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>> other\n",
    "git, diff3 and zdiff3": "<<<<<<< HEAD\nmine\n||||||| 1a2b3c\nold\n=======\ntheirs\n>>>>>>> other\n",
    "git, a merge base of merges": "<<<<<<<<< a\nmine\n|||||||||\nold\n=========\ntheirs\n>>>>>>>>> b\n",
    "hg": "<<<<<<< working copy: 1a2b - test: x\nmine\n=======\ntheirs\n>>>>>>> merge rev:    3c4d - test: y\n",
    "hg, merge3": "<<<<<<< working copy\nmine\n||||||| common ancestor\nold\n=======\ntheirs\n>>>>>>> merge rev\n",
    "hg, mergediff": "<<<<<<<\n------- base\n+++++++ working copy\n-old\n+mine\n======= merge rev\ntheirs\n>>>>>>>\n",
    "svn": "<<<<<<< .mine\nmine\n||||||| .r1\nold\n=======\ntheirs\n>>>>>>> .r2\n",
    "jj, diff": "<<<<<<< conflict 1 of 2\n%%%%%%% diff from: ab 12\n\\\\\\\\\\\\\\        to: cd 34\n-old\n+mine\n"
    "+++++++ ef 56\ntheirs\n>>>>>>> conflict 1 of 2 ends\n",
    "jj, before 0.38": "<<<<<<< Conflict 1 of 1\n%%%%%%% Changes from base to side #1\n-old\n+mine\n"
    "+++++++ Contents of side #2\ntheirs\n>>>>>>> Conflict 1 of 1 ends\n",
    "jj, snapshot": "<<<<<<< conflict 1 of 1\n+++++++ side #1\nmine\n------- base\nold\n+++++++ side #2\ntheirs\n"
    ">>>>>>> conflict 1 of 1 ends\n",
    "jj, longer": "<<<<<<<<<<< conflict 1 of 1\n+++++++++++ a\nmine <<<<<<< x\n----------- b\nold\n+++++++++++ c\ntheirs\n"
    ">>>>>>>>>>> conflict 1 of 1 ends\n",
    "jj, the oldest": "<<<<<<<\n%%%%%%%\n-old\n+mine\n+++++++\ntheirs\n>>>>>>>\n",
}
OWN = [
    "mine\n=======\n\n>>>>>>> quoted\n",
    "<<<<<<< left\n\ntext\n",
    "<<<<<<< left\n\n>>>>>>> right\n",
    "<<<<<<< a\n------- b\n>>>>>>> c\n",
    "%%%%%%% a comment %%%%%%%\n",
    "+++++++ more\n------- less\n",
    ">>>>>>> b\n=======\n<<<<<<< a\n",
    "<<<<<<<< a\n=======\n>>>>>>> b\n",
    "<<<<<< a\n======\n>>>>>> b\n",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_each_form_is_a_fault_with_its_line(text: str, end: str) -> None:
    """The first marker's line is named, no marker makes a heading, and in a code block it is an example."""
    whole = f"---\ntopic: x\n---\n# Title\n\nBefore.\n\n{text}\nAfter.\n".replace("\n", end)
    note = parse("a.md", whole.encode())
    assert [(fault.line, fault.reason.partition(":")[0]) for fault in note.faults] == [(8, "conflict markers")]
    assert [block.text for block in note.blocks if block.kind == "heading"] == ["Title"]
    assert note.encode() == whole.encode()
    assert parse("a.md", f"```\n{text}```\n".encode()).faults == ()


@given(st.lists(st.sampled_from([*FORMS.values(), *OWN, "Prose.\n"]), max_size=4))
def test_whole_conflicts_alone_are_faults(parts: list[str]) -> None:
    """Half a conflict, or rules and quotes that look like one, is text; a whole one is found among them."""
    note = parse("a.md", "\n".join(parts).encode())
    assert note.encode() == "\n".join(parts).encode()
    if any(part in FORMS.values() for part in parts) and not any(part in OWN for part in parts):
        assert len(note.faults) == 1
    if not any(part in FORMS.values() for part in parts) and len(parts) < 2:
        assert note.faults == ()
