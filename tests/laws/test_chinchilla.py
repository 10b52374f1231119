"""Chinchilla and Kaplan, and the bend of the sum of their two terms."""

import numpy as np
import pandas as pd
import pytest
from cases import Case
from facts import refused

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.laws import law


def chinchilla(p, N, D, r, P):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / D ** p["beta"]


def kaplan(p, N, D, r, P):
    return ((p["N_c"] / N) ** (p["alpha_N"] / p["alpha_D"]) + p["D_c"] / D) ** p["alpha_D"]


def over_training(p, N, D, r, P):
    return p["E"] + N ** -p["a"] * (p["A"] + p["B"] * (D / N) ** -p["b"])


CASES = [
    Case("chinchilla", chinchilla, {"E": 1.7, "A": 400.0, "B": 1500.0, "alpha": 0.34, "beta": 0.35}),
    Case("kaplan", kaplan, {"alpha_N": 0.076, "alpha_D": 0.103, "N_c": 6.4e13, "D_c": 1.8e13}),
    Case("over-training", over_training, {"E": 1.7, "A": 0.6, "B": 0.9, "a": 0.3, "b": 0.4}),
]
VARIANTS = ["chinchilla:bend=1.5", "chinchilla:bend=2"]
EPOCH = {"E": 1.8172, "A": 477.83, "B": 2143.42, "alpha": 0.34731, "beta": 0.36717}  # Besiroglu et al. 2024
FRAME = pd.DataFrame({"n_params": np.geomspace(1e7, 1e11, 9), "tokens": np.geomspace(1e12, 1e8, 9)})


def test_bend_one_is_chinchilla_to_the_bit():
    plain, bent = law("chinchilla"), law("chinchilla:bend=1")
    assert bent.spec == plain.spec
    assert np.array_equal(bent.predict(EPOCH, FRAME), plain.predict(EPOCH, FRAME))


@pytest.mark.parametrize("bend", [1.5, 2, 3])
def test_bend_is_the_generalised_sum(bend):
    size = EPOCH["A"] * FRAME["n_params"] ** -EPOCH["alpha"]
    tokens = EPOCH["B"] * FRAME["tokens"] ** -EPOCH["beta"]
    wanted = EPOCH["E"] + (size**bend + tokens**bend) ** (1 / bend)
    chosen = law(f"chinchilla:bend={bend:g}")
    assert chosen.predict(EPOCH, FRAME) == pytest.approx(wanted.to_numpy(), rel=1e-12)


def test_bend_recovers_its_parameters():
    params = {"E": 1.8, "A": 480.0, "B": 2100.0, "alpha": 0.34, "beta": 0.37}
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"n_params": 10 ** rng.uniform(8, 10, 40), "tokens": 10 ** rng.uniform(9, 12, 40)})
    frame = frame.assign(
        run=[f"r{i}" for i in range(40)], eval="e", loss=law("chinchilla:bend=2").predict(params, frame)
    )
    found = cl.fit("chinchilla:bend=2", frame, on="e", starts=8, restraint="none")
    assert found.params == pytest.approx(params, rel=1e-3)


def test_bend_is_not_fitted():
    with refused(UsageError, "1.7", "1, 1.5, 2 or 3"):
        law("chinchilla:bend=1.7")


@pytest.mark.parametrize(
    ("spec", "joint"),
    [
        ("chinchilla:bend=2", "L = E + ((A/N^alpha)^2 + (B/D^beta)^2)^(1/2)"),
        ("chinchilla", "L = E + A/N^alpha + B/D^beta"),
        ("dcpt-l3:bend=1.5", "L = E + ((A/N^alpha)^1.5 + (B r^eta/D^beta)^1.5)^(1/1.5) + C/(r+eps)^gamma"),
        ("shared-tokens:bend=3", "L = E + ((F/N^g)^3 + (A/(k P N + D)^a)^3)^(1/3) +/- B"),
    ],
)
def test_the_equation_shows_the_bend(spec, joint):
    assert law(spec).equation.startswith(joint)
