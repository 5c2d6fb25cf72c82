"""The rival of section 6.2: Paillier encryption by python-paillier, 1024-bit key, timed in a process of its own.

    python -m experiments.paillier ENCRYPTIONS DECRYPTIONS [--without-gmpy2]

prints one JSON object. The package uses gmpy2 where it finds it and Python's own integers where it does not; it decides
when it is imported, hence the process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.setting import missing_extra
from mpfedxgb.errors import UserError

KEY_BITS = 1024
MISSING = 3
"""Exit code of the process where python-paillier is not installed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of encryptions and decryptions that were really done."""

    gmpy2: bool
    encryptions: int
    decryptions: int
    encrypting: float
    decrypting: float

    @property
    def t1(self) -> float:
        """Seconds of one encryption."""
        return self.encrypting / self.encryptions

    @property
    def t2(self) -> float:
        """Seconds of one decryption."""
        return self.decrypting / self.decryptions

    @property
    def seconds(self) -> float:
        """Seconds of all of them."""
        return self.encrypting + self.decrypting


def measure(encryptions: int, decryptions: int, gmpy2: bool) -> Timing:
    """Run a workload in a new process; without gmpy2 if it is not wanted, and as it is if it is not installed."""
    command = [sys.executable, "-m", "experiments.paillier", str(encryptions), str(decryptions)]
    command += [] if gmpy2 else ["--without-gmpy2"]
    checkout = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)  # noqa: S603 # ours
    if done.returncode == MISSING:
        raise missing_extra("phe")
    if done.returncode:
        raise UserError(f"python-paillier failed: {done.stderr.strip().splitlines()[-1:]}")
    return Timing(**json.loads(done.stdout))


def workload(encryptions: int, decryptions: int) -> Timing:
    """Encrypt gradients and decrypt some of them again, in this process."""
    from phe import paillier, util

    public, private = paillier.generate_paillier_keypair(n_length=KEY_BITS)
    gradients = [0.5 - (i % 1000) / 1000 for i in range(encryptions)]
    started = time.perf_counter()
    encrypted = [public.encrypt(g) for g in gradients]
    between = time.perf_counter()
    restored = [private.decrypt(encrypted[i % encryptions]) for i in range(decryptions)]
    ended = time.perf_counter()
    assert restored == [gradients[i % encryptions] for i in range(decryptions)]
    return Timing(bool(util.HAVE_GMP), encryptions, decryptions, between - started, ended - between)


def main() -> None:
    """Run one workload and print how long it took."""
    encryptions, decryptions, *options = sys.argv[1:]
    if "--without-gmpy2" in options:
        sys.modules["gmpy2"] = None  # type: ignore[assignment] # as if it were not installed
    try:
        timing = workload(int(encryptions), int(decryptions))
    except ImportError:
        sys.exit(MISSING)
    sys.stdout.write(json.dumps(asdict(timing)))


if __name__ == "__main__":
    main()
