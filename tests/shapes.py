"""Notes that no person writes: each shape repeats what once cost more than it is long. `SHAPES[name](size)` is a text of about `size` bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice

_SAID = "the key is rotated every week and nobody knows why it was never written down in the notes of the team"
_WORDS = _SAID.split()


def _prose(number: int) -> str:
    return " ".join(_WORDS[(number * 7 + i * (1 + number % 5)) % len(_WORDS)] for i in range(12)) + f" {number}."


def _repeated(unit: str, head: str = "", tail: str = "") -> Callable[[int], str]:
    return lambda size: head + unit * max(1, (size - len(head) - len(tail)) // len(unit.encode())) + tail


def _numbered(unit: str, head: str = "", tail: str = "") -> Callable[[int], str]:
    """`unit` with {0}, a number, and {1}, a sentence."""

    def text(size: int) -> str:
        units: list[str] = []
        room = size - len(head) - len(tail)
        while room > 0:
            units.append(unit.format(len(units), _prose(len(units))))
            room -= len(units[-1].encode())
        return f"{head}{''.join(units[:-1]) or units[0]}{tail}"

    return text


def _ragged(pair: tuple[str, str]) -> Callable[[int], str]:
    """Two lines again and again, in the order of the Thue-Morse sequence, which never repeats."""

    def text(size: int) -> str:
        lines = (pair[bin(i).count("1") % 2] for i in count())
        return "".join(islice(lines, max(2, size // len(pair[0]))))

    return text


def _listed(key: str, item: str = "- item {0}\n", *, body: str = "# Note\n\nText.\n") -> Callable[[int], str]:
    return _numbered(item, f"---\n{key}:\n", f"---\n{body}")


def _nested(size: int) -> str:
    depth = int(max(4, size) ** 0.5)
    return "".join("  " * i + f"- item {i}\n" for i in range(depth))


def _quoted(size: int) -> str:
    depth = int(max(4, size) ** 0.5)
    return "".join(">" * i + f" quote {i}\n" for i in range(1, depth))


def _sections_and_labels(size: int) -> str:
    """As many sections as labels."""
    number = max(1, size // 100)
    labels = "".join(f"- label{i}\n" for i in range(number))
    return (
        f"---\nkeywords:\n{labels}aliases:\n{labels.replace('label', 'alias')}questions:\n{labels.replace('label', 'What is ')}---\n"
        + "".join(f"## Section {i}\n\nText {i}.\n\n" for i in range(number))
    )


SHAPES: dict[str, Callable[[int], str]] = {
    "prose": _numbered("{1}\n\n"),
    "sections": _numbered("## Section {0}\n\n{1}\n\n"),
    "headings": _numbered("## h{0}\n"),
    "equal headings": _repeated("## Same\n"),
    "equal sections": _repeated("## Same\n\nThe same text.\n\n"),
    "numbered headings": lambda size: "".join(f"## Same-{i}\n## Same\n" for i in range(max(1, size // 24))),
    "deep headings": _repeated("## a\n### b\n#### c\n##### d\n###### e\n"),
    "third headings": _numbered("### Part {0}\n\n{1}\n\n"),
    "headings with tags": _numbered("## h{0}\n\n#tag{0}\n\n"),
    "headings with nested tags": _numbered("## h{0}\n\n#a{0}/b{0}/c{0}\n\n"),
    "tags": _numbered("#tag{0} "),
    "tags by lines": _numbered("#tag{0}\n"),
    "one long tag": _repeated("a/", "#"),
    "sections and labels": _sections_and_labels,
    "header tags": _listed("tags"),
    "header keywords": _listed("keywords"),
    "header questions": _listed("questions"),
    "header aliases": _listed("aliases"),
    "header entities": _listed("entities", "- {{name: n{0}, type: t}}\n"),
    "header keys": _numbered("key{0}: value {0}\n", "---\n", "---\n# Note\n\nText.\n"),
    "header text": _repeated("word ", "---\nsummary: ", "\n---\n# Note\n\nText.\n"),
    "header title": lambda size: (
        f"---\ntitle: {'word ' * (size // 600 + 1)}\n---\n" + "## h\n\nText.\n\n" * max(1, size // 13)
    ),
    "header links": _listed("up", "- '[[n{0}]]'\n"),
    "header open": _repeated("- a\n", "---\n"),
    "links": _numbered("[[note {0}]] and [text {0}](folder/file{0}.md)\n"),
    "links to one": _repeated("[[target]] "),
    "links to one by lines": _repeated("[[target]]\n"),
    "links in sections": _numbered("## s{0}\n\n[[target|n{0}]]\n\n"),
    "definitions": _numbered("[d{0}]: file{0}.md\n"),
    "footnotes": _numbered("text[^{0}]\n\n[^{0}]: {1}\n\n"),
    "fences": _numbered("```python\nx{0} = {0}\n```\n\n"),
    "open fences": _repeated("````\n```\n"),
    "one fence": _numbered("value{0} = call({0})\n", "```\n", "```\n"),
    "fence marks": lambda size: "".join("`" * (3 + i % 300) + "\n" for i in range(max(1, size // 154))),
    "indented": _numbered("    code {0}\n"),
    "table": _numbered("| {0} | value {0} | {1} |\n", "| a | b | c |\n| --- | --- | --- |\n"),
    "table without bars": _numbered("{0} | value | {1}\n", "a | b | c\n--- | --- | ---\n"),
    "wide table": lambda size: f"{'| a ' * (size // 12)}|\n{'| - ' * (size // 12)}|\n{'| 1 ' * (size // 12)}|\n",
    "table of blanks": _repeated("| |\n", "| a | b |\n| --- | --- |\n"),
    "table in a list": _numbered("  | {0} | {1} |\n", "- item\n\n  | a | b |\n  | --- | --- |\n"),
    "half tables": _repeated("| a | b |\n"),
    "one line": _repeated("word "),
    "one line of sentences": _numbered("{1} "),
    "one word": _repeated("a"),
    "lines": _numbered("{1}\n"),
    "equal lines": _repeated("The same line.\n"),
    "equal items": _repeated("- same\n"),
    "two lines": _ragged(("The one line.\n", "The two line.\n")),
    "two paragraphs": _ragged(("The one line.\n\n", "The two line.\n\n")),
    "list": _numbered("- {1}\n"),
    "loose list": _numbered("- {1}\n\n"),
    "numbered list": _numbered("{0}. {1}\n"),
    "nested list": _nested,
    "zigzag list": _repeated("- a\n  - b\n    - c\n"),
    "bullets in one line": _repeated("- "),
    "nested quote": _quoted,
    "quote": _numbered("> {1}\n"),
    "marks of quotes": _repeated(">"),
    "quotes in one line": _repeated("> "),
    "lazy quote": _numbered("{1}\n", "> begins\n"),
    "callouts": _numbered("> [!note] Title {0}\n> {1}\n\n"),
    "one callout": _numbered("> {1}\n", "> [!warning]- Title\n"),
    "html": _numbered("<div class='a{0}'>\n{1}\n</div>\n\n"),
    "open html": _repeated("<div>\n"),
    "inline html": _repeated("<a href='"),
    "open tags": _repeated("<a "),
    "attributes": _repeated("a=b ", "<a "),
    "open comments": _repeated("<!-- "),
    "comment blocks": _repeated("<!--\n\n"),
    "obsidian comments": _repeated("%% a [[b]] "),
    "instructions": _repeated("<? "),
    "declarations": _repeated("<!A "),
    "cdata": _repeated("<![CDATA["),
    "emphasis": _repeated("*a"),
    "emphasis by turns": _repeated("*a_b"),
    "strong": _repeated("**a"),
    "heading of emphasis": lambda size: "## " + "*a" * (size // 2) + "\n",
    "headings of brackets": _repeated("## [[[[a*b_`c\n\n"),
    "brackets": _repeated("["),
    "pairs of brackets": _repeated("[]"),
    "closing brackets": _repeated("]"),
    "wiki brackets": _repeated("[["),
    "open links": _repeated("[a]("),
    "open angles": _repeated("[a](<"),
    "open titles": _repeated('[a](b "'),
    "parentheses": _repeated("("),
    "nested links": _repeated("[a](b"),
    "images": _repeated("![a](b.png) "),
    "embeds": _repeated("![[a#b|c]] "),
    "open fragments": _repeated("[[a#b"),
    "open aliases": _repeated("[[a|b"),
    "long link": _repeated("a", "[[", "]]"),
    "backticks": _repeated("`"),
    "ticks apart": _repeated("` "),
    "ticks of many lengths": lambda size: " ".join("`" * (1 + i % 200) for i in range(max(1, size // 101))),
    "ticks and backslashes": _repeated("\\`"),
    "backslashes": _repeated("\\"),
    "braces": _repeated("{#a "),
    "anchors": _numbered("Text ^anchor{0}\n\n"),
    "heading anchors": _numbered("## T {{#a{0}}}\n\nText.\n\n"),
    "rules": _repeated("---\n"),
    "rules apart": _repeated("\n---\n\n"),
    "rules after text": _repeated("a\n---\n"),
    "double underlines": _repeated("a\n===\n"),
    "open header": _repeated("a: b\n", "---\n"),
    "crlf": _numbered("## Section {0}\r\n\r\n{1}\r\n\r\n"),
    "cr": _numbered("## Section {0}\r\r{1}\r\r"),
    "crlf blanks": _repeated("\r\n"),
    "blank lines": _repeated("\n"),
    "blanks": _repeated(" "),
    "tabs": _repeated("\t"),
    "blank then text": _repeated(" \n", "", "text"),
    "identifiers": _numbered("useState{0} snake_case_{0} v1.{0}.3 "),
    "one identifier": _repeated("aB"),
    "dots": _repeated("."),
    "versions": _repeated("1."),
    "numbers": _numbered("{0} kB, "),
    "digits": _repeated("1"),
    "dashes": _repeated("-"),
    "marks": _repeated("!?"),
    "quotes": _repeated('"'),
    "commas": _repeated(","),
    "slashes": _repeated("[[a/"),
    "paths": _repeated("](a/"),
    "turns": _numbered("User: question {0}\n\nAssistant: {1}\n\n"),
    "bold turns": _numbered("**User:** question {0}\n\n**Claude:** {1}\n\n"),
    "turns by headings": _numbered("## User\n\nquestion {0}\n\n## Assistant\n\n{1}\n\n"),
    "turns by time": _numbered("Ann (10:{0}): hello\nBob (11:{0}): {1}\n", "---\ncategory: chat\n---\n"),
    "colons": _repeated("a: "),
    "bold lines": _numbered("**Label {0}**\n\n{1}\n\n"),
    "hangul": _repeated("가나다라마바사"),
    "hangul lines": _numbered("키를 매주 돌린다 {0}.\n"),
    "han": _repeated("密钥每周轮换"),
    "thai": _repeated("กุญแจหมุนทุกสัปดาห์"),
    "arabic": _repeated("المفتاح يدور "),
    "combining marks": _repeated("\u0301", "a"),
    "two kinds of marks": _repeated("\u0301\u0323", "a"),
    "decomposed": _repeated("\u1112\u1161\u11ab"),
    "flags": _repeated("\U0001f1f0\U0001f1f7"),
    "joiners": _repeated("\U0001f468\u200d"),
    "emoji": _repeated("\U0001f600"),
    "wide letters": _repeated("ＡＢＣ"),
    "nul": _repeated("text \0 "),
    "escapes": _repeated("\\*\\_"),
    "entities": _repeated("&amp;"),
    "urls": _numbered("https://example.com/{0} "),
    "long url": _repeated("a", "https://example.com/"),
    "tasks": _numbered("- [ ] task {0}\n"),
    "math": _repeated("$a_b$ "),
    "long turns": lambda size: (
        "---\ncategory: chat\n---\n"
        + "".join(f"{who}: {'words of it ' * (size // 50)}\n\n" for who in ("Ann", "Bob") * 2)
    ),
    "definition of blanks": _repeated(" ", "[a]:", "<"),
    "comments in links": _repeated("[<!-- "),
    "aliases in the header": lambda size: (
        f"---\na: &x {'x' * (size * 2 // 3)}\nb: [{'*x, ' * (size // 12)}*x]\n---\nText.\n"
    ),
    "long keys": lambda size: (
        f"---\n? {'k' * (size // 2)}\n:\n" + "".join(f"  a{i}: {i}\n" for i in range(size // 40)) + "---\nText.\n"
    ),
    "links in the header": _repeated("[[a#b", "---\nsummary: '", "'\n---\nText.\n"),
    "form feeds": _repeated("a\f\v\x1c\u2028"),
}
