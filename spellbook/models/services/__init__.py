"""Embedders and rerankers that a service runs, over HTTP. The only httpx."""

from spellbook.system.lazy import late

late(__name__, "embed")
