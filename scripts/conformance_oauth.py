"""
Have clients that nobody here wrote connect to `spellbook serve --public-url`, as apps on the internet do.

The public name leads to this machine by a few lines that node loads first; the server has a certificate of its own. A
person is played: whoever prints an address of the server gets a login, a yes, and the answer at its own address.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any
from urllib.parse import urlsplit

import httpx

HOST = "notes.example.org"
ISSUER = f"https://{HOST}"
APP = "https://claude.ai/oauth/claude-code-client-metadata"
LEAD = f"""
const tls = require("node:tls"), connect = tls.connect;
tls.connect = (given, ...rest) => {{
  const ours = given && (given.servername === "{HOST}" || given.host === "{HOST}" || given.hostname === "{HOST}");
  const to = {{ host: "127.0.0.1", hostname: "127.0.0.1", port: Number(process.env.LEADS_TO), servername: "{HOST}" }};
  return connect(ours ? {{ ...given, ...to }} : given, ...rest);
}};
"""
_SECONDS = 90.0


def connect(tools: Path, vault: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each client and what went wrong, "" for nothing."""
    certificate, key, lead = folder / "cert.pem", folder / "key.pem", folder / "lead.cjs"
    lead.write_text(LEAD, "utf-8")
    if not shutil.which("openssl"):
        return
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "1",
    ]
    about = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    subprocess.run([*made, *about, "-keyout", key, "-out", certificate], capture_output=True, check=True)
    program = [sys.executable, "-m", "spellbook", "--vault", str(vault)]
    token = subprocess.run([*program, "token", "add", "me"], capture_output=True, text=True, check=True).stdout.strip()
    files = ["--certfile", str(certificate), "--keyfile", str(key)]
    server = subprocess.Popen(
        [*program, "serve", "--no-open", "--port", "0", "--public-url", ISSUER, *files],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    url = next(line.strip() for line in server.stderr if line.startswith("https://127"))
    context = ssl.create_default_context(cafile=certificate)
    person = httpx.Client(base_url=url, verify=context, headers={"host": HOST}, timeout=30)
    own = {
        "NODE_EXTRA_CA_CERTS": str(certificate),
        "NODE_OPTIONS": f"--require {lead}",
        "HOME": str(folder),
        "MCP_AUTO_OPEN_ENABLED": "true",
    }
    environment = {**os.environ, **own, "LEADS_TO": str(urlsplit(url).port)}
    try:
        for name, command, sent, expected in _clients(folder):
            program_of = str(tools / "node_modules" / ".bin" / command[0])
            answer = _talk([program_of, *command[1:]], environment, sent, expected, person, token)
            yield f"oauth, {name}", answer
    finally:
        server.terminate()
        server.communicate()


def _clients(folder: Path) -> Iterator[tuple[str, list[str], str, str]]:
    """Yield name, command, what it is sent on stdin, and what it prints if all went well."""
    suite = ["conformance", "authorization", "--url", ISSUER, "-o", str(folder / "authorization")]
    asked = ["--client-id", APP, "--resource", f"{ISSUER}/mcp", "--port", str(_free())]
    yield "conformance of the authorization server", [*suite, *asked], "", r"Total: (\d+) passed, 0 failed"
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages)
    yield "mcp-remote", ["mcp-remote", f"{ISSUER}/mcp", str(_free())], lines, r'"id":2.*"name":"find"'
    back = ["--callback-url", f"http://127.0.0.1:{_free()}/oauth/callback"]
    for about_id, more in (("registers itself", []), ("known by its address", ["--client-metadata-url", APP])):
        if more:
            back = ["--callback-url", f"http://127.0.0.1:{_free()}/callback"]
        listed = ["mcp-inspector", "--cli", f"{ISSUER}/mcp", "--relogin", *back, *more, "--method", "tools/list"]
        yield f"inspector, {about_id}", listed, "", r'"name": ?"find"'


def _free() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _talk(
    command: list[str], environment: dict[str, str], sent: str, expected: str, person: httpx.Client, token: str
) -> str:
    """Run a client, consent where it asks, and return why it did not print what it should, "" if it did."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    client = subprocess.Popen(command, env=environment, **pipes)
    assert client.stdin
    assert client.stdout
    client.stdin.write(sent)
    client.stdin.flush()
    lines: Queue[str] = Queue()
    threading.Thread(target=_read, args=(client.stdout, lines), daemon=True).start()
    heard, asked = "", False
    try:
        while not re.search(expected, heard, re.S):
            line = lines.get(timeout=_SECONDS)
            assert line, "it ended"
            heard += line
            if not asked and (found := re.search(rf"{re.escape(ISSUER)}(/authorize\?[^\s\"'\x1b]+)\s", heard)):
                asked = True
                _consent(person, found[1], token)
    except (Empty, httpx.HTTPError, AssertionError) as error:
        return f"{type(error).__name__} {error}: {' '.join(heard.split())[-500:]}"
    finally:
        client.kill()
        client.wait()
    return ""


def _read(output: IO[str], lines: Queue[str]) -> None:
    """Put each line into the queue, and "" at the end."""
    for line in output:
        lines.put(line)
    lines.put("")


def _consent(person: httpx.Client, place: str, token: str) -> None:
    """Log in, say yes, and go to where the answer leads, as a browser does."""
    own: Any = {"extensions": {"sni_hostname": HOST}}
    cookie = person.post("/login", data={"token": token}, **own).cookies["spellbook"]
    person.cookies.clear()
    jar = {"cookie": f"spellbook={cookie}"}
    page = person.get(place, headers=jar, **own).text
    found = re.search('name="csrf" value="([^"]+)"', page)
    assert found, page
    answer = person.post(place, data={"csrf": unescape(found[1]), "answer": "yes"}, headers=jar, **own)
    assert answer.status_code == 302, answer.text
    httpx.get(answer.headers["location"], timeout=30)
