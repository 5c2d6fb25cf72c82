"""`python -m mpfedxgb.experiments.leaks`."""

from mpfedxgb.experiments.leaks.leaks import main

main()
