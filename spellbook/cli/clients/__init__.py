"""Add and remove Spellbook's entry in settings of MCP clients and in git hooks, without leaving a trace."""
