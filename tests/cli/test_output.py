"""How the command line prints: -v, -q, next commands that can be pasted, completion."""

import shlex
import subprocess
import sys

import pytest

from cptlaw import examples
from cptlaw.commands import command_line

WHERE = "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp <= 31"
CHECK = ("check", str(examples.path("en-fr-pilot")), "--law", "ptpp-gated-floor", "--on", "target", "--where", WHERE)


@pytest.mark.parametrize(
    "word",
    ["a b", "it's", "run == 'a' and eval == \"b\"", "x != 'y'", "'!bang'", "$HOME 'x'", "back\\slash 'x'", "`id` 'x'"],
)
def test_commands_come_back_as_they_were(word):
    line = command_line(["cptlaw", "--where", word])
    assert shlex.split(line) == ["cptlaw", "--where", word]
    ran = subprocess.run(["sh", "-c", f"printf %s {command_line([word])}"], capture_output=True, text=True, check=True)
    assert ran.stdout == word


def test_filters_with_single_quotes_read_well():
    assert command_line(["lr_schedule == 'constant'"]) == "\"lr_schedule == 'constant'\""


def test_quiet_and_verbose(call):
    code, plain, err = call(*CHECK)
    assert not code
    assert "next: cptlaw fit" in err
    assert "'\"'\"'" not in err
    code, quiet, err = call(*CHECK, "-q")
    assert not code
    assert not err
    assert "warning" not in quiet
    _, verbose, _ = call(*CHECK, "-v")
    assert len(quiet) < len(plain) <= len(verbose)


def test_the_next_command_is_accepted(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, err = call("fit", CHECK[1], "--law", "dcpt-l3", *CHECK[4:], "--starts", "4", "-v")
    for _ in range(2):  # the same command with -o, then a forecast
        following = next(line for line in err.splitlines() if line.startswith("next: ")).removeprefix("next: ")
        code, _, err = call(*shlex.split(following)[1:])
        assert not code
    assert following.startswith("cptlaw forecast target.json --at ")


def test_the_next_forecast_is_of_a_mix_and_a_rate_that_were_run(call, tmp_path):
    rows = [
        f"{n}-{share},target,{n},1e9,{share},{1 - share},{2 + 1e8 / n + share**2}"
        for n in (10**7, 10**8)
        for share in (0.2, 0.3, 0.5, 0.9)
    ]
    table = tmp_path / "mixes.csv"
    table.write_text("\n".join(["run,eval,n_params,tokens,mix_web,mix_code,loss", *rows]))
    _, _, err = call("fit", str(table), "--on", "target", "-o", str(tmp_path / "fit.json"))
    following = next(line for line in err.splitlines() if line.startswith("next: "))
    assert "mix_web=0.5,mix_code=0.5" in following
    assert not call(*shlex.split(following)[2:])[0]


def completed(line):
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    code = "import sys; from cptlaw.cli import main; sys.argv = ['cptlaw']; main()"
    environment = {"_CPTLAW_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    import os

    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return [item.partition(",")[2] for item in ran.stdout.splitlines()]


def test_completion_knows_laws_evals_and_examples():
    assert completed("cptlaw laws ptpp-gat") == ["ptpp-gate", "ptpp-gated-floor"]
    assert completed(f"cptlaw fit {CHECK[1]} --on ") == ["source", "target"]
    assert "en-fr-pilot" in completed("cptlaw example ")


PILOT = str(examples.path("en-fr-pilot"))
OF_92_COLUMNS = [
    ("answer", "--base", "llama-3.1-8b", "--target-tokens", "20B", "--max-forgetting", "5%", "--gpus", "64xH100"),
    ("answer", PILOT, "--n-params", "124672", "--ptpp", "279", "--tokens", "1M", "--max-forgetting", "1%", "-v"),
    ("read", PILOT),
    ("read", "tests/runs/messy/which_corpus.csv"),
    ("check", PILOT),
    ("bases",),
    ("bases", "-v"),
    ("laws",),
    ("laws", "shared-tokens"),
    ("laws", "dcpt-l3"),
    ("laws", "score-sigmoid"),
    ("compare", PILOT, "--laws", "ptpp-floor,ptpp-blind", "--on", "target", "--fit-where", "ptpp == 31 and seed == 0",
     "--test-where", "ptpp == 279 and seed == 0"),
]  # fmt: skip


@pytest.mark.parametrize("words", OF_92_COLUMNS, ids=lambda words: " ".join(words[:1]))
def test_no_line_is_longer_than_92_columns_in_a_pipe(call, words):
    _, out, _ = call(*words)
    assert out.strip()
    assert [line for line in out.splitlines() if len(line) > 92] == []


def test_plans_are_no_wider_either(call, tmp_path):
    """Law by law: an average has more to say of its members, and takes longer."""
    fits = {on: str(tmp_path / f"{on}.json") for on in ("target", "source")}
    for on, path in fits.items():
        call(
            "fit",
            PILOT,
            "--law",
            "ptpp-floor",
            "--on",
            on,
            "--where",
            "ptpp in (31, 62, 124) and replay > 0",
            "-o",
            path,
        )
    model = ("--n-params", "124672", "--ptpp", "279")
    both = ("--target", fits["target"], "--source", fits["source"], *model)
    for words in (
        ("min-tokens", *both, "--max-target-loss", "1.75", "--max-forgetting", "30%"),
        ("trade-off", *both, "--tokens", "1M", "--max-forgetting", "30%", "-v"),
        ("pareto", *both, "--budget", "1e12"),
        ("limited-data", *both, "--target-tokens", "500K"),
        ("allocate", "--target", fits["target"], "--ptpp", "124", "--replay", "25%", "--budget", "1e13"),
    ):
        _, out, _ = call("plan", *words)
        assert out.strip()
        assert [line for line in out.splitlines() if len(line) > 92] == [], words[0]
