"""The source distribution has all that a packager or a reader needs, and the wheel all that a role needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import mpfedxgb

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache")
BUILD = "import sys; from setuptools import build_meta; build_meta.{}(sys.argv[1])"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project: building leaves files behind."""
    return shutil.copytree(ROOT, tmp_path_factory.mktemp("distribution") / "tree", ignore=LEFT_OUT)


def built(tree: Path, what: str) -> Path:
    """Return the one file that a step of the build makes."""
    out = tree.parent / what
    out.mkdir()
    command = [sys.executable, "-W", "ignore", "-c", BUILD.format(what), str(out)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)  # noqa: S603 # ours
    (made,) = out.iterdir()
    return made


def test_the_source_distribution(tree: Path) -> None:
    """Documents, changelog, tests and what they need; nothing that was not in the project."""
    with tarfile.open(built(tree, "build_sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    for needed in (
        "src/mpfedxgb/py.typed",
        "src/mpfedxgb/report/html/templates/page.html",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "SECURITY.md",
        "constraints.txt",
        "constraints-docs.txt",
    ):
        assert needed in names
    for folder in ("docs", "tests", "benchmarks", "experiments", "src/mpfedxgb"):
        there = {
            str(path.relative_to(ROOT))
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert there - names == set(), folder
    generated = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert {name for name in names - generated if not (ROOT / name).is_file()} == set()


def test_the_wheel(tree: Path) -> None:
    """Every module and the types, no tests; the version is the module's."""
    with zipfile.ZipFile(built(tree, "build_wheel")) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        assert message_from_bytes(archive.read(metadata))["Version"] == mpfedxgb.__version__
    source = ROOT / "src"
    modules = {
        str(path.relative_to(source)) for path in (source / "mpfedxgb").rglob("*.py*") if path.suffix in {".py", ".pyi"}
    }
    assert modules - names == set()
    pages = source / "mpfedxgb" / "report" / "html"
    shown = {str(path.relative_to(source)) for kind in ("html", "css", "js") for path in pages.rglob(f"*.{kind}")}
    assert len(shown) > 5
    assert shown - names == set()
    assert {name.split("/")[0] for name in names} == {"mpfedxgb", metadata.split("/")[0]}
