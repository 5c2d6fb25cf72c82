"""[workers]: the Dask cluster of this role's own organisation, if its rows are to live there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mpfedxgb.federation.settings.toml import Section


@dataclass(frozen=True, slots=True)
class Workers:
    """[workers]: where the scheduler is, and the files of the cluster's own TLS; without it, rows stay in the process.

    The cluster has an authority of its own. Its certificates have nothing to do with those of the federation.
    """

    scheduler: str
    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def read(cls, table: Section) -> Workers:
        """Return the table, checked."""
        scheduler: str = table.text("scheduler")
        if not scheduler.startswith("tls://") or ":" not in scheduler.removeprefix("tls://"):
            remedy = "give the address of a Dask scheduler with TLS, such as tls://dask.bank.internal:8786"
            raise table.error("scheduler", "is no encrypted address", remedy)
        return cls(scheduler, table.path("ca"), table.path("certificate"), table.path("key"))
