"""The watcher: what changes in the vault is indexed while a server runs, and the model is loaded in time."""
