"""A coordinator that serves while its certificate ends, as a process: it stays, and goes on with the next one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.transport.certificates import Authority
from patience import patience
from support.commands import Shell
from support.role_processes import WAIT, place

if TYPE_CHECKING:
    from nursery import Nursery

SECOND = 1 / 86_400
"""Of a day."""


def test_a_serving_role_outlives_its_certificate(
    tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It connects anew with one that has ended, warns once, and trains when one for a new key is installed."""
    shell = Shell(monkeypatch, capsys)
    with place(tmp_path, nursery, training={"n_estimators": 1}) as made:
        made.edit(0, f"connect_timeout = {made.connect_timeout}", "connect_timeout = 0.5")
        coordinator = made.start(0, "--log-level", "info")
        made.wait_for(0, "coordinator listens on")
        ca, own = made.trial.folder / "ca", made.home(0) / "coordinator.crt"
        authority = Authority.load(ca)
        authority.renew(made.home(0), "coordinator", days=SECOND)  # type: ignore[arg-type] # a part of one
        made.wait_for(0, "coordinator.crt of coordinator expired at")
        before, end = made.log(0).count("still waiting"), time.monotonic() + patience(WAIT)
        while made.log(0).count("still waiting") < before + 3:
            assert time.monotonic() < end, made.log(0)
            assert coordinator.poll() is None, made.log(0)
            time.sleep(0.01)
        for words in (
            ["renew", made.trial.settings(0), "--new-key"],
            [
                "sign",
                own.with_suffix(".csr"),
                "--role",
                "coordinator",
                "--authority",
                ca,
                "--out",
                tmp_path / "new.crt",
            ],
            ["install", made.trial.settings(0), tmp_path / "new.crt"],
        ):
            assert shell.run("cert", *words) == ExitCode.DONE, shell.err
        made.wait_for(0, "coordinator.crt of coordinator was renewed")
        for role in (1, 2):
            made.start(role)
        assert [made.children[role].wait(patience(WAIT)) for role in (1, 2)] == [ExitCode.DONE] * 2, made.logs()
        coordinator.terminate()
        assert coordinator.wait(patience(WAIT)) == ExitCode.STOPPED
        assert made.log(0).count("coordinator.crt of coordinator expired at") == 1
