"""Whole loss curves: laws that read learning rates, runs that are not finished, and the schedules to train next.

It stands beside the core, which knows it by entry points alone: laws by name, verbs of the command line, and functions
of `cptlaw` and `cptlaw.plan`. Learning dynamics in CPT (Wang et al. 2025, arXiv:2505.07796) live here.
"""
