"""One block of `adapt` of a recipe: which runs of continual pre-training it asks for."""

from __future__ import annotations

from typing import Protocol

from cptlaw.errors import DataError
from cptlaw_sweep import fields as read
from cptlaw_sweep.fields import Fields, Plain
from cptlaw_sweep.phases import read_schedules
from cptlaw_sweep.resources import Resources, Rows


class Shared(Protocol):
    """What the blocks of a recipe share."""

    resources: Resources
    rows: Rows
    keep: str
    merge: list[float]

    def source(self, name: str, where: str) -> Plain:
        """Return a text of the recipe, or refuse a name that it does not have."""


def read_adapt(block: Fields, shared: Shared) -> Plain:
    """Read one block of `adapt`."""
    where = block.where
    found: Plain = {"where": where, "rows": shared.resources.read_rows(block, shared.rows, where)}
    found["target"] = block.take("target", read.text)
    shared.source(found["target"], f"{where}: target")
    found["source"] = block.take("source", read.text, None)
    if found["source"] is not None:
        shared.source(found["source"], f"{where}: source")
    found["mixes"] = _read_mixes(block, shared, found)
    used = {name for mix in found["mixes"] for name in mix["weights"]}
    found["others"] = tuple(sorted(used - {found["source"], found["target"]}))
    pools = block.take("pools", read.named(read.positive), {})
    for name in pools:
        if name not in used:
            raise DataError(f"{where}: pools: no mix reads {name!r}. Known: {', '.join(sorted(used))}.")
    found["pools"] = {name: int(tokens) for name, tokens in pools.items()}
    budgets: dict[str, list[float]] = {
        "tokens_per_param": block.take("tokens_per_param", read.many(read.positive), []),
        "tokens": block.take("tokens", read.many(read.positive), []),
    }
    if bool(budgets["tokens"]) == bool(budgets["tokens_per_param"]):
        raise DataError(f"{where}: expected either `tokens` or `tokens_per_param`, the lengths of the runs.")
    found |= budgets
    found["schedules"] = block.take("schedules", read_schedules)
    found["orders"] = block.take("orders", read.many(read.count), [0])
    found["first"] = block.take("first_tokens_per_param", read.positive, 0.25)
    found["first_tokens"] = block.take("first_tokens", read.positive, None)
    found["per_doubling"] = block.take("points_per_doubling", read.positive, 1.0)
    found["points"] = block.take("points", read.count, None)
    found["models"] = block.take("models", read.many(read.text), None)
    found["ptpp"] = block.take("ptpp", read.many(read.positive), None)
    found["seeds"] = block.take("seeds", read.many(read.count), None)
    found["carried"] = block.take("optimizer_state", read.choice("fresh", "carried"), "fresh") == "carried"
    found["merge"] = block.take("merge", read.many(read.between), shared.merge)
    found["keep"] = block.take("keep", read.choice("no", "last", "best", "all"), shared.keep)
    block.end()
    return found


def _read_mixes(block: Fields, shared: Shared, found: Plain) -> list[Plain]:
    """Read the mixes of a block: shares of replay, or weights of any number of corpora."""
    where = block.where
    if ("replay" in block) == ("mixes" in block):
        raise DataError(f"{where}: expected either `replay` (shares of the source) or `mixes` (weights of corpora).")
    source, target = found["source"], found["target"]
    if "replay" in block:
        shares = block.take("replay", read.many(read.fraction))
        if source is None and any(shares):
            raise DataError(f"{where}: 'source' is missing: replay draws from it. docs/sweep.md lists the fields.")
        return [{"replay": share, "weights": {source: share, target: 1 - share}} for share in shares]
    mixes = []
    for place, weights in enumerate(block.take("mixes", read.many(read.named(read.fraction)))):
        for name in weights:
            shared.source(name, f"{where}: mixes[{place}]")
        if abs(sum(weights.values()) - 1) > 1e-6:
            raise DataError(f"{where}: mixes[{place}]: the weights sum to {sum(weights.values()):.4g}. Expected 1.")
        replay = weights.get(source, 0.0) if source is not None else None
        mixes.append({"replay": replay, "weights": weights, "named": True})
    return mixes
