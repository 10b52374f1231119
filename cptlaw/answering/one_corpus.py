"""The corpus that a question is about, where a table holds runs on several (column ``domain``)."""

from __future__ import annotations

from cptlaw.errors import UsageError, did_you_mean, join_names
from cptlaw.runs import Runs


def rows_of_corpus(runs: Runs, domain: str | None, where: str | None) -> str | None:
    """Return the filter of the rows on one corpus and of its base models.

    The other corpora stay in the table: law auto takes its priors from them, so that a short run on a new corpus is
    enough.

    Raises
    ------
    UsageError
        If the table has no runs on that corpus; or if it has runs on several and none is named, as a law of all of them
        together is that of none.
    """
    rows = runs if where is None else runs.where(where)
    corpora = rows.domains
    if domain is None:
        if len(corpora) > 1:
            raise UsageError(
                f"{runs.label} has runs on {len(corpora)} corpora (column domain). Name the one that you ask about: "
                f"domain= (--domain), one of {join_names(corpora, 8)}."
            )
        return where
    if "domain" not in rows.frame.columns:
        raise UsageError(f"domain (--domain): {runs.label} has no column domain, which names the corpus of a run.")
    if domain not in corpora:
        raise UsageError(
            f"domain (--domain): no runs of {runs.label} are on {domain!r}.{did_you_mean(domain, corpora)} Its corpora "
            f"(column domain) are {join_names(corpora, 8) or 'not named'}. For a new one add a short run on it: a "
            f"probe of 1 % of the tokens is enough to begin with."
        )
    named = rows.frame["domain"].dropna().astype(str).unique()
    others = ", ".join(_quoted(name) for name in sorted(named) if name != domain)
    # A base model's own losses name no corpus, or theirs: what is of another corpus goes.
    own = f"not domain in ({others})" if others else f"(domain == {_quoted(domain)} or tokens == 0)"
    return own if where is None else f"({where}) and {own}"


def _quoted(name: str) -> str:
    return f"'{name}'" if '"' in name else f'"{name}"'
