"""Frontmatter: parse a note's YAML or TOML within bounds, and write YAML; values and faults with their lines. Pure."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import repeat
from typing import Any
from urllib.parse import unquote

from spellbook.notes import broken_headers
from spellbook.system.lazy import frontmatter, regex, yaml
from spellbook.text.unicode import without_ending

FRONTMATTER = regex(r"\ufeff?---[ \t]*(?:\r\n|\n|\r)(.*?)(?<=[\r\n])---[ \t]*(?:\r\n|\n|\r|\Z)", re.S)
"""Matches the block, a BOM before it included; group 1 is the YAML between the rules."""

_TOML_KEY = r"""(?:[\w.-]|"[^"\n]*"|'[^'\n]*')++[ \t]*="""
_TOML_TABLE = r"\[[^\n]*\][ \t]*(?:#[^\n]*)?\r?\n"
TOML = regex(
    rf"\ufeff?\+{{3}}[ \t]*\r?\n(?=(?:\s|#[^\n]*\n)*+(?:{_TOML_KEY}|{_TOML_TABLE}|\+{{3}}\s))"
    r"(.*?)(?<=\n)\+{3}[ \t]*(?:\r?\n|\Z)",
    re.S,
)
"""Matches the block of Hugo and Zola, as FRONTMATTER does. It begins with a key or a table: other text is text."""

_PLAIN_LINK = regex(r"\[\[[^\[\]\"\\\x00-\x1f\x7f-\x9f\ufeff\U00010000-\U0010ffff]+\]\]")
"""A wikilink that YAML spells within double quotes as it is, without escapes."""

_MOST_HEADER = 256_000
"""The most letters of frontmatter."""

_MOST_DOTS = 200
"""The most dots of a line of TOML: to read a key takes memory by the square of its parts."""

_MOST_NODES = 20_000
"""The most values and keys, with aliases counted each time they are used."""

_MOST_LETTERS = 2 * _MOST_HEADER
"""The most letters of all values, counted so too."""

_MOST_DEPTH = 20
"""The most values in each other."""

_MOST_DIGITS = 1_000
"""The most digits of a number: to read it takes quadratic time."""

_MOST_NUMBER = 2**63
"""The least number that JSON readers and SQLite cannot hold."""

_TAG = "tag:yaml.org,2002:"
_NUMBERS = {f"{_TAG}int", f"{_TAG}float"}
_PLAIN = {*_NUMBERS, f"{_TAG}bool", f"{_TAG}timestamp"}

_FRACTION = r"(?:\.[0-9]+|{0}(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_WHOLE = "(?:0|[1-9][0-9]*)"  # 0755 is a text: readers of YAML differ in its number
_CORE = (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", "null|Null|NULL|~|", ("n", "N", "~", "")),
    ("int", rf"[-+]?{_WHOLE}|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", rf"[-+]?(?:{_FRACTION.format(_WHOLE)}|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)", "-+.0123456789"),
)
"""Types of plain scalars by the core schema of YAML 1.2, by their first characters; dates are added, as in 1.1."""

LABELS = {
    *("title", "topic", "category", "categories", "kind", "keywords", "tags", "tag", "aliases", "alias", "questions"),
    *("question_this_answers", "entities", "scope"),
}
"""Keys whose values are texts, as they are written: `1.10`, `2024`, `true`."""

KEYS = {
    *(*LABELS, "id", "importance", "created", "updated", "date", "modified", "type", "status", "pinned", "review"),
    *("source", "author", "published", "language", "lang", "supersedes", "derived_from", "contradicts"),
    *("generated", "verified", "stale_after", "sources", "description", "resource"),
}
"""Keys that are read whatever their case, and stand in small letters in a note's values."""

IMPORTANCE = 0.5
"""Importance of a note that says nothing of it."""

LEVELS = {"low": 0.2, "medium": IMPORTANCE, "high": 0.8}
"""Values in 0..1 of the words of `importance`."""

_PLAIN_IN_FLOW = regex(r"(?:human|process):[\w.-]+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)?", re.A)
"""An actor or a time: PyYAML would quote them in a list or a mapping, and need not."""

_WIKILINK = regex(r"!?\[\[([^\[\]#|]++)[^\[\]]*+\]\]")
_MARKDOWN_LINK = regex(
    r"!?\[(?:[^\[\]\\]|\\.)*+\]\(\s*+(?!<?(?:[A-Za-z][A-Za-z0-9+.-]*:|//))"
    r"(?:<([^<>]*+)>|((?:\\.|[^\s()<>\\]|\([^\s()<>]*+\))++))(?:\s++(?:\"[^\"]*+\"|'[^']*+'|\([^()]*+\)))?\s*+\)"
)

_Lines = list[tuple[str, int]]  # a message or a finding, and its 0-based line in the header


class BadHeader(ValueError):
    """Frontmatter without usable values. `line` is 0-based in it; `is_text`: it is YAML, and not a mapping."""

    def __init__(self, reason: str, line: int, *, is_text: bool = False) -> None:
        super().__init__(reason)
        self.line = line
        self.is_text = is_text


def header_in(text: str) -> re.Match[str] | None:
    """Return the match of a text's frontmatter, by FRONTMATTER or TOML; None if it has none."""
    return FRONTMATTER.match(text) or TOML.match(text)


def load(block: str) -> tuple[dict[str, Any], _Lines, _Lines]:
    """Return the values of a block, repeated keys, and invalid dates and numbers kept as texts. Raises BadHeader."""
    repeated, odd, named = _Lines(), _Lines(), dict[str, Any]()
    if toml := TOML.match(block):
        values = _read_toml(toml[1])
    else:
        values, _ = frontmatter.parse(block, handler=_handler()(repeated, odd))
    for key, value in _each(values, _plain).items():
        name = known_key(key)
        named[key if name in values or name in named else name] = value
    return named, repeated, odd


def known_key(key: str) -> str:
    """Return a key as a note's values have it: one of KEYS in small letters, any other as it is."""
    return name if (name := key.casefold()) in KEYS else key


def load_value(text: str) -> object:
    """Return one value as frontmatter would read it; text that is not YAML is returned as it is."""
    try:
        return _each(_read(f"k: {text}", [], []), _plain)["k"]
    except BadHeader:
        return text


@cache
def _handler() -> Any:
    class Handler(frontmatter.default_handlers.YAMLHandler):
        """python-frontmatter's YAML handler, which reads within bounds."""

        FM_BOUNDARY = FRONTMATTER

        def __init__(self, repeated: _Lines, odd: _Lines) -> None:
            super().__init__()
            self._found = repeated, odd

        def load(self, fm: str, **_: object) -> Any:
            return _read(fm, *self._found)

    return Handler


def _read(header: str, repeated: _Lines, odd: _Lines) -> dict[str, Any]:
    """Return the values of a header within bounds on size, depth and aliases; list its repeated keys and odd values."""
    if len(header) > _MOST_HEADER:
        raise BadHeader(f"the frontmatter is over {_MOST_HEADER // 1000} kB", 0)
    header = header.replace("\0", " ")
    try:
        # libyaml's composer overflows the C stack on deep nesting; its parser does not.
        if sum(map(header.count, "[{-?:")) > 500:
            depth = 0
            for event in yaml.parse(header, Loader=fast_loader()):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > _MOST_DEPTH:
                    raise BadHeader("the frontmatter holds too many or too deep values", 0)
        loader: Any = partial(_loader(), repeated=repeated, odd=odd)
        value = yaml.load(header, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        if found := broken_headers.cause(header, line):
            raise BadHeader(*found) from error
        raise BadHeader(f"the frontmatter is not YAML ({error.problem or error.context})", line) from error
    except yaml.reader.ReaderError as error:
        letter = chr(error.character) if isinstance(error.character, int) else str(error.character)
        line = line_at(header, max(0, header.find(letter))) - 1
        raise BadHeader(f"the frontmatter is not YAML (the character {letter!r} is not allowed)", line) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BadHeader(f"the frontmatter is not YAML ({error})", 0) from error
    if value is not None and not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "plain text"
        raise BadHeader(f"the frontmatter is {kind}, not `key: value` lines", 0, is_text=True)
    return value or {}


def _read_toml(header: str) -> dict[str, Any]:
    """Return the values of a header in TOML within the bounds of YAML's; Zola's taxonomies stand among the others."""
    import tomllib

    if len(header) > _MOST_HEADER:
        raise BadHeader(f"the frontmatter is over {_MOST_HEADER // 1000} kB", 0)
    if max(map(str.count, header.split("\n"), repeat("."))) > _MOST_DOTS:
        raise BadHeader("the frontmatter holds too many or too deep values", 0)
    try:
        values = tomllib.loads(header.replace("\0", " "))
    except (ValueError, RecursionError) as error:
        place = re.search(r"at line (\d+)", str(error))
        line = int(place[1]) - 1 if place else header.count("\n") - 1
        raise BadHeader(f"the frontmatter is not TOML ({error})", max(0, line)) from error
    if isinstance(values.get("taxonomies"), dict):
        values = values.pop("taxonomies") | values
    return {key: as_label(_each(value, _plain)) if key.casefold() in LABELS else value for key, value in values.items()}


def fast_loader() -> Any:
    """Return libyaml's safe loader, Python's own where PyYAML is built without it."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _loader() -> Any:

    class Loader(fast_loader()):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [(tag, form) for tag, form in forms if tag in {f"{_TAG}timestamp", f"{_TAG}merge"}]
            for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def __init__(self, text: str, repeated: _Lines, odd: _Lines) -> None:
            super().__init__(text)
            self.repeated, self.odd = repeated, odd

        def construct_document(self, node: yaml.Node) -> Any:
            self.repeated.extend(_survey(node))
            return super().construct_document(node)

        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                if node.tag in _NUMBERS and len(node.value) > _MOST_DIGITS:
                    raise ValueError("a number of thousands of digits")
                return super().construct_object(node, deep)
            except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
                # `2026-02-30`, `!!int x` and their like: one odd value is no reason to lose the others
                self.odd.append((f"the value {node.value!r:.40} is read as text ({error})", node.start_mark.line))
                return str(node.value)

    for kind, form, first in _CORE:
        Loader.add_implicit_resolver(f"{_TAG}{kind}", re.compile(rf"(?:{form})\Z"), first)
    return Loader


def _survey(root: yaml.Node) -> _Lines:
    """Turn keys and LABELS into text, bounded with aliases counted; return repeated keys. Raises BadHeader."""
    repeated: dict[tuple[str, int], None] = {}  # a node with aliases is met more than once
    left, letters = _MOST_NODES, _MOST_LETTERS
    stack = [(root, 0, False)]
    while stack:
        node, depth, is_label = stack.pop()
        left -= 1
        letters -= len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        if min(left, letters) < 0 or depth > _MOST_DEPTH:
            raise BadHeader(
                "the frontmatter holds too many or too deep values", node.start_mark.line if node.start_mark else 0
            )
        if is_label and node.tag in _PLAIN:
            node.tag = f"{_TAG}str"
        if isinstance(node, yaml.SequenceNode):
            stack += [(item, depth + 1, is_label) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, item in node.value:
                is_name = isinstance(key, yaml.ScalarNode)
                is_text = is_label or (is_name and depth == 0 and key.value.casefold() in LABELS)
                stack += [(key, depth + 1, False), (item, depth + 1, is_text)]
                if is_name and key.tag != f"{_TAG}merge":
                    key.tag = f"{_TAG}str"
                    if key.value in seen:
                        repeated[key.value, key.start_mark.line] = None
                    seen.add(key.value)
    return sorted(repeated, key=lambda pair: pair[1])


def _each(value: object, leaf: Callable[[Any], Any], left: int = _MOST_DEPTH) -> Any:
    """
    Return a value with `leaf` of each value in its lists and mappings, whose keys become text.

    Raises BadHeader for values in each other more than `left` times, as only TOML has them here.
    """
    if isinstance(value, str):  # most are
        return leaf(value)
    if left < 0:
        raise BadHeader("the frontmatter holds too many or too deep values", 0)
    if isinstance(value, Mapping):
        return {str(key): _each(item, leaf, left - 1) for key, item in value.items()}
    return [_each(item, leaf, left - 1) for item in value] if isinstance(value, list | tuple) else leaf(value)


def _plain(value: object) -> Any:
    if isinstance(value, set):  # in an order that is the same in the next process
        return sorted((_each(item, _plain) for item in value), key=str)
    if isinstance(value, str):
        return value.replace("\0", " ")
    return value if value is None or isinstance(value, bool | int | float | dt.datetime | dt.date) else str(value)


def as_label(value: object) -> Any:
    """Return a value as it is read under a key of LABELS: numbers, dates, true and false as texts."""
    return _each(value, lambda each: each if each is None or isinstance(each, str) else dump(each))


def as_json(meta: Mapping[str, Any]) -> Any:
    """Return a note's values for JSON: dates, nan, inf and numbers beyond 64 bits become text."""

    def plain(value: object) -> object:
        is_odd = (isinstance(value, float) and not math.isfinite(value)) or (
            isinstance(value, int) and not -_MOST_NUMBER <= value < _MOST_NUMBER
        )
        return str(value) if is_odd or isinstance(value, dt.date) else value

    return _each(meta, plain)


def compose(meta: Mapping[str, object], body: str) -> str:
    """Return the text of a new note: `meta` as frontmatter in its own order, a blank line, `body`."""
    header = "".join(f"{dump(key)}: {dump(value)}\n" for key, value in meta.items())
    return f"---\n{header}---\n\n{body.strip(chr(10))}\n"


def dump(value: object, style: str | None = None) -> str:
    """Return `value` as YAML on one line, for use after `key: `; `style` is the preferred quote for text."""
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    text = yaml.dump(
        value, Dumper=_dumper(style), allow_unicode=True, default_flow_style=True, width=float("inf"), sort_keys=False
    )
    return text.strip(" \n").removesuffix("...").strip(" \n")


@cache
def _dumper(style: str | None) -> type[yaml.SafeDumper]:
    """Return a dumper that writes values with this quote for text."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

        def analyze_scalar(self, scalar: str) -> Any:
            found = super().analyze_scalar(scalar)
            found.allow_flow_plain |= _PLAIN_IN_FLOW.fullmatch(scalar) is not None
            return found

        def represent_text(self, data: str) -> yaml.ScalarNode:
            # Only double quotes keep a line break on one line. Obsidian writes links in them.
            broken = bool(data) and data.splitlines() != [data]
            chosen = '"' if broken or (style is None and _PLAIN_LINK.fullmatch(data)) else style
            return self.represent_scalar(f"{_TAG}str", data, style=chosen)

    # Readers of YAML 1.2 take 0899, 1e3 and 0o7 for numbers.
    number = re.compile(rf"(?:[-+]?{_FRACTION.format('[0-9]+')}|0o[0-7]+)\Z")
    Dumper.add_implicit_resolver(f"{_TAG}float", number, "-+.0123456789")
    Dumper.add_representer(str, Dumper.represent_text)
    for kind, how in yaml.SafeDumper.yaml_representers.items():
        if how is yaml.SafeDumper.represent_datetime:
            Dumper.add_representer(kind, lambda to, time: to.represent_scalar(f"{_TAG}timestamp", time.isoformat()))
    return Dumper


def label_of(text: str) -> str:
    """Return the name of the note that a text leads to if it is one link of a vault and nothing else, or the text."""
    if "[[" in text and (match := _WIKILINK.fullmatch(text.strip())):
        target = match[1]
    elif "](" in text and (match := _MARKDOWN_LINK.fullmatch(text.strip())):
        target = unquote(re.sub(r"[#?].*|\\(?=[!-/:-@\[-`{-~])", "", match[1] or match[2] or ""))
    else:
        return text
    return without_ending(target.strip().rstrip("\\/").rpartition("/")[2]) or text


def line_at(text: str, at: int) -> int:
    """Return the 1-based line of the character `at`."""
    before = text[:at]
    ends = len(re.findall(r"\r\n|\r|\n", before)) if "\r" in before else before.count("\n")
    return ends + 1


def importance_of(value: object) -> float:
    """Return the number that a value of `importance` stands for, nan if it stands for none."""
    try:
        return math.nan if isinstance(value, bool) else float(LEVELS.get(str(value).strip().lower(), str(value)))
    except (ValueError, OverflowError):
        return math.nan
