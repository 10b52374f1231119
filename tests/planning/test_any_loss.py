"""Plans need no law that falls, no inverse and no single law: fewest tokens against brute force on a fine grid."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from any_losses import AnyLoss, average, draw
from planning_fits import DCPT_TARGET, FORM_1, FORM_3, MODEL, SOURCE_1, made_fit

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.fitting.forecaster import Forecaster

LEAST, FAR = 2e9, 2e17  # the fewest fitted tokens, and a million times the most
REPLAYS, COUNTS = 161, 6001


def brute(target, source, highest, low=0.1, high=0.5):
    """Return the fewest tokens on a grid at which both losses are low enough, and whether there are any."""
    shares, tokens = np.linspace(low, high, REPLAYS), np.geomspace(LEAST, FAR, COUNTS)
    mesh = [part.ravel() for part in np.meshgrid(shares, tokens, indexing="ij")]
    frame = pd.DataFrame({**MODEL, "replay": mesh[0], "tokens": mesh[1]})
    kept = np.ones(len(frame), dtype=bool)
    for fit, limit in zip((target, source), highest, strict=True):
        kept &= fit.predict(frame) <= limit
    kept = kept.reshape(REPLAYS, COUNTS)
    first = np.where(kept.any(axis=1), tokens[kept.argmax(axis=1)], np.inf)
    return float(first.min())


def check(target, source, highest, found):
    fewest = brute(target, source, highest)
    if not np.isfinite(fewest):
        # A grid may miss what is narrower than its meshes, but never finds what is not there.
        return found.feasible
    assert found.feasible
    assert found.tokens <= fewest * (1 + 1e-6)
    frame = pd.DataFrame({**MODEL, "replay": [found.replay], "tokens": [found.tokens]})
    for fit, limit in zip((target, source), highest, strict=True):
        assert fit.predict(frame)[0] <= limit * (1 + 1e-7)
    return True


def ask(target, source, highest, **options):
    limits = {"max_target_loss": highest[0], "max_source_loss": highest[1]}
    return cl.plan.min_tokens(target, source, **MODEL, **limits, **{"interval": None, **options})


@pytest.mark.parametrize("kind", ["falls", "rises first", "swings"])
@pytest.mark.parametrize("seed", range(8))
def test_fewest_tokens_against_brute_force(kind, seed):
    rng = np.random.default_rng([seed, len(kind)])
    target, source = draw(rng, kind)
    at = pd.DataFrame({**MODEL, "replay": [rng.uniform(0.1, 0.5)], "tokens": [np.exp(rng.uniform(22, 28))]})
    highest = [float(fit.predict(at)[0]) * float(np.exp(rng.normal(0, 0.01))) for fit in (target, source)]
    check(target, source, highest, ask(target, source, highest))


def test_the_first_of_several_stretches_is_taken():
    """The source loss is low enough at few tokens and again at many: the target decides which of them will do."""
    source = AnyLoss("source", lambda r, d: 1.8 + 0.3 * np.exp(-0.5 * (np.log(d / 2e10)) ** 2) * (1 - r))
    target = AnyLoss("target", lambda r, d: 1.4 + 0.5 * (d / 1e9) ** -0.3)
    early = ask(target, source, (1.75, 1.9))
    late = ask(target, source, (1.5, 1.9))
    assert early.tokens < 1e10 < 5e10 < late.tokens
    for highest, found in (((1.75, 1.9), early), ((1.5, 1.9), late)):
        assert check(target, source, highest, found)


def test_a_dip_between_the_samples_of_the_scan_is_found():
    target = AnyLoss("target", lambda r, d: 1.8 - 0.1 * np.exp(-0.5 * (np.log(d / 3.1e10) / 0.25) ** 2) + 0 * r)
    source = AnyLoss("source", lambda r, d: 2.0 + 0.5 * (r - 0.3) ** 2 + 0 * d)
    highest = (1.7002, 2.0001)
    found = ask(target, source, highest)
    assert found.feasible
    assert found.tokens == pytest.approx(3.1e10, rel=0.05)


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.9, 0.1)])
def test_averages_of_laws(weights):
    target = average(
        "target", [made_fit("ptpp-gated-floor", FORM_3, "target"), made_fit("dcpt-l3", DCPT_TARGET, "target")], weights
    )
    source = average(
        "source", [made_fit("ptpp-floor", SOURCE_1, "source"), made_fit("ptpp-floor", FORM_1, "source")], weights
    )
    frame = pd.DataFrame({**MODEL, "replay": [0.3], "tokens": [3e10]})
    highest = [float(fit.predict(frame)[0]) for fit in (target, source)]
    found = ask(target, source, highest)
    assert check(target, source, highest, found)
    assert found.tokens <= 3e10 * (1 + 1e-6)


def test_a_risk_for_losses_that_rise_first():
    target, source = draw(np.random.default_rng(3), "rises first")
    frame = pd.DataFrame({**MODEL, "replay": [0.3], "tokens": [1e11]})
    highest = [1.03 * float(fit.predict(frame)[0]) for fit in (target, source)]
    point, sure = ask(target, source, highest), ask(target, source, highest, risk=0.9)
    assert sure.feasible
    assert sure.tokens > point.tokens
    frame = pd.DataFrame({"replay": [sure.replay], "tokens": [sure.tokens]})
    upper = [float(np.exp(fit.log_quantiles(frame, [0.9])[0, 0])) for fit in (target, source)]
    assert np.all(np.array(upper) <= np.array(highest) * (1 + 1e-4))
    assert np.max(np.array(upper) / highest) == pytest.approx(1.0, abs=1e-4)


def test_one_plan_for_one_reference_that_nobody_invents():
    """A source law that is finite without tokens is its own reference, and a finding says so."""

    def loss(r, d):
        return 2.0 + 0.2 * (1 - np.exp(-d / 2e10)) * (1 - r) - 0.1 * (1 - np.exp(-d / 2e11))

    target, source = draw(np.random.default_rng(1), "falls")[0], AnyLoss("source", loss)
    source.law.diverges_at_zero = ()
    found = cl.plan.min_tokens(target, source, **MODEL, max_forgetting="4%", max_target_loss=1.9, interval=None)
    assert (found.reference, found.base_source_loss) == ("law", 2.0)
    assert "reference-law" in {finding.code for finding in found.findings}
    base = pd.DataFrame({"n_params": [MODEL["n_params"]], "ptpp": [MODEL["ptpp"]], "loss": [1.98]})
    measured = AnyLoss("source", loss, base=base)
    assert cl.plan.min_tokens(target, measured, **MODEL, max_forgetting="4%", interval=None).base_source_loss == 1.98


def test_a_plan_takes_forecasters_alone():
    """What had five of their names was taken for a fit, and ended in a traceback."""
    loss = made_fit("ptpp-floor", FORM_1, "target")
    assert isinstance(loss, Forecaster)
    assert loss.laws == (loss.law,)
    assert [one.law for one in loss.fits] == [loss.law]
    few = SimpleNamespace(predict=loss.predict, forecast=loss.forecast, role="target", on="target", data=loss.data)
    with pytest.raises(UsageError, match="expected a fit"):
        cl.plan.min_tokens(few, max_target_loss=2.0, n_params="8B", ptpp=279)
