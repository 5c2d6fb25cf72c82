"""What a transport must offer: ordered, bounded, interruptible delivery of byte blocks between named roles.

Every implementation passes the same suite, tests/contracts/transport_contract.py.
"""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """One role's end of the connections to its peers; roles are numbered, 0 is the coordinator.

    Blocks from one sender arrive whole and in order. Nothing is dropped or repeated. No call waits longer than it is
    told to.
    """

    def send(self, peer: int, block: bytes, timeout: float) -> None:
        """Hand a block over for delivery.

        Raises PeerTimeoutError if the peer takes none within `timeout` seconds (back-pressure), PeerFinishedError if
        it has closed its end, FederationError if there is no such peer.
        """
        ...

    def receive(self, peer: int, timeout: float) -> bytes:
        """Return the next block from a peer.

        What a peer sent before it closed its end still arrives. Raises PeerFinishedError after that, PeerTimeoutError
        if nothing arrives within `timeout` seconds.
        """
        ...

    def close(self) -> None:
        """Release everything; waiting calls of this end return with an error."""
        ...
