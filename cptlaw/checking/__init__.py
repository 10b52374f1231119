"""Checking: what the design can determine, what the optimum and its residuals show, and rows that look mixed up."""

from cptlaw.checking.check_runs import Check, check

__all__ = ["Check", "check"]
