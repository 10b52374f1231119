"""Corpora and tables of the runs that were trained, and what is measured of their weights."""
