"""``python -m cptlaw`` is the command line."""

from cptlaw.cli import main

main()
