"""To look at: figures and one page to send. The only part that draws."""

from cptlaw.reporting import figures
from cptlaw.reporting.make_report import report
from cptlaw.reporting.page import Report
from cptlaw.reporting.plots import plot

__all__ = ["Report", "figures", "plot", "report"]
