"""
Write a Windows DLL with one export and no code: a call of it goes on to a function of another DLL.

Wine 8 has no `bcryptprimitives.dll`, from which every library in Rust takes its random bytes. Its ADVAPI32 has a
function of the same arguments and result, so a name that leads there is enough. The layout is that of Microsoft's "PE
Format": headers in the first 512 bytes of the file, then one section, which holds the export table.
"""

from __future__ import annotations

import struct

_ALIGNED = 0x200
"""Bytes to which the parts of the file are filled."""
_SECTION = 0x1000
"""Address in memory of the section, from where the DLL is loaded."""
_DIRECTORY = struct.Struct("<IIHHIIIIIII")
"""Export directory: flags, time, two versions, name, first ordinal, two counts, and three addresses of tables."""


def forwarder(dll: str, export: str, target: str) -> bytes:
    """Return the bytes of `dll`, an x86-64 library whose `export` is `target`, as in `ADVAPI32.SystemFunction036`."""
    table = _exports(dll, export, target)
    content = table.ljust(_ALIGNED, b"\0")
    headers = _headers(len(table), len(content))
    return headers.ljust(_ALIGNED, b"\0") + content


def _exports(dll: str, export: str, target: str) -> bytes:
    """Return the export table: its directory, the tables of functions, names and ordinals, and the texts."""
    functions = _SECTION + _DIRECTORY.size
    names = functions + 4
    ordinals = names + 4
    name_at = ordinals + 2
    export_at = name_at + len(dll) + 1
    target_at = export_at + len(export) + 1
    directory = _DIRECTORY.pack(0, 0, 0, 0, name_at, 1, 1, 1, functions, names, ordinals)
    # The address of a function that lies inside the export table is that of a text: the function it goes on to.
    tables = struct.pack("<IIH", target_at, export_at, 0)
    texts = b"".join(text.encode("ascii") + b"\0" for text in (dll, export, target))
    return directory + tables + texts


def _headers(used: int, filled: int) -> bytes:
    """Return the headers of a file whose one section has `used` bytes, `filled` in the file."""
    dos = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64)
    directories = struct.pack("<II", _SECTION, used).ljust(16 * 8, b"\0")
    optional = struct.pack("<HBBIIIII", 0x20B, 1, 0, 0, filled, 0, 0, 0)
    optional += struct.pack("<QII", 0x1_8000_0000, _SECTION, _ALIGNED)  # where it is loaded, and both alignments
    optional += struct.pack("<HHHHHHI", 6, 0, 0, 0, 6, 0, 0)  # for Windows 6 and later
    optional += struct.pack("<IIIHH", 2 * _SECTION, _ALIGNED, 0, 2, 0x100)  # sizes, no checksum, data alone
    optional += struct.pack("<QQQQII", 1 << 20, 1 << 12, 1 << 20, 1 << 12, 0, 16)
    optional += directories
    machine = struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, len(optional), 0x2022)
    section = struct.pack("<8sIIII", b".edata", used, _SECTION, filled, _ALIGNED)
    section += struct.pack("<IIHHI", 0, 0, 0, 0, 0x4000_0040)  # initialised data that is read
    return dos + b"PE\0\0" + machine + optional + section
