"""Sealed forecasts: written down before a run is trained, scored once it has been measured."""

from cptlaw.forecasting.sealing.scoring import Scores, score
from cptlaw.forecasting.sealing.seal import Seal, load_seal, register

__all__ = ["Scores", "Seal", "load_seal", "register", "score"]
