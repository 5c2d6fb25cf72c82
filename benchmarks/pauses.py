"""Pause each role in turn in the middle of a training, as a virtual machine that moves, and compare the models.

    python benchmarks/pauses.py --seconds 30 [--deadline 60] [--topology mesh]

Every role is a process over mTLS on loopback, without `reconnect`. A pause is SIGSTOP, and SIGCONT after so many
seconds. A training that is paused for less than the deadline has to end in its first attempt, in the files that an
undisturbed one makes. Ends with 0 if all did, and with 1 otherwise.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.party.roster import ACTIVE
from nursery import Nursery
from operated import LIMIT, LOOK, TRAINING, Federation, Hang, Trouble

_ROUNDS = 2
"""Rounds that are kept when a pause begins."""


def train(federation: Federation, role: int | None, seconds: float) -> float:
    """Train in empty folders, with a pause of one role or none; return how long it took."""
    federation.clear({})
    began = time.monotonic()
    try:
        federation.begin(TRAINING)
        if role is not None:
            while federation.rounds_kept(ACTIVE) < _ROUNDS:
                if federation.is_over() or time.monotonic() > began + LIMIT:
                    raise Hang(f"round {_ROUNDS} was not seen")
                time.sleep(LOOK)
            federation.running[role].send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            federation.running[role].send_signal(signal.SIGCONT)
        federation.finish()
    finally:
        federation.stop()
    return time.monotonic() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--deadline", type=float, default=60.0)
    parser.add_argument("--topology", default="star", choices=TOPOLOGIES)
    args = parser.parse_args(arguments)
    training = {"n_estimators": 6, "max_depth": 3, "max_bin": 8}
    network = {"deadline": args.deadline, "connect_timeout": 30.0}
    survived = 0
    with tempfile.TemporaryDirectory() as folder, Nursery() as nursery:
        federation = Federation(Path(folder), nursery, 200, training, network, args.topology)
        federation.set_reconnect(reconnect=False)
        print(f"undisturbed: {train(federation, None, 0.0):.1f} s", flush=True)
        expected = federation.trained()
        for role in federation.roles:
            trouble = ""
            took = time.monotonic()
            try:
                train(federation, role, args.seconds)
            except Trouble as error:
                trouble = str(error)
                with suppress(Trouble):
                    federation.stop()
            took = time.monotonic() - took
            if not trouble:
                trouble = "" if federation.trained() == expected else "the models differ"
            attempts = federation.attempts()
            survived += not trouble and attempts == 1
            name = federation.home(role).name
            print(
                f"{name} paused for {args.seconds:g} s: {trouble or 'equal'}, {attempts} attempts, {took:.1f} s",
                flush=True,
            )
    print(f"{survived} of {len(federation.roles)} trainings ended in their first attempt, in equal files")
    return 0 if survived == len(federation.roles) else 1


if __name__ == "__main__":
    sys.exit(main())
