"""What is learned from other studies: the numbers in cptlaw/learned and cptlaw/answering."""
