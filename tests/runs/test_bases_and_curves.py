"""Base models that stand once a corpus, and curves that only steps run along."""

import numpy as np
import pandas as pd
import pytest

from cptlaw.fitting.auto.other_corpora import by_corpus
from cptlaw.runs import data_errors, read_runs


def on_two_corpora(name="base-{size:g}"):
    """Base models with both losses once a corpus, and a run of each on each."""
    rows = []
    for size in (1e8, 9e8):
        for domain, more in (("law", 0.0), ("medicine", 0.2)):
            base, run = name.format(size=size, domain=domain), f"{size:g}-{domain}"
            for on, loss in (("source", 2.0), ("target", 2.5 + more)):
                loss += (1e8 / size) ** 0.3
                rows.append((base, on, size, 20.0, 0.0, np.nan, loss, domain))
                rows += [(run, on, size, 20.0, tokens, 0.25, loss - 0.01, domain) for tokens in (1e9, 4e9)]
    return pd.DataFrame(rows, columns=["run", "eval", "n_params", "ptpp", "tokens", "replay", "loss", "domain"])


def test_a_base_model_of_one_name_may_stand_once_a_corpus():
    read = read_runs(on_two_corpora())
    own = read_runs(on_two_corpora("base-{size:g}-{domain}"))
    for on in ("source", "target"):
        pd.testing.assert_frame_equal(read.base_losses(on), own.base_losses(on))
    blank = on_two_corpora("base-{size:g}-{domain}")
    blank.loc[(blank["tokens"] == 0) & (blank["eval"] == "source"), "domain"] = None
    assert read_runs(blank).frame["run"].nunique() == own.frame["run"].nunique()


@pytest.mark.parametrize("kept", ["n_params == 1e8", "n_params == 0"])
def test_the_old_loss_of_a_base_model_is_that_of_any_corpus(kept):
    """Also where this corpus has measured that of another base model; its new loss stays its own."""
    table = on_two_corpora()
    of_medicine = (table["tokens"] == 0) & (table["domain"] == "medicine")
    table = table[~(of_medicine & (table["eval"] == "source")) | table.eval(kept)]
    rows, _ = by_corpus(read_runs(table), "source", "domain == 'medicine'")
    assert rows.base_losses("source")["n_params"].tolist() == [1e8, 9e8]
    assert rows.base_losses("target")["domain"].tolist() == ["medicine"] * 2


@pytest.mark.parametrize(("runs", "points"), [(4, 3), (8, 3), (20, 3)])
def test_curves_without_tokens_are_explained_by_their_steps(runs, points):
    rng = np.random.default_rng(0)
    rows = [
        (f"run-{i}", round(step * (1 + i / 10)), 3e-4 * (1 + i % 3))
        for i in range(runs)
        for step in np.geomspace(1e3, 1e5, points)
    ]
    table = pd.DataFrame(rows, columns=["run", "step", "lr_peak"]).assign(eval="target")
    table["loss"] = (2.0 + 20.0 * table["step"] ** -0.4) * np.exp(8e-4 * rng.normal(size=len(table)))
    assert data_errors.data_errors(read_runs(table)) == ()
    if runs > 4:
        mixed_up = table.assign(loss=rng.permutation(table["loss"].to_numpy()))
        found = {one.code: one.severity for one in data_errors.data_errors(read_runs(mixed_up))}
        assert found == {"unexplained-losses": "error"}
