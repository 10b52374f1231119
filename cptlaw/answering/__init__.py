"""Answering: from a question in the user's words to what to train, what to expect and how sure that is."""

from cptlaw.answering.ask import answer
from cptlaw.answering.pilots import write_pilots
from cptlaw.answering.result import Answer
from cptlaw.runs.known_models import bases

__all__ = ["Answer", "answer", "bases", "write_pilots"]
