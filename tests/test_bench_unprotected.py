"""The yardstick says why it does not measure, refuses nonsense, and leaves no process behind where the mode fails."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost


@pytest.fixture(scope="module")
def bench() -> Any:
    """Return the benchmark as a module."""
    return importlib.import_module("bench_unprotected")


def test_without_an_environment_it_says_how_to_make_one(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing interpreter is no failure; the message names it and the remedy, in text and in JSON."""
    missing = tmp_path / "python"
    assert bench.main(["--python", str(missing)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"skipped: cannot run {missing}: No such file or directory; ")
    assert "make yardstick" in text
    assert bench.main(["--python", str(missing), "--json"]) == 0
    assert f"skipped: {json.loads(capsys.readouterr().out)['skipped']}\n" == text


def test_the_environment_may_be_named_by_a_variable(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPFEDXGB_YARDSTICK stands for --python, and without either it is the one that make prepares."""
    monkeypatch.setenv("MPFEDXGB_YARDSTICK", str(tmp_path / "named"))
    bench.main([])
    assert f"cannot run {tmp_path / 'named'}" in capsys.readouterr().out
    monkeypatch.delenv("MPFEDXGB_YARDSTICK")
    assert bench._arguments([]).python == bench.ENVIRONMENT
    makefile = (bench.ROOT / "Makefile").read_text()
    assert f"YARDSTICK := {bench.ENVIRONMENT.parents[1].relative_to(bench.ROOT)}\n" in makefile


def test_an_xgboost_without_the_mode_is_told_from_one_with_it(bench: Any) -> None:
    """What the probe says of this very interpreter is what its xgboost says of itself."""
    version, reason = bench.probe(Path(sys.executable))
    assert version == xgboost.__version__
    if xgboost.build_info()["USE_FEDERATED"]:
        assert not reason
    else:
        assert reason.startswith(f"xgboost {version} of {sys.executable} has no federated mode; ")


def test_an_environment_without_xgboost_is_named(bench: Any, tmp_path: Path) -> None:
    """The last line of what the interpreter complains of is the reason."""
    bare = tmp_path / "python"
    bare.write_text(
        "#!/bin/sh\necho Traceback >&2\necho \"ModuleNotFoundError: No module named 'xgboost'\" >&2\nexit 1\n"
    )
    bare.chmod(0o700)
    version, reason = bench.probe(bare)
    assert not version
    assert f"{bare} cannot import what is needed: ModuleNotFoundError: No module named 'xgboost'; " in reason


def test_a_failing_mode_is_an_error_and_leaves_no_process(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An objective that does not exist fails with and without the mode; no process outlives it."""
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(bench.subprocess, "Popen", Noted)
    blocks = [np.zeros((6, 1), np.float32)]
    with pytest.raises(bench.YardstickError, match=r"(server|worker0) ended with exit code \d+: .*Error"):
        bench.unprotected(Path(sys.executable), blocks, pd.Series([0, 1] * 3), {"objective": "nonsense"}, 1)
    assert len(started) == 2  # a server and a worker
    assert all(process.returncode is not None for process in started)


def test_a_nonsensical_repeat_is_refused(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the option and the value."""
    with pytest.raises(SystemExit):
        bench.main(["--repeat", "0"])
    assert "--repeat must be 1 or more, not 0" in capsys.readouterr().err
