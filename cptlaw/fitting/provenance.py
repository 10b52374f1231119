"""Where the rows of a fit came from, as its file keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class Provenance(TypedDict, total=False):
    """Where the rows of a fit came from; a key that is absent was not known, or is as usual."""

    source: str | None
    fingerprint: str
    where: str | None
    n_params_kind: str | None
    loss_unit: str
    domains: list[str]
    tuning: Mapping[str, object]
    note: str
