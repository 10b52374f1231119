"""Laws of others that a planner should hold beside its own: plain formulas, published values where there are any."""

import numpy as np
import pandas as pd
import pytest
from cases import Case
from test_corpora import MIXES, NAMES

import cptlaw as cl
from cptlaw.laws import law
from cptlaw_published.repeated import PER_TOKEN

UNIQUE = {"unique_tokens": (2e8, 2e9, 2e10)}


def repeated(p, N, D, r, P, U):
    U = np.minimum(U, D)
    tokens = U + U * p["R_D"] * (1 - np.exp(-(D / U - 1) / p["R_D"]))
    V = np.minimum(N, PER_TOKEN * U)
    params = V + V * p["R_N"] * (1 - np.exp(-(N / V - 1) / p["R_N"]))
    return p["E"] + p["A"] / params ** p["alpha"] + p["B"] / tokens ** p["beta"]


def overfitting(p, N, D, r, P, U):
    U = np.minimum(U, D)
    plain = p["E"] + p["A"] / N ** p["alpha"] + p["B"] / D ** p["beta"]
    return plain + p["P"] * (D / U - 1) ** p["delta"] * (N / U) ** p["kappa"]


def precision(p, N, D, r, P, weights, activations, post):
    eff = N * (1 - np.exp(-weights / p["gamma_w"])) * (1 - np.exp(-activations / p["gamma_a"]))
    cost = p["C_T"] * D ** p["gamma_D"] / N ** p["gamma_N"] * np.exp(-post / p["gamma_post"])
    return p["E"] + p["A"] / eff ** p["alpha"] + p["B"] / D ** p["beta"] + cost


def farseer(p, N, D, r, P):
    fall = np.exp(p["E"] - p["A"] * N ** p["a"])
    return p["F"] * np.exp(-p["s"] * N ** p["q"]) + p["G"] * np.exp(p["B"] * N ** -p["b"]) * D**-fall


def loss_to_loss(p, N, D, r, P, other):
    return p["E1"] + p["K"] * (other - p["E0"]) ** p["kappa"]


def atlas(p, N, D, r, P, code, math, web, U_math):
    own = np.minimum(math * D, U_math / 1e9)
    over = np.maximum(math * D / (U_math / 1e9) - 1, 0)
    own = own + U_math / 1e9 * (1 - np.exp(-p["lambda"] * over)) / p["lambda"]
    tokens = own + p["tau_code"] * code * D + p["tau_web"] * web * D
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / tokens ** p["beta"]


# The fit that Muennighoff et al. publish, as logarithms; its loss at 1B parameters and 40B tokens, 10B of them unique.
PUBLISHED = {"A": np.exp(6.255414), "B": np.exp(7.3049974), "E": np.exp(0.6254804), "alpha": 0.3526596}
PUBLISHED |= {"beta": 0.3526596, "R_D": 15.387756, "R_N": 5.309743}
CHINCHILLA = {"E": 1.7, "A": 400.0, "B": 1500.0, "alpha": 0.34, "beta": 0.35}
EVEN = {"E": 1.0, "A": 2.0, "B": 4.0, "alpha": 0.5, "beta": 0.5, "P": 0.25, "delta": 1.0, "kappa": 0.5}
CASES = [
    Case(
        "repeated",
        repeated,
        CHINCHILLA | {"R_D": 12.0, "R_N": 6.0},
        (PUBLISHED, {"n_params": 1e9, "tokens": 4e10, "unique_tokens": 1e10}, 2.5016633748187016),
        flat=True,
        levels=UNIQUE,
    ),
    Case(
        "overfitting",
        overfitting,
        CHINCHILLA | {"P": 0.02, "delta": 0.8, "kappa": 0.5},
        # 2/4^.5 + 4/16^.5 + .25 (16/4 - 1) (4/4)^.5 over 1
        (EVEN, {"n_params": 4.0, "tokens": 16.0, "unique_tokens": 4.0}, 1.0 + 1.0 + 1.0 + 0.75),
        levels=UNIQUE,
    ),
    Case(
        "precision:without=bits_kv",
        precision,
        CHINCHILLA | {"gamma_w": 2.6, "gamma_a": 2.2, "C_T": 0.06, "gamma_D": 0.5, "gamma_N": 0.5, "gamma_post": 0.6},
        flat=True,
        levels={
            ("bits_weights", "bits_activations", "bits_post"): [
                (16, 16, 16),
                (3, 16, 16),
                (4, 16, 8),
                (6, 8, 4),
                (8, 4, 3),
                (16, 3, 16),
                (16, 6, 2),
                (8, 8, 8),
            ]
        },
    ),
    Case(
        "farseer",
        farseer,
        {"F": 1.6, "G": 0.9, "s": 0.1, "q": 0.2, "B": 0.5, "b": 0.15, "E": -0.9, "A": 0.05, "a": 0.2},
        flat=True,
    ),
    Case(
        "loss-to-loss:lowest=2",
        loss_to_loss,
        {"E1": 1.1, "K": 0.9, "E0": 1.2, "kappa": 1.3},
        ({"E1": 1.0, "K": 2.0, "E0": 1.5, "kappa": 2.0}, {"from_loss": 2.5}, 3.0),
        flat=True,
        levels={"from_loss": np.linspace(2.0, 4.0, 12)},
    ),
    Case(
        "atlas:corpora=code+math+web:own=math:pools=math",
        atlas,
        {"E": 1.3, "A": 0.3, "B": 0.9, "alpha": 0.3, "beta": 0.35, "tau_code": 0.3, "tau_web": 0.15, "lambda": 0.2},
        flat=True,
        levels=MIXES | {"unique_math": (3e8, 3e9)},
    ),
]
VARIANTS = ["precision:without=bits_activations+bits_kv+bits_post", "atlas:corpora=a+b+c:own=b:pools=a+b+c"]


def test_effective_tokens_are_those_of_the_planner():
    """One formula stands in two places, the law and the plans: they agree to the last digits."""
    from cptlaw.planning.mixes.repetition import effective_tokens

    worth = float(effective_tokens(4e10, 0.0, 1e10))
    row = {"n_params": 1e8, "tokens": 4e10, "unique_tokens": 1e10}
    params = {"E": 0.0, "A": 0.0, "B": 1.0, "alpha": 1.0, "beta": 1.0, "R_D": PUBLISHED["R_D"], "R_N": 5.0}
    assert 1.0 / law("repeated").predict(params, pd.DataFrame([row]))[0] == pytest.approx(worth, rel=1e-12)


def test_precision_reads_the_bits_that_vary():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"run": [f"r{i}" for i in range(80)], "n_params": rng.choice([1e8, 3e8, 1e9], 80)})
    rows["tokens"] = rng.choice([3e9, 1e10, 3e10], 80)
    rows["bits_weights"] = rng.choice([3.0, 4.0, 6.0, 8.0, 16.0], 80)
    rows["bits_kv"] = 16.0
    rows["loss"] = law("precision:without=bits_activations+bits_kv+bits_post").predict(
        CHINCHILLA | {"gamma_w": 2.0}, rows
    ) * np.exp(1e-4 * rng.normal(size=80))
    fit = cl.fit("precision", rows, on="target", restraint="none")
    assert fit.law.without == ("bits_activations", "bits_kv", "bits_post")
    assert fit.params["gamma_w"] == pytest.approx(2.0, rel=0.05)


def test_atlas_knows_what_another_corpus_is_worth():
    """Simulated: math is worth much to code and web little; the pool of code is read many times."""
    truth = {"E": 1.2, "A": 0.2, "B": 0.8, "alpha": 0.3, "beta": 0.4, "tau_math": 0.5, "tau_web": 0.05, "lambda": 0.3}
    chosen = law("atlas:corpora=code+math+web:own=code:pools=code")
    rng = np.random.default_rng(1)
    rows = []
    for i, mix in enumerate(rng.dirichlet(np.ones(3), 30)):
        for size in (1e8, 3e8, 1e9):
            for tokens in (2e9, 8e9, 3e10):
                row = {"run": f"{i}-{size:g}", "eval": "code", "n_params": size, "tokens": tokens, "unique_code": 1e9}
                rows.append(row | dict(zip((f"mix_{name}" for name in NAMES), mix, strict=True)))
    table = pd.DataFrame(rows)
    table["loss"] = chosen.predict(truth, table) * np.exp(3e-4 * rng.normal(size=len(table)))
    fit = cl.fit("atlas", table, on="code", restraint="none")
    assert fit.law.spec == chosen.spec
    for name in ("tau_math", "tau_web", "lambda"):
        assert fit.params[name] == pytest.approx(truth[name], rel=0.15)
