"""A vault as Python programs and doors have it: reading, changing, and keeping it in order."""

from spellbook.system.lazy import late

late(__name__, "doctor", "model_switch", "status")
