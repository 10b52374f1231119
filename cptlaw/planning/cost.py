"""What a plan costs as people buy it: hours of GPUs, days on so many of them, and money."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.planning.options import label
from cptlaw.units import format_percent, format_quantity, parse_quantity, parse_share

NVIDIA, AMD, GOOGLE, AWS = "NVIDIA data sheet", "AMD data sheet", "Google Cloud documentation", "AWS documentation"
# Dense bfloat16 FLOP/s of one device, without sparsity (float16 for V100, which has no bfloat16), and who says so.
PEAK_FLOPS = {
    "A10": (125e12, NVIDIA),
    "A100": (312e12, NVIDIA),
    "A40": (149.7e12, NVIDIA),
    "A6000": (154.8e12, NVIDIA),
    "B200": (2.25e15, NVIDIA),
    "GB200": (2.5e15, NVIDIA),
    "GH200": (989e12, NVIDIA),
    "H100": (989e12, NVIDIA),
    "H100-PCIE": (756e12, NVIDIA),
    "H200": (989e12, NVIDIA),
    "H20": (148e12, NVIDIA),
    "H800": (989e12, NVIDIA),
    "L4": (121e12, NVIDIA),
    "L40": (181e12, NVIDIA),
    "L40S": (362e12, NVIDIA),
    "RTX4090": (165.2e12, NVIDIA),
    "V100": (125e12, NVIDIA),
    "MI250X": (383e12, AMD),
    "MI300X": (1307e12, AMD),
    "MI325X": (1307e12, AMD),
    "TPU-V4": (275e12, GOOGLE),
    "TPU-V5E": (197e12, GOOGLE),
    "TPU-V5P": (459e12, GOOGLE),
    "TPU-V6E": (918e12, GOOGLE),
    "TRN2": (667e12, AWS),
}
USUAL, USUAL_MFU = "H100", 0.4
_GPUS = re.compile(r"\s*(?:(?P<count>[1-9][0-9]{0,6})\s*[xX*\u00d7]\s*)?(?P<name>[A-Za-z][A-Za-z0-9 _-]*?)\s*")


@dataclass(frozen=True)
class Hardware:
    """The devices that a run is trained on.

    Parameters
    ----------
    name
        A device of `PEAK_FLOPS`.
    count
        How many; ``None`` where only the kind is known, so that there are hours but no days.
    mfu
        Model FLOPs utilisation: the share of a device's peak that training reaches
        (Chowdhery et al. 2022, arXiv:2204.02311, appendix B).
    gpu_hour
        Price of an hour of one device, in any currency; ``None`` where there is none.
    """

    name: str = USUAL
    count: int | None = None
    mfu: float = USUAL_MFU
    gpu_hour: float | None = None

    def cost(self, flops: float | None) -> dict[str, float | None]:
        """Return ``gpu_hours``, ``days`` and ``cost`` of a run; ``None`` where something is missing to say so.

        Examples
        --------
        >>> Hardware("H100", 8, 0.4, 2.5).cost(1e21)["days"].__round__(2)
        3.66
        """
        hours = None if flops is None else flops / (PEAK_FLOPS[self.name][0] * self.mfu) / 3600
        return {
            "gpu_hours": hours,
            "days": None if hours is None or self.count is None else hours / self.count / 24,
            "cost": None if hours is None or self.gpu_hour is None else hours * self.gpu_hour,
        }

    def cost_text(self, flops: float) -> str:
        """Return the cost of some FLOPs in words.

        Examples
        --------
        >>> Hardware().cost_text(3.5e21), Hardware("H100", 64, 0.4, 2.5).cost_text(3.5e21)
        ('2,458 H100 hours', '2,458 H100 hours, 1.6 days on 64, cost 6,144')
        """
        spent = self.cost(flops)
        parts = [] if spent["days"] is None else [f"{_days(spent['days'])} on {self.count}"]
        parts += [] if spent["cost"] is None else [f"cost {money(spent['cost'])}"]
        return ", ".join([hours_text(spent["gpu_hours"] or 0.0, self.name), *parts])

    @property
    def assumed(self) -> str:
        """What the hours rest on, in words."""
        peak, source = PEAK_FLOPS[self.name]
        return f"{self.name} at {format_percent(self.mfu)} of its {format_quantity(peak)} dense bf16 FLOP/s ({source})"


def hardware(gpus: str | None = None, mfu: float | str | None = None, gpu_hour: float | str | None = None) -> Hardware:
    """Return the devices that are meant by texts such as ``"8xH100"``, ``"40%"`` and ``2.5``.

    Raises
    ------
    UsageError
        If the device is not known, or the share or the price is none.

    Examples
    --------
    >>> hardware("8xH100", "35%").count, hardware("tpu v5p").name
    (8, 'TPU-V5P')
    """
    name, count = USUAL, None
    if gpus is not None:
        found = _GPUS.fullmatch(str(gpus))
        name = "" if found is None else re.sub(r"[ _]", "-", found["name"].upper())
        name = name if name in PEAK_FLOPS else _without_dashes().get(name.replace("-", ""), name)
        if name not in PEAK_FLOPS:
            close = did_you_mean(name or str(gpus), list(PEAK_FLOPS))
            raise UsageError(
                f"{label('gpus')}: {gpus!r} is not known.{close} Expected a number and a device, such as 8xH100. "
                f"Known: {', '.join(PEAK_FLOPS)}."
            )
        count = None if found is None or found["count"] is None else int(found["count"])
    share = USUAL_MFU if mfu is None else parse_share(mfu, label("mfu"))
    if share == 0:
        raise UsageError(f"{label('mfu')}: {mfu!r} is no work at all. Expected, for instance, 40%.")
    price = None if gpu_hour is None else parse_quantity(gpu_hour, label("gpu_hour"))
    if price is not None and price < 0:
        raise UsageError(f"{label('gpu_hour')}: {gpu_hour!r} is negative. Expected the price of an hour, such as 2.50.")
    return Hardware(name, count, share, price)


def _without_dashes() -> dict[str, str]:
    return {name.replace("-", ""): name for name in PEAK_FLOPS}


def hours_text(hours: float, name: str = USUAL) -> str:
    """Return hours of a device: ``2,458 H100 hours``, ``41 H100 minutes``."""
    if hours >= 1:
        return f"{rounded(hours)} {name} hours"
    return f"{60 * hours:.2g} {name} minutes" if 60 * hours >= 1 else f"less than a {name} minute"


def rounded(value: float) -> str:
    """Return a number of hours or days to the digits that an estimate has."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _days(days: float) -> str:
    return f"{rounded(days)} days" if days >= 1 else f"{24 * days:.2g} hours"


def money(value: float) -> str:
    """Return an amount of money, in whatever currency the price was given."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
