"""Real data for tests: samples that may be passed on, and the folder that holds whole files."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from support.data_sets import SAMPLES, VARIABLE, data_folder, data_or_sample, whole_data

FILES = sorted(path for path in SAMPLES.iterdir() if path.name != "README.md")
PAGE = (SAMPLES / "README.md").read_text()


def test_every_sample_is_small_and_has_a_licence() -> None:
    """The page names each file once, with a source and an open licence; all of them are below 100 kB."""
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (.+) \|$", PAGE, re.MULTILINE)
    assert [name for name, _ in rows] == [path.name for path in FILES]
    assert all(re.fullmatch(r"(.+ \(\d{4}\), doi:10\.\S+|derived from it); CC BY 4\.0", source) for _, source in rows)
    assert sum(path.stat().st_size for path in FILES) < 100_000


def lines(path: Path) -> list[bytes]:
    """Return the lines of a gzipped file."""
    return gzip.decompress(path.read_bytes()).splitlines()


def test_samples_have_as_many_rows_as_the_page_says() -> None:
    """One file has no header line."""
    assert {path.name: len(lines(path)) for path in FILES} == {
        "adult.data.csv.gz": 1000,
        "adult_onehot108.csv.gz": 1 + 1000,
        "dry_bean.csv.gz": 1 + -(-13_611 // 50),
        "horse_colic.csv.gz": 1 + 300,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_samples_are_lines_of_the_whole_file(path: Path) -> None:
    """Where that is at hand."""
    whole = lines(whole_data(path.name))
    assert lines(path)[0] == whole[0]
    assert set(lines(path)) <= set(whole)


def test_the_folder_is_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files come first, then samples; what is neither is skipped, and a folder that is not there is an error."""
    whole = tmp_path / "dry_bean.csv.gz"
    whole.write_bytes(b"")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert whole_data(whole.name) == data_or_sample(whole.name) == whole
    assert data_or_sample("horse_colic.csv.gz") == SAMPLES / "horse_colic.csv.gz"
    with pytest.raises(pytest.skip.Exception, match=rf"horse_colic.csv.gz is not at hand; set {VARIABLE}"):
        whole_data("horse_colic.csv.gz")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(pytest.fail.Exception, match=rf"{VARIABLE}=.*nowhere is no folder"):
        data_folder()


def test_an_empty_variable_means_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies beside the project."""
    monkeypatch.setenv(VARIABLE, "")
    assert data_folder() is None
    assert [data_or_sample(path.name) for path in FILES] == FILES
