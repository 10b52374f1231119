"""Checking: what the design can determine, what the optimum and its residuals show, and rows that look mixed up."""
