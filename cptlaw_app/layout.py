"""The page of the app: the answer, map and curves, the controls, and drawers for all else."""

from __future__ import annotations

from typing import Any

from cptlaw_app.controls import BEST, CHOSEN, LIMITS, SLIDERS
from cptlaw_app.upload import LARGEST

PLANNING_INPUTS = {"n_params", "tokens", "replay", "ptpp", "lr_peak"}
ROLES = ("target", "source")
AUTO = "auto"
BLANK = {"layout": {"xaxis": {"visible": False}, "yaxis": {"visible": False}}}  # a figure before there is one
CURSOR = "Point at the map to see what a mix does; press to take it."


def planning_laws() -> list[str]:
    """Return the laws that a plan can use: of tokens and, at most, size, replay, budget and peak rate."""
    from cptlaw.laws import LAWS, law

    found = []
    for name in LAWS:
        known = law(name)
        fits = set(known.inputs) <= PLANNING_INPUTS and bool({"tokens", "replay"} & set(known.inputs))
        if fits and not known.on_base_models and "oracle" not in name:
            found.append(name)
    return found


def page(token: str) -> Any:
    """Return the page, which opens its session with a token."""
    from dash import html

    return html.Main([*_stores(token), _header(), _answer(), _board()])


def _stores(token: str) -> list[Any]:
    from dash import dcc

    return [
        dcc.Store(id="token", data=token),
        dcc.Store(id="session"),
        dcc.Store(id="start", data=None),
        dcc.Store(id="fitted", data=0),
        dcc.Store(id="table"),
        dcc.Store(id="finished"),
        dcc.Store(id="asked"),
        dcc.Store(id="sure"),
        dcc.Store(id="score-limits", data={}),
        dcc.Store(id="pins", data=[]),
        dcc.Store(id="pinned-at", data=[]),
        dcc.Store(id="nowhere"),
        dcc.Location(id="address", refresh=False),
        dcc.Download(id="download"),
        # One tick, armed again by its answer: on a busy machine ticks would overtake the answers of those before.
        dcc.Interval(id="tick", interval=300, max_intervals=1, disabled=True),
    ]


def _header() -> Any:
    from dash import dcc, html

    return html.Header(
        [
            html.Div([html.H1("cptlaw"), html.P(id="runs-title", className="quiet")], className="name"),
            dcc.Upload(
                id="upload",
                multiple=False,
                className="upload",
                children=html.Span(f"Drop your runs table here, or choose a file (up to {LARGEST / 1e6:.0f} MB)"),
            ),
            *_told("upload"),
            html.Div(
                [
                    html.H2("Which column is what?"),
                    html.Div(id="columns", className="fields"),
                    html.Div(
                        [_choice(f"incoming-{role}", f"eval of the {role} loss") for role in ROLES], className="fields"
                    ),
                    _button("apply-columns", "Read with these"),
                    _button("drop-incoming", "Keep the table that is shown"),
                ],
                id="mapping",
                className="panel",
                hidden=True,
            ),
        ]
    )


def _answer() -> Any:
    from dash import html

    return html.Section(
        [
            html.P("Reading the runs and finding laws for both losses ..", id="sentence"),
            html.Ul(id="chances", className="chances"),
            html.P(id="asides", className="quiet"),
            html.P(
                [
                    html.Span(id="doubt-state", className="state", role="status"),
                    _button("pin", "Pin this scenario"),
                    _button("copy-link", "Copy link"),
                    html.Span(id="copied", role="status", className="quiet"),
                ],
                className="row",
                id="answer-tools",
            ),
            html.Div(id="problem-pin", role="alert", className="problem"),
            html.Div(id="problem-move", role="alert", className="problem"),
        ],
        className="answer",
        **{"aria-label": "answer"},
    )


def _board() -> Any:
    from dash import dcc, html

    def graph(name: str) -> Any:
        return dcc.Graph(
            id=name,
            config={"displayModeBar": False, "responsive": True},
            figure=BLANK,
            style={"height": "330px" if name == "score-curve" else "430px"},
            clear_on_unhover=True,
        )

    return html.Div(
        [
            html.Div(
                [
                    html.Section(
                        [html.H2(id="map-title"), graph("map"), html.P(CURSOR, id="cursor", className="quiet")],
                        className="chart",
                        id="chart-map",
                    ),
                    html.Section([html.H2(id="curves-title"), graph("curves")], className="chart"),
                    _scores(graph),
                    html.Section(id="compared", className="wide"),
                ],
                className="charts",
            ),
            html.Section(
                [
                    html.H2("The question"),
                    *(_slider(name, label) for name, label in SLIDERS.items()),
                    html.Div(
                        [
                            html.Span("peak rate", id="label-lr_peak", className="label"),
                            dcc.RadioItems(
                                id="lr_peak", options=[{"label": "best", "value": BEST}], value=BEST, inline=True
                            ),
                        ],
                        id="field-lr_peak",
                        className="field",
                        hidden=True,
                    ),
                    _field(
                        "base model's source loss",
                        "base_source_loss",
                        dcc.Input(id="base_source_loss", type="text", debounce=0.6, autoComplete="off"),
                        "empty: as measured, or by a law of base models",
                    ),
                    html.Div(id="score-fields"),
                ],
                className="controls",
                **{"aria-label": "the question"},
            ),
            _drawers(),
        ],
        id="board",
        className="board",
        hidden=True,
    )


def _scores(graph: Any) -> Any:
    """Return where scores stand: what to expect of each, and how one of them follows its loss."""
    from dash import html

    return html.Section(
        [
            html.Div([html.H2("Scores under this mix"), html.Div(id="scores-table")], className="expected"),
            html.Div(
                [
                    html.H2(id="score-title"),
                    _choice("score-shown", "score shown"),
                    graph("score-curve"),
                ],
                className="chart",
            ),
        ],
        id="scores",
        className="wide scores",
        hidden=True,
    )


def _drawers() -> Any:
    from dash import dcc, html

    return html.Div(
        [
            _drawer("data", "Data", [html.Div(id="summary")]),
            _drawer(
                "laws",
                "Laws",
                [
                    html.Div(id="fit-result"),
                    html.Div([_law(role) for role in ROLES], className="fields"),
                    _field(
                        "rows to fit (filter)",
                        "where",
                        dcc.Input(id="where", type="text", value="", autoComplete="off"),
                        "empty for all rows; as in: ptpp <= 124 and replay in (0.1, 0.25)",
                    ),
                    _button("fit", "Fit with these"),
                    *_told("laws"),
                ],
            ),
            _drawer("findings", "Findings", [html.Div(id="notes")]),
            _drawer(
                "next",
                "Next runs",
                [
                    html.P("Which small runs would narrow the target loss of this mix most for their compute?"),
                    _field(
                        "compute for the next runs (FLOP)",
                        "budget",
                        dcc.Input(id="budget", type="text", value="", autoComplete="off"),
                        "as in: 1e20",
                    ),
                    _button("suggest", "Suggest runs"),
                    _button("download-cells", "Download them (CSV)"),
                    *_told("suggest"),
                    html.Div(id="cells"),
                ],
            ),
            _drawer(
                "take",
                "Take away",
                [
                    html.P("The report is one page to send; the fits are what the command line reads."),
                    _button("make-report", "Make and download the report"),
                    _button("download-target", "Download the target's fit"),
                    _button("download-source", "Download the source's fit"),
                    *_told("report"),
                ],
            ),
            html.P(
                "Everything stays on this machine: tables are kept in memory until the app ends, and nothing else.",
                className="quiet",
            ),
        ],
        id="drawers",
    )


def _drawer(name: str, title: str, children: list[Any]) -> Any:
    from dash import html

    summary = html.Summary(
        [html.Span(title, className="drawer-title"), " ", html.Span(id=f"about-{name}", className="quiet")]
    )
    return html.Details([summary, html.Div(children, className="drawer")], id=f"drawer-{name}")


def _told(place: str) -> list[Any]:
    """Return where the job of a button tells how far it is and what went wrong."""
    from dash import html

    return [
        html.Div(
            [
                html.Progress(id=f"progress-{place}", max="1", value="0", **{"aria-label": "progress"}),
                html.Span(id=f"stage-{place}", role="status"),
            ],
            id=f"working-{place}",
            className="working",
            hidden=True,
        ),
        html.Div(id=f"problem-{place}", role="alert", className="problem"),
    ]


def _law(role: str) -> Any:
    from dash import html

    return html.Div(
        [_choice(f"law-{role}", f"law of the {role} loss"), html.P(id=f"about-law-{role}", className="quiet")]
    )


def _field(label: str, name: str, control: Any, hint: str = "") -> Any:
    from dash import html

    # The hidden attribute of a dropdown's own button is its label's business: it takes the id.
    return html.Div(
        [html.Label(label, htmlFor=name, id=f"label-{name}"), control, html.Small(hint) if hint else None],
        className="field",
        id=f"field-{name}",
    )


def _choice(name: str, label: str) -> Any:
    from dash import dcc

    return _field(label, name, dcc.Dropdown(id=name, clearable=False, searchable=False))


def _slider(name: str, label: str) -> Any:
    """Return a control: a label, a field to type into, a slider, and where it can be left to the app a box to tick."""
    from dash import dcc, html

    box = f"auto-{name}" if name in CHOSEN else f"use-{name}" if name in LIMITS else None
    words = CHOSEN.get(name) or LIMITS.get(name, "")
    parts = [
        html.Div(
            [
                html.Label(label, htmlFor=name),
                html.Label(f"{label}, typed", htmlFor=f"exact-{name}", className="unseen"),
                dcc.Input(id=f"exact-{name}", type="text", className="exact", autoComplete="off"),
            ],
            className="top",
        ),
        dcc.Input(id=name, type="range", min=0, max=1, step="any", value=0.5, className="slider"),
    ]
    if box is not None:
        parts.append(dcc.Checklist(id=box, options=[{"label": words, "value": "on"}], value=[], inline=True))
    if name == "tokens":
        parts.append(
            html.Div(
                [
                    html.Label("compute (FLOP)", htmlFor="exact-flops"),
                    dcc.Input(id="exact-flops", type="text", className="exact", autoComplete="off"),
                ],
                className="top",
                id="field-flops",
            )
        )
    return html.Div(parts, className="field", id=f"field-{name}")


def _button(name: str, label: str, **rest: Any) -> Any:
    from dash import html

    return html.Button(label, id=name, type="button", **rest)
