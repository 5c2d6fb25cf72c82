"""Run the steps of docs/deploy/Containerfile in a fresh Debian, where no container engine is at hand.

    python -m pip wheel --no-deps --wheel-dir dist . && sudo python tools/clean_root.py FOLDER [FILE...]

FOLDER is made by debootstrap and left there, to look at. Python is Debian's there, that of the image another one. The
environment, such as pip's, is passed on, and FILEs are copied, such as certificates that this machine trusts. Ends with
what the last command printed, or with an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = "python3,python3-pip,python-is-python3,ca-certificates"


def steps() -> tuple[dict[str, str], str]:
    """Return environment and command of the Containerfile's ENV and RUN."""
    text = (ROOT / "docs" / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
    (run,), (env,) = re.findall(r"^RUN (.*)", text, re.MULTILINE), re.findall(r"^ENV (.*)", text, re.MULTILINE)
    return dict(pair.split("=", 1) for pair in env.split()), run


def call(*words: str, env: dict[str, str]) -> None:
    """Run a command; an error ends this."""
    subprocess.run(words, check=True, env=env)  # noqa: S603 # the Containerfile's, and ours


def main(folder: Path, files: list[str]) -> None:
    """Make the root, run the steps, and start the program in it as the user that they make."""
    (wheel,) = (ROOT / "dist").glob("mpfedxgb-*.whl")
    if not (folder / "usr").exists():
        call("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "stable", str(folder), env={**os.environ})
    shutil.copy(wheel, folder / "tmp")
    for name in ("/etc/resolv.conf", "/etc/pip.conf", *files):
        if Path(name).exists():
            shutil.copy(name, folder / name.lstrip("/"))
    environment, run = steps()
    os.chroot(folder)
    os.chdir("/")
    passed = {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    call("/bin/sh", "-ec", run, env=os.environ | passed)
    for command in ("mpfedxgb --version", "mpfedxgb demo --help", "test -w /cache -a -w /role -a ! -w /usr/local"):
        user = ("/usr/bin/setpriv", "--reuid=10001", "--regid=10001", "--clear-groups")
        call(*user, "/bin/sh", "-ec", command, env=passed | environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
