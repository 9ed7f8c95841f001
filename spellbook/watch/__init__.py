"""The watcher: what changes in the vault is indexed while a server runs, and the model is loaded in time."""

from spellbook.system.lazy import late

late(__name__, "watcher")
