"""To look at: figures, one page to send, and an app to play with. The only part that draws."""

from cptlaw.reporting import figures
from cptlaw.reporting.answer import Report
from cptlaw.reporting.make_report import report

__all__ = ["Report", "figures", "report"]
