"""The mix of k corpora with the lowest losses, under limits on every eval and with pools of unique tokens."""
