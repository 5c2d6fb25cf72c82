"""Mutants: small wrong changes of the engine, each of which the tests of its module should notice.

    python benchmarks/mutants.py [--sample N] [--seed S] [--only TEXT] [--timeout SECONDS] [--trust] [--list]

One mutant is one change of one expression or statement in tree/, protocols/, boosting/, modes/ or training/: a
comparison, an operator, a number, a condition, a returned value, a call or a check left out. Each is written into a
copy of the sources, and the test files of its module run against the copy until the first failure. A mutant that no
test notices survives, and is printed; benchmarks/mutants.md judges survivors. Without --sample all mutants run, which
takes hours.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src") / "mpfedxgb"
ROOMS = ("tree", "protocols", "boosting", "modes", "training")

FURTHER_TESTS = {
    "tree/bounded.py": ["tree/test_gain.py", "tree/test_constrained.py"],
    "tree/level.py": ["tree/test_gain.py", "tree/test_split.py", "tree/test_grow.py"],
    "protocols/compare_bits.py": ["protocols/test_compare_bits.py", "protocols/test_argmax.py"],
    "protocols/opening.py": ["protocols/test_products.py", "protocols/test_plan.py"],
    "protocols/plan.py": ["protocols/test_argmax.py", "protocols/test_plan.py"],
    "protocols/storage.py": ["protocols/test_row_blocks.py", "protocols/test_private_matrix.py"],
    "boosting/callbacks.py": ["training/test_checkpoint.py", "training/test_resume.py"],
    "boosting/parts.py": ["training/test_train.py"],
    "modes/facts.py": ["api/test_unprotected.py", "federation/test_settings.py", "training/test_update.py"],
    "modes/mode.py": ["training/test_update.py", "training/test_resume.py"],
    "modes/choose.py": ["training/test_update.py"],
    "modes/none/tree.py": ["api/test_monotone.py"],
    "modes/sealed/encoding.py": ["modes/sealed/test_labels.py", "modes/sealed/test_rules.py"],
    "modes/sealed/look_ups.py": ["modes/sealed/test_gradients.py"],
    "modes/sealed/classes.py": ["modes/sealed/test_gradients.py", "lossless/test_sealed.py"],
    "modes/none/labels.py": ["modes/none/test_training.py", "api/test_unprotected.py"],
    "modes/strict/labels.py": ["training/test_fit.py", "training/test_update.py"],
    "modes/strict/tree.py": ["tree/test_leaf.py"],
    "modes/sealed/labels.py": ["modes/sealed/test_round.py", "training/test_kept_shares.py"],
    "modes/sealed/gradients.py": ["modes/sealed/test_labels.py", "modes/sealed/test_rules.py"],
    "modes/paper/__init__.py": ["tree/test_grow.py", "training/test_setup.py"],
    "modes/paper/labels.py": ["boosting/test_active.py", "boosting/test_scales.py", "modes/paper/test_training.py"],
    "modes/paper/tree.py": [
        "modes/paper/test_leaf_weight.py",
        "modes/paper/test_secure_argmax.py",
        "modes/paper/test_split.py",
    ],
    "training/train.py": [
        "training/test_train.py",
        "training/test_resume.py",
        "boosting/test_sampling.py",
        "lossless/test_oracle.py",
    ],
    "boosting/objective.py": ["boosting/test_objectives.py"],
    "boosting/objectives/__init__.py": ["boosting/test_objectives.py"],
    "boosting/objectives/classes.py": ["boosting/test_objectives.py"],
    "boosting/objectives/residuals.py": ["boosting/test_objectives.py"],
    "boosting/objectives/positive.py": ["boosting/test_objectives.py"],
    "boosting/objectives/ranking.py": ["boosting/test_ranking.py"],
    "boosting/objectives/survival.py": ["boosting/test_survival.py"],
    "boosting/join.py": ["boosting/test_model.py"],
    "boosting/xgboost_json.py": ["boosting/test_model.py"],
    "boosting/params.py": ["api/test_bad_input.py", "federation/test_settings.py"],
    "boosting/active.py": ["federation/test_rows.py"],
    "boosting/labels.py": ["federation/test_rows.py"],
}
"""Test files beside the one of the same name, where that is missing or not all there is."""

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the file, the place of the change among all of the file, the line, and what it looks like."""

    path: Path
    number: int
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(PACKAGE)}:{self.line}: {self.before}  ->  {self.after}"


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in a node's place."""
    other = copy.copy(node)  # with the same children, of which nothing is changed
    if isinstance(other, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(other.op) in SWAPPED:
        other.op = SWAPPED[type(other.op)]()  # type: ignore[assignment] # of its own kind, by the table
        yield other
    elif isinstance(other, ast.Compare) and len(other.ops) == 1:
        other.ops = [SWAPPED[type(other.ops[0])]()]  # type: ignore[list-item] # likewise
        yield other
    elif isinstance(other, ast.UnaryOp):
        yield other.operand
    elif isinstance(other, ast.Constant) and isinstance(other.value, bool):
        yield ast.Constant(not other.value)
    elif isinstance(other, ast.Constant) and isinstance(other.value, (int, float)):
        yield ast.Constant(other.value + 1)
    elif isinstance(other, (ast.If, ast.IfExp, ast.While)):
        other.test = ast.UnaryOp(ast.Not(), other.test)
        yield other
    elif isinstance(other, ast.Return) and other.value is not None and not _is_none(other.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(other, ast.Raise) or (isinstance(other, ast.Expr) and isinstance(other.value, ast.Call)):
        yield ast.Pass()


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield every change below a node, outside first; text for people, types and `assert` stay as they are."""
    for new in changed(node):
        yield node, new
    if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__"):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: it guards what cannot happen, like `assert`
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from changes(child)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of a module."""
    for number, (old, new) in enumerate(changes(ast.parse((ROOT / path).read_text()))):
        before, after = (ast.unparse(ast.fix_missing_locations(node)).splitlines()[0] for node in (old, new))
        yield Mutant(path, number, getattr(old, "lineno", 0), before, after)


def source_of(mutant: Mutant) -> str:
    """Return the module with the change made."""
    tree = ast.parse((ROOT / mutant.path).read_text())
    old, new = next(islice(changes(tree), mutant.number, None))
    return ast.unparse(ast.fix_missing_locations(_Replace(old, new).visit(tree)))


def files_for(path: Path) -> list[str]:
    """Return the test files of a module: the one of its name in the same folder, and those that the table adds."""
    inner = path.relative_to(PACKAGE)
    own = inner.with_name(f"test_{inner.name}").as_posix()
    files = [own] if (ROOT / "tests" / own).is_file() else []
    files += FURTHER_TESTS.get(inner.as_posix(), [])
    if inner.parts[0] == "protocols":
        files.append("protocols/test_costs.py")
    return [f"tests/{file}" for file in files]


def run_tests(sources: Path, files: list[str], timeout: float) -> str:
    """Run test files against a copy of the sources: "killed" if one fails, "timeout" if it hangs, or "survived"."""
    command = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *files]
    # PYTHONPATH comes before an editable installation. Without bytecode: two mutants of one size, written within a
    # second, would pass for each other.
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(  # noqa: S603 # ours
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with what it has started
        process.wait()
        return "timeout"
    return "survived" if code == 0 else "killed"


def main() -> int:
    """Run a sample of mutants, print what becomes of each, and the survivors again at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, help="how many, drawn from all; all of them without")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--only", default="", help="only of modules whose path contains this")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for the tests of one mutant")
    parser.add_argument(
        "--trust", action="store_true", help="leave out the run of each module's tests without a change"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    options = parser.parse_args()

    modules = sorted(path.relative_to(ROOT) for room in ROOMS for path in (ROOT / PACKAGE / room).rglob("*.py"))
    every = [m for path in modules if options.only in path.as_posix() and files_for(path) for m in mutants(path)]
    chosen = every
    if options.sample is not None and options.sample < len(every):
        drawn = np.random.default_rng(options.seed).choice(len(every), options.sample, replace=False)
        chosen = [every[i] for i in sorted(drawn)]
    print(f"{len(chosen)} of {len(every)} mutants, --seed {options.seed}", flush=True)
    if options.list:
        print(*chosen, sep="\n")
        return 0
    return _run(chosen, options.timeout, options.trust)


def _run(chosen: list[Mutant], timeout: float, trust: bool) -> int:
    fates: dict[Mutant, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
        for path in sorted({mutant.path for mutant in chosen}):
            mine = Path(folder) / path
            if not trust and run_tests(sources, files_for(path), timeout * 5) != "survived":
                print(f"the tests of {path} fail without any change; mend that first", file=sys.stderr)
                return 1
            original = mine.read_text()
            for mutant in (m for m in chosen if m.path == path):
                began = time.monotonic()
                mine.write_text(source_of(mutant))
                fates[mutant] = run_tests(sources, files_for(path), timeout)
                print(f"{fates[mutant]:8} {time.monotonic() - began:5.1f} s  {mutant}", flush=True)
            mine.write_text(original)
    print("\n" + ", ".join(f"{count} {fate}" for fate, count in Counter(fates.values()).items()))
    print(*(f"- {mutant}" for mutant, fate in fates.items() if fate == "survived"), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
