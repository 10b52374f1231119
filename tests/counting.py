"""What a piece of work costs in counts, which a busy machine does not blur, beside what it cost when it was looked at.

    python tests/counting.py            what each work costs now, beside tests/counts.yaml
    python tests/counting.py --write    write that into tests/counts.yaml

Counted are fits, evaluations of a law's objective in searches and polishes, the rows that these go over, how often
studies are asked beside few runs, or alone (outlooks), and files that are written. `tests/test_counts.py` holds each
work to its count and a tenth more. Where the rounding of a processor's linear algebra decides how long a search takes,
a count is the least and the most of several processors': `OPENBLAS_CORETYPE=Haswell python tests/counting.py` counts
as another one.
"""

import argparse
import collections
import contextlib
import importlib
import sys
import tempfile
from pathlib import Path
from unittest import mock

import yaml

import cptlaw as cl
from cptlaw import examples
from cptlaw.fitting import study_prior
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.prior_fit import PriorFit
from cptlaw.fitting.solving import varpro
from cptlaw.fitting.solving.objective import Objective

TABLE = Path(__file__).with_name("counts.yaml")
README = {"n_params": 124672, "ptpp": 279, "tokens": "1M", "max_forgetting": "25%"}  # its question to en-fr-pilot
AT_RISK = {"n_params": 124672, "ptpp": 279, "tokens": "1M", "max_forgetting": "30%", "risk": 0.8, "interval": None}
OUT_OF_REACH = {"n_params": 124672, "ptpp": 279, "max_forgetting": "21%", "risk": 0.9, "interval": None} | {
    "max_target_loss": 1.8,
    "base_source_loss": 1.7293,
}
FEW = {"n_params": 1e6, "ptpp": 31, "tokens": "10M"}  # asked of four runs at 75K
NO_RUNS = {"n_params": "8B", "ptpp": 1875, "target_tokens": "20B", "shift": "language"}
POINT = "n_params=124672,tokens=1M,replay=25%,ptpp=279,lr_peak=3e-3"


@contextlib.contextmanager
def counted():
    """Count what is done inside."""
    counts = collections.Counter(fits=0, evaluations=0, rows=0)
    fitting = importlib.import_module("cptlaw.fitting.fit_rows")
    minimise, evaluate, search = fitting.minimise, Objective.evaluate, varpro._evaluate
    conditioned, outlook = study_prior._conditioned, PriorFit.outlook

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

    def counted_studies(*asked):
        counts["studies"] += 1
        return conditioned(*asked)

    def counted_outlook(self, points):
        counts["outlooks"] += 1
        return outlook(self, points)

    with (
        mock.patch.object(PriorFit, "outlook", counted_outlook),
        mock.patch.object(study_prior, "_conditioned", counted_studies),
        mock.patch.object(fitting, "minimise", counted_fit),
        mock.patch.object(Objective, "evaluate", counted_polish),
        mock.patch.object(varpro, "_evaluate", counted_search),
    ):
        yield counts


def works():
    """Yield what users do, as (name, counts, files written), each after those before it."""
    folder = Path(tempfile.mkdtemp(prefix="cptlaw-"))
    runs = examples.load("en-fr-pilot")
    few = runs.where("n_params == 75072 and ptpp == 31").frame
    few = few[few["run"].isin([*few.loc[few["tokens"] > 0, "run"].unique()[:4], *few.loc[few["tokens"] == 0, "run"]])]
    fits = {}

    def keep(role):
        fits[role] = cl.fit(runs, on=role)
        fits[role].save(folder / f"{role}.json")

    def from_files():
        return [cl.load_fit(folder / f"{role}.json") for role in ("target", "source")]

    def unrestrained():
        return [
            cl.fit("ptpp-floor", runs, on=role, where="replay > 0", restraint="none") for role in ("target", "source")
        ]

    todo = {
        "a law by name": lambda: cl.fit("ptpp-floor", runs, on="target"),
        "the next law by name": lambda: cl.fit("dcpt-l3", runs, on="target"),
        "a law by name, restraint none": lambda: cl.fit("ptpp-floor", runs, on="target", restraint="none"),
        "a plan of such laws at risk": lambda: cl.plan.trade_off(*unrestrained(), **AT_RISK),
        "a plan that none of them keeps": lambda: cl.plan.min_tokens(*unrestrained(), **OUT_OF_REACH),
        "README's answer": lambda: cl.answer(runs, **README),
        "the same question again": lambda: cl.answer(examples.load("en-fr-pilot"), **README),
        "another limit": lambda: cl.answer(runs, **README | {"max_forgetting": "30%"}),
        "an answer from four runs": lambda: cl.answer(few, **FEW, max_forgetting="25%"),
        "another limit to four runs": lambda: cl.answer(few, **FEW, max_forgetting="20%"),
        "both losses kept in files": lambda: [keep(role) for role in ("target", "source")],
        "a forecast from files": lambda: [fit.forecast(POINT) for fit in from_files()],
        "a plan from files": lambda: cl.plan.trade_off(*from_files(), **README),
        "a report from files": lambda: cl.report(runs, *from_files(), n_params=124672, ptpp=279, max_forgetting="25%"),
        "an answer without runs": lambda: cl.answer(**NO_RUNS),
        "the same and its figure": lambda: cl.plot(cl.answer(**NO_RUNS)),
    }
    FITS.clear()
    for name, work in todo.items():
        before = set(folder.rglob("*"))
        with counted() as counts:
            work()
        yield name, dict(counts) | {"files": len(set(folder.rglob("*")) - before)}


def span(count):
    """Return the least and the most that a count of the table stands for."""
    return count if isinstance(count, list) else [count, count]


def main():
    """Print what each work costs now beside what it cost; write it where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    old, new = yaml.safe_load(TABLE.read_text()) if TABLE.exists() else {}, {}
    for name, counts in works():
        before = old.get(name, {})
        within = {what: span(before.get(what, count)) for what, count in counts.items()}
        new[name] = {
            what: before[what] if within[what][0] <= count <= within[what][1] else count
            for what, count in counts.items()
        }
        print(f"{name:32}", "  ".join(f"{what} {before.get(what, '-')} -> {count}" for what, count in counts.items()))
        sys.stdout.flush()
    if asked.write:
        lines = [
            f"{name}: {{{', '.join(f'{what}: {count}' for what, count in counts.items())}}}"
            for name, counts in new.items()
        ]
        TABLE.write_text("\n".join(["# written by tests/counting.py --write", *lines, ""]))


if __name__ == "__main__":
    main()
