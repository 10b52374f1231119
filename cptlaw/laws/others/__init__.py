"""Laws of others: published forms beside those of the three papers, of this project and of the mixes."""
