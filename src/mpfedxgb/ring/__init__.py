"""Integers modulo 2^k, random streams and compiled kernels; no party, no network."""

from mpfedxgb.ring import planes, row_kernels  # noqa: F401 (their kernels are compiled with all others)
from mpfedxgb.ring.array import RingArray, concatenate, stack
from mpfedxgb.ring.ring import BIT, PACKED, VECTOR, Ring, wide

__all__ = ["BIT", "PACKED", "VECTOR", "Ring", "RingArray", "concatenate", "stack", "wide"]
