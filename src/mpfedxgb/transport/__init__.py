"""Bytes between roles: the frame, what a transport must offer, and the in-process one.

The others, `tls` and `mpi`, are imported where they are needed: a simulation does without certificates and without MPI.
"""

from mpfedxgb.transport.frame import Frame, Kind, decode, encode
from mpfedxgb.transport.memory import MemoryHub, MemoryTransport
from mpfedxgb.transport.transport import Transport

__all__ = ["Frame", "Kind", "MemoryHub", "MemoryTransport", "Transport", "decode", "encode"]
