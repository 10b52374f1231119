"""From nothing to a plan: text, a miniature ladder with replay, both losses, a law, a forecast and a plan.

    python examples/demo_sweep.py           # some minutes on a laptop
    python examples/demo_sweep.py --small   # what continuous integration runs

The text comes with Python itself: docstrings and the language reference are the source, the code of the standard
library without its docstrings is the target. The models are tiny and the runs few: this shows the path, not a result.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import click
import yaml
from printed_command import run

import cptlaw as cl

FULL = {"sizes": ["8K", "16K", "32K"], "ptpp": [20, 40, 80], "tokens_per_param": 8, "sequences": 96}
SMALL = {"sizes": ["4K", "8K"], "ptpp": [15, 30], "tokens_per_param": 4, "sequences": 32}
REPLAY = [0.1, 0.25, 0.5]
# The first points lie within the warm-up, where no law holds.
ROWS = "replay > 0 and atpp >= 0.9"


def documents() -> Iterator[tuple[str, str, str]]:
    """Yield (corpus, module, text) of the standard library: prose from its docstrings, code without them."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if {"site-packages", "test", "tests", "idle_test", "lib2to3"} & set(path.parts):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # old escapes in old modules
                tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        group = str(path.relative_to(root))
        prose = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if text := ast.get_docstring(node):
                    prose.append(text)
                    node.body = node.body[1:] or [ast.Pass()]
            elif group.endswith("topics.py") and isinstance(node, ast.Constant) and isinstance(node.value, str):
                prose.append(node.value)  # the language reference
        if prose:
            yield "prose", group, "\n\n".join(prose)
        if not group.endswith("topics.py"):
            yield "code", group, ast.unparse(tree)


def write_text(folder: Path) -> None:
    """Write both corpora as JSON Lines."""
    files = {corpus: (folder / f"{corpus}.jsonl").open("w", encoding="utf-8") for corpus in ("prose", "code")}
    sizes = dict.fromkeys(files, 0)
    for corpus, group, text in documents():
        # Pieces, so that the language reference stands on both sides of the split.
        for piece in range(0, len(text), 20_000):
            record = {"group": f"{group}:{piece}", "text": text[piece : piece + 20_000]}
            files[corpus].write(json.dumps(record) + "\n")
        sizes[corpus] += len(text)
    for corpus, file in files.items():
        file.close()
        click.echo(f"{corpus}: {sizes[corpus] / 1e6:.1f} MB")


def recipe(scale: dict) -> dict:
    """Return the recipe of the sweep."""
    return {
        "name": "demo",
        "text": {name: {"files": f"{name}.jsonl", "group": "group", "validation": "4%"} for name in ("prose", "code")},
        "tokenizer": "bytes",
        "context": 128,
        "batch": 8,
        "eval_sequences": scale["sequences"],
        "models": {size.lower(): {"n_params": size} for size in scale["sizes"]},
        "pretrain": {"text": "prose", "ptpp": scale["ptpp"], "peak": 6e-3, "warmup": 20, "decay": "15%"},
        "adapt": {
            "source": "prose",
            "target": "code",
            "replay": REPLAY,
            "tokens_per_param": scale["tokens_per_param"],
            "schedules": {"schedule": "constant", "peak": 3e-3, "warmup": 10},
        },
    }


def main() -> None:
    """Run the demo in a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="less of everything, for continuous integration")
    parser.add_argument("--folder", type=Path, default=Path("demo-sweep"), help="where all of it goes [demo-sweep]")
    asked = parser.parse_args()
    scale = SMALL if asked.small else FULL
    started = time.monotonic()
    asked.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(asked.folder)

    click.secho("\n# 1. Text that comes with Python: prose is the source, code the target", bold=True)
    write_text(Path())
    Path("sweep.yaml").write_text(yaml.safe_dump(recipe(scale), sort_keys=False), encoding="utf-8")

    click.secho("\n# 2. What would be trained, then training; stop it and start again, and it goes on", bold=True)
    run("sweep sweep.yaml --dry-run")
    run("sweep sweep.yaml -o runs")

    click.secho("\n# 3. A law of each loss", bold=True)
    for on in ("target", "source"):
        run(f'fit runs/runs.csv --law ptpp-floor --on {on} --where "{ROWS}" -o {on}.json')

    click.secho("\n# 4. Both losses at a budget that was not run, and the cheapest plan for it", bold=True)
    runs = cl.read_runs("runs/runs.csv")
    n_params = int(runs.frame["n_params"].max())
    ptpp = 2 * scale["ptpp"][-1]
    tokens = scale["tokens_per_param"] * n_params
    run(f"forecast target.json source.json --at n_params={n_params},tokens={tokens},replay=25%,ptpp={ptpp}")
    point = runs.frame.iloc[[-1]][["n_params"]].assign(tokens=tokens / 2, replay=0.25, ptpp=ptpp, n_params=n_params)
    reachable = float(cl.load_fit("target.json").predict(point)[0])
    run(
        f"plan min-tokens --target target.json --source source.json --n-params {n_params} --ptpp {ptpp} "
        f"--max-target-loss {reachable:.4f} --max-forgetting 20% --reference min-tokens"
    )
    click.echo(
        f"\nfrom nothing to a plan in {time.monotonic() - started:.0f} s; all of it is in {asked.folder}", err=True
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
