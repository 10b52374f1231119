"""Back-tests: forecasts and plans held against runs that were measured or simulated."""
