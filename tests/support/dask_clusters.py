"""Clusters of Dask on this machine, for tests."""

from __future__ import annotations

from contextlib import suppress

from distributed import LocalCluster

from patience import patience

PATIENCE = 120.0


def end(cluster: LocalCluster) -> None:
    """Close a cluster. Dask's own list may miss a worker that was killed, and fails for it once all is closed."""
    with suppress(KeyError):
        cluster.close(timeout=patience(PATIENCE))
