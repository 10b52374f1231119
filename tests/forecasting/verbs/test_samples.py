"""Fine-tuning sets count samples, one column of losses for each amount: read, fitted and asked in samples."""

import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import DataError

AMOUNTS = (0, 200, 800, 3200, 12800, 51200)
SIZES = (1e8, 4e8, 1e9, 3e9)


def loss(n, samples):
    return 1.2 + 2 * (n / 1e9) ** -0.1 / (1 + samples**0.15)


def table():
    rows = [{"model": f"{n:g}", "size": n} | {f"{d}": loss(n, d) for d in AMOUNTS} for n in SIZES]
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def fit():
    return cl.fit("auto", cl.read_runs(table()), "target")


def test_a_point_may_count_samples(fit):
    assert fit.n_points == len(SIZES) * (len(AMOUNTS) - 1)
    samples = cl.forecast(fit, "n_params=3B,samples=204800")
    assert samples["loss"].tolist() == cl.forecast(fit, "n_params=3B,tokens=204800")["loss"].tolist()
    assert samples["loss"].iloc[0] == pytest.approx(loss(3e9, 204800), rel=0.02)
    checked = cl.check(table(), on="target", at="n_params=3B,samples=512000")
    assert "extrapolation" in [one.code for one in checked.findings]


def test_samples_of_known_length_are_asked_as_tokens():
    runs = cl.read_runs(table(), columns={"batch_tokens": "512"})
    fit = cl.fit("rectified", runs, "target")
    point = cl.forecast(fit, "n_params=3B,samples=200K")
    assert point["tokens"].tolist() == [200e3 * 512]
    assert point["loss"].iloc[0] == cl.forecast(fit, "n_params=3B,tokens=102.4M")["loss"].iloc[0]
    cells = cl.suggest("rectified", runs, on="target", at="n_params=3B,samples=200K", budget="1e17", n=1).cells
    assert len(cells) == 1


def test_a_bad_loss_is_named_by_its_row_and_column(tmp_path):
    path = tmp_path / "losses.csv"
    table().astype(object).replace(loss(4e8, 800), "abc").to_csv(path, index=False)
    with refused(DataError, "row 3", "column 800", "'abc'"):
        cl.read_runs(path)


def test_a_set_of_a_known_size_is_trained_on_whole():
    of_set, of_tokens = (cl.answer(table(), n_params="3B", **{name: 102_400}) for name in ("target_tokens", "tokens"))
    assert (of_set.tokens, of_set.target_loss) == (102_400, of_tokens.target_loss)
