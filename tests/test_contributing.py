"""What CONTRIBUTING shows of a reader and of a figure works as it stands; tests/laws does the same for a law."""

import re
import textwrap
from pathlib import Path

import pytest

import cptlaw as cl
from cptlaw.importing import reader

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(begins):
    """Return the block of code that begins with a line."""
    return textwrap.dedent(re.search(rf"^    {re.escape(begins)}\n(?:    .*\n|\n)+", TEXT, re.M).group(0))


def test_the_reader_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_KINDS", dict(reader._KINDS))
    exec(block("from collections.abc import Iterator"), {"__name__": "diary"})
    for run, loss in (("124M-r25", 2.5), ("124M-r50", 2.6)):
        (tmp_path / run).mkdir()
        (tmp_path / run / "diary.txt").write_text(f"0 3.0\n10 {loss}\n")
    runs = cl.import_logs(tmp_path, pattern="{n_params}-r{replay%}", batch_tokens="1M")
    assert runs.frame["loss"].tolist() == [3.0, 2.5, 3.0, 2.6]
    assert set(runs.frame["replay"]) == {0.25, 0.5}


def test_the_figure_draws():
    pytest.importorskip("plotly", reason="figures need Plotly: pip install 'cptlaw[report]'")
    from cptlaw.reporting.figures.figure import Figure, blank

    names = {"Fit": cl.Fit, "Figure": Figure, "blank": blank}
    exec(block("def losses_by_size(fit: Fit) -> Figure:"), names)
    fit = cl.fit(
        "chinchilla", cl.examples.load("en-fr-pilot"), on="target", where="ptpp == 31", starts=4, restraint="none"
    )
    assert len(names["losses_by_size"](fit).data) == fit.n_points
