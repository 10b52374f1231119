"""What the form of a law may miss beyond its data."""

import numpy as np

import cptlaw as cl
from cptlaw.fitting.uncertainty.discrepancy import discrepancy

CPT = "replay in (0.1, 0.25) and lr_schedule == 'constant'"


def test_a_base_model_says_nothing_of_cpt_at_its_size():
    table = cl.examples.load("en-fr-pilot").where("seed <= 1")
    small = f"(n_params < 100K and {CPT}) or (tokens == 0 and n_params < 100K)"
    asked = table.on("target").where(f"n_params > 100K and {CPT} and ptpp == 62").frame.tail(3)
    of_small, with_base = (
        cl.fit("shared-tokens", table, "target", where, restraint="none")
        for where in (small, f"{small} or tokens == 0")
    )
    assert with_base.n_points > of_small.n_points
    alone, beside = (discrepancy(fit, fit.completed(asked), [0.9])[0] for fit in (of_small, with_base))
    # The base model at the larger size is measured: CPT there is no less beyond the data for it.
    assert (beside > 0.5 * alone).all()
    assert np.isfinite(beside).all()
