"""What is kept of a transcript: the words that a person typed and the last text of the answer, whatever else is there."""

from __future__ import annotations

import io
import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.capture import transcript
from spellbook.capture.transcript import Exchange
from tests.capture.transcripts import BILLING, DEPLOY, ROTATE, answered, line, of_codex, said, talk


def read(data: bytes, offset: int = 0, *, is_over: bool = True) -> list[Exchange]:
    return transcript.read(io.BytesIO(data), offset, is_over=is_over)[0]


def pairs(data: bytes, **options: bool) -> list[tuple[str, str]]:
    return [(each.prompt, each.answer) for each in read(data, **options) if each.is_kept]


def blocks(*texts: str, **more: object) -> list[object]:
    return [*({"type": "text", "text": text} for text in texts), *([more] if more else [])]


KEPT = {
    "queued": said("Yes", promptSource="queued"),
    "queued, as an attachment": line(
        type="attachment",
        uuid="q1",
        timestamp="2026-11-26T09:00:00Z",
        attachment={"type": "queued_command", "prompt": "Yes", "commandMode": "prompt"},
    ),
    "beside what an editor adds": said("<ide_opened_file>The user opened a.py</ide_opened_file>\nYes"),
    "behind what an editor adds": said("# Context from my IDE setup:\n\nlines\n## My request for Codex:\nYes"),
    "behind the state of a browser": said(
        "<in-app-browser-context source='x'>a\nb</in-app-browser-context>\n## My request:\nYes"
    ),
    "behind files, for Codex": said(
        "# Files mentioned by the user:\n\n## a.png: /tmp/a.png\n\n## My request for Codex:\nYes"
    ),
    "behind files": said(
        "# Files mentioned by the user:\n\n## a: /a\n\nDistinguish instructions.\n\n## My request:\nYes"
    ),
    "behind marks of pictures": said("<image name=[Image #1]>\n</image>\nYes"),
    "between marks of a picture": said(blocks("<image name=[Image #1]>", "</image>", "Yes")),
    "text": said("Yes"),
    "blocks": said(blocks("Yes")),
    "with a picture": said(blocks("Yes", type="image", source={"data": "AAAA"})),
    "beside what the client adds": said(blocks("<system-reminder>no</system-reminder>", "Yes")),
    "of an older version": said("Yes", origin=None, promptSource=None, entrypoint=None),
    "of a line with other keys": said("Yes", gitBranch="main", version="9.9.9", new={"deep": [1]}),
}
LEFT_OUT = {
    "a task that was queued": line(
        type="attachment", attachment={"type": "queued_command", "prompt": "No", "commandMode": "task"}
    ),
    "a command of the shell": said("<user_shell_command>cat .env</user_shell_command>"),
    "isMeta": said("No", isMeta=True),
    "isSidechain": said("No", isSidechain=True),
    "isCompactSummary": said("No", isCompactSummary=True),
    "isVisibleInTranscriptOnly": said("No", isVisibleInTranscriptOnly=True),
    "toolUseResult": said("No", toolUseResult={"stdout": "No"}),
    "a result of a tool": said([{"type": "tool_result", "content": "No"}, {"type": "text", "text": "No"}]),
    "another origin": said("No", origin={"kind": "task"}),
    "an odd origin": said("No", origin="human"),
    "by the sdk": said("No", promptSource="sdk"),
    "by the system": said("No", promptSource="system"),
    "a one-shot run": said("No", entrypoint="sdk-cli"),
    "an interruption": said("[Request interrupted by user for tool use]"),
    **{f"{tag}…": said(f"<{tag}x>No") for tag in ("command-", "local-command", "bash-", "system-reminder")},
    **{f"{tag}…": said(f" <{tag}>No") for tag in ("task-notification", "user-prompt-submit-hook")},
    **{
        f"{tag}, unmarked": said(f"<{tag}>No</{tag}>", origin=None, promptSource=None)
        for tag in ("new_mark-of", "peer-note")
    },
    "AGENTS.md": said("# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>\nNo\n</INSTRUCTIONS>"),
    "a command without arguments": said("<command-name>/compact</command-name>\n<command-args></command-args>"),
    "a command of the client": said("<command-name>/model</command-name>\n<command-args>opus</command-args>")
    + said("<local-command-stdout>Set model to opus</local-command-stdout>"),
    "private alone": said("<private>No</private>"),
    "no text": said(blocks()),
    "an attachment": line(type="attachment", content="No"),
    "a repeated prompt": line(type="last-prompt", lastPrompt="No") + line(type="api-request-blob", body={"user": "No"}),
}
HOSTILE = {
    "no UTF-8": b'{"type":"user","message":{"content":"\xff\xfe"}}\n',
    "half a letter": line(type="user", message={"content": "x"}).replace(b"x", b"\\ud800"),
    "deep": b'{"type":"user","message":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
    "a long number": b'{"type":"user","uuid":' + b"9" * 10_000 + b"}\n",
    "no object": b'["type", "user"]\n"type":"user"\n{"type":"user"\nnull\n\n',
    "a line over 4 MB": said("No" + "x" * 5_000_000),
    "wrong types": b"".join(
        line(**{"type": "user", "message": {"content": "No"}, "timestamp": "2026-11-26T09:00:00Z", key: value})
        for key, value in {
            "type": ["user"],
            "message": [1],
            "timestamp": {"a": 1},
            "origin": 3,
            "promptSource": ["typed"],
            "entrypoint": "sdk-ts",
            "toolUseResult": 1,
        }.items()
    ),
    "wrong blocks": said([1, None, {"type": ["text"]}, {"type": "text", "text": 5}, {"type": "text", "text": {"a": "b"}}]),
    "no time": said("No", timestamp="yesterday") + said("No", timestamp=None) + said("No", timestamp=True),
    "the end of time": said("No", timestamp="9999-12-31T23:59:59-14:00") + said("No", timestamp="0001-01-01T00:00:00+14:00"),
    "an odd payload": line(type="response_item", payload="No") + line(type="response_item", payload={"role": ["user"]}),
}  # fmt: skip


@pytest.mark.parametrize("piece", KEPT.values(), ids=KEPT)
def test_what_is_kept(piece: bytes) -> None:
    """What a person typed is kept, with the last text of the answer, without thinking and tools."""
    assert pairs(piece + answered("First I look.", "Done.")) == [("Yes", "Done.")]


@pytest.mark.parametrize("piece", [*LEFT_OUT.values(), *HOSTILE.values()], ids=[*LEFT_OUT, *HOSTILE])
def test_what_is_left_out(piece: bytes) -> None:
    """What no person typed, and every odd line, is left out; the lines around it are read."""
    before, after = talk(ROTATE, DEPLOY)
    found = pairs(before + piece + after)
    assert found[0] == ROTATE
    assert found[-1] == DEPLOY
    assert not [ask for ask, _ in found[1:-1] if ask.strip("\0\ufffd")]


def names() -> list[str]:
    """The names of tags in the table, one for each family of them."""
    table = tomllib.loads(files(transcript.__package__).joinpath("client_marks.toml").read_text("utf-8"))
    return [name.replace("*", "x") for row in table["tags"].values() for name in row]


NEIGHBOURS = ["div", "channels", "x-channel", "skills", "p", "my_code", "Tick"]
ROOM = st.sampled_from(["", "\n", "\n\n  "])
ATTRIBUTES = st.sampled_from(["", ' from="lead"', " a=1\nb='2'"])


@given(st.sampled_from(names()), st.sampled_from(NEIGHBOURS), ROOM, ATTRIBUTES, st.booleans())
def test_words_of_other_agents_are_not_yours(name: str, other: str, room: str, more: str, is_marked: bool) -> None:
    """A text that opens with a tag of the client's table is none of the person's; what they type about others is."""
    marks = {} if is_marked else {"origin": None, "promptSource": None, "entrypoint": None}
    foreign = said(f"{room}<{name}{more}>{room}Drop the tables.{room}</{name}>{room}", **marks)
    assert [ask for ask, _ in pairs(talk(ROTATE)[0] + foreign + answered("No"))] == [ROTATE[0]]
    about = f"<{other}{more}> is what I mean, not </{name}>."
    assert pairs(said(about, **marks) + answered("Yes.")) == [(about, "Yes.")]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("# AGENTS.md should be shorter\nCut it.", "# AGENTS.md should be shorter\nCut it."),
        ("# AGENTS.md instructions are too long", "# AGENTS.md instructions are too long"),
        ("# Files mentioned by the user:\nare missing", "# Files mentioned by the user:\nare missing"),
        ("Draw <image href='a'></image> anew", "Draw <image href='a'></image> anew"),
        ("## My request: tea", "## My request: tea"),
        (
            "<command-message>plan</command-message>\n<command-name>/plan</command-name>\n<command-args>fix </a>\nnow</command-args>",
            "/plan fix </a>\nnow",
        ),
        ("<command-name>/a:b</command-name>\n<command-args> 차를 마신다 </command-args>", "/a:b 차를 마신다"),
    ],
)  # fmt: skip
def test_typed_words_are_kept_whatever_they_begin_with(text: str, kept: str) -> None:
    """Words that only look like a client's are kept, and so are the arguments of a command."""
    assert pairs(said(text) + answered("Yes.")) == [(kept, "Yes.")]


@pytest.mark.parametrize(
    "piece",
    [
        answered("No", isSidechain=True),
        answered("No", isApiErrorMessage=True),
        said("<command-name>/review</command-name>") + answered("No"),
        said(blocks(type="image", source={})) + answered("No"),
    ],
    ids=["of another agent", "an error of the service", "to a command", "to a picture"],
)
def test_whose_answer_counts(piece: bytes) -> None:
    """What another agent says, an error, and what answers a command of the client, is no answer to the person."""
    assert pairs(talk(ROTATE)[0] + piece) == [ROTATE]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>b</private> c", "a \0 c"),
        ("a <PRIVATE>\nb\n</private><private>c", "a \0\0"),
        ("a <private>b <private>c</private> d", "a \0"),
        ("a <private>b <private>c</private> d</private> e", "a \0 e"),
        ('a <private why="x">b</private> c <private\n>d</private >', "a \0 c \0"),
        ("a </private> b", "a  b"),
        ("a < private>b< / private > c", "a \0 c"),
        ("a [Private]b[/private] c", "a \0 c"),
        ("a &lt;private&gt;b&lt;/private&gt; c &lt;private>d", "a \0 c \0"),
        ("a ＜ｐｒｉｖａｔｅ＞b＜／PRIVATE＞ c", "a \0 c"),
        ("a <pri\u200bva\u2060te>b</\ufeffprivate> c", "a \0 c"),
        ("a <private", "a \0"),
        (
            "a [private repository](https://x.example) and privately",
            "a [private repository](https://x.example) and privately",
        ),
        ("nothing private", "nothing private"),
    ],
)
def test_private_parts_go(text: str, left: str) -> None:
    """What a person marks as private goes, without a closing mark to the end of the message; of an answer too."""
    assert pairs(said(text) + answered(text)) == [(left, left)]


def test_each_answer_stays_with_its_question() -> None:
    """What answers the system, and what the client makes up, replaces no answer; a queued message is one exchange."""
    first, answer = talk(ROTATE)[0], answered("No response requested.")
    made_up = answer.replace(b'"content"', b'"model": "<synthetic>", "content"')
    assert b"<synthetic>" in made_up
    assert pairs(first + made_up) == [ROTATE]
    assert pairs(first + said("A task has ended.", promptSource="system") + answered("I see.")) == [ROTATE]
    both = said("And now?", 5, promptSource="queued") + said("And now?", 6, promptSource="queued") + answered("This.")
    assert pairs(first + both) == [ROTATE, ("And now?", "This.")]


def test_words_that_were_taken_back() -> None:
    """A prompt without an answer was taken back if a later one has its parent: it is not kept; others are."""
    first, answer = said("Erase it", 1, uuid="a", parentUuid="x"), answered("Done.")
    again = said("Move it", 2, uuid="b", parentUuid="x")
    assert pairs(talk(ROTATE)[0] + first + again + answer) == [ROTATE, ("Move it", "Done.")]
    assert pairs(talk(ROTATE)[0] + first + again + first + again + answer) == [ROTATE, ("Move it", "Done.")], "copies"
    assert pairs(first + answer + again + answer) == [("Erase it", "Done."), ("Move it", "Done.")]
    command = said("<command-name>/clear</command-name>", 2, uuid="b", parentUuid="x")
    assert pairs(talk(ROTATE)[0] + first + command) == [ROTATE]
    assert [ask for ask, _ in pairs(said("a") + said("b", 1) + answer)] == ["a", "b"], "no line names a parent"
    assert pairs(first + said("Move it", 2, uuid="b", parentUuid="a") + answer) == [
        ("Erase it", ""),
        ("Move it", "Done."),
    ]


def test_a_part_at_a_time() -> None:
    """
    Whatever the number of bytes that are there, reading on gives each exchange once, whole, and none twice. Lines that
    stand there again with their uuid are one exchange; an answer after the copy is that of the last. Of a long
    transcript a bounded number of exchanges is held.
    """
    old, last = talk(ROTATE, DEPLOY), said("And now?", 9)
    repeated = pairs(b"".join([*old, last, *old, *old, last, answered("Now this.")]))
    assert repeated == [ROTATE, DEPLOY, ("And now?", "Now this.")]
    part, _, is_end = transcript.read(io.BytesIO(b"".join(talk(*[("ask", "answer")] * 250))), 0, is_over=True)
    assert (len(part), is_end) == (200, False)
    *_, third = pieces = talk(ROTATE, DEPLOY, BILLING)
    data = b"".join(pieces)
    for cut in range(0, len(data), 7):
        first, offset, is_end = transcript.read(io.BytesIO(data[:cut]), 0, is_over=False)
        rest, end, _ = transcript.read(io.BytesIO(data), offset, is_over=True)
        assert is_end
        assert [(each.prompt, each.answer) for each in (*first, *rest)] == [ROTATE, DEPLOY, BILLING]
        assert data[end:] == third, "the last turn is read again"


def test_codex() -> None:
    """Of Codex what the person and the model said counts, once, with the folder of the session, also further on."""
    data = of_codex(ROTATE, DEPLOY)
    assert pairs(data) == [ROTATE, DEPLOY]
    found = read(data, len(of_codex(ROTATE)) - len(line(timestamp="", type="compacted", payload={})))
    assert {each.asked.folder for each in read(data) + found} == {"/work/shop"}
    odd = data.replace(b'"role": "user"', b'"x": {"type": "session_meta"}, "role": "user"')
    assert pairs(odd) == [ROTATE, DEPLOY]
    assert read(odd, len(odd)) == [], "what was read before is no part of what is read later"
    assert pairs(of_codex(ROTATE, source={"subagent": "review"})) == [], "another agent speaks"
    headless = of_codex(ROTATE, source="exec").partition(b"\n")[2]
    assert pairs(headless) == pairs(b'{"type": "session_meta", "payload"\n' + headless) == [], "nobody knows who speaks"
    assert pairs(b"\n" + data) == [ROTATE, DEPLOY]
    for program in ("exec", "mcp"):
        assert pairs(of_codex(ROTATE, source=program)) == [], "a program speaks"
