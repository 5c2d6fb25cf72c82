"""`python -m mpfedxgb` is the command line."""

from mpfedxgb.cli import main

main()
