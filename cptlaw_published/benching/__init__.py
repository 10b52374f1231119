"""The bench: frozen splits of real runs, and what laws forecast of the rows that they were not fitted on."""

from cptlaw_published.benching.run import Bench, bench

__all__ = ["Bench", "bench"]
