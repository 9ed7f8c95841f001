"""Settings of MCP clients and hooks of git repositories: Spellbook's entry in them, added and removed without a trace."""
