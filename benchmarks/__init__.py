"""Benchmarks: each module prints the Markdown tables of docs/benchmarks.md.

    python -m benchmarks.chinchilla_fit      objective and CPU of one fit, beside other packages and a scipy grid
    python -m benchmarks.dcpt_starts         how many of 64 starts reach the optimum of the D-CPT law
    python -m benchmarks.load_million_rows   reading and checking a large runs table

Run them from the root of the repository. All linear algebra is held to one thread, so that CPU and wall time mean the
same for every method.
"""

import os

# Read when NumPy is first imported, so this comes before any other import of a benchmark.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
