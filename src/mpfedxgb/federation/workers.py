"""The workers of this role's own organisation, connected for as long as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from mpfedxgb.errors import SettingsError, WorkersError
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


@contextmanager
def workers_in_session(settings: RoleSettings, client: Any = None) -> Iterator[Cluster | None]:
    """Connect as `own_workers` while others wait: they are told of an error, and not where files or workers are."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(own_workers(settings, client))
        except SettingsError as error:
            raise WorkersError(str(error)) from None
        yield cluster
