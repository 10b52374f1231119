"""The law for those who name none: every law that the columns allow, fitted on the same rows and averaged."""

from cptlaw.auto.auto_fit import AutoFit
from cptlaw.auto.auto_law import Member
from cptlaw.auto.fit_auto import fit_auto

__all__ = ["AutoFit", "Member", "fit_auto"]
