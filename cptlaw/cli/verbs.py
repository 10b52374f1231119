"""The verbs that go from a table of runs to a forecast."""

from __future__ import annotations

import shlex
from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.forecast_run import forecast_run
from cptlaw.cli.output import (
    plain,
    progress,
    show_findings,
    show_json,
    show_next,
    stop_on_errors,
    table_text,
)
from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity


@click.command()
@click.argument("name", required=False)
@options.as_json
def laws(name: str | None, as_json: bool) -> None:
    """List the laws, or describe one: equation, parameters, units, source.

    \b
    Examples:
      cptlaw laws
      cptlaw laws ptpp-gated-floor
    """
    from cptlaw.laws import LAWS, card, describe, law

    found = [describe(law(name))] if name else [describe(law(known)) for known in LAWS]
    if as_json:
        show_json(found[0] if name else {"laws": found})
    elif name:
        click.echo(card(law(name)))
    else:
        width = max(len(item["name"]) for item in found)
        for item in found:
            click.echo(f"{item['name']:<{width}}  {item['equation']}")
        show_next("cptlaw laws NAME")


@click.command()
@click.argument("law_name", metavar="LAW")
@click.option("--params", required=True, metavar="K=V,..", help="All parameters of the law, in its units.")
@click.option("--on", required=True, type=click.Choice(["source", "target"]), help="The loss that they describe.")
@click.option("--note", default="", metavar="TEXT", help="Where they come from, for the record.")
@options.output("FIT", "FIT.json", "Keep them in a file.", required=True)
@options.as_json
def given(law_name: str, params: str, on: str, note: str, output: str, force: bool, as_json: bool) -> None:
    """Keep given parameters, such as a paper's, as a fit to forecast and plan with.

    \b
    Example:
      cptlaw given cpt-dynamics --on source -o s.json --note "arXiv:2505.07796, fig. 3" \\
          --params L0=3.057,A=.490,alpha=.497,B=.366,E=28,beta=.189,C1=.299,C2=.298
    """
    import cptlaw as cl

    pairs = [item.partition("=") for item in params.split(",") if item.strip()]
    if any(not equals for _, equals, _ in pairs):
        raise UsageError(f"--params {params!r}: expected K=V,K=V,.. as in alpha=0.34,beta=0.28.")
    found = cl.given_fit(law_name, {name.strip(): value for name, _, value in pairs}, on, note)  # type: ignore[arg-type]
    found.save(output, force)
    if as_json:
        show_json(found.to_dict())
        return
    click.echo(found.summary())
    show_next(f"cptlaw plan .. --{on} {shlex.quote(output)}")


@click.command()
@click.argument("name", required=False)
@click.option("--schedules", is_flag=True, help="The path of its schedules file, for laws of loss curves.")
@options.as_json
def example(name: str | None, schedules: bool, as_json: bool) -> None:
    """Print the path of example runs that come with the package; without a name, list them.

    \b
    Example:
      cptlaw check $(cptlaw example en-fr-pilot) --law ptpp-gate --on target
    """
    from cptlaw import examples

    find, all_names = (examples.schedules, examples.SCHEDULES) if schedules else (examples.path, examples.EXAMPLES)
    paths = {known: str(find(known)) for known in ([name] if name else all_names)}
    if as_json:
        show_json({"examples": paths})
        return
    for known, path in paths.items():
        click.echo(path if name else known)


@click.command()
@options.table
@options.law
@options.rows
@options.restraint
@options.schedules
@click.option("--at", metavar="K=V,K=V,..", help="The forecast that matters: how far is it outside the runs?")
@options.strict
@options.as_json
def check(runs: str, law_name: str, on: str, where: str | None, strict: bool, as_json: bool, **rest: Any) -> None:
    """Look at runs before a fit: levels, confounding, what the design can identify.

    \b
    Example:
      cptlaw check runs.csv --law ptpp-gated-floor --on target --where "ptpp <= 31" --at n_params=8.1B,ptpp=279
    """
    import cptlaw as cl

    table = options.read_table(runs, rest)
    found = cl.check(law_name, table, on, where, **rest)
    if as_json:
        show_json(found.to_dict())
    else:
        click.echo(found.summary())
        show_next(f"cptlaw fit {options.same_rows()} -o FIT.json")
    stop_on_errors(found.findings, strict)


@click.command()
@options.table
@options.law
@options.rows
@options.search
@options.restraint
@options.auto_restraint
@options.schedules
@options.output("FIT", "FIT.json", "Keep the fit in a file.")
@click.option(
    "--draws", type=click.IntRange(0), default=400, show_default=True, help="Bootstrap draws kept in the file."
)
@options.strict
@options.as_json
def fit(
    runs: str,
    law_name: str,
    on: str,
    where: str | None,
    output: str | None,
    force: bool,
    draws: int,
    strict: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Fit a law to the losses of one eval.

    \b
    Examples:
      cptlaw fit runs.csv --law dcpt-l3 --on target -o target.json
      cptlaw fit runs.csv --law dcpt-l3:monotone=paper --on source --fix alpha=0.34
      cptlaw fit runs.csv --law chinchilla --on c4_val --tie alpha,beta --prior E=1.8:0.1
      cptlaw fit runs.csv --law ptpp-gate --on target --restraint auto -o target.json
      cptlaw fit curves.csv --law cpt-dynamics --on target --schedules schedules.yaml -o target.json
    """
    import cptlaw as cl
    from cptlaw.uncertainty.intervals import MIN_RUNS

    table = options.read_table(runs, rest)
    fitted = cl.fit(law_name, table, on, where, **rest)
    if output:
        if draws and fitted.n_stretches >= MIN_RUNS:
            fitted.draws(draws)
        fitted.save(output, force)
    if as_json:
        show_json(fitted.to_dict())
    else:
        click.echo(fitted.summary())
        kept = output or "FIT.json"
        asked = ("run", "step") if fitted.law.on_curves else fitted.law.inputs
        values = ",".join(f"{name}=.." for name in asked)
        show_next(f"{'' if output else f'again with -o {kept}, then '}cptlaw forecast {kept} --at {values}")
    stop_on_errors(fitted.findings, strict)


@click.command()
@options.table
@click.option("--laws", "law_names", required=True, metavar="A,B,..", help="Laws to compare, with commas between.")
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
def compare(runs: str, law_names: str, on: str, strict: bool, as_json: bool, **rest: Any) -> None:
    """Fit laws on some runs and score their forecasts of others, best first.

    \b
    Examples:
      cptlaw compare runs.csv --laws ptpp-floor,ptpp-gate,ptpp-nearest,ptpp-oracle --on target \\
          --fit-where "ptpp <= 31" --test-where "ptpp == 279"
      cptlaw compare runs.csv --laws dcpt-l1,dcpt-l3 --on source --cv leave-one-out:n_params
    """
    import cptlaw as cl

    table = options.read_table(runs, rest)
    names = [name.strip() for name in law_names.split(",") if name.strip()]
    with progress("fitting", len(names)) as advance:
        found = cl.compare(names, table, on, progress=advance, **rest)
    if as_json:
        show_json({"rows": [dict(row) for row in found.to_dict("records")]})
        stop_on_errors([finding for findings in found["findings"] for finding in findings], strict)
        return
    scores = dict.fromkeys(("huber_log", "rmse_log", "mae_rel", "mape_clip"), "{:.3g}".format)
    scores |= dict.fromkeys(("intercept", "slope", "r2", "weight"), "{:.3f}".format)
    scores |= dict.fromkeys(("difference", "difference_se"), "{:.2g}".format)
    click.echo(table_text(found.drop(columns=["findings", "diagnostics"]), scores))
    for row in found.to_dict("records"):
        if row["diagnostics"]:
            click.echo(f"  {row['law']}: {row['diagnostics']}")
    of_law: dict[Finding, list[str]] = {}
    for row in found.to_dict("records"):
        for finding in row["findings"]:
            of_law.setdefault(finding, []).append(str(row["law"]))
    # What is true of the rows is said once, with the laws that it concerns.
    for concerned in dict.fromkeys(tuple(names) for names in of_law.values()):
        click.echo(f"\n{', '.join(concerned)}:")
        show_findings(by_severity(finding for finding, names in of_law.items() if tuple(names) == concerned))
    best = found["law"].iloc[0] if found["law"].iloc[0] != "ptpp-oracle" else found["law"].iloc[min(1, len(found) - 1)]
    filters = [text for text in (rest["where"], rest["fit_where"]) if text is not None]
    chosen = f"({filters[0]}) and ({filters[1]})" if len(filters) == 2 else filters[0] if filters else None
    show_next(f"cptlaw fit {options.same_rows(law=best, where=chosen)} -o FIT.json")
    stop_on_errors([finding for findings in found["findings"] for finding in findings], strict)


@click.command()
@click.argument("fits", nargs=-1, type=click.Path())
@click.option(
    "--run", "run", metavar="RUNS", type=click.Path(), help="Forecast the end of the unfinished runs in this table."
)
@options.reading
@click.option("--at", metavar="K=V,K=V,..", help="One point, as in n_params=8.1B,tokens=72B,replay=34%,ptpp=279.")
@click.option("--points", metavar="POINTS.csv", type=click.Path(), help="A table of points.")
@options.interval
@click.option(
    "--weights",
    metavar="W",
    help="Of the average of several laws for one eval: equal, LAW=W,LAW=W, or stack, by rollouts within their rows. "
    "[default: stack where it can be done]",
)
@options.schedules
@options.strict
@options.as_json
def forecast(
    fits: tuple[str, ...],
    at: str | None,
    points: str | None,
    interval: float,
    weights: str | None,
    schedules: str | None,
    strict: bool,
    as_json: bool,
    run: str | None,
    **table: Any,
) -> None:
    """Forecast losses at sizes, budgets and mixes never run, or at the end of a run that is not finished.

    Of several fits for one eval the average is forecast too, and how much of its doubt is the law's form, how much its
    parameters, how much the noise of a measurement.

    \b
    Examples:
      cptlaw forecast target.json --at n_params=8.1B,tokens=72B,replay=34%,ptpp=279
      cptlaw forecast target.json source.json --points points.csv --interval 0.8
      cptlaw forecast floor.json gate.json --at n_params=8.1B,tokens=72B,replay=34%,ptpp=279 --weights equal
      cptlaw forecast curve.json --at run=wsd-20k,step=24000 --schedules schedules.yaml
      cptlaw forecast --run log.csv --schedules schedules.yaml
    """
    if run is not None:
        if fits or at is not None or points is not None or weights is not None:
            raise UsageError("forecast --run takes a table of runs and --schedules, no fits and no points.")
        forecast_run(run, schedules, interval, strict, as_json, table)
        return
    if not fits:
        raise UsageError("forecast needs FIT.json files, or --run RUNS for a run that is not finished.")
    if any(table.values()):
        name = next(name for name, value in table.items() if value).replace("_", "-")
        raise UsageError(f"--{name} says how to read a table of runs: it goes with --run RUNS, not with fits.")
    import cptlaw as cl
    from cptlaw.runs.points import read_points

    if (at is None) == (points is None):
        raise UsageError("forecast needs either --at K=V,K=V,.. or --points POINTS.csv.")
    read = [cl.load_fit(path) for path in fits]
    asked: Any = at
    if points is not None:
        asked, notes = read_points(points)
        for note in notes:
            click.echo(f"note: {note}", err=True)
    found = cl.forecast(read, asked, interval, weights, schedules)
    findings = [finding for row in found["findings"] for finding in row]
    if as_json:
        from cptlaw.sealing import origin

        methods = [
            {"law": fit.law.spec, "on": fit.on, "interval_method": fit.interval_method, **origin(fit)} for fit in read
        ]
        show_json({"points": plain(found.to_dict("records")), "interval": interval, "intervals": methods})
    else:
        from cptlaw.units import format_percent, format_quantity

        formats: dict[str, Any] = {name: format_quantity for name in ("n_params", "tokens", "ptpp") if name in found}
        formats |= dict.fromkeys(("loss", "lo", "hi"), lambda x: f"{x:.4f}" if x < 1e4 else f"{x:.3g}")
        formats["step"] = "{:.0f}".format
        if "replay" in found:
            formats["replay"] = format_percent
        lead, doubt = ["law", "on"], [name for name in found.columns if name.startswith("doubt_")]
        columns = [*lead, *(name for name in found.columns if name not in (*lead, *doubt, "findings"))]
        click.echo(table_text(found[columns], formats))
        for row in found[found["law"] == "average"].to_dict("records") if doubt else []:
            shares = ", ".join(f"{name[6:]} {format_percent(row[name], 2)}" for name in doubt if row[name] == row[name])
            click.echo(f"  average of {row['on']}: loss {row['loss']:.4f}; doubt: {shares or 'without end'}")
        for text in dict.fromkeys(fit.interval_method for fit in read):
            whose = ", ".join(f"{fit.law.spec} on {fit.on}" for fit in read if fit.interval_method == text)
            click.echo(f"lo, hi: {format_percent(interval)} interval of a measured loss, {whose}: {text}", err=True)
        show_findings(findings)
    stop_on_errors(findings, strict)


VERBS = (check, fit, compare, forecast, laws, given, example)
