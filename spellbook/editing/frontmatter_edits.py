"""
Change one key of a frontmatter, and no other byte. Pure.

A YAML library that dumps a block loses comments, quotes and order. So the parser only locates a value, and its
characters are replaced; the caller parses the result again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spellbook.notes import links
from spellbook.notes.frontmatter import FRONTMATTER, TOML, dump, fast_loader, known_key
from spellbook.notes.note import newline
from spellbook.system.lazy import yaml


def same(a: object, b: object) -> bool:
    """Say whether two values of YAML are the same."""
    # 1 and true are equal in Python and not in YAML.
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def set_key(text: str, key: str, value: object, old: object) -> str:
    """Return the text with a key of its frontmatter set, which had the value `old`; a new one stands last."""
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


def with_toml(text: str, key: str, value: object) -> str:
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


def remove_key(text: str, key: str) -> str:
    """Return the text without a key of its frontmatter."""
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
        edited = _edit_list(header, key, node, old, value)
        if edited is not None:
            return edited
    end = _end(key, node)
    spelled = header[colon:end]
    tail = spelled[len(spelled.rstrip(" \t\r\n")) :]
    comments = _comments(header, colon, end, node)
    style = getattr(node, "style", None)
    quote = style if isinstance(value, str) and style in {"'", '"'} else None
    return f"{header[:colon]} {dump(value, quote)}{comments}{tail}{header[end:]}"


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


def _edit_list(
    header: str, key: yaml.Node, node: yaml.SequenceNode, old: list[object], value: list[object]
) -> str | None:
    """Remove items of a list and append to it where nothing else was asked, else None."""
    items, first, end = node.value, node.start_mark.index, node.end_mark.index
    if any(not first <= item.start_mark.index < end for item in items):
        return None  # an alias, which has the marks of its anchor
    kept: list[int] = []
    for i, item in enumerate(old):
        if len(kept) < len(value) and same(item, value[len(kept)]):
            kept.append(i)
    if not kept:
        return None
    added = value[len(kept) :]
    if node.flow_style:
        return _edit_flow(header, items, kept, added)
    return _edit_block(header, items, [_line_end(header, _end(key, item)) for item in items], kept, added)


def _edit_flow(header: str, items: Sequence[yaml.Node], kept: Sequence[int], added: Sequence[object]) -> str:
    """Return the header with the `kept` items of a list on one line, and `added` ones behind them."""
    bounds = [*(item.start_mark.index for item in items), items[-1].end_mark.index]
    last = items[kept[-1]]
    text = "".join(header[bounds[i] : bounds[i + 1]] for i in kept[:-1])
    text += header[last.start_mark.index : last.end_mark.index]
    text += "".join(f", {dump([item])[1:-1]}" for item in added)
    return header[: bounds[0]] + text + header[bounds[-1] :]


def _edit_block(
    header: str, items: Sequence[yaml.Node], ends: Sequence[int], kept: Sequence[int], added: Sequence[object]
) -> str | None:
    """Return the header with the `kept` items of a list of lines, which end there, and `added` ones, else None."""
    starts = [max(header.rfind(end, 0, item.start_mark.index) for end in "\r\n") + 1 for item in items]
    if kept[0] and header[starts[0] : items[0].start_mark.index].strip() != "-":
        return None  # the first item's line has more
    cuts = [(start, stop, "") for i, (start, stop) in enumerate(zip(starts, ends, strict=True)) if i not in kept]
    indent, at = header[starts[kept[-1]] : items[kept[-1]].start_mark.index], ends[kept[-1]]
    cuts.append((at, at, "".join(f"{indent}{dump(item)}{newline(header)}" for item in added)))
    return links.replaced(header, sorted(cuts))
