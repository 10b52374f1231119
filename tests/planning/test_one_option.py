"""An option of a mix is one line: what `KnownModel` declares reaches every plan, the answer, the report and the app."""

import subprocess
import sys

# Declares one more input of laws and looks in nine places. In a process of its own: declarations are read at import.
PROGRAM = """
import importlib.util, inspect, pathlib, sys
import cptlaw.planning.options
spec = importlib.util.find_spec("cptlaw.planning.scenario")
text = pathlib.Path(spec.origin).read_text(encoding="utf-8")
place = '    lr_peak: Annotated['
assert text.count(place) == 1
new = '    warmth: Annotated[Quantity, amount("3", "How warm it is.", "W", law_input=True)]\\n'
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
exec(compile(text.replace(place, new + place), spec.origin, "exec"), vars(module))
cptlaw.planning.scenario = module

import cptlaw as cl
from cptlaw.answering.question import Asked
from cptlaw.cli import commands
from cptlaw_app.question import fields

plans = ("min_tokens", "trade_off", "limited_data", "pareto", "allocate", "mix")
for function in (*(getattr(cl.plan, name) for name in plans), cl.answer, cl.report):
    assert "warmth" in inspect.signature(function).parameters, function
    assert "How warm it is" in function.__doc__, function
verbs = {one.name: one for one in commands()}
for verb in (*(verbs["plan"].commands[name.replace("_", "-")] for name in plans), verbs["answer"], verbs["report"]):
    assert "warmth" in {option.name for option in verb.params}, verb.name
assert "warmth" in {one.name for one in fields()}
asked = Asked.read({"n_params": "8B", "tokens": "1B", "max_forgetting": "2%", "warmth": "3"})
assert asked.plan_arguments["warmth"] == asked.law_inputs["warmth"] == 3.0
assert asked.command_words[asked.command_words.index("--warmth") + 1] == "3"
"""


def test_an_option_that_is_declared_once_reaches_nine_places():
    program = PROGRAM.replace("\\\\n", "\\n")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
