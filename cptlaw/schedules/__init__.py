"""Learning-rate schedules per optimiser step, and the areas under them that loss-curve laws read."""

from cptlaw.schedules.areas import LAMBDA, Areas, areas, effective_lr
from cptlaw.schedules.phase import Phase
from cptlaw.schedules.read import SchedulesLike, read_schedules
from cptlaw.schedules.schedule import Schedule
from cptlaw.schedules.shapes import SHAPES

__all__ = [
    "LAMBDA",
    "SHAPES",
    "Areas",
    "Phase",
    "Schedule",
    "SchedulesLike",
    "areas",
    "effective_lr",
    "read_schedules",
]
