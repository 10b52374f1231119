"""cptlaw: scaling laws of continual pre-training, from a table of runs to a plan.

>>> import cptlaw as cl
>>> runs = cl.examples.load("en-fr-pilot")
>>> fit = cl.fit("ptpp-floor", runs, on="target", where="ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5)")
>>> fit.status
'converged'
"""

from __future__ import annotations

# Nothing is imported, `typing` neither: until the command line has said what Ctrl-C does, Python ends with a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    __version__: str

    from cptlaw import examples
    from cptlaw import planning as plan
    from cptlaw.answering import Answer, answer, bases, write_pilots
    from cptlaw.errors import CptlawError, DataError, FitError, UsageError
    from cptlaw.findings import Finding
    from cptlaw.fitting.fit import Fit
    from cptlaw.fitting.given import given_fit
    from cptlaw.forecasting.benching import bench
    from cptlaw.forecasting.comparing import compare
    from cptlaw.forecasting.curves import fit_out_of_domain, fit_shift, forecast_run, shift_of_runs
    from cptlaw.forecasting.sealing import Scores, Seal, load_seal, register, score
    from cptlaw.forecasting.verbs import Check, check, fit, forecast, load_fit
    from cptlaw.importing.import_logs import import_logs
    from cptlaw.laws import Law, law
    from cptlaw.planning import suggest
    from cptlaw.reporting import Report, figures, plot, report
    from cptlaw.runs import Runs, read_runs

# Public name -> where it lives. Loaded on first use, so that the command line answers --help at once.
_HOMES = {
    "Answer": "cptlaw.answering",
    "answer": "cptlaw.answering",
    "bases": "cptlaw.answering",
    "write_pilots": "cptlaw.answering",
    "CptlawError": "cptlaw.errors",
    "DataError": "cptlaw.errors",
    "Finding": "cptlaw.findings",
    "Fit": "cptlaw.fitting.fit",
    "FitError": "cptlaw.errors",
    "Law": "cptlaw.laws",
    "Report": "cptlaw.reporting",
    "Runs": "cptlaw.runs",
    "Scores": "cptlaw.forecasting.sealing",
    "Seal": "cptlaw.forecasting.sealing",
    "UsageError": "cptlaw.errors",
    "Check": "cptlaw.forecasting.verbs",
    "bench": "cptlaw.forecasting.benching",
    "check": "cptlaw.forecasting.verbs",
    "compare": "cptlaw.forecasting.comparing",
    "examples": "cptlaw.examples",
    "figures": "cptlaw.reporting.figures",
    "fit": "cptlaw.forecasting.verbs",
    "fit_out_of_domain": "cptlaw.forecasting.curves",
    "fit_shift": "cptlaw.forecasting.curves",
    "forecast": "cptlaw.forecasting.verbs",
    "forecast_run": "cptlaw.forecasting.curves",
    "given_fit": "cptlaw.fitting.given",
    "import_logs": "cptlaw.importing",
    "law": "cptlaw.laws",
    "load_fit": "cptlaw.forecasting.verbs",
    "load_seal": "cptlaw.forecasting.sealing",
    "plan": "cptlaw.planning",
    "plot": "cptlaw.reporting",
    "read_runs": "cptlaw.runs",
    "register": "cptlaw.forecasting.sealing",
    "report": "cptlaw.reporting",
    "score": "cptlaw.forecasting.sealing",
    "shift_of_runs": "cptlaw.forecasting.curves",
    "suggest": "cptlaw.planning",
}
_MODULES = {"examples", "figures", "plan"}

__all__ = [
    "Answer",
    "Check",
    "CptlawError",
    "DataError",
    "Finding",
    "Fit",
    "FitError",
    "Law",
    "Report",
    "Runs",
    "Scores",
    "Seal",
    "UsageError",
    "answer",
    "bases",
    "bench",
    "check",
    "compare",
    "examples",
    "figures",
    "fit",
    "fit_out_of_domain",
    "fit_shift",
    "forecast",
    "forecast_run",
    "given_fit",
    "import_logs",
    "law",
    "load_fit",
    "load_seal",
    "plan",
    "plot",
    "read_runs",
    "register",
    "report",
    "score",
    "shift_of_runs",
    "suggest",
    "write_pilots",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # looked up on demand: the command line's --help is to answer at once
        from cptlaw.version import version

        return version()
    from importlib import import_module

    if name in _HOMES:
        home = import_module(_HOMES[name])
        value = home if name in _MODULES else getattr(home, name)
    elif not name.startswith("_") and name in (functions := _joined()):
        value = functions[name].load()
    else:
        raise AttributeError(f"module 'cptlaw' has no attribute {name!r}")
    globals()[name] = value
    return value


def _joined() -> dict[str, Any]:
    """Return the functions that other packages join, such as `sweep` and `app`: entry points by name."""
    from cptlaw.joined import FUNCTIONS, joined

    return dict(joined(FUNCTIONS))


def __dir__() -> list[str]:
    return sorted({*__all__, *_joined()})  # what tab completion shows: public names only
