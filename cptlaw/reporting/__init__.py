"""To look at: figures, one page to send, and an app to play with. The only part that draws."""
