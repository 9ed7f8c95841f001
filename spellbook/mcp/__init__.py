"""The MCP server: tools over a Spellbook's verbs, the transport, and the watcher. The verbs are elsewhere."""
