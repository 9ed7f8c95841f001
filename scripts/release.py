"""
Make dist/release: all files of a release, each built twice and compared byte for byte.

    python scripts/release.py

It refuses a tree with changes, a changelog without the version, and READMEs whose examples fail. What is built comes
from a copy of the commit, so nothing that lies in this folder gets in.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from spellbook import __version__

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "dist" / "release"
CHECKED = "tests/house/test_readme.py"
SBOM = f"spellbook-{__version__}.cdx.json"
LICENCES = {
    "overrides": "Apache-2.0",
    "protobuf": "BSD-3-Clause",
    "pypdfium2": "BSD-3-Clause AND Apache-2.0",
}
"""Licences that a library says in its files only, not in a form that the list of libraries is made from."""

_BEFORE_ZIP_KNEW_TIME = (1980, 1, 1, 0, 0, 0)


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command to its end and return what it prints. Ends the release if it fails."""
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def refusal(root: Path, version: str) -> str:
    """Return why `root` cannot be released as `version`, "" if it can be."""
    if changed := run("git", "status", "--porcelain", cwd=root):
        return f"The tree has changes; commit or stash them first:\n{changed}"
    if f"## [{version}]" not in (root / "CHANGELOG.md").read_text("utf-8"):
        return f"CHANGELOG.md has no section ## [{version}]; write what is new in it."
    return ""


def build(out: Path) -> None:
    """Build all files of the commit into the folder `out`."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(source, filter="data")
        date = {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip(), "PYTHONPATH": str(source)}
        for kind in ("wheel", "sdist"):
            run(sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", out, cwd=source, **date)
        run(sys.executable, "scripts/bundle.py", cwd=source, **date)
        shutil.copy(source / "dist" / f"spellbook-{__version__}.mcpb", out)
        zipped(source / "plugins" / "spellbook", out / f"spellbook-claude-code-{__version__}.zip")
        obsidian = source / "spellbook" / "cli" / "clients" / "obsidian"
        if obsidian.is_dir():
            zipped(obsidian, out / f"spellbook-obsidian-{__version__}.zip")


def zipped(folder: Path, target: Path) -> None:
    """Write the files of a folder into a zip, the same bytes each time."""
    with zipfile.ZipFile(target, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _BEFORE_ZIP_KNEW_TIME)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


def check_sdist(out: Path) -> None:
    """The sdist, unpacked, builds the same wheel. Ends the release if it does not."""
    [sdist], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as files:
            files.extractall(folder, filter="data")
        [source] = Path(folder).iterdir()
        date = {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip()}
        run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=source, **date)
        if (Path(folder) / wheel.name).read_bytes() != wheel.read_bytes():
            sys.exit("The sdist builds another wheel than the sources do.")


def write_sbom(out: Path) -> None:
    """List every library that the wheel needs, with version and licence, as CycloneDX."""
    [wheel] = out.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        installed, tool = Path(folder) / "installed", Path(folder) / "tool"
        for environment, what in (
            (installed, [wheel, "--constraint", ROOT / "constraints.txt"]),
            (tool, ["cyclonedx-bom>=7"]),
        ):
            run(sys.executable, "-m", "venv", environment)
            run(environment / "bin" / "python", "-m", "pip", "install", "--quiet", *what)
        run(installed / "bin" / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
        listed = run(
            *(tool / "bin" / "cyclonedx-py", "environment", "--output-reproducible", "--of", "JSON"),
            *("--pyproject", ROOT / "pyproject.toml", installed / "bin" / "python"),
        )
        bill = json.loads(listed)
        bill["metadata"]["component"]["version"] = __version__
        for library in bill["components"]:
            if not library.get("licenses"):
                if library["name"] not in LICENCES:
                    sys.exit(f"{library['name']} does not say its licence; look it up and add it to LICENCES here.")
                library["licenses"] = [{"expression": LICENCES[library["name"]]}]
        (out / SBOM).write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", "utf-8", newline="")


def registered(template: dict[str, Any], project: dict[str, Any], bundle: Path) -> dict[str, Any] | None:
    """
    Return server.json as the MCP registry takes it, with the bundle of Claude Desktop, by its address and hash.

    None while the template or the project does not name its owner: nothing can be registered then.
    """
    home = project.get("urls", {}).get("Repository", "")
    if "OWNER" in template["name"] or not home:
        return None
    version = template["version"]
    file = {
        "registryType": "mcpb",
        "identifier": f"{home}/releases/download/v{version}/{bundle.name}",
        "version": version,
        "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
        "transport": {"type": "stdio"},
    }
    return {**template, "repository": {"url": home, "source": "github"}, "packages": [*template["packages"], file]}


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder, by its name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def main() -> None:
    """Make the release, or say why not."""
    if why := refusal(ROOT, __version__):
        sys.exit(why)
    run(sys.executable, "-m", "pytest", "-q", CHECKED)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        build(OUT)
        build(Path(folder))
        if (first := digests(OUT)) != digests(Path(folder)):
            sys.exit(f"Two builds differ: {[name for name in first if first[name] != digests(Path(folder)).get(name)]}")
    check_sdist(OUT)
    write_sbom(OUT)
    template = json.loads((ROOT / "server.json").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    if entry := registered(template, project, OUT / f"spellbook-{__version__}.mcpb"):
        (OUT / "server.json").write_text(json.dumps(entry, indent=2) + "\n", "utf-8", newline="")
    sums = digests(OUT)
    (OUT / "SHA256SUMS").write_text("".join(f"{sums[name]}  {name}\n" for name in sums), "utf-8", newline="")
    for name in sums:
        print(f"{(OUT / name).stat().st_size / 1e3:8,.0f} kB  {name}")


if __name__ == "__main__":
    main()
