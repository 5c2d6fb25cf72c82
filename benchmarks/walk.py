"""How many source files of the package a reader passes on two walks through it, counted from what is executed.

    python benchmarks/walk.py [--list] [--json]

1. An auxiliary's column: from reading its CSV file to its saved model. The auxiliary runs in this process, the other
   roles are processes of their own, over mTLS on loopback.
2. A label: from `fit(tables, y)` of an estimator to the first leaf weight, with all roles in this process.

A file counts once, if a function of it is called; what only runs while a module is imported does not count.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import mpfedxgb
from mpfedxgb import Federation, FedXGBClassifier
from mpfedxgb.party import ACTIVE, COORDINATOR
from mpfedxgb.ring import kernels
from mpfedxgb.testing.trial import Trial
from patience import patience

PACKAGE = Path(mpfedxgb.__file__).parent
LEAF_WEIGHT = "leaf_weight"
"""The function at which the second walk ends."""


class Walk:
    """The files of the package in which functions were called, in the order of their first calls."""

    def __init__(self, last: str = "") -> None:
        self.files: dict[str, None] = {}
        self._last, self._ended = last, False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take a call down (see sys.setprofile)."""
        if event != "call" or self._ended:
            return
        code = frame.f_code
        if code.co_filename.startswith(str(PACKAGE)) and code.co_name != "<module>":
            self.files.setdefault(str(Path(code.co_filename).relative_to(PACKAGE)))
            self._ended = code.co_name == self._last

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Follow the calls of this thread and of those that it starts."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def tables(rows: int = 60) -> tuple[dict[str, pd.DataFrame], pd.Series[int]]:
    """Return two participants' columns and a label that both explain."""
    draws = np.random.default_rng(3)
    X = draws.normal(size=(rows, 4))
    y = pd.Series((X.sum(axis=1) > 0).astype(int), name="label")
    return {
        "bank": pd.DataFrame(X[:, :2], columns=["a", "b"]),
        "telecom": pd.DataFrame(X[:, 2:], columns=["c", "d"]),
    }, y


def from_a_column_to_a_model() -> Walk:
    """Train as telecom, beside a bank and a coordinator; follow telecom from its CSV file to its saved model."""
    frames, y = tables()
    frames = {name: frame.assign(person=np.arange(len(frame))) for name, frame in frames.items()}
    frames["bank"] = frames["bank"].assign(label=y)
    training = {"objective": "binary:logistic", "n_estimators": 1, "max_depth": 2, "max_bin": 8}
    with tempfile.TemporaryDirectory() as folder, Trial(Path(folder), frames, "label", "person", training) as trial:
        walk = Walk()
        for role in (COORDINATOR, ACTIVE):
            trial.start(role)
        telecom = Federation.from_toml(trial.settings(ACTIVE + 1))
        with walk.taken():
            telecom.train()
        trial.wait(patience(120.0))
    return walk


def from_a_label_to_a_leaf() -> Walk:
    """Fit an estimator; follow all roles until the first leaf weight."""
    kernels.warm_up()
    frames, y = tables()
    walk = Walk(LEAF_WEIGHT)
    with walk.taken():
        FedXGBClassifier(n_estimators=1, max_depth=2, max_bin=8).fit(frames, y)
    return walk


def main() -> None:
    """Take both walks and print their lengths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the files too, in the order of their first calls")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    walks = {"column_to_model": from_a_column_to_a_model(), "label_to_leaf": from_a_label_to_a_leaf()}
    if args.json:
        print(json.dumps({name: list(walk.files) for name, walk in walks.items()}))
        return
    for name, walk in walks.items():
        print(f"{name.replace('_', ' ')}: {len(walk.files)} files")
        if args.list:
            print("\n".join(f"  {file}" for file in walk.files))


if __name__ == "__main__":
    main()
