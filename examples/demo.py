"""The main job on the example runs, in a minute: fit, forecast an unseen budget, look at what was measured, answer.

The runs are real: tiny decoders pre-trained on English, adapted to French, at five pre-training budgets. Budget 279 is
held out: forecast, planned for, and only then looked at. The files lie in the folder `demo`, where the commands say.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import click
from printed_command import run

import cptlaw as cl

# The first points lie within the warm-up (50 steps, about 1 token per parameter), where no law holds.
USABLE = "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124)"
N_PARAMS, TOKENS, HELD_OUT = 124_672, 997_376, 279
LIMITS = "--max-target-loss 1.70 --max-forgetting 25%"


def title(text: str) -> None:
    """Print a heading."""
    click.secho(f"\n# {text}", bold=True)


def measured_against_forecast(runs: cl.Runs) -> None:
    """Look at the held-out runs at the point that was forecast."""
    point = runs.where(f"n_params == {N_PARAMS} and tokens == {TOKENS} and replay == 0.25 and ptpp == {HELD_OUT}").frame
    at = {"n_params": [N_PARAMS], "tokens": [TOKENS], "replay": [0.25], "ptpp": [HELD_OUT], "lr_peak": [3e-3]}
    for on in ("target", "source"):
        forecast = cl.load_fit(f"{on}.json").forecast(at).iloc[0]
        measured = float(point.loc[point["eval"] == on, "loss"].iloc[0])
        inside = "inside" if forecast["lo"] <= measured <= forecast["hi"] else "OUTSIDE"
        miss = 100 * (forecast["loss"] / measured - 1)
        click.echo(
            f"{on}: measured {measured:.4f}, forecast {forecast['loss']:.4f} ({miss:+.1f} %), {inside} the interval"
        )


def main() -> None:
    """Run the demo in the folder `demo`, which is made where it is started."""
    folder = Path.cwd() / "demo"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(cl.examples.path("en-fr-pilot"), folder / "runs.csv")
    os.chdir(folder)
    click.secho("\n$ cd demo", fg="cyan")
    title("1. Fit both losses on three budgets: all laws that the columns allow, weighted by what they forecast")
    for on in ("target", "source"):
        run(f'fit runs.csv --on {on} --where "{USABLE}" -o {on}.json -q')
    title(f"2. Forecast both losses at the unseen budget {HELD_OUT}")
    at = f"n_params={N_PARAMS},tokens={TOKENS},replay=25%,ptpp={HELD_OUT},lr_peak=3e-3"
    run(f"forecast target.json source.json --at {at} -q")
    title("3. Only now look: what was measured there")
    measured_against_forecast(cl.read_runs("runs.csv"))
    title("4. The answer in one command, from the table alone: what to train, and how likely it keeps the limits")
    page = "" if importlib.util.find_spec("plotly") is None else " -o report.html"
    run(f'answer runs.csv --n-params {N_PARAMS} --ptpp {HELD_OUT} {LIMITS} --where "{USABLE}" -q{page}')


if __name__ == "__main__":
    main()
