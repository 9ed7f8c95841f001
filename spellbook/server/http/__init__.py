"""`spellbook serve`: MCP, the JSON API, the admin API and the dashboard over HTTP, from one process."""
