"""Files that other programs read - workflow, hooks, constraints, citation, changelog - say what is true."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import mpfedxgb

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELEASE = re.compile(r"^## \[(?P<version>\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", re.MULTILINE)


def parsed(path: str) -> Any:
    """Return a YAML file's content."""
    return yaml.safe_load((ROOT / path).read_text())


def requirements() -> list[Requirement]:
    """Return everything that the package or its development may need."""
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for texts in (PROJECT["dependencies"], *extras) for text in texts]


class TestWorkflow:
    """Hosted continuous integration."""

    jobs: dict[str, Any] = parsed(".github/workflows/ci.yml")["jobs"]  # read only

    def test_it_checks_and_tests_what_is_supported(self) -> None:
        """Both commands that the README promises, on every Python from the oldest, on two systems."""
        job = self.jobs["test"]
        matrix = job["strategy"]["matrix"]
        assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos"}
        assert PROJECT["requires-python"] == f">={matrix['python'][0]}"
        assert matrix["python"] == ["3.11", "3.12", "3.13"]
        assert {"make check", "make test"} <= {step.get("run") for step in job["steps"]}

    def test_it_calls_what_there_is(self) -> None:
        """Every `make x` is a target."""
        targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        runs = [step.get("run", "") for job in self.jobs.values() for step in job["steps"]]
        called = {target for run in runs for target in re.findall(r"^make ([\w-]+)", run, re.MULTILINE)}
        assert {"setup", "check", "test", "coverage", "oldest", "dist"} <= called <= targets

    def test_it_may_do_little(self) -> None:
        """No job may write, none runs for ever, and every action has its major version."""
        workflow = parsed(".github/workflows/ci.yml")
        assert workflow["permissions"] == {"contents": "read"}
        assert workflow["concurrency"]["cancel-in-progress"] is True
        for job in self.jobs.values():
            assert "permissions" not in job
            assert job["timeout-minutes"] <= 60
            for step in job["steps"]:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "a/b@v1"))


def test_hooks_are_the_tools_of_make_check() -> None:
    """Every hook runs a tool that `make check` runs, from .venv."""
    makefile = (ROOT / "Makefile").read_text()
    (repository,) = parsed(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    tools = {hook["entry"].split()[0] for hook in repository["hooks"]}
    assert tools == {
        f".venv/bin/{name}" for name in re.findall(r"^\t\$\(BIN\)/(ruff|mypy|lint-imports|codespell)", makefile, re.M)
    }


def test_constraints_are_names_and_versions() -> None:
    """No host, path, digest or marker; everything that may be required is there, in a version that is allowed."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line)] == []
    pinned = {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)}
    assert len(pinned) == len(lines)
    for requirement in requirements():
        assert requirement.specifier.contains(pinned[requirement.name.lower()]), requirement


def test_xgboost_comes_once() -> None:
    """On every machine the development tools bring one of the two distributions of xgboost, never both or none."""
    both = [r for r in map(Requirement, PROJECT["optional-dependencies"]["dev"]) if r.name.startswith("xgboost")]
    for system, machine, expected in (
        ("linux", "x86_64", "xgboost-cpu"),
        ("win32", "AMD64", "xgboost-cpu"),
        ("linux", "aarch64", "xgboost"),
        ("darwin", "arm64", "xgboost"),
        ("darwin", "x86_64", "xgboost"),
        ("win32", "ARM64", "xgboost"),
    ):
        here = {"sys_platform": system, "platform_machine": machine}
        assert [r.name for r in both if r.marker is None or r.marker.evaluate(here)] == [expected]


def test_the_citation_can_be_read() -> None:
    """It has what the format requires, and names the paper as its reference."""
    citation = parsed("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == PROJECT["license"]
    assert "version" not in citation, "it would have to follow mpfedxgb.__version__"
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Xie", "Liu", "Lu", "Chang", "Shi"]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text().split())


def test_the_version_follows_the_changelog() -> None:
    """It is the newest release's or, as long as there are changes after it, a development version of the next."""
    text = (ROOT / "CHANGELOG.md").read_text()
    released = [Version(version) for version in RELEASE.findall(text)]
    assert released == sorted(released, reverse=True)
    version = Version(mpfedxgb.__version__)
    unreleased = text.split("## [Unreleased]")[1].split("\n## [")[0]
    assert version.is_devrelease if "- " in unreleased else version == released[0]
    assert version >= released[0]
    assert "version" not in PROJECT
    assert "version" in PROJECT["dynamic"]


def layers() -> list[list[tuple[str, str]]]:
    """Return the picture in CONTRIBUTING.md: for each layer its lines, a room and its modules."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (picture,) = re.findall(r"^```text\n(\+-.*?)^```$", text, re.DOTALL | re.MULTILINE)
    drawn = [re.findall(r"^\|(.*)\|(.*)\|$", layer, re.MULTILINE) for layer in re.split(r"\+-+\+-+\+", picture)]
    return [lines for lines in drawn if lines]


def test_layers_are_those_that_are_kept() -> None:
    """In the order in which import-linter has them."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rooms = [{re.split(r"[/.]", name)[0].strip() for name, _ in lines if name[1] != " "} for lines in layers()]
    assert rooms == [set(layer.split(" : ")) for layer in contract["layers"]]


def test_every_module_is_in_its_room() -> None:
    """And nothing else: a module that comes, goes or moves is drawn anew."""
    shown, room = [], ""
    for name, modules in (line for lines in layers() for line in lines):
        if name.strip():
            room = name.strip() if name[1] != " " else f"{room.split('/')[0]}/{name.strip()}"
        shown += [room] if "(" in modules else [f"{room}{module}.py" for module in modules.split()]
    source = Path(mpfedxgb.__file__).parent
    there = [str(path.relative_to(source)) for path in source.rglob("*.py") if not path.name.startswith("__")]
    assert sorted({*shown} ^ {*there, "__main__.py"}) == []
    assert len(shown) == len({*shown})


def test_a_test_that_hangs_is_ended(tmp_path: Path) -> None:
    """Also one that waits for a thread: the limit that pyproject.toml sets, here a second, ends it with its stack."""
    (tmp_path / "test_waits.py").write_text(
        "import threading\n\n"
        "def test_waits():\n"
        "    thread = threading.Thread(target=threading.Event().wait)\n"
        "    thread.start()\n"
        "    thread.join()\n"
    )
    command = ["-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "-o", "timeout=1", "-q"]
    done = subprocess.run(  # noqa: S603 # ours
        [sys.executable, *command, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode != 0
    assert " Timeout " in done.stdout
    assert "thread.join()" in done.stdout
