"""Words and languages: terms of the keyword index, stop words, language detection, differences of two texts. Pure."""

from spellbook.system.lazy import late

late(__name__, "terms")
