"""Decisions, memories, articles and wikis, which are kept on purpose, and the briefing of an agent."""

from spellbook.system.lazy import late

late(__name__, "articles", "claude_memory", "memories", "project_documentation")
