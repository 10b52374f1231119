"""Frozen splits: which rows of a study are fitted and which are forecast. Nothing is chosen on the forecast rows."""

from __future__ import annotations

from dataclasses import dataclass

GADRE = (
    *("c4_val", "paloma_redpajama", "paloma_falcon-refinedweb", "openlm", "paloma_c4_en", "de-en", "paloma_ptb"),
    "paloma_dolma_100_programing_languages",
)
OLMO = (
    *("c4_en", "dolma_common-crawl", "dolma_reddit", "dolma_wiki", "ice", "m2d2_s2orc", "pile", "wikitext_103"),
    *("dolma_books", "dolma_pes2o", "dolma_stack"),
)
CPT = "tokens > 0 and lr_schedule == 'constant' and lr_peak == 0.003 and atpp >= 1.9"
PILOTS = ("en-fr-pilot", "docs-to-code")


@dataclass(frozen=True)
class Split:
    """One split of one loss.

    Attributes
    ----------
    study, name, on
        The study, what is forecast, and the eval.
    fit, test
        Filters of the rows. ``test`` names rows that a plan would be about; all others are not looked at.
    where
        Filter applied to all rows first.
    role
        Role of the eval where its name does not say it.
    """

    study: str
    name: str
    on: str
    fit: str
    test: str
    where: str | None = None
    role: str | None = None


def _pilots() -> list[Split]:
    result = []
    for study in PILOTS:
        mixed = f"{CPT} and replay in (0.1, 0.25, 0.5)"
        for on in ("target", "source"):
            for budgets in ("15, 31", "31, 62", "31, 62, 124"):
                name = f"budget 279 from {budgets}"
                result.append(Split(study, name, on, f"ptpp in ({budgets})", f"ptpp == 279 and {mixed}"))
            result.append(Split(study, "largest size", on, "n_params < 100K", f"n_params > 100K and {mixed}"))
            early = "atpp <= 4.1"
            result.append(Split(study, "tokens after a quarter", on, early, f"atpp > 8 and {mixed}"))
            result.append(Split(study, "replay 0.5", on, "replay <= 0.25 or tokens == 0", f"{CPT} and replay == 0.5"))
    return result


def _public() -> list[Split]:
    result = [Split("gadre", "tokens/param 300 from 40", on, "atpp <= 41", "atpp >= 299") for on in GADRE]
    result += [Split("gadre", "tokens/param 80 from 21", on, "atpp <= 21", "atpp >= 79") for on in GADRE[:3]]
    result += [Split("gadre", "size 1B from 200M", on, "n_params < 200M", "n_params > 1B") for on in GADRE[:3]]
    result += [Split("olmo", "3B from 1.3B", on, "n_params < 2B", "n_params > 2B") for on in OLMO]
    result += [
        Split("chinchilla", "compute 1e21", "loss", "flops < 1e21", "flops >= 1e21"),
        Split("chinchilla", "tokens/param 60 from 20", "loss", "atpp <= 20", "atpp > 60"),
        Split("chinchilla", "size 2B from 500M", "loss", "n_params < 500M", "n_params > 2B"),
    ]
    for optimiser in ("adamw", "sam"):
        for on in ("source", "target"):
            rows = f"domain == {optimiser!r}"
            budget = f"budget 3200 from 800, 1600 ({optimiser})"
            result.append(Split("watts", budget, on, "ptpp <= 1600", "ptpp == 3200 and tokens > 0", rows))
    for on in ("math_val_raw", "math_val_decon_j075"):
        result.append(Split("delphi", "two scales up", on, "n_params <= 1.4B", "n_params > 2B", role="target"))
    for on in ("source", "target"):
        result.append(Split("mixlaws-ct", "replay 0.5 from 0.375", on, "replay <= 0.375", "replay == 0.5"))
        result.append(Split("mixlaws-ct", "second half of the run", on, "step <= 5000", "step >= 7000"))
    for mix in (0, 15, 29):
        for loss in ("c4", "github"):
            result.append(Split("dmsl", "largest size", f"mix{mix} {loss}", "n_params < 500M", "n_params > 500M"))
    return result


SPLITS: tuple[Split, ...] = tuple(_pilots() + _public())
