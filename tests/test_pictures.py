"""The pictures of the documents: what was measured is drawn, and not twice; the roles are drawn by their script."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest


@pytest.fixture(scope="module")
def pictures() -> Any:
    """Return the script as a module."""
    return importlib.import_module("pictures")


def measured(delays: list[int]) -> dict[str, Any]:
    """Return figures as a run leaves them."""
    phases = {"": 0.01, "setup": 0.05, "train/gain": 0.1}
    return {
        "phases": {t: {"seconds": 0.5, "phases": phases} for t in ("star", "mesh")} | {"calibration_seconds": 0.01},
        "latency": [
            {"topology": t, "delay": d, "seconds": 1 + hops * d / 1e3, "rounds": 150, "hops": hops}
            for t, hops in (("star", 300), ("mesh", 160))
            for d in delays
        ],
    }


def test_what_was_measured_is_drawn(pictures: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both pictures name both topologies, phases and axes; drawn twice they are the same files."""
    (tmp_path / "pictures.json").write_text(json.dumps(measured([0, 20])))
    assert pictures.main(["--out", str(tmp_path), "--draw"]) == 0
    first = [path.read_bytes() for path in map(Path, capsys.readouterr().out.split())]
    assert b"train/gain" in first[0]
    assert b"star, 0.50 s in all" in first[0]
    assert b"mesh, 160 hops at 20 ms" in first[1]
    assert b"milliseconds one way" in first[1]
    assert pictures.main(["--out", str(tmp_path), "--draw"]) == 0
    assert [path.read_bytes() for path in map(Path, capsys.readouterr().out.split())] == first


def test_only_what_is_missing_is_measured(pictures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was interrupted goes on; nothing is drawn that was not measured."""
    path, asked = tmp_path / "pictures.json", list[tuple[str, int]]()

    def measure_delay(topology: str, delay: int, rows: int) -> dict[str, Any]:
        asked.append((topology, delay))
        return {"topology": topology, "delay": delay, "seconds": 1.0, "rounds": 1, "hops": 1}

    monkeypatch.setattr(pictures, "measure_delay", measure_delay)
    path.write_text(json.dumps(measured([0])))
    found = pictures.measure(path, again=False, delays=[0, 5], rows=100)
    assert asked == [("star", 5), ("mesh", 5)]
    assert json.loads(path.read_text()) == found
    assert len(found["latency"]) == 4
    with pytest.raises(SystemExit):
        pictures.main(["--out", str(tmp_path / "nowhere"), "--draw"])


def test_the_drawing_of_the_roles_is_what_its_script_draws() -> None:
    """And it is well-formed, so that a browser shows it."""
    folder = Path(__file__).parents[1] / "docs" / "drawings"
    spec = importlib.util.spec_from_file_location("roles", folder / "roles.py")
    assert spec is not None
    assert spec.loader is not None
    roles = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(roles)

    assert list(roles.PICTURES) == ["roles.svg", "two.svg", "three.svg"]
    for name, draw in roles.PICTURES.items():
        drawn = (folder / name).read_text(encoding="utf-8")
        assert drawn == draw()
        assert ElementTree.fromstring(drawn).tag.endswith("svg")  # noqa: S314 # our own drawing
