"""Laws of mixes of k corpora: plain formulas, the corpora of a table, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from cases import Case
from facts import refused

import cptlaw as cl
from cptlaw.errors import DataError, FitError, UsageError
from cptlaw.laws import law

NAMES = ("code", "math", "web")
SHARES = tuple(f"mix_{name}" for name in NAMES)
CORNERS = [(0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8), (0.4, 0.4, 0.2), (0.2, 0.4, 0.4), (0.4, 0.2, 0.4)]
MIXES = {SHARES: [*CORNERS, (0.34, 0.33, 0.33), (0.6, 0.35, 0.05), (0.05, 0.6, 0.35), (0.5, 0.05, 0.45)]}


def scale(p, N, D):
    return p["E"] + p["A"] / N ** p["alpha"] + p["B"] / D ** p["beta"]


def of_mix(p, h):
    return 1 / sum(p[f"C_{name}"] * share ** p[f"gamma_{name}"] for name, share in zip(NAMES, h, strict=True))


def additive(p, N, D, r, P, *h):
    return scale(p, N, D) + of_mix(p, h)


def joint(p, N, D, r, P, code, math, web):
    of_n = p["A"] * np.exp(p["a_math"] * math + p["a_web"] * web) / N ** p["alpha"]
    of_d = p["B"] * np.exp(p["b_math"] * math + p["b_web"] * web) / D ** p["beta"]
    return p["E"] + of_n + of_d + of_mix(p, (code, math, web))


def exponential(p, N, D, r, P, code, math, web):
    return p["c"] + p["k"] * np.exp(p["t_math"] * math + p["t_web"] * web)


def bimix(p, N, D, r, P, code, math, web):
    return math ** -p["alpha"] * (p["B"] / D ** p["beta"] + p["C"])


TRUTH = {"E": 1.1, "A": 0.3, "B": 0.5, "alpha": 0.3, "beta": 0.35}
WORTHS = {"C_code": 1.5, "C_math": 0.4, "C_web": 0.8, "gamma_code": 0.6, "gamma_math": 0.9, "gamma_web": 0.4}
# Powers that come out even: 1/(2 .25^.5 + 4 .5 + 4 .25) = 1/4, 2/16^.5 = 1/2, 1/4^.5 = 1/2.
ROW = {"n_params": 16e9, "tokens": 4e9} | dict(zip(SHARES, (0.25, 0.5, 0.25), strict=True))
EVEN = {"E": 1.0, "A": 2.0, "B": 1.0, "alpha": 0.5, "beta": 0.5, "C_code": 2.0, "C_math": 4.0, "C_web": 4.0}
EVEN |= {"gamma_code": 0.5, "gamma_math": 1.0, "gamma_web": 1.0, "a_math": 0.0, "a_web": 0.0, "b_math": 0.0}
EVEN |= {"b_web": 4.0 * np.log(3.0), "c": 1.0, "k": 2.0, "t_math": 2 * np.log(3.0), "t_web": -4 * np.log(2.0)}
OWN = {"B": 1.0, "C": 1.5, "alpha": 1.0, "beta": 0.5}
CASES = [
    Case("mix-additive:corpora=code+math+web", additive, TRUTH | WORTHS, (EVEN, ROW, 2.25), levels=MIXES),
    Case(
        "mix-joint:corpora=code+math+web",
        joint,
        TRUTH | WORTHS | {"a_math": 0.3, "a_web": -0.4, "b_math": -0.2, "b_web": 0.5},
        (EVEN, ROW, 3.25),
        flat=True,
        levels=MIXES,
    ),
    Case(
        "mix-exponential:corpora=code+math+web",
        exponential,
        {"c": 1.9, "k": 0.4, "t_math": -3.0, "t_web": 1.2},
        (EVEN, ROW, 1.0 + 2.0 * 3.0 / 2.0),
        levels=MIXES,
    ),
    Case(
        "bimix:corpora=code+math+web:own=math",
        bimix,
        {"B": 0.4, "C": 2.2, "alpha": 0.12, "beta": 0.3},
        (OWN, ROW, 2.0 * (0.5 + 1.5)),
        levels=MIXES,
    ),
]
VARIANTS = [
    "mix-additive:corpora=a+b+c+d:without=n_params",
    "mix-joint:corpora=a+b+c:without=tokens",
    "mix-joint:without=n_params+tokens",
]


def table(noise=0.0, evals=("code", "math"), seed=0):
    """Runs of three corpora at three sizes and three numbers of tokens."""
    rng = np.random.default_rng(seed)
    rows = []
    for i, h in enumerate([*MIXES[SHARES], *rng.dirichlet(np.ones(3), 10)]):
        for size in (1e8, 2e8, 4e8):
            for tokens in (2e9, 5e9, 1e10):
                for on in evals:
                    truth = TRUTH | WORTHS | ({"C_math": 3.0, "C_code": 0.3} if on == "math" else {})
                    loss = additive(truth, size / 1e9, tokens / 1e9, 0, 0, *h) * np.exp(noise * rng.normal())
                    row = {"run": f"{i}-{size:g}", "eval": on, "loss": loss, "n_params": size, "tokens": tokens}
                    rows.append(row | dict(zip(SHARES, h, strict=True)))
    return pd.DataFrame(rows)


def test_a_fit_takes_the_corpora_of_its_table(tmp_path):
    fit = cl.fit("mix-additive", table(noise=1e-4), on="code", restraint="none")
    assert fit.law.spec == "mix-additive:corpora=code+math+web"
    point = {"n_params": "1B", "tokens": "40B", "mix_code": 0.5, "mix_math": "20%", "mix_web": 0.3}
    expected = additive(TRUTH | WORTHS, 1.0, 40.0, 0, 0, 0.5, 0.2, 0.3)
    found = fit.forecast(point)
    assert found["loss"][0] == pytest.approx(expected, rel=5e-3)
    assert found["lo"][0] < expected < found["hi"][0]
    again = cl.load_fit(fit.save(tmp_path / "code.json"))
    assert again.predict(point) == fit.predict(point)
    one_size = cl.fit(
        "mix-additive", table(noise=1e-4), on="code", where="n_params == 100M and tokens == 10B", restraint="none"
    )
    assert one_size.law.without == ("n_params", "tokens")
    assert "alpha" not in one_size.params


def test_bimix_takes_the_corpus_that_its_eval_is_called_after():
    frame = table(noise=1e-3)
    assert cl.fit("bimix", frame, on="math", restraint="none").law.own == "math"
    with refused(UsageError, "'held-out'", "own=NAME"):
        cl.fit("bimix", frame.replace({"eval": {"math": "held-out"}}), on="held-out", restraint="none")


def test_two_corpora_of_replay_are_source_and_target():
    rows = pd.DataFrame({"n_params": [1e9, 1e9], "tokens": [1e10, 1e10], "replay": [0.25, 0.5]})
    params = {"c": 2.0, "k": 0.5, "t_target": -1.5}
    assert law("mix-exponential").predict(params, rows) == pytest.approx(
        2.0 + 0.5 * np.exp(-1.5 * (1 - rows["replay"]))
    )
    mixing = {"c": 2.0, "k": 0.5 * np.exp(-1.5), "t": 1.5}
    assert law("mix-exponential").predict(params, rows) == pytest.approx(law("mixing").predict(mixing, rows))


def test_compare_takes_laws_of_mixes():
    found = cl.compare(["mix-additive", "bimix"], table(noise=1e-3), on="code", cv="rollout:n_params")
    assert found["law"].iloc[0].startswith("mix-additive")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: law("mix-additive:corpora=code"), "two or more names"),
        (lambda: law("mix-additive:corpora=code+code"), "two or more names"),
        (lambda: law("mix-additive:without=replay"), "n_params, tokens"),
        (lambda: law("bimix:corpora=a+b:own=c"), "own=c: expected one of a, b"),
    ],
)
def test_bad_usage(call, words):
    with pytest.raises(UsageError, match=words):
        call()


def test_shares_add_up_to_one():
    chosen = law("mix-exponential:corpora=a+b")
    with pytest.raises(DataError, match=r"add up to 0\.8"):
        chosen.predict({"c": 1.0, "k": 1.0, "t_b": 1.0}, pd.DataFrame({"mix_a": [0.5], "mix_b": [0.3]}))


@pytest.mark.parametrize(("code", "off"), [(0.696, False), (0.67, True)])
def test_shares_of_a_table_may_miss_one_by_their_rounding_alone(code, off):
    frame = pd.DataFrame({"run": ["a"], "eval": "code", "loss": 2.0, "tokens": 1e9, "mix_web": 0.3, "mix_code": code})
    if off:
        with refused(DataError, "0.97"):
            cl.read_runs(frame)
    else:
        assert cl.read_runs(frame).frame["mix_web"].item() == pytest.approx(0.3 / 0.996)


def test_the_share_of_one_corpus_is_asked_for_old_text_first():
    frame = pd.DataFrame({"run": ["a"], "eval": "code", "loss": 2.0, "tokens": 1e9, "mix_web": 0.3})
    with refused(DataError, "mix_NAME") as raised:
        cl.read_runs(frame)
    asked = [str(raised.value).find(choice) for choice in ("replay=mix_web", "replay=1-mix_web")]
    assert 0 < asked[0] < asked[1]


@pytest.mark.parametrize("on", ["english", "french", "python"])
def test_rows_at_which_a_law_is_infinite_are_refused_with_their_place(on):
    """Runs without any of the eval's own corpus: the singular values of such a fit once did not converge."""
    with pytest.raises(FitError, match=rf"infinite in \d+ of \d+ rows, as in row .*mix_{on} 0.*--where"):
        cl.fit("bimix", cl.examples.load("three-corpora"), on)
    assert cl.fit("bimix", cl.examples.load("three-corpora"), on, where=f"mix_{on} > 0").status == "converged"
