"""Numbers of every mechanism that answers rest on, unrounded: a commit that moves one says by how much.

    python -m tests.canon            by how much each mechanism moved against tests/canon.json
    python -m tests.canon --write    and writes today's numbers there

Small tables of the package, one question a mechanism. `tests/test_canon.py` holds them to what prints alike, for weak
fits end elsewhere on other processors; on one machine they are equal to the last bit but where code has moved them.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

import cptlaw as cl
from cptlaw import examples
from studies import provenance
from studies.forecasts import unfinished_runs
from studies.training import small_tasks

TABLE = Path(__file__).with_name("canon.json")
ASKED = {"n_params": 75072, "ptpp": 124, "tokens": "1M", "replay": "25%"}
ENDS = ["loss", "lo", "hi"]


def pilot() -> cl.Runs:
    return examples.load("en-fr-pilot").where("n_params < 80000 and ptpp < 100")


def law_auto():
    """Fits of many runs: an average of laws, its doubt, and a plan from them."""
    fits = [cl.fit(pilot(), on=on) for on in ("target", "source")]
    said = [fit.forecast(pd.DataFrame([{**ASKED, "tokens": 1e6, "replay": 0.25}]), 0.9)[ENDS] for fit in fits]
    plan = cl.plan.trade_off(*fits, n_params=75072, ptpp=124, tokens="1M", max_forgetting="25%", risk=0.8)
    return [said, [(one.weight, one.fit.law.spec) for one in fits[0].members], plan.to_dict()]


def no_priors():
    """A law without priors: its parameters' doubt, and what its rows determine."""
    fit = cl.fit("ptpp-floor", pilot(), on="target", restraint="none", starts=8)
    return [fit.params, fit.rank, fit.forecast(pd.DataFrame([{**ASKED, "tokens": 1e6, "replay": 0.25}]), 0.9)[ENDS]]


def few_runs():
    """Three runs beside what studies say, and the runs to train next."""
    runs = examples.load("docs-to-code")
    few = runs.where("n_params < 40000 and ptpp == 31 and replay in (0, 0.1, 0.25)")
    answer = cl.answer(few, n_params=75072, ptpp=124, tokens="1M", max_forgetting="20%", shift="code")
    return [answer.to_dict()[name] for name in ("replay", "forgetting", "forgetting_lo", "forgetting_hi", "options")]


def no_runs():
    """What studies alone say."""
    asked = {"n_params": "8B", "ptpp": 1875, "target_tokens": "20B", "shift": "language", "max_forgetting": "5%"}
    return cl.answer(**asked).to_dict()["options"]


def other_corpora():
    """A new corpus beside runs on others."""
    runs = examples.load("domains").where("n_params < 50000")
    known = runs.frame[~((runs.frame["domain"] == "c") & (runs.frame["replay"] != 0.5))]
    fit = cl.fit(cl.read_runs(known.reset_index(drop=True), n_params_kind="total"), on="target", where='domain == "c"')
    points = pd.DataFrame({"n_params": 45936.0, "ptpp": 62.0, "tokens": 5e5, "replay": [0.1, 0.75]})
    return fit.forecast(points, 0.9)[ENDS]


def a_curve():
    """The end of a run that is not finished, beside finished ones."""
    case = next(unfinished_runs.pilot())
    run, end = str(case.rows["run"].iloc[0]), float(case.rows["step"].iloc[-1])
    seen = pd.concat([case.rows[case.rows["step"] <= 0.5 * end], case.others])
    return cl.forecast_run(seen, {run: case.plan, **case.plans}, run, interval=0.9).points[ENDS]


def a_score():
    """A score forecast through a loss, by a law named."""
    runs = cl.read_runs(small_tasks.table(), n_params_kind="total")
    fit = cl.fit("score-sigmoid", runs, on=small_tasks.LINKED[0], where="n_params < 40000")
    return fit.predict(fit.data)


MECHANISMS: dict[str, Callable[[], object]] = {
    one.__name__: one for one in (no_runs, few_runs, law_auto, no_priors, other_corpora, a_curve, a_score)
}


def numbers(name: str) -> list[float | None]:
    """Return a mechanism's numbers of today; missing ones are None."""
    return [None if one != one else one for one in provenance.numbers_in(MECHANISMS[name]())]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    old = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    today = {name: numbers(name) for name in MECHANISMS}
    for name, now in today.items():
        told = provenance.moved(old.get(name, []), now) or (
            "as it was" if old[name] == now else "moved, but prints alike"
        )
        print(f"{name:16} {told}")
    if asked.write:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(now)}" for name, now in today.items())
        TABLE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
