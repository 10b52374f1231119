"""Uncertainty: how far a forecast of one law may be off, from its parameters, its form and the noise."""
