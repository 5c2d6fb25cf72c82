"""Each experiment at a small size: what it measures, and what it writes."""

from __future__ import annotations

import csv
import itertools
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments import (
    complexity,
    fig4a,
    fig4b,
    fig5,
    iterations,
    paillier,
    precision,
    setting,
    table2,
    table3,
)
from experiments.data import TrainTestSplit, dataset1, dataset2
from experiments.output import Result, Row, write, write_index
from experiments.setting import Setup
from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import UserError
from mpfedxgb.modes.paper.tree import MU
from support.data_sets import whole_data

QUIET = Setup(None, lambda text: None)
X, Y = complexity.make_table(240, 10)
FEW = TrainTestSplit("Dataset1", X.iloc[:100], Y[:100], X, Y)
SPLIT = TrainTestSplit("Dataset1", X.iloc[:200], Y[:200], X.iloc[200:], Y[200:])


@pytest.fixture(autouse=True)
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out warming up: nobody looks at the time here."""
    for module in (complexity, fig4a, fig4b, fig5):
        monkeypatch.setattr(module, "warm_up", lambda X, y: None)


def check_files(result: Result, folder: Path) -> None:
    """Write an item and look at its files: all rows as CSV, a picture, an SVG that parses, a page with the words."""
    paths = {path.suffix: path for path in write(result, folder, 1.5)}

    with paths[".csv"].open(encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(result.rows)
    assert paths[".png"].read_bytes().startswith(b"\x89PNG")
    assert ET.parse(paths[".svg"]).getroot().tag.endswith("svg")  # noqa: S314 # written a moment ago
    page = paths[".md"].read_text(encoding="utf-8")
    command = f"mpfedxgb reproduce {result.item} --data DIR"
    for words in (result.title, result.paper, result.measured, command, "Python"):
        assert words in page
    assert all(len(cells) == len(result.header) for cells in result.cells)


@pytest.mark.parametrize(("J", "K"), table2.PAPER)
def test_muls_without_division_are_the_papers(J: int, K: int) -> None:
    """468, 612 and 1,197, counted while the protocol runs."""
    row = table2.without_division(J, K)

    assert row["muls"] == table2.PAPER[J, K][0]
    assert row["muls_batched"] < row["muls"] < row["products"]


def test_muls_with_division_are_the_papers(tmp_path: Path) -> None:
    """82 for every candidate; and the table with both ways."""
    row = table2.with_division(16, 8)

    assert (row["muls_div"], row["muls_div_batched"]) == (10_496, 82)
    without = {"muls": 468, "paper_muls": 468, "products": 1143, "muls_batched": 63, "rounds_batched": 42}
    check_files(table2.result([{"J": 16, "K": 8, **without, **row}]), tmp_path)


def test_formulas_of_section_6() -> None:
    """599 s and 44.52 s, as printed."""
    size = complexity.PAPER

    assert size.he_seconds(complexity.T1, complexity.T2) == pytest.approx(599)
    assert size.ss_seconds(complexity.T3) == pytest.approx(44.515)


def test_complexity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every line is there, the slow rival's is scaled up, and both modes train."""

    def measure(encryptions: int, decryptions: int, gmpy2: bool) -> paillier.Timing:
        return paillier.Timing(gmpy2, encryptions, decryptions, encryptions * 1e-3, decryptions * 2e-3)

    monkeypatch.setattr(paillier, "measure", measure)
    size = complexity.Workload(N=240, J=4, K=4, e=1, d=2)
    rows = list(complexity.measure(size, QUIET, repeat=1))

    slow = next(row for row in rows if row["basis"] == "executed, one in 10 and scaled")
    assert slow["seconds"] == pytest.approx(size.he_seconds(1e-3, 2e-3), rel=0.2)
    assert [row["basis"] for row in rows[-2:]] == ["executed, security=strict", "executed, security=paper"]
    check_files(complexity.result(rows), tmp_path)


def test_paillier_in_a_process_of_its_own() -> None:
    """Without gmpy2 where it is not wanted; decryptions give back what was encrypted, or it fails."""
    timing = paillier.measure(2, 3, gmpy2=False)

    assert (timing.gmpy2, timing.encryptions, timing.decryptions) == (False, 2, 3)
    assert min(timing.t1, timing.t2) > 0
    assert timing.seconds == pytest.approx(2 * timing.t1 + 3 * timing.t2)
    assert paillier.workload(1, 1).gmpy2


def test_paillier_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the package and the extra; any other failure shows its last line."""
    ended = SimpleNamespace(returncode=paillier.MISSING, stdout="", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    with pytest.raises(UserError, match=r"package phe; pip install 'mpfedxgb\[experiments\]'"):
        paillier.measure(1, 1, gmpy2=True)

    ended.returncode, ended.stderr = 1, "Traceback\nMemoryError"
    with pytest.raises(UserError, match="MemoryError"):
        paillier.measure(1, 1, gmpy2=True)


def test_fig4a(tmp_path: Path) -> None:
    """Time of both modes by number of trees; more trees take more rounds."""
    rows = list(fig4a.measure(X, Y, (1, 2), 1, QUIET))

    assert [(row["security"], row["trees"]) for row in rows] == [(s, t) for s in ("strict", "paper") for t in (1, 2)]
    assert rows[0]["rounds"] < rows[1]["rounds"]
    assert rows[2]["rounds"] < rows[3]["rounds"]
    check_files(fig4a.result(rows), tmp_path)


def test_fig4b(tmp_path: Path) -> None:
    """Time of both modes by depth; both split the same nodes."""
    rows = list(fig4b.measure(X, Y, (1, 2), 1, QUIET))

    assert [row["split_nodes"] for row in rows] == [3, 9, 3, 9]
    check_files(fig4b.result(rows), tmp_path)


def test_fig5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time by rows and features; columns are repeated."""
    monkeypatch.setattr(fig5, "WIDE", 4)
    monkeypatch.setattr(fig5, "REPEAT", 1)
    rows = [*fig5.measure(FEW, (4, 8), QUIET), *fig5.measure(SPLIT, (4, 8), QUIET)]

    assert [(row["rows"], row["features"]) for row in rows] == [(n, j) for n in (100, 200) for j in (4, 8)]
    assert rows[1]["candidates"] > rows[0]["candidates"]
    check_files(fig5.result(rows), tmp_path)


def test_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both modes train one tree, on rows of both classes."""
    trained = []
    fit = FedXGBClassifier.fit

    def noted(self: FedXGBClassifier, X: Any, y: Any) -> FedXGBClassifier:
        fit(self, X, y)
        trained.append((self.security, len(self.partial_models_[0].trees), set(y.tolist())))
        return self

    monkeypatch.setattr(FedXGBClassifier, "fit", noted)
    setting.warm_up(X, Y)
    assert trained == [("strict", 1, {0, 1}), ("paper", 1, {0, 1})]


def test_exponent_of_a_power() -> None:
    """A slope of 1.5 on logarithms."""
    assert setting.slope([1, 2, 4], [3, 3 * 2**1.5, 3 * 4**1.5]) == pytest.approx(1.5)


def test_fastest_gives_up_repeating(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest of several runs; no more of them once they have taken long enough."""
    seconds = iter([3.0, 1.0, 2.0, 9.0, 9.0])
    made: list[Any] = []

    def clone(model: Any) -> Any:
        made.append(SimpleNamespace(run_=SimpleNamespace(seconds=next(seconds))))
        return SimpleNamespace(fit=lambda X, y: made[-1])

    monkeypatch.setattr(setting, "clone", clone)
    assert setting.fastest(None, X, Y, 3).run_.seconds == 1.0  # type: ignore[arg-type] # any model will do
    assert setting.fastest(None, X, Y, 3, budget=5.0).run_.seconds == 9.0  # type: ignore[arg-type]
    assert len(made) == 4


def test_table3_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model once, with the paper's numbers where it has them; paper mode grows the strict trees."""
    monkeypatch.setattr(table3, "paper_model", lambda **changes: setting.paper_model(n_estimators=1, **changes))
    rows = list(table3.compare(SPLIT, 3, QUIET))

    assert [row["model"] for row in rows] == [*table3.VANILLA, *table3.FEDERATED]
    assert {row["model"]: row["paper_f1"] for row in rows} == {
        "xgboost_lr0.1": 0.1354,
        "xgboost_lr1": None,
        "mpfedxgb": 0.1914,
        "mpfedxgb_paper": 0.1914,
        "mpfedxgb_flm": 0.1824,
        "mpfedxgb_default_bins": None,
    }
    assert [row.get("same_trees_as_strict") for row in rows] == [None, None, None, True, None, None]
    result = table3.result(rows)
    assert "0 of 4 rows" in result.measured
    assert [cells[-1] for cells in result.cells] == ["NO", "-", "NO", "NO", "NO", "-"]
    check_files(result, tmp_path)


@pytest.mark.parametrize(("load", "depth", "models"), [(dataset1, 3, 5), (dataset1, 5, 3), (dataset2, 3, 3)])
def test_table3_is_the_papers(load: Any, depth: int, models: int) -> None:
    """On the real data: ACC and F1 to four decimals, AUC within 0.004, identical trees in both security modes."""
    split = load(whole_data("give_me_some_credit.csv.gz").parent)
    rows = list(itertools.islice(table3.compare(split, depth, QUIET), models))

    assert [row["model"] for row in rows if row["paper_acc"] is not None and not table3.agrees(row)] == []
    assert all(row.get("same_trees_as_strict") in (None, True) for row in rows)


def test_iterations(tmp_path: Path) -> None:
    """The bounds of Appendix A hold for every leaf; weights are the exact ones within epsilon."""
    params = TrainParams(
        n_estimators=1, max_depth=3, learning_rate=1.0, min_child_weight=0.0, binning="paper", security="paper"
    )
    rows, error = iterations.measure(X, Y, params, QUIET)
    result = iterations.result(rows, error)

    assert "come out as 47 and 80" in result.measured
    assert 2 <= len(rows) <= 8
    assert error <= params.leaf_epsilon
    for row in rows:
        assert row["v"] >= 1 / MU
        assert row["iterations"] <= row["iterations_worst_case"] <= (47 if row["v"] <= 1 else 80)
    check_files(result, tmp_path)


def test_curves_of_appendix_a_meet() -> None:
    """At v = (mu + 1) / mu both bounds are 79.5."""
    assert iterations.first_bound(1.5) == pytest.approx(iterations.second_bound(1.5)) == pytest.approx(79.5, abs=0.05)


def test_precision(tmp_path: Path) -> None:
    """Few places give other trees, many give xgboost's, and errors shrink with every place."""
    params = TrainParams(n_estimators=2, max_depth=3, learning_rate=1.0, gamma=1.0, min_child_weight=0.0)
    rows = list(precision.measure("Dataset1", X, Y, params, (3, 12, 24), QUIET))

    assert [row["identical_trees"] for row in rows[1:]] == [2, 2]
    assert rows[2]["leaf_error_exact"] < 1e-6 < rows[1]["leaf_error_exact"] < 1e-2
    assert rows[2]["leaf_error_xgboost"] < 1e-6
    check_files(precision.result(rows), tmp_path)


def test_losslessness_starts_where_it_lasts() -> None:
    """From the last difference on, seen from the finest scale."""

    def rows(*identical: int) -> Sequence[Row]:
        return [{"bits": f, "trees": 3, "identical_trees": n} for f, n in enumerate(identical)]

    assert precision.start_of_losslessness(rows(1, 3, 2, 3, 3)) == 3
    assert precision.start_of_losslessness(rows(3, 3)) == 0
    assert precision.start_of_losslessness(rows(3, 2)) is None


def test_trees_that_differ_have_no_leaf_error() -> None:
    """Only the same trees have leaves to compare."""
    one = precision.Trees(((0, 1, None, None),), ((0.5, -0.5),))
    other = precision.Trees(((0, 2, None, None),), ((0.5, -0.5),))

    assert precision.leaf_error(one, one) == 0
    assert precision.leaf_error(one, other) is None


def simple(item: str) -> Result:
    """Return a result with a word in backquotes and a sign that HTML has to escape."""
    return Result(item, f"Title of {item}", "It says `a < b`.", "So it is.", ("x",), [["1"]], [{"x": 1}], _draw)


def _draw(figure: Any) -> None:
    figure.subplots().plot([1, 2])


def test_index_shows_every_figure(tmp_path: Path) -> None:
    """Every file that the index points to is there, nothing comes from elsewhere, and signs are escaped."""
    results = [simple("fig4a"), simple("table3")]
    for result in results:
        write(result, tmp_path, 1.0)
    paths = write_index(results, tmp_path, 200.0)
    page = paths[0].read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src)="([^"]+)"', page)

    assert [link for link in links if link.endswith(".svg")].count("fig4a.svg") == 2
    assert all(link.startswith("#") or (tmp_path / link).is_file() for link in links)
    assert "<code>a &lt; b</code>" in page
    assert "(table3.md)" in paths[1].read_text(encoding="utf-8")
    assert "3 min" in page


def test_same_data_gives_the_same_svg(tmp_path: Path) -> None:
    """Figures hold neither date nor chance."""
    texts = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        write(simple("fig4a"), folder, 1.0)
        texts.append((folder / "fig4a.svg").read_text(encoding="utf-8"))

    assert texts[0] == texts[1]


def test_results_are_for_everybody(tmp_path: Path) -> None:
    """Unlike models they hold nothing private; all four forms are there, and nothing else."""
    paths = write(simple("fig4a"), tmp_path, 1.0)

    assert sorted(paths) == sorted(tmp_path.iterdir())
    assert {path.suffix for path in paths} == {".csv", ".png", ".svg", ".md"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o644}
    assert (tmp_path / "fig4a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("matplotlib.figure", lambda folder: write(simple("fig4a"), folder, 1.0)),
        ("xgboost", lambda folder: table3.xgboost_scores(SPLIT, 3, 1.0, 0.0)),
        ("xgboost", lambda folder: list(precision.measure("Dataset1", X, Y, TrainParams(), (8,), QUIET))),
    ],
)
def test_missing_package(package: str, use: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message names the extra to install."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{package.partition('.')[0]}; pip install 'mpfedxgb\[experiments\]'"):
        use(tmp_path)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the way is named."""
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(UserError, match=r"--out .*cannot write there"):
        write(simple("fig4a"), tmp_path / "file" / "folder", 1.0)


def test_buckets_have_one_best() -> None:
    """No tie could decide which candidate is found."""
    for J, K in table2.PAPER:
        sides, best = table2.buckets(J, K)
        gains = (sides[0] / sides[2] + sides[1] / sides[3])[0]
        assert np.sort(gains)[-1] > np.sort(gains)[-2]
        assert int(np.argmax(gains)) == best
