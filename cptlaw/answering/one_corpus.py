"""The corpus that a question is about, where a table holds runs on several (column ``domain``)."""

from __future__ import annotations

from cptlaw.errors import UsageError, did_you_mean, listed
from cptlaw.findings import Finding, Remedy
from cptlaw.runs import Runs


def rows_of_corpus(runs: Runs, domain: str | None, where: str | None) -> tuple[str | None, tuple[Finding, ...]]:
    """Return the filter of the rows on one corpus and of its base models, and what is to be said where none is named.

    The other corpora stay in the table: law auto takes its priors from them, so that a short run on a new corpus is
    enough.

    Raises
    ------
    UsageError
        If the table has no runs on that corpus.
    """
    frame = (runs if where is None else runs.where(where)).frame
    if "domain" not in frame.columns:
        if domain is not None:
            raise UsageError(f"domain (--domain): {runs.label} has no column domain, which names the corpus of a run.")
        return where, ()
    adapted = frame["tokens"] != 0 if "tokens" in frame.columns else frame["domain"].notna()
    corpora = sorted(frame.loc[adapted, "domain"].dropna().astype(str).unique())
    if domain is None:
        return where, (_pooled(corpora),) if len(corpora) > 1 else ()
    if domain not in corpora:
        raise UsageError(
            f"domain (--domain): no runs of {runs.label} are on {domain!r}.{did_you_mean(domain, corpora)} Its corpora "
            f"(column domain) are {listed(corpora, 8) or 'not named'}. For a new one add a short run on it: a probe of "
            f"1 % of the tokens is enough to begin with."
        )
    named = frame["domain"].dropna().astype(str).unique()
    others = ", ".join(_quoted(name) for name in sorted(named) if name != domain)
    # A base model's own losses name no corpus, or theirs: what is of another corpus goes.
    own = f"not domain in ({others})" if others else f"(domain == {_quoted(domain)} or tokens == 0)"
    return own if where is None else f"({where}) and {own}", ()


def _pooled(corpora: list[str]) -> Finding:
    return Finding(
        "warning",
        "corpora-pooled",
        f"runs on {listed([repr(name) for name in corpora], 4)} are taken together, as if they were on one corpus.",
        "Name the one that you ask about.",
        data={"corpora": corpora},
        remedy=Remedy("domain", corpora[0]),
    )


def _quoted(name: str) -> str:
    return f"'{name}'" if '"' in name else f'"{name}"'
