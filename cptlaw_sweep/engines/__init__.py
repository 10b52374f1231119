"""Engines: where the jobs of a sweep run."""
