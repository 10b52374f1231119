"""Laws of whole loss curves: they read a schedule of learning rates, step by step."""
