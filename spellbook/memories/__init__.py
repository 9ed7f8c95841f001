"""Decisions, memories, articles and wikis, which are kept on purpose, and the briefing of an agent."""
