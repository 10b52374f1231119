"""Laws of scores: from the loss, compute or size to a benchmark score; one class in one file each."""
