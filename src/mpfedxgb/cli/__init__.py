"""The command line: demonstrate, simulate, predict, show."""

from mpfedxgb.cli.main import main

__all__ = ["main"]
