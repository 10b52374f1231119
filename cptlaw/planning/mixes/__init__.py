"""Plans of a mix: how many tokens, and how much replay."""
