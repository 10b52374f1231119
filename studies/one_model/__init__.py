"""One model of a table of CPT: a law as mean, a Gaussian process for what it misses, offsets of base models and runs.

Both losses at once, in place of the mechanisms of law auto. It is not part of the package yet: `one_model` says how far
its forecasts are, and bench.md what was tried.
"""
