"""Solving: a law bound to rows, its objective, and the search for its parameters; arrays only."""
