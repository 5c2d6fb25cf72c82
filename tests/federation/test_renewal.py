"""A coordinator that serves while its certificate ends, as a process: it stays, and goes on with the next one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.transport.certificates import Authority
from patience import patience
from support.role_processes import WAIT, place

if TYPE_CHECKING:
    from nursery import Nursery

SECOND = 1 / 86_400
"""Of a day."""


def test_a_serving_role_outlives_its_certificate(tmp_path: Path, nursery: Nursery) -> None:
    """It connects anew again and again with one that has ended, warns once, and trains when there is a new one."""
    with place(tmp_path, nursery, training={"n_estimators": 1}) as made:
        made.edit(0, f"connect_timeout = {made.connect_timeout}", "connect_timeout = 0.5")
        coordinator = made.start(0, "--log-level", "info")
        made.wait_for(0, "coordinator listens on")
        authority = Authority.load(made.trial.folder / "ca")
        authority.renew(made.home(0), "coordinator", days=SECOND)  # type: ignore[arg-type] # a part of one
        made.wait_for(0, "coordinator.crt of coordinator expired at")
        before, end = made.log(0).count("still waiting"), time.monotonic() + patience(WAIT)
        while made.log(0).count("still waiting") < before + 3:
            assert time.monotonic() < end, made.log(0)
            assert coordinator.poll() is None, made.log(0)
            time.sleep(0.01)
        authority.renew(made.home(0), "coordinator", days=1)
        made.wait_for(0, "coordinator.crt of coordinator was renewed")
        for role in (1, 2):
            made.start(role)
        assert [made.children[role].wait(patience(WAIT)) for role in (1, 2)] == [ExitCode.DONE] * 2, made.logs()
        coordinator.terminate()
        assert coordinator.wait(patience(WAIT)) == ExitCode.STOPPED
        assert made.log(0).count("coordinator.crt of coordinator expired at") == 1
