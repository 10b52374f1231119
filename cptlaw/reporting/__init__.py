"""To look at: figures, one page to send, and an app to play with. The only part that draws."""

from cptlaw.reporting import figures
from cptlaw.reporting.make_report import Report, report

__all__ = ["Report", "figures", "report"]
