"""What the PTPP paper (Goffinet et al. 2025, arXiv:2510.23198) reports, for `reproduce_ptpp.py`: numbers and claims."""

from __future__ import annotations

FORMS = {"ptpp-floor": "Form 1", "ptpp-gate": "Form 2", "ptpp-gated-floor": "Form 3"}
TRANSFER, ORACLE = "ptpp-blind", "ptpp-oracle"

# The paper's results at PTPP 279, as mean Huber(0.02) of log residuals, their root mean square, mean absolute
# relative error, the same clipped, intercept and slope of log measured on log forecast; keyed by loss, with or without
# anchors, and law. Transfer and oracle take no anchors.
PUBLISHED = {
    ("target", False, "ptpp-floor"): (2.34e-4, 2.27e-2, 2.08e-2, 2.08e-2, -0.01, 0.991),
    ("target", False, "ptpp-gate"): (1.99e-4, 2.12e-2, 1.83e-2, 1.83e-2, 0.05, 0.970),
    ("target", False, "ptpp-gated-floor"): (4.43e-5, 9.53e-3, 6.70e-3, 6.70e-3, 0.01, 0.991),
    ("target", False, TRANSFER): (4.74e-4, 3.47e-2, 3.43e-2, 3.43e-2, -0.00, 0.961),
    ("target", False, ORACLE): (2.05e-6, 2.03e-3, 1.63e-3, 1.63e-3, 0.00, 1.000),
    ("target", True, "ptpp-floor"): (5.22e-5, 1.02e-2, 8.56e-3, 8.56e-3, 0.03, 0.956),
    ("target", True, "ptpp-gate"): (4.23e-5, 9.20e-3, 8.17e-3, 8.17e-3, 0.00, 0.992),
    ("target", True, "ptpp-gated-floor"): (3.54e-5, 8.42e-3, 7.39e-3, 7.39e-3, 0.00, 0.992),
    ("source", False, "ptpp-floor"): (9.89e-5, 1.44e-2, 1.18e-2, 1.18e-2, -0.05, 1.034),
    ("source", False, "ptpp-gate"): (2.79e-4, 2.75e-2, 2.27e-2, 2.27e-2, -0.03, 1.045),
    ("source", False, "ptpp-gated-floor"): (7.55e-4, 5.06e-2, 4.65e-2, 4.65e-2, 0.01, 1.030),
    ("source", False, TRANSFER): (5.73e-4, 4.08e-2, 3.91e-2, 3.91e-2, 0.04, 0.932),
    ("source", False, ORACLE): (1.67e-5, 5.77e-3, 4.44e-3, 4.44e-3, -0.00, 1.001),
    ("source", True, "ptpp-floor"): (9.21e-5, 1.39e-2, 1.14e-2, 1.14e-2, 0.01, 0.981),
    ("source", True, "ptpp-gate"): (5.94e-5, 1.10e-2, 9.01e-3, 9.01e-3, 0.04, 0.960),
    ("source", True, "ptpp-gated-floor"): (8.77e-5, 1.36e-2, 1.14e-2, 1.14e-2, 0.00, 0.989),
}
PLAN = {"n_params": 8.1e9, "ptpp": 279, "max_target_loss": 1.8, "max_forgetting": 0.02, "atpp": 8.9, "replay": 0.34}

# What it concludes from them: text, loss, and the law (with or without anchors) that is said to err less.
CLAIMS = (
    ("no anchors: Form 1 forecasts better than transfer", "target", ("ptpp-floor", False), (TRANSFER, False)),
    ("no anchors: Form 2 forecasts better than transfer", "target", ("ptpp-gate", False), (TRANSFER, False)),
    ("no anchors: Form 3 forecasts better than transfer", "target", ("ptpp-gated-floor", False), (TRANSFER, False)),
    ("no anchors: Form 3 better than Form 2", "target", ("ptpp-gated-floor", False), ("ptpp-gate", False)),
    ("no anchors: Form 2 better than Form 1", "target", ("ptpp-gate", False), ("ptpp-floor", False)),
    ("anchors improve Form 1", "target", ("ptpp-floor", True), ("ptpp-floor", False)),
    ("anchors improve Form 2", "target", ("ptpp-gate", True), ("ptpp-gate", False)),
    ("anchors improve Form 3 (Huber; not its MAE)", "target", ("ptpp-gated-floor", True), ("ptpp-gated-floor", False)),
    ("no anchors: Form 1 better than Form 2", "source", ("ptpp-floor", False), ("ptpp-gate", False)),
    ("no anchors: Form 3 worse than transfer", "source", (TRANSFER, False), ("ptpp-gated-floor", False)),
    ("anchors: Form 2 better than Form 1", "source", ("ptpp-gate", True), ("ptpp-floor", True)),
    ("anchors: Form 3 better than transfer", "source", ("ptpp-gated-floor", True), (TRANSFER, True)),
)
