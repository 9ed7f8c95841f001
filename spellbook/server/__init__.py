"""The MCP server: tools over a Spellbook's verbs, their transports, and the watcher. What a verb does is never decided here."""
