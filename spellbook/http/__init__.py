"""`spellbook serve`: MCP, the JSON API and the admin API over HTTP, from one process."""
