"""`python -m ibol` is `ibol`."""

from ibol.cli import main

main()
