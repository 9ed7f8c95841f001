"""What differs from run to run, and the name that stands for it in a recording."""

from __future__ import annotations

import re
from collections.abc import Callable

Rule = Callable[[str], str]

_NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"

PATTERNS = (
    # The folder of an index is called by the vault's name and a hash of where the vault is.
    ("state folder", r"(?<=/)([\w-]+)-[0-9a-f]{10}(?=[/\s.,:;\"'`)<]|$)", r"\1-<place>"),
    ("port", r"(?<=127\.0\.0\.1:)\d+", "<port>"),
    (
        "durations in JSON",
        rf'(\\?"(?:ms|\w+_ms|seconds|p\d+|uptime\w*|search_time|query_time|average\w+Time|cpuUsage)\\?"): {_NUMBER}',
        r"\1: <time>",
    ),
    ("milliseconds in text", r"\b[\d,]+(?:\.\d+)? ?(?:ms|밀리초)\b", "<time> ms"),
    ("seconds in text", r"\b\d+\.\d+ ?(?:s|seconds|초)(?=\W|$)", "<time> s"),
    ("sealed state of a request", r'"requestState": "[^"]*"', '"requestState": "<sealed>"'),
    ("process", r'("pid":) \d+|(?<=process )\d+|(?<=프로세스 )\d+', r"\1 <pid>"),
    ("process on a page", r'(<span>\w+ <span class="small">)\d+(?=</span></span>)', r"\1<pid>"),
    ("times on a page", r'(<svg class="chart"|<th>(?:ms|밀리초)</th></tr></thead><tbody>).*', r"\1<times>"),
    ("bytes on a page", r"(?<=<dd>)[\d.]+ (?:B|KB|MB|GB)(?=</dd>)", "<bytes>"),
    ("memory of a process", rf'("(?:usage|peak|rss)"): {_NUMBER}', r"\1: <memory>"),
    ("load of the machine", r'("loadAverage"): \[[^\]]*\]', r"\1: <load>"),
    ("bytes of a database", r'("(?:before_bytes|after_bytes|databaseSize)"): \d+', r"\1: <bytes>"),
    # Whether it is there depends on when the counts of calls were written, which the real clock decides.
    ("alert of failed calls", r'  \{\n   "id": "errors",(?:\n   .*){6}\n  \},?\n', ""),
    (
        "the same on a page",
        r'<div class="alert[^\n]*<strong>(?:\d+% of the calls|지난 한 시간 동안 도구 호출).*\n(?:.*\n){0,3}?</div>\n',
        "",
    ),
    ("frames of a traceback", r'^ +\|? *File "[^"\n]+", line \d+, in .*\n(?: +\|? .*\n)?(?: +\|? *[~^]+\n)?', ""),
    # A watcher that is stopped while an event comes.
    ("end of a watcher", r"^spellbook: InotifyEmitter\.queue_events\(\) called when the thread is inactive\n", ""),
)
"""The name of a rule, its pattern, and what is written instead."""

SERVED = (
    ("generation of the index", r'(\\?"generation\\?":|\bgeneration) \d+', r"\1 <generation>"),
    (
        "texts still to embed",
        r"(?<=<generation>)(?:, \d+ texts? not yet findable by meaning)?(?: \(being embedded now\))?",
        "",
    ),
    ("texts still to embed in JSON", r'(\\?"pending\\?":) \d+', r"\1 <pending>"),
    ("whether it embeds now", r'(\\?"embedding\\?":) (?:true|false)', r"\1 <now>"),
    # The sign of life is the time of a file, which the clock that stands still is far from.
    ("sign of life of a watcher", r'\n *"unwatched": "[^"]*",', ""),
    ("what Chroma has so far", r'("chroma": \{\n *"place": ).*\n *"vectors": \d+,\n *"behind": \d+', r"\1<so far>"),
    ("bytes of the index", r'("bytes"): \d+', r"\1: <bytes>"),
    # The first ten letters of an id are its time, which stands still; a thread of the watcher may draw before it.
    ("random letters of an id", r"\b(01M6[0-9A-Z]{6})[0-9A-HJKMNP-TV-Z]{16}(?![0-9A-Z])", r"\1<random>"),
)
"""As above, for servers alone: their watcher, embedder and Chroma work while they answer."""


def rules(places: dict[str, str], days: tuple[str, ...], *, is_served: bool) -> Rule:
    """
    Return what makes a text steady.

    `places` are paths and the names that stand for them; `days` are the real days of the recording, which files have
    in their times: the clock of the program itself stands still.
    """
    named = sorted(places.items(), key=lambda item: -len(item[0]))
    today = re.compile(rf"(?:{'|'.join(days)})(?:[T ]\d\d[:-]\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?")
    patterns = [(re.compile(pattern, re.M), new) for _, pattern, new in (*PATTERNS, *(SERVED if is_served else ()))]

    def steady(text: str) -> str:
        for path, name in named:
            text = text.replace(path, name)
        text = today.sub("<today>", text)
        for pattern, new in patterns:
            text = pattern.sub(new, text)
        return text

    return steady
