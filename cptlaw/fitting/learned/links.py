"""What links from losses to scores look like in other studies, and how fast forecasts of scores err with distance.

`links.json` holds it by study with its sources; ``python -m studies learn_links`` makes it again. Inside
`cptlaw.fitting.learned.leaving_out` one study does not count.
"""

from __future__ import annotations

import math
from typing import Any

from cptlaw.fitting.learned import document, left_out
from cptlaw.fitting.learned.priors import pooled


def links() -> dict[str, Any]:
    """Return the content of `links.json`."""
    return document("links.json")


def usual_growth() -> float:
    """Return what forecasts of scores miss per e-fold beyond what links and forms say, on the arcsine scale.

    The root mean square over the studies; a study in which forecasts missed less than was said counts as nothing
    missed.
    """
    squares = [one for study, one in links()["growth"]["studies"].items() if study != left_out()]
    return math.sqrt(max(sum(squares) / len(squares), 0.0))


def link_prior(law: str, parameter: str) -> tuple[float, float] | None:
    """Return mean and standard deviation of a parameter of a link for a study that was not seen; ``None`` if unknown.

    Parameters
    ----------
    law, parameter
        A law of scores and the name of a parameter that benchmarks share; on the scale of its axis.
    """
    known = links()["links"].get(law, {}).get(parameter, {})
    studies = [one for study, one in known.items() if study != left_out()]
    if not studies:
        return None
    usual = links()["usual"][law][parameter]
    mean, between = pooled(studies, usual[1], usual[0])
    within = sum(one["spread"] ** 2 for one in studies) / len(studies)
    return mean, math.hypot(between, math.sqrt(within))
