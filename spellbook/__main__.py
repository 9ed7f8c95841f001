"""Starts the command line: `spellbook`, or `python -m spellbook`."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from spellbook.cli import main as run

    run()


if __name__ == "__main__":
    main()
