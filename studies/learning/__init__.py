"""What is learned from other studies: the numbers in cptlaw/fitting/learned and cptlaw/answering."""
