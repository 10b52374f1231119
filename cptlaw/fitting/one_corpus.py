"""The corpus that a fit is asked about, where its runs were on several (column ``domain``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, TypeVar, runtime_checkable

import pandas as pd

from cptlaw.errors import UsageError, did_you_mean, join_names
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.law_fit import LawFit
from cptlaw.laws import Law

Fitted = TypeVar("Fitted", bound=Forecaster)


@runtime_checkable
class AcrossDomains(Protocol):
    """A law that tells corpora apart by coefficients, which runs on each of them measure."""

    corpus: str

    def of_corpus(self, domain: str, fitted: pd.DataFrame) -> Law:
        """Return the law of one corpus, with the coefficients that its fitted rows measure."""


def fit_of_corpus(fit: Fitted, domain: str | None) -> Fitted:
    """Return a fit as it forecasts one corpus of its runs.

    A law that tells corpora apart then reads none of its coefficients: they are those that the fit measured on the
    corpus's own runs, of which a short one is enough.

    Parameters
    ----------
    fit
        A fit of any kind.
    domain
        The corpus; ``None`` where none was named.

    Raises
    ------
    UsageError
        If the fit has no runs on that corpus, or took several for one; or if its law needs one and none was named.
    """
    law, corpora = fit.law, corpora_of(fit)
    if domain is None:
        if isinstance(law, AcrossDomains) and not law.corpus and corpora:
            raise UsageError(
                f"law {law.name} tells corpora apart, and none is named. Give domain= (--domain), one of "
                f"{join_names(corpora, 8)}."
            )
        return fit
    if domain not in corpora:
        raise UsageError(
            f"domain (--domain): the fit of {fit.on} has no runs on {domain!r}.{did_you_mean(domain, corpora)} Its "
            f"corpora (column domain) are {join_names(corpora, 8) or 'not named'}. For a new one add a short run on it "
            f"to the table, a probe of 1 % of the tokens, and fit again."
        )
    if isinstance(fit, LawFit) and isinstance(law, AcrossDomains):
        return replace(fit, law=law.of_corpus(domain, fit.data), _cache={})
    if len(corpora) > 1:
        raise UsageError(
            f"domain (--domain): law {fit.law.spec} took the runs on {join_names(corpora, 8)} for runs on one corpus. "
            f"Fit those on one, --where \"domain == '{domain}'\", or a law that tells corpora apart: dcpt-cross-k1, "
            f"dcpt-cross-k3."
        )
    return fit


def corpora_of(fit: Forecaster) -> list[str]:
    """Return the corpora of the fitted runs; nothing where their table did not name them."""
    if "domain" in fit.data.columns:
        return sorted(fit.data["domain"].dropna().astype(str).unique())
    return list(fit.provenance.get("domains") or ())
