"""Evaluation, duplicates, health checks, keeping the index current, and switching embedding models. Changes no note."""
