"""The workers of this role's own organisation, connected for as long as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.workers.cluster import Cluster


@contextmanager
def own_workers(settings: RoleSettings, client: Any = None) -> Iterator[Cluster | None]:
    """Connect with the cluster of a `distributed.Client`, or of [workers] if there is none; None without both."""
    deadline = settings.network.deadline
    if client is not None:
        yield Cluster.over(client, deadline)
        return
    told = settings.workers
    if told is None:
        yield None
        return
    cluster = Cluster.connect(told.scheduler, told.ca, told.certificate, told.key, deadline)
    try:
        yield cluster
    finally:
        cluster.close()
