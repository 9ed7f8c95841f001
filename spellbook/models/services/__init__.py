"""Embedders and rerankers that a service runs, over HTTP. The only httpx."""
