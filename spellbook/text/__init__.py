"""Words and languages: terms of the keyword index, language detection, differences of two texts. Pure."""
