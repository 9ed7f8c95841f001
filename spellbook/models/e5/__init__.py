"""The bundled model, multilingual-e5-small."""

from spellbook.system.lazy import late

late(__name__, "e5", "prepare", "wheel")
