"""Linux, macOS and Windows answer differently: here each system's answer is played, whichever this one is."""

import errno
import os
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spellbook.system import disk, platform
from tests.trees import contents, grow


def refusal(code: int) -> OSError:
    """The error of Windows for this number."""
    error = PermissionError(errno.EACCES, "refused")
    error.winerror = code  # type: ignore[attr-defined]
    return error


class Held:
    """A call of the system that is refused so many times."""

    def __init__(self, code: int, times: int) -> None:
        self.code, self.times, self.calls = code, times, 0

    def __call__(self, *paths: Path) -> None:
        self.calls += 1
        if self.calls <= self.times:
            raise refusal(self.code)
        if len(paths) == 3:  # as ReplaceFileW, whose third is the backup
            os.rename(paths[0], paths[2])
        if len(paths) > 1:
            os.rename(paths[1] if len(paths) == 3 else paths[0], paths[0] if len(paths) == 3 else paths[1])


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, which are not waited for."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


@pytest.mark.parametrize("code", [5, 32, 33])
def test_what_another_program_holds_is_tried_again_for_a_second(tmp_path: Path, waits: list[float], code: int) -> None:
    """
    A file that another program has open is tried again with growing waits, about a second in all. Then the message says
    that a program has it open; any other refusal is raised at once.
    """
    grow(tmp_path, {"a": b"a"})
    platform.patient(Held(code, 5))(tmp_path / "a", tmp_path / "b")
    assert contents(tmp_path) == {"b": b"a"}
    assert waits == sorted(waits)
    waits.clear()
    with pytest.raises(OSError, match="refused") as caught:
        platform.patient(Held(code, 99))(tmp_path / "b", tmp_path / "c")
    assert 0.9 <= sum(waits) <= 1.1
    assert "another program has it open" in str(disk.storage_error("b", caught.value))
    other = Held(17, 99)
    with pytest.raises(OSError, match="refused") as caught:
        platform.patient(other)(tmp_path / "b", tmp_path / "c")
    assert other.calls == 1
    assert "another program" not in str(disk.storage_error("b", caught.value))


def half_way(one: Path, _: Path, backup: Path) -> None:
    """ReplaceFileW that moved the old file aside, and could not bring the new one."""
    os.rename(one, backup)
    raise refusal(1177)


@pytest.mark.parametrize(
    ("call", "changes", "error"),
    [
        pytest.param(Held(32, 3), True, None, id="held for a moment"),
        pytest.param(Held(32, 99), False, OSError, id="held"),
        pytest.param(Held(50, 99), False, None, id="a disk that cannot"),
        pytest.param(half_way, False, None, id="half-way"),
    ],
)
def test_an_exchange_through_a_third_name_loses_neither_file(
    tmp_path: Path, waits: list[float], call: Callable[..., None], changes: bool, error: type[OSError] | None
) -> None:
    """Two files change places as Windows can do it; whatever the call answers, both are there, and nothing else."""
    one, other = tmp_path / "a.md", disk.temporary_name(tmp_path)
    grow(tmp_path, {one.name: b"old", other.name: b"new"})
    if error is None:
        assert platform.exchange_with_backup(call, one, other) is changes
    else:
        with pytest.raises(error):
            platform.exchange_with_backup(call, one, other)
    there = (b"new", b"old") if changes else (b"old", b"new")
    assert (one.read_bytes(), other.read_bytes()) == there
    assert len(contents(tmp_path)) == 2


def two_renames(one: Path, other: Path, backup: Path) -> None:
    """ReplaceFileW as it works inside: between its two steps there is no file at the first name."""
    os.rename(one, backup)
    os.rename(other, one)


def test_a_reader_meanwhile_meets_the_old_or_the_new_file(tmp_path: Path) -> None:
    """A note that is exchanged again and again is there for each reader; one that is gone is reported soon."""
    one, other = tmp_path / "a.md", disk.temporary_name(tmp_path)
    grow(tmp_path, {one.name: b"old", other.name: b"new"})
    read, held = platform.patient_reader(disk.regular), list[bool]()

    def write() -> None:
        for _ in range(300):
            try:
                if sys.platform == "win32":
                    platform.exchange(one, other)
                else:
                    platform.exchange_with_backup(two_renames, one, other)
            except OSError as error:  # a file that is read all the time may be held for more than a second
                held.append(platform.is_held(error))

    writer = threading.Thread(target=write)
    writer.start()
    found = set()
    while writer.is_alive():
        with read(one) as file:
            found.add(file.read())
    writer.join()
    assert (found <= {b"old", b"new"}, all(held)) == (True, True)
    one.unlink()
    with pytest.raises(FileNotFoundError):
        read(one)


def test_a_refusal_of_the_c_library_is_one_of_windows(waits: list[float]) -> None:
    """Where the C library opens a file that another program has open, the error has no number of Windows."""
    refused = PermissionError(errno.EACCES, "Permission denied", "a.md")
    assert platform.is_held(refused) == (sys.platform == "win32"), "on POSIX it is a permission"
    refused.winerror = None  # type: ignore[attr-defined]
    assert "another program has it open" in str(disk.storage_error("a.md", refused))
    opening = Held(32, 2)
    platform.patient(opening)("a.md")
    assert (opening.calls, len(waits)) == (3, 2)


PATHS = {
    "code": "a/code.CMD",
    "git": "b/git.EXE",
    "tool.exe": "b/tool.exe",
    "plain": "plain",
    "here": "here",
    "a/code": "a/code.CMD",
}


def test_a_program_is_found_as_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    On Windows a name is looked for by PATH and PATHEXT, and never in the working folder. An argument of a batch file is
    never read as more than one, nor as a variable.
    """
    files = ("a/code.CMD", "a/plain", "b/code.EXE", "b/git.EXE", "b/tool.exe", "here.EXE")
    grow(tmp_path, dict.fromkeys(files, b""))
    monkeypatch.chdir(tmp_path)
    environment = {"PATH": os.pathsep.join(("", "a", '"b"')), "PATHEXT": ".EXE;.CMD"}
    found = {name: platform.program(name, environment).replace("\\", "/") for name in PATHS}
    assert found == PATHS
    assert platform.batch_line(["C:\\a b\\code.cmd", "--goto", 'x & y%PATH%"z\\']) == (
        'cmd.exe /e:ON /v:OFF /d /c ""C:\\a b\\code.cmd" "--goto" "x & y%%cd:~,%PATH%%cd:~,%""z\\\\""'
    )
    with pytest.raises(OSError, match="line break"):
        platform.batch_line(["code.cmd", "a\nb"])


def test_a_missing_runtime_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that does not load on Windows names the missing file, and its hint says how to install it."""

    def load(name: str) -> None:
        if name == "msvcp140_1.dll":
            raise OSError("not found")

    monkeypatch.setattr(platform, "runtime", lambda: load)
    with pytest.raises(platform.MissingRuntime, match=r"^msvcp140_1\.dll ") as caught, platform.loading():
        raise ImportError("DLL load failed while importing onnxruntime_pybind11_state")
    assert "pip install msvc-runtime" in caught.value.hint
    monkeypatch.setattr(platform, "runtime", lambda: str)
    with pytest.raises(ImportError, match="no such thing"), platform.loading():
        raise ImportError("no such thing")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such call")
def test_bytes_that_must_last_reach_the_disk_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS a flush asks the drive as well, and is an ordinary one where a network drive refuses that."""
    import fcntl

    asked: list[int] = []

    def control(number: int, command: int) -> None:
        asked.append(command)
        if len(asked) > 1:
            raise OSError(errno.ENOTSUP, "not here")

    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda number: asked.append(-number))
    platform.full_flush(7)
    platform.full_flush(8)
    assert asked == [51, 51, -8]


@pytest.mark.parametrize(
    ("kernel", "real"),
    [
        pytest.param("Notes/Tagebuch é", True, id="another case and form"),
        pytest.param("elsewhere", False, id="another folder"),
    ],
)
def test_one_folder_has_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, real: bool) -> None:
    """A vault that macOS knows in another case is that one; a path that is not the same name is not believed."""
    typed, kept = tmp_path / "notes" / "tagebuch é", str(tmp_path / kernel)
    monkeypatch.setattr(platform, "kernel_path", lambda path: kept)
    assert platform.real_path(typed) == (kept if real else str(typed))


def entry(tag: int) -> Any:
    """A folder as Windows lists it, with this tag."""
    return types.SimpleNamespace(is_symlink=lambda: False, tag=tag)


@pytest.mark.parametrize(
    ("tag", "leads_away"),
    [
        pytest.param(0, False, id="folder"),
        pytest.param(0xA000_0003, True, id="junction"),
        pytest.param(0xA000_000C, True, id="symbolic link"),
        pytest.param(0x9000_701A, False, id="OneDrive"),
    ],
)
def test_a_junction_is_a_link(monkeypatch: pytest.MonkeyPatch, tag: int, leads_away: bool) -> None:
    """A folder of Windows that leads to another place is a link; one that OneDrive keeps is none."""
    monkeypatch.setattr(platform, "reparse_tag", lambda place: place.tag)
    assert platform.is_link(entry(tag)) is leads_away
