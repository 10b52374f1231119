"""The verb import."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cptlaw.cli import complete, options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show_json, show_next, show_notes, show_text, wants_json

if TYPE_CHECKING:
    from cptlaw.runs import Runs


@click.command("import", cls=Grouped)
@click.argument("source")
@options.output("RUNS", "RUNS", "The runs table: .csv, .jsonl or .parquet. [default: print what was understood]")
@click.option(
    "--format",
    "log_format",
    metavar="NAME",
    shell_complete=complete.formats,
    help="What SOURCE is, if not to be recognised, as megatron. An unknown name lists the known ones.",
)
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="K=METRIC,..",
    help="loss:EVAL=METRIC for losses, COLUMN=METRIC for others. [default: metrics named as validation losses]",
)
@click.option("--set", "constants", multiple=True, metavar="K=V,..", help="Columns with one value, as n_params=124M.")
@click.option("--pattern", metavar="P", help="How runs are named, as '{n_params}-p{ptpp}-r{replay%}-s{seed}'.")
@click.option("--config", multiple=True, metavar="K=KEY,..", help="Columns from the trainer's own settings.")
@click.option("--batch-tokens", metavar="N", help="Tokens of one step: tokens = (step - first step) x N.")
@click.option("--seq-length", metavar="N", help="Tokens of one sample, where the logs count samples.")
@click.option("--first-step", metavar="N", help="The step at which adaptation began.")
@click.option(
    "--n-params-kind", type=click.Choice(["non_embedding", "total"]), help="Which parameters n_params counts."
)
@click.option("--settings", metavar="TABLE", help="A CSV with a row per run (run,replay,..), for what no log says.")
@click.option("--all-runs", is_flag=True, help="Keep runs that crashed, did not finish or collapsed.")
@click.option("--planned", metavar="ANSWER", help="Say where runs differ from this answer (--json) or pilot.")
@options.as_json
def import_logs(
    source: str,
    output: str | None,
    mapping: tuple[str, ...],
    constants: tuple[str, ...],
    config: tuple[str, ...],
    **rest: Any,
) -> None:
    """Turn the logs of a trainer or a tracker into a runs table.

    SOURCE is a file or a folder with any number of runs. Which format was recognised is said on stderr. Without -o it
    prints what was understood: evals, sizes, tokens and mixes, and columns that are kept and read as nothing yet.

    \b
    Scores of lm-evaluation-harness, LightEval or OLMES, one results file a model:
      cptlaw import results/ -o scores.csv --pattern "{n_params}-p{ptpp}-r{replay%}" --batch-tokens 512K
    Hugging Face Trainer, sizes and mixes from the names of the folders:
      cptlaw import outputs/ -o runs.csv --pattern "{n_params}-p{ptpp}-r{replay%}" \\
          --map loss:target=eval_fr_loss,loss:source=eval_en_loss --batch-tokens 512K
    TensorBoard (pip install 'cptlaw[tensorboard]'):
      cptlaw import tb_logs/ -o runs.csv --set n_params=1.4B,ptpp=31 --batch-tokens 4M
    Weights & Biases: a history or a chart that was exported; or the public API, only when asked by name:
      cptlaw import wandb-export.csv -o runs.csv --set n_params=124M
      cptlaw import wandb:my-team/my-project -o runs.csv --config n_params=model.n_params,seed=seed
    MLflow:
      cptlaw import mlruns/ -o runs.csv --config n_params=n_params,replay=replay
    Megatron-LM, whose iterations go on from pre-training:
      cptlaw import slurm-123.out -o runs.csv --set n_params=8.1B --seq-length 4096 --first-step 168000
    Text logs of NeMo, torchtitan, torchtune, OLMo, nanochat, .. (an unknown --format lists all):
      cptlaw import nemo.log -o runs.csv --seq-length 4096
      cptlaw import titan.log -o runs.csv --batch-tokens 512K --config n_params=total_parameters
    Training losses alone, averaged; and what no log says, from a table with a row per run:
      cptlaw import logs/ -o runs.csv --map "loss:target=train loss" --settings settings.csv --batch-tokens 512K
    CSV or JSON Lines of any trainer, a row per step:
      cptlaw import metrics.jsonl -o runs.csv --map loss:fr=eval/fr_nll,tokens=seen,lr=opt/lr --set n_params=124M
    """
    import cptlaw as cl
    from cptlaw.units import parse_pairs

    runs = cl.import_logs(
        source,
        output,
        mapping=parse_pairs(mapping, "--map", "loss:EVAL=METRIC or COLUMN=METRIC, as in loss:fr=eval/fr_loss"),
        constants=parse_pairs(constants, "--set", "COLUMN=VALUE, as in n_params=124M"),
        config=parse_pairs(config, "--config", "COLUMN=KEY, as in seed=seed"),
        **rest,
    )
    show_notes(runs.notes)
    if wants_json():
        counted = {"rows": len(runs), "runs": int(runs.frame["run"].nunique()), "evals": list(runs.evals)}
        path = None if output is None else str(runs.path)
        show_json({"path": path, **counted, "columns": list(runs.frame.columns), "notes": list(runs.notes)})
        return
    if output is None:
        from cptlaw.runs import understand

        show_text(understand(runs))
        show_next(["cptlaw", *sys.argv[1:], "-o", "runs.csv"])
        return
    click.echo(repr(runs))
    on = "target" if "target" in runs.evals else runs.evals[0]
    has = {name for name in runs.frame.columns if runs.frame[name].notna().any()}
    if {"n_params", "tokens"} <= has and _can_be_checked(runs, on):  # else the notes must be heeded first
        show_next(["cptlaw", "check", output, "--on", on])


def _can_be_checked(runs: Runs, on: str) -> bool:
    if "metric" not in runs.frame.columns:
        return True
    from cptlaw.forecasting.scores import scoring
    from cptlaw.runs.metrics import is_score

    rows = runs.frame[runs.frame["eval"] == on]
    return not rows["metric"].astype(object).map(is_score).any() or len(rows) >= scoring.LEAST_ROWS
