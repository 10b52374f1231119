"""The studies of the three papers, on published coefficients, simulated runs and measured ones."""
