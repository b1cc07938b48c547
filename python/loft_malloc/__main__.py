"""`python -m loft_malloc` does what `loft` does."""

from loft_malloc.start import main

main()
