"""
Installation: Spellbook in the settings of MCP clients and in the hooks of git repositories.

Other people's files: what is there stays as it is, byte for byte, and what
was put in is taken out again without a trace.
"""
