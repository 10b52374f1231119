"""An argument of another type than is expected is refused with what is: never a traceback of what was inside."""

from contextlib import suppress

import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.errors import CptlawError

WRONG = (
    None,
    3,
    -1.5,
    True,
    "nothing",
    ["loss"],
    {"nothing": ["loss"]},
    {"a": {"b": 1}},
    [["a"]],
    {3: 4},
    (1,),
    [None],
)
POINT = {"n_params": 1e9, "ptpp": 20.0, "tokens": 1e9}
TABLE = pd.DataFrame({"run": ["a", "b"], "eval": "target", "loss": [2.0, 1.9], "n_params": 1e8, "tokens": [1e9, 2e9]})


@pytest.fixture(scope="module")
def questions():
    """Return the verbs of the library, each with a question that it could answer."""
    pilot = cl.examples.load("en-fr-pilot").where("ptpp <= 31 and replay in (0.1, 0.25)")
    fits = {role: cl.fit("dcpt-l3", pilot, on=role, restraint="none", starts=2) for role in ("target", "source")}
    split = {"fit_where": "ptpp < 31", "test_where": "ptpp == 31"}
    return {
        "read_runs": (cl.read_runs, {"source": TABLE}),
        "read": (cl.read, {"source": TABLE}),
        "fit": (cl.fit, {"law_name": "dcpt-l3", "runs": pilot, "on": "target", "starts": 1, "restraint": "none"}),
        "answer": (cl.answer, POINT),
        "forecast": (cl.forecast, {"fits": fits["target"], "at": {"n_params": 1e5, "tokens": 1e6, "replay": 0.1}}),
        "compare": (cl.compare, {"laws": ["chinchilla"], "runs": pilot, "on": "target", **split}),
        "plan": (cl.plan.trade_off, {**fits, **POINT, "max_forgetting": "5%"}),
        "report": (cl.report, {"runs": pilot, **fits}),
        "import_logs": (cl.import_logs, {"source": "logs"}),
        "write_pilots": (cl.write_pilots, {"runs": [], "folder": "pilots"}),
    }


CASES = (
    ("read_runs", "columns losses scores source_eval target_eval n_params_kind"),
    ("read", "columns losses scores source_eval target_eval n_params_kind"),
    ("fit", "law_name on where fix tie prior schedules shift"),
    ("answer", "runs n_params max_forgetting min_score where shift domain risk base"),
    ("forecast", "fits at interval domain"),
    ("compare", "laws on fit_where cv seed"),
    ("plan", "target source n_params max_forgetting min_score max_drop scores domain"),
    ("report", "target at max_forgetting"),
    ("import_logs", "mapping constants config"),
    ("write_pilots", "runs"),
)


@pytest.mark.parametrize(("verb", "argument"), [(verb, name) for verb, names in CASES for name in names.split()])
def test_no_argument_of_another_type_ends_in_a_traceback(questions, verb, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, question = questions[verb]
    for value in WRONG:
        with suppress(CptlawError):
            function(**{**question, argument: value})
