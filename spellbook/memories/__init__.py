"""Decisions, memories, articles and wikis: what is kept on purpose, and what an agent is told of it."""
