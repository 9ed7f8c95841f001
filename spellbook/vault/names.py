"""Names of files: notes by name, and names that every system accepts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spellbook.text.unicode import composed, joined_at

MOST = 120
"""Bytes that the name of an imported file has at most, its ending included."""

MOST_NEW = 100
"""Bytes that the name of a new note has at most, its number and ending included: also an encrypted disk stores it."""

MOST_NUMBER = 10_000
"""How many files of one name there may be, numbered."""

DEVICES = re.compile(r"(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(?= *(\.|$))")
_MOST_STORED = 255
"""The most bytes of a file's name on Linux and macOS."""

_MOST_PATH = 4_000
"""The most bytes of a path below the vault: PATH_MAX is 4,096 in all."""

CANVAS = ".canvas"  # how the name of a canvas of Obsidian ends
_FORBIDDEN = re.compile(r'[<>:"/\\|?*#^\[\]\x00-\x1f\x7f]+')
# What shows nothing, or turns the text after it round: soft hyphen, controls, zero-width and bidirectional marks. The
# joiners of emoji and of Persian stay.
_UNSEEN = re.compile("[\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
_EDGES = " .-~"
_CONFLICTED = (  # Dropbox in its languages
    "conflicted copy|in konflikt stehende kopie|konfliktkopi[ae]?|copie en conflit|copia en conflicto|copia conflictiva"
    "|copia in conflitto|cópia em conflito|cópia conflitante|conflicterende kopie|конфликт[а-я]+ копия"
    "|kopia powodująca konflikt|競合.{0,2}コピー|충돌(?:된|한|하는)? ?(?:복사본|사본)|[冲衝]突的?(?:副本|複本)"
)
COPY = re.compile(
    rf"(?i)\.sync-conflict-\d|[(（][^)）]*(?:{_CONFLICTED})[^)）]*[)）]|\((?:case conflict|sfconflict )[^)]*\)"
    r"|_[a-z]{3}-\d\d-\d{4,6}-\d{4}_(?:case)?conflict$|\.conflict\d+$|^~\$"
    r"|(?-i:_DiskStation_.*_Conflict$|_(BASE|LOCAL|REMOTE|BACKUP)_\d+$)"
)
_MARK = re.compile(r"[.(（~_]")  # a quick check first: every copy's name has one of these, most names have none
_OTHERS = r"[#@]recycle|\$recycle\.bin|@eadir|__macosx|thumbs\.db|desktop\.ini|logseq/(?:bak|version-files)"
BIN = re.compile(rf"(?i)(?:^|/)(?:{_OTHERS})(?:/|$)")
"""Finds a folder, or a file, that other programs deleted, backed up, or keep for themselves."""


def safe_name(text: str, most: int = MOST - 3) -> str:
    """Return `text` as a file name for every system and Obsidian, at most `most` bytes, no conflict copy's."""
    name = _FORBIDDEN.sub("-", composed(_UNSEEN.sub("", text)))
    name = re.sub(r"\s+", " ", name.encode("utf-8", "ignore").decode())
    name = COPY.sub(lambda copy: re.sub("[.()（）_]", "-", copy[0]), name).strip(_EDGES)
    name = DEVICES.sub(r"\1-", name)
    kept = name.encode()[:most].decode("utf-8", "ignore")
    # Do not cut within a letter that consists of several code points.
    while kept and joined_at(name, len(kept)):
        kept = kept[:-1]
    return kept.strip(_EDGES if len(kept) < len(name) else " .") or "note"


def forbidden(name: str) -> str:
    """Return the first letters of a name that some system, Obsidian or its links cannot hold, "" if there are none."""
    match = _FORBIDDEN.search(name)
    return match[0] if match else ""


def is_too_long(path: str) -> bool:
    """Say whether a path, or the name of a file or folder in it, has more bytes than systems store."""
    if len(path) * 4 <= _MOST_STORED:  # of the longest letters
        return False
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in path.split("/")]
    return max(sizes) > _MOST_STORED or sum(sizes) + len(sizes) > _MOST_PATH


def safe_parts(folder: str) -> list[str]:
    """Return the folders of a path, each as a `safe_name`."""
    return [safe_name(part) for part in folder.split("/") if part.strip(" .")]


def numbered(path: str) -> Iterator[str]:
    """Yield a file's name or path, then the same with `-2` and so on before its ending."""
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".") if "." in name else (name, "", "")
    yield path
    yield from (f"{folder}{slash}{stem}-{number}{dot}{suffix}" for number in range(2, MOST_NUMBER))


def after_move(path: str, old: str, new: str) -> str:
    """Return `path` once `old`, a file or a folder, is at `new`."""
    return new + path[len(old) :] if f"{path}/".startswith(f"{old}/") else path


def is_note(path: str) -> bool:
    """Say whether `path` names a note: Markdown, in no dot-folder or `BIN`, no conflict copy, no lock of Office."""
    if path[-3:].lower() != ".md" or path[0] == "." or "/." in path or ("/" in path and BIN.search(path)):
        return False
    stem = path[path.rfind("/") + 1 : -3]
    return not (_MARK.search(stem) and COPY.search(composed(stem)))


def meant(name: str) -> str:
    """Return the name of the file that an iCloud placeholder (`.a.md.icloud`) stands for, any other name as it is."""
    return name[1:-7] if name[0] == "." and name.endswith(".icloud") and len(name) > 8 else name
