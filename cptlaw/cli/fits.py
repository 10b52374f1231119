"""The verbs that fit laws to a table of runs: check, fit, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cptlaw.cli import complete, options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show, show_notes
from cptlaw.errors import UsageError
from cptlaw.progress import progress
from cptlaw.units import parse_pairs

if TYPE_CHECKING:
    from cptlaw.fitting.forecaster import Forecaster

# Of a law that was given, not fitted, no data says where it may be asked.
USUAL = {"n_params": "1B", "tokens": "10B", "replay": "25%", "ptpp": "100"}


def _given(law_name: str, params: str, on: str, note: str, output: str, force: bool) -> None:
    """Keep parameters that were given, such as a paper's, as a fit."""
    import cptlaw as cl

    values = parse_pairs([params], "--params", "K=V,K=V,.. as in alpha=0.34,beta=0.28")
    result = cl.given_fit(law_name, values, on, note)  # type: ignore[arg-type]
    result.save(output, force)
    usual = ",".join(f"{name}={USUAL[name]}" for name in result.law.inputs if name in USUAL)
    asked = ["cptlaw", "forecast", output, "--at", usual]
    show(result, asked if set(result.law.inputs) <= set(USUAL) else "")


@click.command(cls=Grouped, hidden=True)
@click.argument("law_name", metavar="LAW", shell_complete=complete.laws)
@click.option("--params", required=True)
@click.option("--on", required=True, type=click.Choice(["source", "target"]))
@click.option("--note", default="")
@options.output("FIT", "FIT.json", "Keep them in a file.", required=True)
@options.as_json
def given(law_name: str, params: str, on: str, note: str, output: str, force: bool) -> None:
    """Keep parameters; the old spelling of cptlaw fit --params."""
    _given(law_name, params, on, note, output, force)


@click.command(cls=Grouped)
@options.table
@options.law
@options.rows
@options.restraint
@options.schedules
@click.option("--at", metavar="K=V,K=V,..", help="The forecast that matters: how far is it outside the runs?")
@options.strict
@options.as_json
def check(runs: str, law_name: str, on: str | None, where: str | None, **rest: Any) -> None:
    """Look at runs before a fit: levels, confounding, what the design can identify; which scores carry signal.

    \b
    Example:
      cptlaw check runs.csv --law ptpp-gated-floor --on target --where "ptpp <= 31" --at n_params=8.1B,ptpp=279
    """
    import cptlaw as cl

    table = options.read_table(runs, rest)
    result = cl.check(law_name, table, on, where, **rest)
    if on is None and len(table.evals) > 1:
        show_notes([f"{result.on} is checked, one of the evals {', '.join(table.evals)} (--on EVAL)"])
    # After an error a fit would only say the same.
    usable = all(finding.severity != "error" for finding in result.findings)
    # A score without signal is not worth a fit; the loss beside it is.
    fitted = getattr(result, "fittable", result.on) if usable else None
    other = {} if fitted == on else {"on": fitted}  # what was given stays in its place
    following = ["cptlaw", "fit", *options.words_of_rows(**other, output=f"{fitted}.json")] if fitted else ""
    show(result, following)


@click.command(cls=Grouped)
@click.argument("runs", required=False, type=click.Path())
@options.reading
@options.law
@options.rows
@options.search
@options.restraint
@options.auto_restraint
@options.schedules
@options.shift
@click.option(
    "--params", metavar="K=V,..", help="Without RUNS: all parameters of the law, in its units, as a paper has them."
)
@click.option("--note", default="", metavar="TEXT", help="With --params: where they come from, for the record.")
@options.output("FIT", "FIT.json", "Keep the fit in a file.")
@options.strict
@options.as_json
def fit(runs: str | None, output: str | None, force: bool, params: str | None, note: str, **rest: Any) -> None:
    """Fit a law, or what the columns allow, to the losses of one eval: one law, or the average of several.

    \b
    Examples:
      cptlaw fit runs.csv --on target -o target.json
      cptlaw fit runs.csv --law dcpt-l3:monotone=paper --on source --fix alpha=0.34
      cptlaw fit runs.csv --law chinchilla --on c4_val --prior E=1.8:0.1
      cptlaw fit curves.csv --law cpt-dynamics --on target --schedules schedules.yaml -o target.json
      cptlaw fit runs.csv --on gsm8k -o gsm8k.json
      cptlaw fit --law cpt-dynamics --on source -o s.json --note "arXiv:2505.07796, fig. 3" \\
          --params L0=3.057,A=.490,alpha=.497,B=.366,E=28,beta=.189,C1=.299,C2=.298
    """
    import cptlaw as cl

    if (runs is None) == (params is None):
        lacking = "Missing argument 'RUNS'" if runs is None else "RUNS beside --params"
        raise click.UsageError(f"{lacking}: fit takes a runs table, or --params with all parameters of a law.")
    if params is not None:
        if rest["law_name"] == "auto" or rest["on"] not in ("source", "target") or output is None:
            raise UsageError("fit --params keeps a law: give --law NAME, --on source or target, and -o FILE.")
        return _given(rest["law_name"], params, rest["on"], note, output, force)
    table = options.read_table(str(runs), rest)
    fitted = cl.fit(runs=table, **rest)
    if output:
        fitted.save(output, force)
    following = ["cptlaw", "forecast", output, "--at", _point(fitted)] if output else None
    show(fitted, following or options.repeated_command(output=f"{fitted.on}.json"))


@click.command(cls=Grouped)
@options.table
@options.law_option(
    ("--laws", "law_names"),
    "A,B,..",
    "Laws to compare, with commas between; all: all that the columns allow, and auto.",
)
@options.rows
@click.option("--fit-where", metavar="Q", help="Rows to fit on.")
@click.option("--test-where", metavar="Q", help="Rows to forecast.")
@click.option("--anchors-where", metavar="Q", help="A few rows that join the fit and leave the test.")
@click.option(
    "--cv",
    metavar="SPLIT",
    help="leave-one-out:COLUMN, k-fold:COLUMN:K, leave-p-out:COLUMN:P or rollout:COLUMN, instead of the filters.",
)
@options.search
@options.schedules
@options.strict
@options.as_json
def compare(runs: str, law_names: str, on: str | None, **rest: Any) -> None:
    """Fit laws on some runs and score their forecasts of others, best first.

    \b
    Examples:
      cptlaw compare runs.csv --laws ptpp-floor,ptpp-gate,ptpp-nearest,ptpp-oracle --on target \\
          --fit-where "ptpp <= 31" --test-where "ptpp == 279"
      cptlaw compare runs.csv --laws dcpt-l1,dcpt-l3 --on source --cv leave-one-out:n_params
    """
    import cptlaw as cl

    table = options.read_table(runs, rest)
    on = table.resolve_eval(on)
    names = [name.strip() for name in law_names.split(",") if name.strip()]
    with progress("fitting", len(names)) as advance:
        result = cl.compare(names, table, on, progress=advance, **rest)
    filters = [text for text in (rest["where"], rest["fit_where"]) if text is not None]
    chosen = f"({filters[0]}) and ({filters[1]})" if len(filters) == 2 else filters[0] if filters else None
    best = result.answer.best_law
    following = ["cptlaw", "fit", *options.words_of_rows(law=best, where=chosen, output=f"{on}.json")] if best else ""
    show(result.answer, following)


def _point(fitted: Forecaster) -> str:
    """Return a point that the fit can forecast, a fitted one: of the largest model's longest runs the middle one."""
    data = fitted.data
    if fitted.law.needs_schedules:
        last = data.iloc[-1]
        return f"run={last['run']},step={last['step']:.0f}"
    rows = data[[name for name in fitted.law.inputs if name in data]].astype(float).dropna()
    for name in (name for name in ("n_params", "ptpp", "tokens") if name in rows):
        rows = rows[rows[name] == rows[name].max()]
    middle = rows.sort_values([*rows.columns]).iloc[len(rows) // 2]
    return ",".join(f"{name}={value:.10g}" for name, value in middle.items())
