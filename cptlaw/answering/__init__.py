"""Answering: from a question in the user's words to what to train, what to expect and how sure that is."""
