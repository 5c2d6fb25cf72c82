"""The benchmark that runs another benchmark of two trees in turns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import beside

in_a_checkout = pytest.mark.skipif(
    not (beside.ROOT / ".git").exists() or shutil.which("git") is None, reason="needs git and a checkout"
)


@in_a_checkout
def test_both_trees_run_in_turns_and_their_ratio_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The least seconds of both trees, their ratios, and an exit code that follows the processor seconds."""
    code = beside.main(["HEAD", "--turns", "2", "--json", "--", "plain_table.py"])
    result = json.loads(capsys.readouterr().out)
    assert result["turns"] == 2
    for kind in ("wall", "processor"):
        assert result[f"{kind}_ratio"] == result["now"][kind] / result["before"][kind]
    assert code == (result["processor_ratio"] > beside.ALLOWED)


def test_processor_seconds_count_the_processes_that_a_script_waits_for(tmp_path: Path) -> None:
    """A script that lets a child work is charged with the child's time."""
    (tmp_path / "benchmarks").mkdir()
    work = "import time\nwhile time.process_time() < 0.5: pass\n"
    (tmp_path / "benchmarks" / "child.py").write_text(work)
    (tmp_path / "benchmarks" / "parent.py").write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}], check=True)\n"
    )
    assert beside.run(tmp_path, ["child.py"]).processor >= 0.5
    assert beside.run(tmp_path, ["parent.py"]).processor >= 0.5


def test_a_script_that_fails_ends_the_comparison_with_what_it_printed(tmp_path: Path) -> None:
    """No figures are made of a script that did not do its work."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "broken.py").write_text("raise SystemExit('no such table')\n")
    with pytest.raises(SystemExit, match="no such table"):
        beside.run(tmp_path, ["broken.py"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [(["HEAD", "--", "bench_nothing.py"], "no such script"), (["HEAD", "--turns", "0", "--", "fuzz.py"], "one turn")],
)
def test_wrong_words_are_refused_before_anything_runs(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that does not exist, or no turn at all, is a mistake of the caller."""
    with pytest.raises(SystemExit):
        beside.main(words)
    assert reason in capsys.readouterr().err
