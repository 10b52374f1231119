"""Answering: from a question in the user's words to what to train, what to expect and how sure that is."""

from cptlaw.answering.answered import Answer
from cptlaw.answering.ask import answer
from cptlaw.answering.known_bases import bases
from cptlaw.answering.pilots import write_pilots

__all__ = ["Answer", "answer", "bases", "write_pilots"]
