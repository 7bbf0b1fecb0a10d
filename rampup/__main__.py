"""`python -m rampup` is the command line."""

from rampup.cli import main

main()
