"""Benchmarks: they print tables and fail nothing. `make bench` runs all of them."""
