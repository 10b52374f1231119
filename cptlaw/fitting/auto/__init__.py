"""The law for those who name none: every law that the columns allow, fitted on the same rows and averaged."""

from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.auto.fit_auto import fit_auto
from cptlaw.fitting.members import Member

__all__ = ["Average", "Member", "fit_auto"]
