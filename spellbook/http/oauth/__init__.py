"""OAuth for hosted apps: `spellbook serve --public-url` lets them ask a vault once its owner consents."""
