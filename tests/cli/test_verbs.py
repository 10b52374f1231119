"""The command line: exit codes, streams, JSON keys, messages instead of tracebacks."""

import json
import re
import shlex
import subprocess
import sys

import pytest
from facts import lacks

import cptlaw as cl
from cptlaw import examples
from cptlaw.cli import main
from cptlaw.examples import EXAMPLES, SCHEDULES

PILOT = str(examples.path("en-fr-pilot"))
ROWS = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and atpp >= 1.9 and lr_schedule == 'constant'"


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """A target and a source fit of the example runs."""
    folder = tmp_path_factory.mktemp("fits")
    for on in ("target", "source"):
        with pytest.raises(SystemExit):
            main(
                [
                    "fit",
                    PILOT,
                    "--law",
                    "ptpp-floor",
                    "--on",
                    on,
                    "--where",
                    ROWS,
                    "--restraint",
                    "none",
                    "-o",
                    str(folder / f"{on}.json"),
                ]
            )
    return folder


def test_help_imports_nothing_heavy():
    code = "import sys; from cptlaw.cli import main\ntry: main(['fit', '--help'])\nexcept SystemExit: pass\n"
    code += "print([name for name in ('numpy', 'pandas', 'scipy') if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: cptlaw fit" in out.stdout
    assert out.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize("verb", ["answer", "report", "suggest"])
def test_long_verbs_show_ten_options_in_groups_and_all_on_demand(call, verb):
    options = re.compile(r"^  (?:-\w, )?(-[-\w]+)", re.MULTILINE)
    code, few, _ = call(verb, "--help")
    assert code == 0
    assert len(options.findall(few)) == 10
    headings = [line for line in few.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [head for head in ("The table:", "The question:", "Limits:", "Output:") if head in few]
    code, every, _ = call(verb, "--help-all")
    assert code == 0
    count = int(re.search(r"(\d+) more options: cptlaw (\w+) --help-all", few)[1])
    assert len(options.findall(every)) == 10 + count >= 30
    assert set(options.findall(few)) < set(options.findall(every))


def test_every_verb_has_its_options_in_groups_none_left_out(call):
    import click

    from cptlaw.cli import commands

    listed = []
    for verb in commands():
        questions = getattr(verb, "commands", {None: verb})
        listed += [([verb.name, name] if name else [verb.name], one) for name, one in questions.items()]
    assert len(listed) >= 28
    for words, command in ((words, command) for words, command in listed if not command.hidden):
        code, out, _ = call(*words, "--help-all" if getattr(command, "few", ()) else "--help")
        assert code == 0
        headings = re.findall(r"^([A-Z][\w ]+):$", out, re.MULTILINE)
        own = f"Options of {words[-1]} alone"
        order = (own, "The table", "The question", "Limits", "The schedule", "The search", "Output")
        assert headings == [group for group in order if group in headings], words
        shown = set(re.findall(r"^  (?:-\w, )?(-[-\w]+)", out, re.MULTILINE))
        wanted = {max(one.opts, key=len) for one in command.params if isinstance(one, click.Option) and not one.hidden}
        assert shown == wanted - {"--help-all"}, words


def test_every_verb_has_help_with_an_example(call):
    code, out, _ = call("--help")
    assert code == 0
    for verb in ("check", "fit", "compare", "forecast", "plan", "laws", "example"):
        assert verb in out
    for verb in ("check", "fit", "compare", "forecast", "laws"):
        code, out, _ = call(verb, "--help")
        assert code == 0
        assert "Example" in out


def test_check(call):
    code, out, err = call("check", PILOT, "--law", "ptpp-gated-floor", "--on", "target", "--where", "ptpp <= 31")
    assert code == 0
    assert "[two-stages]" in out
    assert "next: cptlaw fit" in err


def test_strict_ends_with_4_on_errors(call):
    query = ["check", PILOT, "--law", "ptpp-floor", "--on", "target", "--where", "ptpp == 31 and replay > 0"]
    code, out, _ = call(*query)
    assert code == 0
    assert "[one-level]" in out
    assert call(*query, "--strict")[0] == 4


def test_fit_json_keys(call):
    code, out, _ = call("fit", PILOT, "--law", "ptpp-floor", "--on", "target", "--where", ROWS, "--json")
    found = json.loads(out)
    assert code == 0
    promised = [
        "law",
        "on",
        "params",
        "units",
        "objective",
        "n_points",
        "n_runs",
        "status",
        "n_starts",
        "n_agree",
        "rank",
        "n_free",
        "findings",
    ]
    assert set(promised) <= set(found)
    assert set(found["units"]) == {"n_params", "tokens"}
    assert set(found["params"]) == {"E", "A", "B", "C", "F", "alpha", "beta", "nu", "gamma", "eta"}
    assert call("fit", PILOT, "--law", "ptpp-floor", "--on", "target", "--where", ROWS, "--json")[1] == out


def test_fit_with_restraint_and_seed(call):
    query = ["fit", PILOT, "--law", "ptpp-blind", "--on", "target", "--where", ROWS, "--json"]
    code, out, _ = call(
        *query, "--fix", "C=0,gamma=1", "--tie", "alpha,beta", "--prior", "E=1.4:0.1", "--delta", "0.01"
    )
    found = json.loads(out)
    assert code == 0
    assert (found["params"]["C"], found["params"]["gamma"], found["delta"]) == (0.0, 1.0, 0.01)
    assert found["params"]["alpha"] == found["params"]["beta"]
    assert found["n_free"] == 5


def test_compare_json_keys(call):
    held_out = ["--fit-where", "ptpp <= 62", "--test-where", "ptpp == 124"]
    query = ["--on", "target", "--where", "replay in (0.1, 0.25, 0.5) and atpp >= 1.9", *held_out, "--json"]
    code, out, _ = call("compare", PILOT, "--laws", "ptpp-floor,ptpp-nearest,ptpp-oracle", *query)
    rows = json.loads(out)["rows"]
    assert code == 0
    promised = "law huber_log rmse_log mae_rel mape_clip intercept slope r2 n_fit n_test n_params_free findings"
    assert all(set(row) >= set(promised.split()) for row in rows)
    assert [row["huber_log"] for row in rows] == sorted(row["huber_log"] for row in rows)


def test_compare_text_by_split(call):
    code, out, err = call("compare", PILOT, "--laws", "dcpt-l1,dcpt-l3", "--on", "source", "--where",
                          "ptpp == 279 and atpp >= 1.9", "--cv", "leave-one-out:n_params")  # fmt: skip
    assert code == 0
    assert "dcpt-l3" in out
    assert "next: cptlaw fit" in err


def test_next_after_compare_fits_a_law_where_no_law_is_best(call):
    """The nearest budget forecasts best here; it is no law that `fit` knows."""
    code, out, err = call("compare", PILOT, "--laws", "chinchilla", "--on", "target", "--starts", "4",
                          "--where", "atpp >= 1.9", "--cv", "leave-one-out:ptpp")  # fmt: skip
    assert code == 0
    assert out.startswith("nearest-")
    assert "--law chinchilla" in err


def test_the_furthest_of_many_points_is_the_one_that_is_told(call, fits, tmp_path):
    points = tmp_path / "points.csv"
    points.write_text("n_params,tokens,replay,ptpp\n125K,2M,.25,279\n8.1B,1.9M,.25,124\n", encoding="utf-8")
    code, out, _ = call("forecast", str(fits / "target.json"), "--points", str(points))
    assert code == 0
    assert lacks(out, "65,000 times", "n_params 8.1B") == []


def test_forecast_at_and_from_file(call, fits, tmp_path):
    code, out, _ = call("forecast", str(fits / "target.json"), "--at", "N=125K,D=2M,r=25%,P=279", "--json")
    point = json.loads(out)["points"][0]
    assert code == 0
    assert (point["n_params"], point["tokens"], point["replay"], point["ptpp"]) == (125e3, 2e6, 0.25, 279)
    assert point["lo"] < point["loss"] < point["hi"]
    assert {finding["code"] for finding in point["findings"]} == {"extrapolation"}
    points = tmp_path / "points.csv"
    points.write_text("name,N,D,r,P\na,125K,2M,25%,279\nb,46K,1M,10%,279\n")
    code, out, _ = call(
        "forecast", str(fits / "target.json"), str(fits / "source.json"), "--points", str(points), "--json"
    )
    found = json.loads(out)["points"]
    assert code == 0
    assert [(item["name"], item["on"]) for item in found] == [
        ("a", "target"),
        ("b", "target"),
        ("a", "source"),
        ("b", "source"),
    ]
    assert found[0]["loss"] == point["loss"]
    code, out, _ = call("forecast", str(fits / "target.json"), "--points", str(points), "--interval", "0.5", "-v")
    assert code == 0
    assert "25%" in out
    assert lacks(out, "50% interval", "profile") == []


def test_json_is_all_of_stdout_and_notes_go_to_stderr(call, tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text(
        "N,D,val_loss\n" + "\n".join(f"{n}M,{d}M,{3 + 1 / n + 1 / d:.4f}" for n in (1, 2, 4) for d in (1, 3, 9))
    )
    code, out, err = call("fit", str(table), "--law", "chinchilla", "--on", "target", "--json")
    assert code == 0
    assert json.loads(out)["n_points"] == 9
    assert err.count("n_params from 'N'") == 1


def test_laws(call):
    assert call("laws")[0] == 0
    _, out, _ = call("laws", "ptpp-gate")
    assert "arXiv:2510.23198" in out
    _, out, _ = call("laws", "--json")
    assert {"chinchilla", "dcpt-l3", "ptpp-oracle"} <= {item["name"] for item in json.loads(out)["laws"]}


def test_example(call):
    assert call("example")[1].split() == list(EXAMPLES)
    assert call("example", "--schedules")[1].split() == list(SCHEDULES)
    assert call("example", "docs-to-code", "--schedules")[1].strip().endswith("docs_to_code_schedules.json")
    assert call("example", "en-fr-pilot")[1].strip() == PILOT


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fti"], "Did you mean 'fit'"),
        (["plan", "schedule", "--target", "t.json", "-o", "lr.csv"], "--find whole-schedule"),
        (["fit"], "Missing argument"),
        (["fit", PILOT], "on= (--on EVAL), one of source, target"),
        (["fit", PILOT, "--on", "target", "--tie", "alpha,beta"], "law auto fits several"),
        (["fit", PILOT, "--law", "ptpp-flor", "--on", "target"], "Did you mean 'ptpp-floor'"),
        (["fit", PILOT, "--law", "ptpp-floor", "--on", "taget"], "Did you mean 'target'"),
        (["fit", PILOT, "--law", "ptpp-floor", "--on", "target", "--where", "ptp > 3"], "Did you mean 'ptpp'"),
        (
            ["fit", PILOT, "--law", "ptpp-floor", "--on", "target", "--where", "ptpp == 31", "--restraint", "none"],
            "one level",
        ),
        (["fit", PILOT, "--law", "ptpp-floor", "--on", "target", "--fix", "alpa=1"], "Did you mean 'alpha'"),
        (["fit", "nothing.csv", "--law", "ptpp-floor", "--on", "target"], "nothing.csv"),
        (["fit", PILOT, "--law", "ptpp-oracle", "--on", "target"], "only inside compare"),
        (["fit", PILOT, "--law", "ptpp-floor", "--on", "target", "--columns", "eval"], "NAME=COLUMN"),
        (["compare", PILOT, "--laws", "ptpp-floor", "--on", "target"], "either --fit-where"),
        (["compare", PILOT, "--laws", "ptpp-floor", "--on", "target", "--cv", "rollout"], "rollout:COLUMN"),
        (["forecast", "nothing.json", "--at", "N=1B"], "no such file"),
        (["forecast", PILOT, "--at", "N=1B"], "not a readable fit"),
        (["laws", "chinchila"], "Did you mean 'chinchilla'"),
        (["example", "en-fr"], "Did you mean 'en-fr-pilot'"),
        (["example", "en-fr-pilot", "--schedules"], "These have one: docs-to-code"),
    ],
)
def test_mistakes_end_with_2_and_one_message(call, arguments, words):
    code, out, err = call(*arguments)
    assert code == 2
    assert words in err
    assert out == ""
    assert "Traceback" not in err


def test_forecast_mistakes(call, fits):
    target = str(fits / "target.json")
    for at, words in (
        ("N=1B", "needs the columns 'tokens', 'replay', 'ptpp'"),
        ("N=1B,D=0,r=0.1,P=3", "infinite at tokens = 0"),
        ("N=1B,D=1B,r=34,P=3", "34%"),
        ("N=8.1,D=1B,r=0.3,P=3", "8.1B"),
        ("N", "NAME=VALUE"),
        ("N=x,D=1B", "not a number"),
        ("N=1B,n_params=2B", "given twice"),
    ):
        code, out, err = call("forecast", target, "--at", at)
        assert (code, out) == (2, "")
        assert words in err
    assert call("forecast", target)[0] == 2


def test_bad_table_is_one_message_with_file_row_and_column(call, tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("run,eval,loss,n_params,tokens\na,target,-1,1e9,1e9\nb,target,x,1e9,2e9\n")
    code, out, err = call("fit", str(table), "--law", "chinchilla", "--on", "target", "-o", str(tmp_path / "fit.json"))
    assert (code, out) == (2, "")
    assert "runs.csv" in err
    assert "row 2" in err
    assert "'loss'" in err
    assert not (tmp_path / "fit.json").exists()


def test_module_entry_point():
    out = subprocess.run([sys.executable, "-m", "cptlaw", "--version"], capture_output=True, text=True, check=True)
    assert cl.__version__ in out.stdout


def test_the_eval_may_be_left_out_where_it_is_plain(call, tmp_path):
    code, out, err = call("check", PILOT, "--law", "chinchilla")
    assert (code, "on target:" in out) == (0, True)
    assert lacks(err, "source, target", "--on EVAL") == []
    assert "--on target" in err.splitlines()[-1]
    for verb in ("fit", "compare", "suggest"):
        asked = {"compare": ["--laws", "dcpt-l3"], "suggest": ["--at", "n_params=1M", "--budget", "1e15"]}.get(verb, [])
        code, out, err = call(verb, PILOT, *asked)
        assert (code, out) == (2, "")
        assert lacks(err, "--on EVAL", "source, target") == []
    one = tmp_path / "one.csv"
    rows = [(n, d, 1.5 + 300 / n**0.4 + 400 / d**0.35) for n in (1e6, 3e6, 1e7) for d in (1e8, 1e9, 4e9)]
    one.write_text("run,loss,n_params,tokens\n" + "".join(f"{n}-{d},{loss},{n},{d}\n" for n, d, loss in rows))
    assert call("check", str(one), "--law", "chinchilla")[0] == 0
    code, out, _ = call("fit", str(one), "--law", "chinchilla", "--starts", "4")
    assert (code, out.splitlines()[0]) == (0, "chinchilla on target")


def test_next_is_a_command_and_then_is_what_a_person_does(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, err = call("laws")
    assert call(*shlex.split(err.partition("next: cptlaw ")[2]))[0] == 0


def test_columns_of_scores_are_read_by_every_verb_that_reads_a_table(call, tmp_path):
    """A plan's fits of scores (--score) and a table's columns of them (--scores) are two options beside each other."""
    table = tmp_path / "wide.csv"
    table.write_text("run,n_params,tokens,val_loss,mmlu_acc\na,1e8,1e9,2.4,0.3\n")
    for verb in (["report", "--target", "t.json", "-o", str(tmp_path / "x.html")], ["check", "--on", "val"]):
        columns = ["--losses", "val=val_loss", "--scores", "mmlu=mmlu"]
        code, _, err = call(verb[0], str(table), *verb[1:], *columns)
        assert code == 2
        assert lacks(err, "'mmlu'", "'mmlu_acc'") == []
    code, _, err = call("forecast", "t.json", "--scores", "mmlu=mmlu_acc", "--at", "tokens=1B")
    assert (code, "--scores" in err) == (2, True)
    code, _, err = call("answer", "--n-params", "8B", "--ptpp", "99", "--scores", "mmlu=mmlu_acc")
    assert (code, "answer: --scores goes with RUNS" in err) == (2, True)
