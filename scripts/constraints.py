"""
Renew constraints.txt: the newest versions of all libraries, as an empty environment gets them.

    python scripts/constraints.py

`make demo`, `make test`, the container and the bundle install these versions. Run the tests before you commit them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "constraints.txt"
HEAD = "# Versions that Spellbook is tested with. `make constraints` renews them; pyproject.toml has the lowest.\n"


def newest() -> str:
    """Return the names and versions that pip installs today, a line each, without any address."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", f"{ROOT}[dev]"], check=True)
        listed = subprocess.run([*pip, "list", "--format", "freeze"], check=True, capture_output=True, text=True).stdout
    left_out = ("pip==", "setuptools==", "spellbook-vault==")
    return "".join(f"{line}\n" for line in listed.splitlines() if not line.startswith(left_out))


if __name__ == "__main__":
    FILE.write_text(HEAD + newest(), "utf-8", newline="")
    print(FILE.name)
