"""What a piece of work costs in counts, which a busy machine does not blur: fits, and evaluations of laws at rows."""

import collections
import contextlib
import importlib
from unittest import mock

from cptlaw.fitting.solving import varpro
from cptlaw.fitting.solving.objective import Objective


@contextlib.contextmanager
def counted():
    """Count fits, evaluations of objectives in searches and polishes, and the rows that these went over."""
    counts = collections.Counter(fits=0, evaluations=0, rows=0)
    fitting = importlib.import_module("cptlaw.fitting.fit_rows")
    minimise, evaluate, search = fitting.minimise, Objective.evaluate, varpro._evaluate

    def counted_fit(*args, **how):
        counts["fits"] += 1
        return minimise(*args, **how)

    def counted_polish(self, v, *how):
        counts["evaluations"] += 1
        counts["rows"] += self.problem.n * len(v)
        return evaluate(self, v, *how)

    def counted_search(problem, z, *how, **more):
        counts["evaluations"] += 1
        counts["rows"] += problem.n * len(z)
        return search(problem, z, *how, **more)

    with (
        mock.patch.object(fitting, "minimise", counted_fit),
        mock.patch.object(Objective, "evaluate", counted_polish),
        mock.patch.object(varpro, "_evaluate", counted_search),
    ):
        yield counts
