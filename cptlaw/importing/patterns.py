"""Patterns such as ``{domain}-{n_params}-{any}`` that the names of runs follow, without a regular expression."""

from __future__ import annotations

import re

FIELD = re.compile(r"\{(?P<name>\w+)(?P<percent>%?)\}")


def match_pattern(pattern: str, name: str) -> dict[str, str] | None:
    """Return what stands in the place of each field of a pattern, each as short as can be, or ``None``.

    Whether the rest of the name fits is found once for each place, from the right: a regular expression would try all
    ways to cut the name, exponentially many in the number of fields.
    """
    literals, names = FIELD.split(pattern)[::3], FIELD.split(pattern)[1::3]
    n = len(name)
    # From which places on the name is the last literal, then with the field before it, and so on.
    fits = [name[place:] == literals[-1] for place in range(n + 1)]
    cuts: list[list[int]] = []  # of each field, from the last one: where it ends at the soonest, by where it begins
    for field_, literal in zip(reversed(names), reversed(literals[:-1]), strict=True):
        cut = [-1] * (n + 2)
        soonest = -1
        for place in range(n, -1, -1):
            if field_.startswith("any"):
                soonest = place if fits[place] else soonest
            elif place == n or name[place] == "/":
                soonest = -1
            elif fits[place + 1]:
                soonest = place + 1
            cut[place] = soonest
        cuts.append(cut)
        ends = (min(place + len(literal), n + 1) for place in range(n + 1))
        fits = [name.startswith(literal, place) and cut[end] >= 0 for place, end in enumerate(ends)]
    if not fits[0]:
        return None
    result, place = {}, 0
    for field_, literal, cut in zip(names, literals, reversed(cuts), strict=False):
        begin = place + len(literal)
        place = cut[begin]
        result[field_] = name[begin:place]
    return result
