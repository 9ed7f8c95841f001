"""The folder of notes on the disk: list, read, write, trash, journal. The only room that changes note files."""

from spellbook.system.lazy import late

late(__name__, "logseq", "tombstones")
