"""Embedding models and rerankers behind one small interface. Nothing is loaded or connected before the first text."""
