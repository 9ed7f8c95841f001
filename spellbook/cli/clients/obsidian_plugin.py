"""
The plugin for Obsidian: files in `.obsidian/plugins/spellbook/` and a name in the list of plugins; edited files stay.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from spellbook.cli.clients import changes, jsonc, settings_entry
from spellbook.cli.clients.changes import FileChange
from spellbook.cli.clients.known_clients import McpClient
from spellbook.settings.config import is_local
from spellbook.system.errors import InvalidInput

ID, AUTHOR = "spellbook", b'"The Spellbook developers"'
FILES = ("main.js", "styles.css", "manifest.json")
SETTINGS = "data.json"
SHIPPED = Path(__file__).parent / "obsidian"
ABOUT = McpClient(
    "Obsidian",
    "address",
    "Start `spellbook serve`, then start Obsidian again; if it asks, allow community plugins.",
    types=("", "http"),
)


def home(vault: Path) -> Path:
    """Return the folder of the plugin in a vault. Raises InvalidInput if Obsidian never opened the vault."""
    folder = vault / ".obsidian"
    if not folder.is_dir():
        raise InvalidInput(
            f"{vault} was never opened in Obsidian: there is no {folder}.",
            "Open the folder in Obsidian once, as a vault, and repeat.",
        )
    return folder / "plugins" / ID


def add(folder: Path, url: str, default: str, *, force: bool = False) -> list[FileChange]:
    """
    Return the changes that install or update the plugin in `folder`.

    It asks the address `url`; if that is "", its earlier address, else `default`. Raises InvalidInput if another plugin
    is there, unless `force`, and for an address that the plugin cannot ask.
    """

    def asking(text: str) -> str:
        address = str(url or jsonc.get(text, (ABOUT.key,)) or default)
        if not is_local(settings_entry.address(ABOUT, address)["url"]) and not address.startswith("https://"):
            raise InvalidInput(f"{address}: the plugin asks only this machine, or an address with https.", "Use https.")
        return jsonc.put(text, (ABOUT.key,), address)

    before = {name: changes.read(folder / name) for name in FILES}
    if (manifest := before["manifest.json"]) is not None and AUTHOR not in manifest and not force:
        raise InvalidInput(
            f"{folder}: another plugin is called {ID!r}.", "Replace it with --force; nothing was written."
        )
    planned = [FileChange(folder / name, before[name], (SHIPPED / name).read_bytes()) for name in FILES]
    for file, edit in ((folder / SETTINGS, asking), (_listing(folder), _with)):
        data, text = settings_entry.read(file, ABOUT)
        with settings_entry.shaped(file):
            after = edit(text)
        planned.append(FileChange(file, data, data if after == text else after.encode()))
    return [change for change in planned if change.before != change.after]


def _listing(folder: Path) -> Path:
    return folder.parents[1] / "community-plugins.json"


def _with(text: str) -> str:
    """Return the list of the plugins that are switched on, with this one."""
    names = jsonc.get(text, ())
    names = names if isinstance(names, list) else []
    return text if ID in names else jsonc.put(text, (len(names),), ID)


def take_out(folder: Path, backups: Path, *, force: bool = False) -> list[FileChange]:
    """Return the changes that remove the plugin. Raises InvalidInput for a file changed since, unless `force`."""
    planned = []
    file = _listing(folder)
    before, text = settings_entry.read(file, ABOUT)
    if isinstance(names := jsonc.get(text, ()), list) and ID in names:
        place = (names.index(ID),)
        change = settings_entry.without_ours(
            file,
            before,
            lambda old: ID in (jsonc.get(old, ()) or ()),
            lambda old: _with(old) == text,
            lambda _: jsonc.remove(text, place),
            (backups / file.name,),
        )
        planned.append(replace(change, matters=False))
    for file in (folder / name for name in (*FILES, SETTINGS)):
        if (data := changes.read(file)) is None:
            continue
        if not (is_ours := _is_ours(file.name, data)) and not force:
            raise InvalidInput(
                f"{file} is not as this Spellbook installs it.",
                "Install again first, or delete it with --force; both keep a copy. Nothing was changed.",
            )
        planned.append(FileChange(file, data, None, matters=not is_ours))
    return planned


def _is_ours(name: str, data: bytes) -> bool:
    """Say whether a file of the plugin is as it was installed; its settings, whether they hold an address alone."""
    if name != SETTINGS:
        return data == (SHIPPED / name).read_bytes()
    with contextlib.suppress(UnicodeDecodeError, jsonc.Malformed):
        return isinstance(settings := jsonc.get(data.decode(), ()), dict) and settings.keys() == {ABOUT.key}
    return False
