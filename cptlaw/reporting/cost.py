"""What a plan costs, as people buy it: hours of GPUs."""

from __future__ import annotations

from typing import Any

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.planning.report_scenario import Page
from cptlaw.planning.scenario import options_of
from cptlaw.units import format_percent, format_quantity, parse_quantity

# Dense bfloat16 FLOP/s of one device, from the makers' data sheets (float16 for V100, which has no bfloat16).
PEAKS = {
    "a100": 312e12,
    "b200": 2.25e15,
    "gb200": 2.5e15,
    "gh200": 989e12,
    "h100": 989e12,
    "h200": 989e12,
    "l40s": 362e12,
    "mi250x": 383e12,
    "mi300x": 1307e12,
    "tpu-v4": 275e12,
    "tpu-v5e": 197e12,
    "tpu-v5p": 459e12,
    "v100": 125e12,
}
GPU, MFU = (options_of(Page)[name].default for name in ("gpu", "mfu"))


def cost_text(flops: float, gpu: str = GPU, mfu: Any = MFU) -> str:
    """Return the cost of some FLOPs in words.

    Parameters
    ----------
    gpu
        A name in `PEAKS`.
    mfu
        Model FLOPs utilisation: the share of the device's peak that training reaches, as 0.4 or ``"40%"``
        (Chowdhery et al. 2022, arXiv:2204.02311, appendix B).

    Raises
    ------
    UsageError
        If the device is not known, or the share is none.

    Examples
    --------
    >>> cost_text(3.5e21)
    '3.5e+21 FLOPs: 2.46K GPU hours (H100 at 40% of its peak)'
    """
    name = gpu.lower()
    if name not in PEAKS:
        raise UsageError(f"gpu (--gpu): {gpu!r} is not known.{did_you_mean(name, PEAKS)} Known: {', '.join(PEAKS)}.")
    share = parse_quantity(mfu, "mfu (--mfu)")
    if not 0 < share <= 1:
        raise UsageError(f"mfu (--mfu): {mfu!r} is no share between 0 and 1. Expected, for instance, 40%.")
    hours = flops / (PEAKS[name] * share) / 3600
    return f"{format_quantity(flops)} FLOPs: {_hours(hours)} ({gpu.upper()} at {format_percent(share)} of its peak)"


def _hours(hours: float) -> str:
    if hours >= 1:
        return f"{format_quantity(hours)} GPU hours"
    return f"{60 * hours:.2g} GPU minutes" if 60 * hours >= 1 else "less than a GPU minute"
