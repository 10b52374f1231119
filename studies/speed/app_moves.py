"""Time what the app's server does for one move of a control: sentence, map and curves of the example runs.

    python -m studies app_moves [--moves 60]

Requests go through the app's own web server object, as a browser sends them, without a socket: what is timed is parsing
the request, the answer of the library, drawing the map, and writing it as JSON. The fit comes first and is not timed.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import cptlaw as cl
from cptlaw_app import EXAMPLE_ROWS
from cptlaw_app.controls import SLIDERS
from cptlaw_app.server import build
from studies.harness import Array, machine, progress, table


class Page:
    """What a browser knows of the app: the values of its fields, and which callback they feed."""

    def __init__(self) -> None:
        self.client = build(cl.examples.load("en-fr-pilot"), EXAMPLE_ROWS).server.test_client()
        self.specs = self.client.get("/_dash-dependencies").get_json()
        self.values: dict[str, Any] = {}
        self._read(self.client.get("/_dash-layout").get_json())

    def _read(self, node: Any) -> None:
        if isinstance(node, list):
            for child in node:
                self._read(child)
        elif isinstance(node, dict) and "props" in node:
            name = node["props"].get("id")
            if isinstance(name, str):
                self.values |= {f"{name}.{key}": value for key, value in node["props"].items() if key != "children"}
            self._read(node["props"].get("children"))

    def call(self, callback: str, changed: str) -> None:
        """Ask for the callback whose outputs begin with a name, and take over what it answers."""
        spec = next(spec for spec in self.specs if spec["output"].strip(".").startswith(callback))
        outputs = [part.rsplit(".", 1) for part in spec["output"].strip(".").split("...")]
        given = {
            kind: [{**each, "value": self.values.get(f"{each['id']}.{each['property']}")} for each in spec[kind]]
            for kind in ("inputs", "state")
        }
        answer = self.client.post(
            "/_dash-update-component",
            json={
                "output": spec["output"],
                "outputs": [{"id": name, "property": key} for name, key in outputs],
                "changedPropIds": [changed],
                **given,
            },
        )
        for name, found in ((answer.get_json() or {}).get("response") or {}).items():
            self.values |= {f"{name}.{key}": value for key, value in found.items()}

    def fit(self) -> None:
        """Open the page, wait for its laws, and bring the controls to their ranges."""
        self.call("session.data", "token.data")
        while not self.values.get("fitted.data"):  # the number of the table that is shown
            time.sleep(0.2)
            self.call("progress-upload.value", "tick.n_intervals")
        self.call("n_params.min", "fitted.data")


def times(page: Page, moves: int, fewest: bool, seed: int) -> tuple[Array, Array]:
    """Return CPU and wall milliseconds of moves of one slider after the other to random places, (moves,) each."""
    rng = np.random.default_rng(seed)
    page.values |= {
        "auto-tokens.value": ["on"] if fewest else [],
        "use-max_target_loss.value": ["on"] if fewest else [],
    }
    found = np.zeros((moves, 2))
    for i in range(moves):
        name = list(SLIDERS)[i % len(SLIDERS)]
        low, high = page.values[f"{name}.min"], page.values[f"{name}.max"]
        page.values[f"{name}.value"] = float(rng.uniform(low, high))
        before = page.values.get("asked.data")
        cpu, wall = time.process_time(), time.perf_counter()
        page.call("sentence.children", f"{name}.value")
        found[i] = 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - wall)
        if name == "n_params" and page.values.get("asked.data") == before:
            raise SystemExit("a move of the size changed nothing: the benchmark does not reach the app")
    return found[:, 0], found[:, 1]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=60, help="moves for each plan [default: 60]")
    moves = parser.parse_args(arguments).moves
    page = Page()
    progress("fitting")
    page.fit()
    times(page, len(SLIDERS), False, 0)
    rows = []
    for seed, fewest in enumerate((False, True), start=1):
        cpu, wall = times(page, moves, fewest, seed)
        shown = [f"{value:.0f} ms" for value in (*np.quantile(cpu, (0.5, 0.95)), *np.quantile(wall, (0.5, 0.95)))]
        rows.append(["fewest tokens" if fewest else "best replay", str(moves), *shown])
    print(machine())
    print()
    print(table(["plan", "moves", "CPU, median", "CPU, 95 %", "wall, median", "wall, 95 %"], rows))


if __name__ == "__main__":
    main()
