"""Timings, beside peers and beside earlier versions: studies/benchmarks.md."""
