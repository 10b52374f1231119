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
if TYPE_CHECKING:  # each under its own name once more, so that type checkers take it for public
    from importlib.metadata import EntryPoint

    __version__: str

    from cptlaw import examples as examples
    from cptlaw import planning
    from cptlaw.answering import Answer as Answer
    from cptlaw.answering import answer as answer
    from cptlaw.answering import bases as bases
    from cptlaw.answering import write_pilots as write_pilots
    from cptlaw.errors import CptlawError as CptlawError
    from cptlaw.errors import DataError as DataError
    from cptlaw.errors import FitError as FitError
    from cptlaw.errors import UsageError as UsageError
    from cptlaw.findings import Finding as Finding
    from cptlaw.fitting.fit import Fit as Fit
    from cptlaw.fitting.given import given_fit as given_fit
    from cptlaw.forecasting.backtest import compare as compare
    from cptlaw.forecasting.sealing import Scores as Scores
    from cptlaw.forecasting.sealing import Seal as Seal
    from cptlaw.forecasting.sealing import load_seal as load_seal
    from cptlaw.forecasting.sealing import register as register
    from cptlaw.forecasting.sealing import score as score
    from cptlaw.forecasting.verbs import Check as Check
    from cptlaw.forecasting.verbs import check as check
    from cptlaw.forecasting.verbs import fit as fit
    from cptlaw.forecasting.verbs import forecast as forecast
    from cptlaw.forecasting.verbs import load_fit as load_fit
    from cptlaw.importing.import_logs import import_logs as import_logs
    from cptlaw.importing.read_source import read as read
    from cptlaw.laws import Law as Law
    from cptlaw.laws import law as law
    from cptlaw.planning import suggest as suggest
    from cptlaw.reporting import Report as Report
    from cptlaw.reporting import figures as figures
    from cptlaw.reporting import plot as plot
    from cptlaw.reporting import report as report
    from cptlaw.runs import Reading as Reading
    from cptlaw.runs import Runs as Runs
    from cptlaw.runs import read_runs as read_runs
    from cptlaw_curves.forecasting import fit_out_of_domain as fit_out_of_domain
    from cptlaw_curves.forecasting import fit_shift as fit_shift
    from cptlaw_curves.forecasting import forecast_run as forecast_run
    from cptlaw_curves.forecasting import shift_of_runs as shift_of_runs
    from cptlaw_published.benching import bench as bench

    plan = planning

# Module -> public names that live there. Loaded on first use, so that the command line answers --help at once.
_NAMES = {
    "cptlaw.answering": "Answer answer bases write_pilots",
    "cptlaw.errors": "CptlawError DataError FitError UsageError",
    "cptlaw.examples": "examples",
    "cptlaw.findings": "Finding",
    "cptlaw.fitting.fit": "Fit",
    "cptlaw.fitting.given": "given_fit",
    "cptlaw.forecasting.backtest": "compare",
    "cptlaw.forecasting.sealing": "Scores Seal load_seal register score",
    "cptlaw.forecasting.verbs": "Check check fit forecast load_fit",
    "cptlaw.importing": "import_logs",
    "cptlaw.importing.read_source": "read",
    "cptlaw.laws": "Law law",
    "cptlaw.planning": "plan suggest",
    "cptlaw.reporting": "Report plot report",
    "cptlaw.reporting.figures": "figures",
    "cptlaw.runs": "Reading Runs read_runs",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = {"examples", "figures", "plan"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name == "__version__":  # looked up on demand: the command line's --help is to answer at once
        from cptlaw.version import version

        return version()
    from importlib import import_module

    if name in _HOMES:
        home = import_module(_HOMES[name])
        value = home if name in _MODULES else getattr(home, name)
    elif not name.startswith("_") and name in (functions := _plugin_functions()):
        from cptlaw.plugins import load

        value = load(functions[name], f"cptlaw.{name}")
    else:
        raise AttributeError(f"module 'cptlaw' has no attribute {name!r}")
    globals()[name] = value
    return value


def _plugin_functions() -> dict[str, EntryPoint]:
    """Return the functions that other packages add, such as `sweep` and `app`: entry points by name."""
    from cptlaw.plugins import FUNCTIONS, plugin_entries

    return plugin_entries(FUNCTIONS)


def __dir__() -> list[str]:
    return sorted({*__all__, *_plugin_functions()})  # what tab completion shows: public names only
