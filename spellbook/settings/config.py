"""Settings: defaults, the vault's config.toml, the environment, arguments, in that order. State lies outside it."""

from __future__ import annotations

import ipaddress
import logging
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from spellbook.settings import paths
from spellbook.settings.defaults import Settings
from spellbook.settings.limits import MOST_GLOB, MOST_SCOPES
from spellbook.settings.paths import MARKER
from spellbook.system import disk, platform
from spellbook.system.errors import InvalidInput, VaultNotFound
from spellbook.system.lazy import regex

_WANTED: dict[type, str] = {str: "text", dict: "a table", bool: "true or false"}
_LEAST = {"look_seconds": 0, "exact_most": 0}
_MOST = {"threads": 256}
_MOST_NUMBER = 1_000_000_000
"""The largest number of a setting. Larger ones overflow when they are calculated with."""

WITHOUT_EFFECT = {
    *("unchecked_links", "SPELLBOOK_GUESSER", "SPELLBOOK_GUESSER_API_KEY"),
    *("SPELLBOOK_DATABASE_URL", "SPELLBOOK_WRITES_TOKEN"),
}
"""Settings and variables of 0.2.0: a vault opens with them, and the log of a process names each once."""

_log = logging.getLogger(__name__)

_FORMS = {
    "ollama": "ollama:MODEL[@URL]",
    "openai": "openai:MODEL[@URL]",
    "llamacpp": "llamacpp[:MODEL]@URL",
    "tei": "tei[:MODEL]@URL",
    "rerank": "rerank:MODEL@URL",
}
_OPENAI = "https://api.openai.com/v1"
_KIND = regex(rf"({'|'.join(_FORMS)})(?![\w-])")
# A model may begin with @ (`@cf/baai/bge-m3`); an address always names its scheme, and options belong to the model.
_PARTS = regex(r"(?::(?P<model>(?:@(?!\w+://))?[^\s@?]+)?)?(?:\?(?P<options>[^\s@]*))?(?:@(?P<url>\S+))?")
# Stricter than the standard for URLs, so that no library reads another host out of it than we do.
_ADDRESS = regex(
    r"https?://(?:[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?(?:/[\w.~%/-]*)?",
    re.I | re.A,
)


_KINDS = {each.name: dict if each.default is MISSING else type(each.default) for each in fields(Settings)}


@dataclass(frozen=True, slots=True)
class Config(Settings):
    """
    The settings of one run.

    `embedder_given`: whether an argument or the environment named the embedder; then config.toml does not.
    `scope`: the scope that this run sees and writes to, "" for all; it belongs to a run, so it comes from the
    environment or an argument and never from the vault.
    `chroma_url`: a Chroma server to use instead of the embedded Chroma.
    `wikis`: the folders of documents beside the vault that `memories.project_documentation` may read, as given.
    `beside`: the vault that this folder of documents is beside; then it is only read. None for a vault.
    `polls`: whether the watcher scans the vault every 2 seconds, because the system reports no changes of its files.
    `words_of`: the folder whose synonyms a search uses; None for the vault.
    `named`: the absolute path by which the vault was named; `vault` is where it led then.

    `chroma_url`, `wikis` and a service on another machine come from the environment or an argument, never from the
    vault: a vault that somebody hands you must not send your notes anywhere, nor choose what else is read.
    """

    vault: Path
    state: Path
    embedder_given: bool = False
    scope: str = ""
    snapshot_folder: Path = Path()
    chroma_url: str = ""
    chroma_token: str = field(default="", repr=False)
    wikis: tuple[str, ...] = ()
    beside: Path | None = None
    polls: bool = False
    words_of: Path | None = None
    named: str = ""

    @property
    def category_rules(self) -> Mapping[str, str]:
        """Rules of `categories` for tags (`#decision`) and for folders and globs (`Projects/`, `adr/*.md`)."""
        return {key: it for key, it in self.categories.items() if key[:1] == "#" or key[-1:] == "/" or "*" in key}

    @property
    def person(self) -> str:
        """The name of the person of this vault, as `verified` has it after `human:`."""
        return str(self.memories.get("name") or "me")

    @property
    def review(self) -> bool:
        """Whether agents find what agents wrote only once the person keeps it."""
        return bool(self.memories.get("review"))

    @property
    def is_elsewhere(self) -> bool:
        """Whether the path that names the vault leads to another folder by now, as a link or a mount may."""
        named, vault = os.path.realpath(self.named), str(self.vault)
        return bool(self.named) and named != vault and platform.real_path(named) != vault


class Service(NamedTuple):
    """A model that runs in a service at `url`. `options` are what follows `?` in its name."""

    kind: str
    model: str
    url: str
    options: Mapping[str, str]


def is_local(url: str) -> bool:
    """Return whether an address is on this machine."""
    return is_loopback(urlsplit(url).hostname or "")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load(
    vault: str | Path | None = None,
    *,
    embedder: str | None = None,
    state: str | Path | None = None,
    scope: str | None = None,
    wikis: Sequence[str | Path] | None = None,
) -> Config:
    """
    Return the settings for `vault`, or for the vault that `find_vault` finds.

    Raises VaultNotFound, and InvalidInput if config.toml is not TOML, has an invalid key or value, or names a service
    beyond this machine.
    """
    root = find_vault(vault)
    file = root / MARKER / "config.toml"
    settings = _read_settings(file)
    for name in sorted(WITHOUT_EFFECT & (settings.keys() | os.environ.keys())):
        warn_of_setting(name, str(file) if name in settings else "environment")
        settings.pop(name, None)
    models = {
        "embedder": embedder or os.environ.get("SPELLBOOK_EMBEDDER"),
        "reranker": os.environ.get("SPELLBOOK_RERANKER"),
    }
    for key, named in models.items():
        settings[key] = named or _safe_model(file, key, settings.get(key, ""))
    url = os.environ.get("SPELLBOOK_CHROMA_URL", "")
    if url and not _is_address(url.partition("?")[0]):
        raise InvalidInput(
            f"SPELLBOOK_CHROMA_URL={_show(url)} is not an http address.",
            "For example http://localhost:8000, or unset it.",
        )
    if second := either("SPELLBOOK_SECOND_ENCODER", "on", "off"):
        settings["second_encoder"] = second == "on"
    return Config(
        root,
        Path(paths.state(str(root), str(state or ""))),
        embedder_given=bool(models["embedder"]),
        scope=(scope if scope is not None else os.environ.get("SPELLBOOK_SCOPE", "")).strip(),
        snapshot_folder=Path(paths.snapshots(str(root))),
        chroma_url=url,
        chroma_token=os.environ.get("SPELLBOOK_CHROMA_TOKEN", ""),
        wikis=tuple(map(str, wikis or ())) or tuple(paths.listed(os.environ.get("SPELLBOOK_WIKI", ""))),
        polls=either("SPELLBOOK_WATCH", "events", "poll") == "poll",
        named=os.path.abspath(paths.vault(str(vault or ""))),
        **settings,
    )


@cache
def warn_of_setting(name: str, place: str) -> None:
    """Log once that a setting has no effect any more."""
    _log.warning("%s: %s is no setting, and has no effect.", place, name)


def service(name: str) -> Service | None:
    """
    Parse `KIND:MODEL[?OPTION=VALUE&…][@URL]`; return None if `name` is not a service.

    Without an address, `ollama` is at OLLAMA_HOST and `openai` at api.openai.com. Raises InvalidInput for an invalid
    name or address. The message does not repeat an address with a password.
    """
    kind = _KIND.match(name)
    if kind is None:
        return None
    form = _FORMS[kind[1]]
    hint = f"Write {form}, with a URL such as http://127.0.0.1:8080."
    parts = _PARTS.fullmatch(name, kind.end())
    if parts is None:
        raise InvalidInput(f"{_show(name)} does not name a service.", hint)
    model, url = parts["model"] or "", parts["url"] or ""
    if not model and "[:MODEL]" not in form:
        raise InvalidInput(f"{_show(name)} does not name a model.", f"Write {form}.")
    if not url and "[@URL]" not in form:
        raise InvalidInput(f"{_show(name)} does not name an address.", hint)
    try:
        options = dict(parse_qsl(parts["options"] or "", keep_blank_values=True, strict_parsing=bool(parts["options"])))
    except ValueError as error:
        raise InvalidInput(
            f"{_show(name)}: the options after ? are not NAME=VALUE.", "For example ?dimensions=512."
        ) from error
    url = url or (_ollama_address() if kind[1] == "ollama" else _OPENAI)
    return Service(kind[1], model, _check_address(url), options)


def either(variable: str, one: str, other: str) -> str:
    """Return which of two words a variable of the environment has, "" for neither. Raises InvalidInput."""
    value = os.environ.get(variable, "").strip().lower()
    if value not in {"", one, other}:
        raise InvalidInput(f"{variable}={value!r:.80} is neither {one} nor {other}.", "Write one, or unset it.")
    return value


def check(file: str, text: str) -> None:
    """Raise InvalidInput if a vault with the config.toml `text` could not be opened; errors name it `file`."""
    settings = settings_of(file, text)
    for key in ("embedder", "reranker"):
        _safe_model(file, key, settings.get(key, ""))


def _safe_model(file: Path | str, key: str, filed: str) -> str:
    """Return the model that the vault's settings name. Raises InvalidInput if it is not safe."""
    try:
        named = service(filed)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {key}: {error.message}", error.hint) from error
    if named and not is_local(named.url):
        raise InvalidInput(
            f"{file}: {key} would send notes to {named.url}. "
            "A vault's own settings may only name a service on this machine.",
            f"If you want that, set SPELLBOOK_{key.upper()}={filed} yourself; else delete the line.",
        )
    return filed


def _is_address(url: str) -> bool:
    match = _ADDRESS.fullmatch(url)
    return match is not None and int(match["port"] or 1) in range(1, 65536)


def _check_address(url: str) -> str:
    if _is_address(url):
        return url.rstrip("/")
    if "@" in url:
        raise InvalidInput(
            "The address of a service holds a name or a password.", "Leave it out; a key goes into SPELLBOOK_API_KEY."
        )
    raise InvalidInput(
        f"{url.partition('?')[0]!r:.120} is not the address of a service.",
        "It begins with http:// or https://, without ? and #.",
    )


def _ollama_address() -> str:
    """Return the address of Ollama from OLLAMA_HOST, read as Ollama reads it: scheme and port are optional."""
    address = os.environ.get("OLLAMA_HOST", "").strip().strip("\"'")
    try:
        url = urlsplit(address if "://" in address else f"//{address}", scheme="http")
        port = url.port or (11434 if "://" not in address else 443 if url.scheme == "https" else 80)
        if url.username is not None:
            raise ValueError("no place for a password")
        host = url.hostname or "127.0.0.1"
    except ValueError as error:
        raise InvalidInput("OLLAMA_HOST is not an address.", "For example 127.0.0.1:11434, or unset it.") from error
    if host in {"0.0.0.0", "::"}:  # a server listens there, but a client cannot connect to it
        host = "127.0.0.1"
    return f"{url.scheme}://{f'[{host}]' if ':' in host else host}:{port}{url.path}"


def _show(name: str) -> str:
    return repr(re.sub(r"//[^/\s]*@", "//…@", name)[:120])


def find_vault(vault: str | Path | None = None) -> Path:
    """Return the vault that `paths.chosen` chooses for `vault`. Raises VaultNotFound."""
    folder, reason = paths.chosen(str(vault or ""))
    root = Path(folder)
    if not root.is_dir():
        wrong = "the vault folder is a file" if root.exists() else "the vault folder does not exist"
        raise VaultNotFound(
            f"{root}: {wrong} ({reason})." if reason else f"{root}: {wrong}.",
            "Give the folder of your notes with --vault DIR or SPELLBOOK_VAULT, or make one with `spellbook init DIR`.",
        )
    return Path(paths.real(folder))


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        return settings_of(str(file), disk.read_small(file).decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{file}: the settings cannot be read ({reason}).", "Fix or delete the file.") from error


_DEEP_KEY = regex(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}""")
"""A key with 20 or more dots. tomllib's memory grows with the square of the parts: gigabytes for a file of 100 kB."""


def settings_of(file: str, text: str) -> dict[str, Any]:
    """Parse the text of a config.toml; errors name it `file`. Raises InvalidInput."""
    import tomllib

    if deep := _DEEP_KEY.search(text):
        raise InvalidInput(f"{file}: a setting has too many parts ({deep[0]:.40}…).", "Fix the line and try again.")
    try:
        raw: Mapping[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML, or a number or a depth that Python cannot read
        raise InvalidInput(f"{file}: the settings cannot be read ({error}).", "Fix or delete the file.") from error
    for key, value in raw.items():
        if key not in WITHOUT_EFFECT:
            _check_setting(file, key, value)
    return dict(raw)


def _check_setting(file: str, key: str, value: Any) -> None:
    kind = _KINDS.get(key)
    if kind is None:
        raise InvalidInput(f"{file}: there is no setting {key!r:.80}.", f"Settings are {', '.join(_KINDS)}.")
    least, most = _LEAST.get(key, 1), _MOST.get(key, _MOST_NUMBER)
    is_number = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    if not (is_number if kind is int else isinstance(value, kind)):
        raise _wrong(file, key, _WANTED.get(kind, f"a whole number from {least} to {most:,}"), value)
    if kind is not dict:
        return
    if key == "folders" and (unknown := value.keys() - {"memories"}):
        raise InvalidInput(f"{file}: folders has no setting {min(unknown)!r:.80}.", "folders has memories.")
    if len(value) > MOST_SCOPES or any(len(glob) > MOST_GLOB for glob in value):
        raise InvalidInput(
            f"{file}: {key} are at most {MOST_SCOPES} lines of {MOST_GLOB:,} letters.",
            "Put globs together; `work/` is all in work.",
        )
    is_right, wanted = _OF_TABLES.get(key, _TEXT)
    for name, each in value.items():
        if not is_right(name, each):
            raise _wrong(file, f"{key}.{name:.80}", wanted, each)


def _is_half_life(_: str, value: Any) -> bool:
    return isinstance(value, int | float) and (0 < value <= _MOST_NUMBER or value == math.inf)


def _is_of_memories(name: str, value: object) -> bool:
    if name == "review":
        return isinstance(value, bool)
    return name == "name" and isinstance(value, str) and re.fullmatch(r"[\w.-]{1,80}", value) is not None


def _is_of_capture(name: str, value: Any) -> bool:
    is_list = name == "exclude" and isinstance(value, list)
    return is_list and all(isinstance(glob, str) and len(glob) <= MOST_GLOB for glob in value)


_Rule = tuple[Callable[[str, Any], bool], str]
_TEXT: _Rule = (lambda _, value: isinstance(value, str), "text")
_OF_TABLES: Mapping[str, _Rule] = {
    "half_lives": (_is_half_life, "a number of days, or inf"),
    "memories": (_is_of_memories, "review, true or false, or name, a word of letters and digits"),
    "capture": (_is_of_capture, "exclude, a list of folders"),
}
"""By table, whether it may have a key with a value, and which it may have; the others have texts."""


def _wrong(file: str, name: str, wanted: str, value: object) -> InvalidInput:
    return InvalidInput(f"{file}: {name} must be {wanted}, not {value!r:.80}.", "Fix the line and try again.")
