"""Toolsets: MCP tools by the vocabulary they belong to. A tool holds arguments, one verb and an answer."""
