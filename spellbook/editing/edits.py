"""
Change one value or one section of a note, and no other byte. Pure.

A YAML library that dumps a block loses comments, quotes and order. So the parser only locates a value, its characters
are replaced, and the result is parsed again: unless it reads as requested, nothing changes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

from spellbook.notes import links
from spellbook.notes.chunks import Chunk
from spellbook.notes.frontmatter import FRONTMATTER, LABELS, TOML, as_label, dump, fast_loader, known_key, line_at
from spellbook.notes.markdown import REST
from spellbook.notes.note import Block, Note, blocks, lines, newline, parse
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.system.lazy import regex, yaml
from spellbook.text.diff import changed_spans
from spellbook.text.unicode import folded

_MOST_COMPARED = 200  # letters of a phrase that are looked for with other blanks
_ITEM = regex(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")


def with_meta(note: Note, changes: Mapping[str, object]) -> str:
    """Return the text with the keys of `changes` set, or removed for None. Raises InvalidInput, Conflict."""
    if not note.editable:
        raise InvalidInput(f"{note.faults[-1]}.", "Mend the line first; nothing was changed.")

    # A value that is there already keeps its spelling. Numbers and dates of labels are texts.
    changes = {key: as_label(value) if key in LABELS else value for key, value in changes.items()}
    changes = {key: value for key, value in changes.items() if not (key in note.meta and same(note.meta[key], value))}
    text = note.text
    expected = {
        key: value for key, value in {**note.meta, **changes}.items() if value is not None or key not in changes
    }
    try:
        for key, value in changes.items():
            if TOML.match(text):
                text = _with_toml(text, key, value)
            else:
                text = _remove(text, key) if value is None else _set(text, key, value, note.meta.get(key))
        after = parse(note.path, note.encode(text))
        faults, known = ({fault.reason for fault in version.faults} for version in (after, note))
        exact = faults <= known and after.body == note.body and same(after.meta, expected)
    except (yaml.YAMLError, ValueError, RecursionError):
        exact = False
    if not exact:
        names = ", ".join(changes)
        raise Conflict(
            f"{note.path}: {names} cannot be changed without touching other lines of the frontmatter.",
            "Edit it by hand; nothing was changed.",
        )
    return text


def written(note: Note, key: str) -> str:
    """Return a key as `note.meta` has it, whatever its case; as it is to be written if it is not there."""
    alike = (each for each in note.meta if folded(each) == folded(key))
    return key if key in note.meta else next(alike, known_key(key))


def rewrite(note: Note, chunk: Chunk, content: str) -> str:
    """
    Return `note`'s text with `chunk`'s text replaced by `content`, and no other character.

    The heading stays unless `content` has its own; blank lines around the section stay. Raises InvalidInput if
    `content` would swallow the following text, as an open code fence would.
    """
    end_of_line = newline(note.text)
    source = lines(note.text[chunk.start : chunk.end])
    written = [i for i, line in enumerate(source) if line.strip()]
    first, last = (written[0], written[-1] + 1) if written else (len(source), len(source))
    lead, tail = "".join(source[:first]), "".join(source[last:])
    given = lines(content)
    kept = [i for i, line in enumerate(given) if line.strip()] or [0]
    new = re.sub(r"\r\n|\r|\n", end_of_line, "".join(given[kept[0] : kept[-1] + 1]).rstrip("\r\n"))
    begin = chunk.start + len(lead)
    heading = next((block for at, block in _place_blocks(note) if at == begin and block.kind == "heading"), None)
    own = next(blocks(new), None)
    if heading and not (own and own.kind == "heading" and own.start == 0 and own.level <= heading.level):
        below = first + heading.end - heading.start
        rest = next((i for i in written if i >= below), len(source))
        title = "".join(source[first:below])
        gap = "".join(source[below:rest]) if rest < len(source) else end_of_line
        lead += title + ("" if title.endswith(("\r", "\n")) else end_of_line) + gap
    last_line = source[last - 1] if last else ""
    # The line end of the last line, or what a part cut within a line ends in.
    new += last_line[len(last_line.rstrip()) :].lstrip(" \t") if last_line.endswith(("\r", "\n")) else ""
    if not last_line.endswith(("\r", "\n")) and chunk.end < len(note.text):
        new += last_line[len(last_line.rstrip()) :] or end_of_line
    return _within(note, chunk.start, chunk.end, lead + new + tail)


def appended(note: Note, start: int, end: int, content: str) -> str:
    """Return the text with `content` after `start` to `end`, a paragraph or list item. Raises as `rewrite` does."""
    end_of_line = newline(note.text)
    new = re.sub(r"\r\n|\r|\n", end_of_line, content.strip("\r\n"))
    source = lines(note.text[start:end])
    last = next((i for i in range(len(source) - 1, -1, -1) if source[i].strip()), None)
    if last is None:
        return _within(note, start, end, note.text[start:end] + new + end_of_line)
    ending = source[last][len(source[last].rstrip("\r\n")) :]
    gap = end_of_line if _ITEM.match(source[last]) and _ITEM.match(new) else end_of_line * 2
    before = "".join(source[: last + 1]).removesuffix(ending)
    return _within(note, start, end, before + gap + new + ending + "".join(source[last + 1 :]))


def replaced(note: Note, start: int, end: int, phrase: tuple[str, str], *, every: bool = False) -> str:
    """Return the text with a `phrase` (old, new) replaced, once unless `every`. Raises InvalidInput as `rewrite`."""
    old, new = (re.sub(r"\r\n|\r|\n", newline(note.text), text) for text in phrase)
    body = note.text[start:end]
    places = [start + match.start() for match in re.finditer(re.escape(old), body)] if old else []
    if not places:
        words = [re.escape(word) for word in old[:_MOST_COMPARED].split()]
        message = f"{note.path}: {old!r:.200} is not there."
        if words and (near := re.search(r"\s+".join(words), body)):
            odd = (unicodedata.name(letter, "line end").lower() for letter in near[0] if letter not in f"{old} ")
            blanks = ", ".join(dict.fromkeys(odd)) or "other blanks"
            message = f"{note.path}: {old!r:.200} is not there; {near[0]!r:.200} is, with {blanks}."
        raise InvalidInput(message, "Copy it from the text as it stands; nothing was changed.")
    if len(places) > 1 and not every:
        where = ", ".join(str(line_at(note.text, at)) for at in places[:20])
        raise InvalidInput(
            f"{note.path}: {old!r:.200} is there {len(places)} times, in lines {where}.",
            "Give more of the text around the one that is meant, or say that all are; nothing was changed.",
        )
    return _within(note, start, end, body.replace(old, new))


def _within(note: Note, start: int, end: int, new: str) -> str:
    """Return the text with `new` from `start` to `end`. Raises InvalidInput if the rest would be parsed differently."""
    text = note.text[:start] + new + note.text[end:]
    if not _keeps_rest(note, start, end, text):
        raise InvalidInput(
            f"{note.path}: with this text the sections around it would be read differently.",
            "Close every code fence and HTML comment in the text; nothing was changed.",
        )
    return text


def without(note: Note, chunk: Chunk) -> str:
    """Return `note`'s text without `chunk` and its heading; a blank line stays where the following text needs one."""
    for between in ("", newline(note.text), newline(note.text) * 2):
        text = note.text[: chunk.start] + between + note.text[chunk.end :]
        if _keeps_rest(note, chunk.start, chunk.end, text):
            return text
    raise InvalidInput(
        f"{note.path}: without this section the sections around it would be read differently.",
        "Edit the file by hand; nothing was changed.",
    )


def merged(base: str, ours: str, theirs: str) -> str | None:
    """Return the three-way merge of `base` and two changed texts by lines; None if both changed the same place."""
    was = lines(base)
    sides = [lines(text) for text in (ours, theirs)]
    changes = sorted({(i, j, tuple(side[k:m])) for side in sides for i, j, k, m in changed_spans(was, side)})
    # Changes that only touch are one place too: nobody knows which of two insertions comes first.
    if any(after[0] <= before[1] for before, after in pairwise(changes)):
        return None
    for start, end, new in reversed(changes):
        was[start:end] = new
    return "".join(was)


def _keeps_rest(note: Note, start: int, end: int, text: str) -> bool:
    """Say whether frontmatter, headings and the blocks after `end` read as before the change from `start` to `end`."""
    try:
        after = parse(note.path, note.encode(text))
    except UnicodeEncodeError:
        return False
    if after.body_at != note.body_at or not same(after.meta, note.meta):
        return False
    if any(version.blocks and version.blocks[-1].kind == REST for version in (note, after)):
        return True  # a very long text is read as one block
    shift = len(text) - len(note.text)
    before = [(at + shift * (at >= end), block) for at, block in _place_blocks(note) if at < start or at >= end]
    now = [(at, block) for at, block in _place_blocks(after) if at < start or at >= end + shift]
    headings = ([(at, b.level, b.text) for at, b in placed if b.kind == "heading"] for placed in (before, now))
    followers = {(block.kind, at) for at, block in before if end + shift <= at}
    return next(headings) == next(headings) and followers <= {(block.kind, at) for at, block in now}


def _place_blocks(note: Note) -> list[tuple[int, Block]]:
    """Return the note's blocks, each with the character at which its first line begins."""
    offsets = [*accumulate(map(len, note.body_lines), initial=note.body_at)]
    return [(offsets[block.start], block) for block in note.blocks]


def same(a: object, b: object) -> bool:
    # 1 and true are equal in Python and not in YAML.
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def _set(text: str, key: str, value: object, old: object) -> str:
    match = FRONTMATTER.match(text)
    if match is None:
        end = newline(text)
        bom = "\ufeff" if text.startswith("\ufeff") else ""
        return f"{bom}---{end}{_entry(key, value)}{end}---{end}{text[len(bom) :]}"
    header = match[1]
    root = _root(header)
    pair = _find(root, key)
    if pair is not None:
        header = _replace_value(header, *pair, value, old)
    elif root is not None and root.flow_style:
        at = root.end_mark.index - 1
        comma = ", " if root.value else ""
        header = f"{header[:at].rstrip()}{comma}{_entry(key, value)}{header[at:]}"
    else:
        end = newline(text)
        indent = " " * root.start_mark.column if root else ""
        header += f"{indent}{_entry(key, value)}{end}"
    return text[: match.start(1)] + header + text[match.end(1) :]


def _with_toml(text: str, key: str, value: object) -> str:
    """Return the text with a key of its TOML set, or removed for None; a new one stands first, before all tables."""
    import tomlkit

    match = TOML.match(text)
    assert match is not None
    header: Any = tomlkit.parse(match[1])
    places = [header, header.get("taxonomies")] if isinstance(header.get("taxonomies"), dict) else [header]
    named = [(place, name) for place in places for name in place if key in {name, known_key(name)}]
    if not named and value is not None:
        new = f"{tomlkit.key(key).as_string()} = {_inline(value).as_string()}{newline(text)}{match[1]}"
        return text[: match.start(1)] + new + text[match.end(1) :]
    for place, name in named:
        if value is None:
            del place[name]
        else:
            place[name] = value
    return text[: match.start(1)] + str(header.as_string()) + text[match.end(1) :]


def _inline(value: object) -> Any:
    """Return a value of TOML on one line: a table that stood first would take all keys behind it."""
    import tomlkit

    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update(value)
        return table
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        array = tomlkit.array()
        array.extend(map(_inline, value))
        return array
    return tomlkit.item(value)


def _entry(key: str, value: object) -> str:
    return f"{dump(key)}: {dump(value)}"


def _remove(text: str, key: str) -> str:
    match = FRONTMATTER.match(text)
    pair = _find(_root(match[1]), key) if match else None
    if match is None or pair is None:
        return text
    header = match[1]
    start, end = pair[0].start_mark.index, _end(*pair)
    return text[: match.start(1)] + header[:start] + header[_line_end(header, end) :] + text[match.end(1) :]


def _line_end(header: str, at: int) -> int:
    """Return the end of the line of `at`, its line end included; a literal's mark is at its last line's end already."""
    line = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)").match(header, at)
    return at if line is None or header[at - 1 : at] in {"\r", "\n"} else line.end()


def _root(header: str) -> yaml.MappingNode | None:
    # libyaml, as for reading: the pure loader refuses `[방법은?]`.
    root = yaml.compose(header.replace("\0", " "), Loader=fast_loader())
    return root if isinstance(root, yaml.MappingNode) else None


def _find(root: yaml.MappingNode | None, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    pairs: list[tuple[yaml.Node, yaml.Node]] = root.value if root is not None else []
    exact = (pair for pair in pairs if pair[0].value == key)
    return next(exact, None) or next((pair for pair in pairs if known_key(str(pair[0].value)) == key), None)


def _end(key: yaml.Node, value: yaml.Node) -> int:
    """Return where the value's characters end: before comments and blank lines that a block node's mark includes."""
    if value.start_mark.index < key.end_mark.index:  # an alias has the marks of its anchor
        return int(key.end_mark.index)
    children = list(_children(value))
    if isinstance(value, yaml.CollectionNode) and children and not value.flow_style:
        return max(_end(key, child) for child in children)
    return int(value.end_mark.index)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    for child in () if isinstance(node, yaml.ScalarNode) else node.value:
        yield from child if isinstance(child, tuple) else (child,)


def _replace_value(header: str, key: yaml.Node, node: yaml.Node, value: object, old: object) -> str:
    colon = header.index(":", key.end_mark.index) + 1
    if node.start_mark.index < key.end_mark.index:
        alias = re.compile(r"[ \t]*\*[^\s,\]}]+").match(header, colon)
        end = alias.end() if alias else colon
        return f"{header[:colon]} {dump(value)}{header[end:]}"
    if isinstance(node, yaml.SequenceNode) and isinstance(old, list) and isinstance(value, list):
        edited = _edit_list(header, node, old, value) or _append(header, key, node, old, value)
        if edited is not None:
            return edited
    end = _end(key, node)
    spelled = header[colon:end]
    tail = spelled[len(spelled.rstrip(" \t\r\n")) :]
    comments = _comments(header, colon, end, node)
    style = getattr(node, "style", None)
    quote = style if isinstance(value, str) and style in {"'", '"'} else None
    return f"{header[:colon]} {dump(value, quote)}{comments}{tail}{header[end:]}"


def _append(header: str, key: yaml.Node, node: yaml.SequenceNode, old: list[object], value: list[object]) -> str | None:
    """Append to a list of any values where nothing else was asked, else None."""
    if not node.value or len(value) <= len(old) or not same(value[: len(old)], old):
        return None
    at, added = _end(key, node.value[-1]), value[len(old) :]
    if node.flow_style:
        return f"{header[:at]}, {dump(added)[1:-1]}{header[at:]}"
    indent = header[max(header.rfind(end, 0, node.start_mark.index) for end in "\r\n") + 1 : node.start_mark.index]
    at = _line_end(header, at)
    return header[:at] + "".join(f"{indent}- {dump(item)}{newline(header)}" for item in added) + header[at:]


def _comments(header: str, colon: int, end: int, node: yaml.Node) -> str:
    """Return the comments inside a block value that is about to become one line."""
    if isinstance(node, yaml.ScalarNode) and node.style not in {"|", ">"}:
        return ""
    bounds = [colon]
    for child in _leaves(node):
        bounds += [child.start_mark.index, child.end_mark.index]
    gaps = [header[a:b] for a, b in zip(bounds[::2], [*bounds[1::2], end], strict=False)]
    comments = [comment for gap in gaps for comment in re.findall(r"(?:(?<=\s)|^)#[^\r\n]*", gap)]
    end_of_line = newline(header)
    is_beside = "#" in gaps[0] and "\n" not in gaps[0].partition("#")[0]
    text = "".join(f"{end_of_line}{comment}" for comment in comments)
    return f"  {text.removeprefix(end_of_line)}" if is_beside else text


def _leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    children = list(_children(node))
    if not children:
        yield node
    for child in children:
        yield from _leaves(child)


def _edit_list(header: str, node: yaml.SequenceNode, old: list[object], value: list[object]) -> str | None:
    """Remove items of a list and append to it where nothing else was asked, else None."""
    items, first, end = node.value, node.start_mark.index, node.end_mark.index
    if any(not (isinstance(item, yaml.ScalarNode) and first <= item.start_mark.index < end) for item in items):
        return None  # nested values, or an alias, which has the marks of its anchor
    kept: list[int] = []
    for i, item in enumerate(old):
        if len(kept) < len(value) and same(item, value[len(kept)]):
            kept.append(i)
    if not kept:
        return None
    added, last = value[len(kept) :], items[kept[-1]]
    if node.flow_style:
        bounds = [*(item.start_mark.index for item in items), items[-1].end_mark.index]
        text = "".join(header[bounds[i] : bounds[i + 1]] for i in kept[:-1])
        text += header[last.start_mark.index : last.end_mark.index]
        text += "".join(f", {dump([item])[1:-1]}" for item in added)
        return header[: bounds[0]] + text + header[bounds[-1] :]
    starts = [max(header.rfind(end, 0, item.start_mark.index) for end in "\r\n") + 1 for item in items]
    ends = [_line_end(header, item.end_mark.index) for item in items]
    is_shared = header[starts[0] : items[0].start_mark.index].strip() != "-"  # the first item's line has more
    if (is_shared and kept[0]) or (added and last.style in {"|", ">"}):
        return None
    cuts = [(start, stop, "") for i, (start, stop) in enumerate(zip(starts, ends, strict=True)) if i not in kept]
    indent, at = header[starts[kept[-1]] : last.start_mark.index], ends[kept[-1]]
    cuts.append((at, at, "".join(f"{indent}{dump(item)}{newline(header)}" for item in added)))
    return links.replaced(header, sorted(cuts))
