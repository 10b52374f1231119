"""What the controls do: the answer moves with them, its doubt follows, scenarios are pinned and kept in the address."""

from __future__ import annotations

from typing import Any

from cptlaw.errors import CptlawError, UsageError
from cptlaw.planning.result import MixPlan, flops_of
from cptlaw.runs import Runs
from cptlaw.units import format_percent, format_quantity
from cptlaw_app import controls, scored, sentences, shown
from cptlaw_app.controls import BEST, CHOSEN, LIMITS, SLIDERS
from cptlaw_app.fitted import Fitted
from cptlaw_app.layout import ROLES
from cptlaw_app.moves import COVERAGE, Move, move
from cptlaw_app.opening import session_of
from cptlaw_app.scenario import Scenario
from cptlaw_app.session import LEAST_NAME, Loaded, Session, Sessions

MOST_PINS = 5
BOXES = {**{f"auto-{name}": name for name in CHOSEN}, **{f"use-{name}": name for name in LIMITS}}
QUICK, FULL = "point forecast; intervals follow ..", f"with {COVERAGE:.0%} intervals"


def register(app: Any, sessions: Sessions) -> None:
    """Give the page what moves."""
    _setting(app, sessions)
    _moving(app, sessions)
    _pinning(app, sessions)
    _in_the_browser(app)


def scenario_of(fitted: Fitted, given: tuple[Any, ...]) -> Scenario:
    """Return what the controls ask: sliders, boxes, the rate, the base loss and limits on scores, in this order."""
    sliders = dict(zip(SLIDERS, given, strict=False))
    boxes = given[len(SLIDERS) : len(SLIDERS) + len(BOXES)]
    chosen = {name: bool(value) for name, value in zip(BOXES.values(), boxes, strict=True)}
    rate, base, typed = given[len(SLIDERS) + len(BOXES) :][:3]
    return controls.read(fitted, sliders, chosen, rate, base, scored.read(fitted, typed))


def places(kind: Any) -> list[Any]:
    """Return the controls as inputs or states of a callback, in the order of `scenario_of`."""
    names = (*SLIDERS, *BOXES, "lr_peak", "base_source_loss")
    return [*(kind(name, "value") for name in names), kind("score-limits", "data")]


def _setting(app: Any, sessions: Sessions) -> None:
    from dash import ALL, Input, Output, State, ctx, no_update

    outputs = [
        *(Output(name, what) for name in SLIDERS for what in ("min", "max", "value")),
        *(Output(f"field-{name}", "hidden") for name in (*SLIDERS, "lr_peak", "base_source_loss", "flops")),
        *(Output(name, "value") for name in BOXES),
        *(Output(f"auto-{name}", "style") for name in CHOSEN),
        Output("lr_peak", "options"),
        Output("lr_peak", "value"),
        Output("base_source_loss", "value"),
        Output("score-fields", "children"),
        Output("score-limits", "data", allow_duplicate=True),
        Output("score-shown", "options"),
        Output("score-shown", "value"),
        Output("scores", "hidden"),
    ]

    @app.callback(
        *outputs,
        Output("board", "hidden"),
        Output("pins", "data", allow_duplicate=True),
        Input("fitted", "data"),
        State("pins", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def set_controls(_: int, pins: list[str], key: str) -> Any:
        """Bring the controls to a new table, or to the link that the page was opened with."""
        session = session_of(sessions, key)
        fitted = None if session is None else session.fitted
        if session is None or fitted is None:
            return (no_update,) * (len(outputs) + 2)
        linked, session.linked = session.linked, None
        kept: Any = no_update if linked is not None or not pins else []  # they were of another table
        return (*_positions(fitted, linked or controls.first(fitted)), False, kept)

    # Apart from the callback above: the buttons of a link's pins appear while the page opens, and a second call of one
    # callback makes the browser drop the answer of the first.
    @app.callback(
        *(Output(each.component_id, each.component_property, allow_duplicate=True) for each in outputs),
        Input({"type": "take", "index": ALL}, "n_clicks"),
        State("pins", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def take(_: list[Any], pins: list[str], key: str) -> Any:
        """Bring the controls to a pinned scenario."""
        session = session_of(sessions, key)
        fitted = None if session is None else session.fitted
        pressed = isinstance(ctx.triggered_id, dict) and ctx.triggered[0]["value"]  # not merely drawn anew
        place = ctx.triggered_id["index"] if pressed else -1
        if fitted is None or not isinstance(pins, list) or not 0 <= place < len(pins):
            return (no_update,) * len(outputs)
        return _positions(fitted, Scenario.from_query(pins[place]))

    @app.callback(
        Output("table", "data"),
        Output("runs-title", "children"),
        Output("summary", "children"),
        Output("about-data", "children"),
        Output("fit-result", "children"),
        Output("about-laws", "children"),
        *(Output(f"law-{role}", what) for role in ROLES for what in ("options", "value")),
        Output("where", "value"),
        Output("budget", "value"),
        Input("fitted", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def describe(_: int, key: str) -> Any:
        """Say which table and which laws the page shows."""
        session = session_of(sessions, key)
        loaded = None if session is None else session.loaded
        if loaded is None or loaded.fitted is None:
            return (no_update,) * 12
        return _described(loaded)


def _described(loaded: Loaded) -> tuple[Any, ...]:
    fitted, runs = loaded.fitted, loaded.runs
    assert fitted is not None
    names = shown.laws_for(runs)
    laws = [part for role in ROLES for part in (names, loaded.laws.get(role, names[0]))]
    most = max(float((fit.data["tokens"] * fit.data.get("n_params", 1.0)).max()) if "tokens" in fit.data else 1.0
               for fit in fitted.fits)  # fmt: skip
    counts = sorted({fit.n_runs for fit in fitted.fits})
    used = f"{' and '.join(map(str, counts))} runs fitted"
    return (
        runs.fingerprint[:LEAST_NAME],
        f"{_short(runs)}: {used}",
        shown.runs(runs),
        f"{len(runs)} rows, evals {', '.join(runs.evals)}",
        shown.fits(fitted.fits),
        ", ".join(f"{fit.on}: {fit.law.spec}" for fit in fitted.fits),
        *laws,
        loaded.where,
        f"{6 * 10 * most:.1g}",
    )


def _short(runs: Runs) -> str:
    return runs.label if runs.path is None else runs.path.name


def _positions(fitted: Fitted, scenario: Scenario) -> tuple[Any, ...]:
    spans = controls.spans(fitted, scenario)
    settings = [value for name in SLIDERS for value in spans.get(name, (0.0, 1.0, 0.5))]
    hidden = [name not in spans for name in SLIDERS]
    hidden += [len(fitted.rates) < 2, fitted.source is None, "n_params" not in fitted.ranges]
    boxes = [
        ["on"] if (getattr(scenario, name) is None) == box.startswith("auto") else [] for box, name in BOXES.items()
    ]
    styles = [None if name in fitted.ranges else {"display": "none"} for name in CHOSEN]
    rates = [{"label": "the best measured", "value": BEST}]
    rates += [{"label": f"{rate:.3g}", "value": f"{rate:.10g}"} for rate in fitted.rates]
    rate, asked = BEST, scenario.lr_peak
    if asked is not None and fitted.rates:
        rate = f"{min(fitted.rates, key=lambda level: abs(level / asked - 1.0)):.10g}"
    base = "" if scenario.base_source_loss is None else f"{scenario.base_source_loss:.6g}"
    names = list(fitted.scores)
    first = next(iter([*scenario.limited_scores, *names]), None)
    in_points = (scored.fields(fitted, scenario), scored.texts(fitted, scenario), names, first, not names)
    return (*settings, *hidden, *boxes, *styles, rates, rate, base, *in_points)


def _moving(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, ctx, no_update

    shown_parts = [
        ("sentence", "children"), ("sentence", "className"), ("chances", "children"), ("asides", "children"),
        ("map", "figure"), ("chart-map", "hidden"), ("map-title", "children"), ("curves", "figure"),
        ("curves-title", "children"), ("notes", "children"), ("about-findings", "children"),
        ("scores-table", "className"), ("doubt-state", "children"), ("doubt-state", "className"),
        ("problem-move", "children"),
    ]  # fmt: skip
    typed = [(f"exact-{name}", "value") for name in (*SLIDERS, "flops")]

    @app.callback(
        *(Output(name, what, allow_duplicate=name == "scores-table") for name, what in (*shown_parts, *typed)),
        Output("asked", "data"),
        *places(Input),
        Input("pinned-at", "data"),
        State("fitted", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def show_move(*given: Any) -> Any:
        """Show the answer for a position of the controls: the point forecast, before its doubt."""
        session = session_of(sessions, given[-1])
        if session is None or session.fitted is None:
            return (no_update,) * (len(shown_parts) + len(typed) + 1)
        words: list[Any] = [no_update] * len(typed)
        try:
            words = _typed(session.fitted, given)
            scenario = scenario_of(session.fitted, given)
            moved = {each["prop_id"].partition(".")[0] for each in ctx.triggered}
            if moved <= set(CHOSEN) and session.asked == scenario.to_query():
                # A slider of what is left to the app came to the answer: nothing else is asked.
                return (no_update,) * (len(shown_parts) + len(typed) + 1)
            found = move(session.fitted, scenario, pins=_pinned_places(given[-3]))
            words = _typed(session.fitted, given, scenario, found.plan)
        except CptlawError as error:
            session.asked = None
            stay = (no_update,) * (len(shown_parts) - 3)
            return (*stay, "", "state", in_app_problem(error), *words, None)
        session.asked = scenario.to_query()
        known = session.fitted
        return (*_shown(known, found, sure=False), *words, session.asked)

    @app.callback(
        *(Output(name, what, allow_duplicate=True) for name, what in (*shown_parts, *typed)),
        Output("sure", "data"),
        Input("asked", "data"),
        State("pinned-at", "data"),
        *places(State),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def show_doubt(asked: Any, pinned: Any, *given: Any) -> Any:
        """Show the same with intervals and under the risk, unless the controls have moved on."""
        session = session_of(sessions, given[-1])
        stay, same = (no_update,) * len(shown_parts), (no_update,) * len(typed)
        if session is None or session.fitted is None or asked is None or session.asked != asked:
            return (*stay, *same, no_update)
        try:
            scenario = scenario_of(session.fitted, given)
            found = move(session.fitted, scenario, doubt=True, pins=_pinned_places(pinned))
        except CptlawError as error:
            return (*stay[3:], "", "state", in_app_problem(error), *same, no_update)
        if session.asked != asked:
            return (*stay, *same, no_update)
        session.answered = asked, scenario, found.plan
        words = _typed(session.fitted, given, scenario, found.plan)
        return (*_shown(session.fitted, found, sure=True), *words, asked)


def in_app_problem(error: Exception) -> str:
    """Return the message of an error with the app's own controls in it."""
    return sentences.in_app(str(error))


def _typed(
    fitted: Fitted, given: tuple[Any, ...], scenario: Scenario | None = None, plan: MixPlan | None = None
) -> list[Any]:
    """Return what stands in the fields beside the sliders, and the compute of the mix.

    What a scenario leaves to the app is what the plan chose.
    """
    sliders = dict(zip(SLIDERS, given, strict=False))
    values = {name: controls.raw(name, value) for name, value in sliders.items() if value is not None}
    values = {name: controls.measured(fitted, name, value) for name, value in values.items()}
    if scenario is not None and plan is not None and plan.feasible:
        free = {name: getattr(plan, name) for name in CHOSEN if name in values and getattr(scenario, name) is None}
        values |= {name: value for name, value in free.items() if value is not None}
    flops = "" if not {"n_params", "tokens"} <= set(values) else f"{flops_of(values['n_params'], values['tokens']):.3g}"
    return [*(controls.text(name, values[name]) if name in values else "" for name in SLIDERS), flops]


def _shown(fitted: Fitted, found: Move, sure: bool) -> tuple[Any, ...]:
    from dash import html

    figure = {} if found.chart is None else found.chart.drawing
    notes = [sentences.advised(finding) for finding in found.notes]
    of_fits = [sentences.advised(finding) for fit in fitted.fits for finding in fit.findings]
    enough = sure and found.plan.interval is not None
    state = (
        (FULL, "state sure")
        if enough
        else ("no intervals: too few runs", "state")
        if sure
        else (QUICK, "state waiting")
    )
    return (
        found.sentence,
        "sentence" if found.plan.feasible else "sentence none",
        [html.Li(text) for text in found.chances],
        "; ".join(found.asides),
        figure,
        found.chart is None,
        "Forgetting over tokens and replay",
        found.curves.drawing,
        found.curves.title,
        shown.all_findings(notes, of_fits),
        shown.count(notes, of_fits),
        "" if sure else "waiting",  # scores of the last answer stay until those of this one come with its doubt
        *state,
        None,
    )


def _pinned_places(given: Any) -> list[tuple[float, float]]:
    """Return tokens and replay of pinned mixes; what a page says of them is not taken on trust."""
    found = []
    for pair in given if isinstance(given, list) else []:
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(value, int | float) for value in pair):
            found.append((float(pair[0]), float(pair[1])))
    return found[:MOST_PINS]


def _pinning(app: Any, sessions: Sessions) -> None:
    from dash import ALL, Input, Output, State, ctx, no_update

    @app.callback(
        Output("pins", "data", allow_duplicate=True),
        Output("problem-pin", "children"),
        Input("pin", "n_clicks"),
        Input({"type": "unpin", "index": ALL}, "n_clicks"),
        State("asked", "data"),
        State("pins", "data"),
        prevent_initial_call=True,
    )
    def pin(_: Any, presses: list[Any], asked: Any, pins: Any) -> Any:
        """Pin the scenario that is shown, or let a pinned one go."""
        kept = [text for text in pins if isinstance(text, str)] if isinstance(pins, list) else []
        if isinstance(ctx.triggered_id, dict):
            place = ctx.triggered_id["index"]
            return (
                ([text for i, text in enumerate(kept) if i != place], None) if any(presses) else (no_update, no_update)
            )
        if not isinstance(asked, str):
            return no_update, "There is no answer to pin yet."
        if asked in kept:
            return no_update, "This scenario is pinned already."
        if len(kept) >= MOST_PINS:
            return no_update, f"{MOST_PINS} scenarios are pinned, as many as fit beside each other: let one go first."
        return [*kept, asked], None

    @app.callback(
        Output("compared", "children"),
        Output("pinned-at", "data"),
        Input("pins", "data"),
        Input("fitted", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def compare(pins: Any, _: Any, key: str) -> Any:
        """Show the pinned scenarios side by side, each with its doubt."""
        session = session_of(sessions, key)
        if session is None or session.fitted is None or not isinstance(pins, list) or not pins:
            return None, []
        columns, at = [], []
        for text in pins[:MOST_PINS]:
            try:
                scenario, found = _answered(session, text)
            except (CptlawError, TypeError):
                continue
            columns.append(_column(scenario, found))
            if found.plan.tokens and found.plan.replay is not None:
                at.append([found.plan.tokens, found.plan.replay])
        return shown.compared(columns), at


def _answered(session: Session, text: Any) -> tuple[Scenario, Move]:
    if not isinstance(text, str):
        raise UsageError("this is no scenario.")
    scenario = Scenario.from_query(text)
    assert session.fitted is not None
    if text not in session.pinned:
        session.pinned[text] = move(session.fitted, scenario, doubt=True, draws=False)
    return scenario, session.pinned[text]


def _column(scenario: Scenario, found: Move) -> dict[str, str]:
    """Return a pinned scenario as lines: label and text."""
    plan = found.plan
    losses = {label: text for label, text in plan.lines if label in ("target loss", "source loss", "forgetting")}
    return {
        "model": scenario.model_text or "-",
        "limits": scenario.limits_text or "none",
        "certainty": format_percent(scenario.risk),
        "mix": sentences.mix_text(plan) if plan.feasible else "none keeps the limits",
        **{label: losses.get(label, "-").split(" of the")[0].removesuffix(f" {plan.unit}") for label in
           ("target loss", "forgetting")},
        "scores": "; ".join(f"{on} {sentences.score_text(fields)}" for on, fields in plan.scores.items()) or "-",
        "limits hold": "; ".join(text.partition(": ")[2] for text in found.chances) or "-",
        "compute (FLOP)": format_quantity(plan.flops) if plan.flops and scenario.n_params else "-",
    }  # fmt: skip


def _in_the_browser(app: Any) -> None:
    """Leave to the browser what needs no library: the address, the cursor on the map, and the clipboard."""
    from dash import ClientsideFunction, Input, Output, State

    def here(name: str, output: Any, *arguments: Any) -> None:
        app.clientside_callback(ClientsideFunction("cptlaw", name), output, *arguments, prevent_initial_call=True)

    here("address", Output("nowhere", "data"), Input("asked", "data"), Input("pins", "data"), Input("table", "data"))
    here("cursor", Output("cursor", "children"), Input("map", "hoverData"))
    free = [part for name in CHOSEN for part in (State(f"exact-{name}", "value"), State(f"auto-{name}", "value"))]
    here("follow", Output("nowhere", "data", allow_duplicate=True), Input("doubt-state", "children"), *free)
    here("click", Output("nowhere", "data", allow_duplicate=True), Input("map", "clickData"))
    here("copy", Output("copied", "children"), Input("copy-link", "n_clicks"), State("asked", "data"))
