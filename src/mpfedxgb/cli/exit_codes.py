"""Exit codes, one help text each; `mpfedxgb exit-codes` prints them, and docs/operations.md lists them."""

from __future__ import annotations

import enum

import typer

from mpfedxgb.errors import (
    AlienFrameError,
    CheckpointError,
    ExhaustedError,
    FederationError,
    FrameError,
    HandshakeError,
    MissingPeerError,
    NoRoomError,
    OutOfStepError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    RefusedError,
    StoppedError,
    UserError,
    WorkersError,
    is_full_disk,
)


class ExitCode(enum.IntEnum):
    """What a process of this package ends with."""

    DONE = 0
    UNEXPECTED = 1
    USER = 2
    PEER_LOST = 3
    REFUSED = 4
    PEER_FAILED = 5
    GARBLED = 6
    CHECKPOINT = 7
    STOPPED = 8
    MEMORY = 9
    WORKERS = 10


HELP = {
    ExitCode.DONE: "Everything was done.",
    ExitCode.UNEXPECTED: "Something unexpected: a defect of mpfedxgb. Please report the message; it holds no data.",
    ExitCode.USER: "A setting, a file or a table cannot be used; the message says why, and what to do. `mpfedxgb "
    "doctor SETTINGS` looks ahead.",
    ExitCode.PEER_LOST: "Another role did not answer in time, or its process or connection ended, or a machine had no "
    "room for a connection. Start all roles again with the same session name to go on.",
    ExitCode.REFUSED: "The roles do not agree: certificates, federation, version, parameters or kind of session; make "
    "what the message names the same everywhere. Or one refuses what another asks, such as more rows than its limit.",
    ExitCode.PEER_FAILED: "Another role stopped and said why, or a third one says that it did; look at that role's "
    "log.",
    ExitCode.GARBLED: "Bytes arrived that are no message of this run. Make sure that all roles run the same version "
    "and that nothing between them changes traffic.",
    ExitCode.CHECKPOINT: "A checkpoint or the record cannot be used: a full disk, a damaged file, another training "
    "under the same session name, or another process at work with the same state folder. What was there is unchanged; "
    "mend that, and start again to go on.",
    ExitCode.STOPPED: "Somebody stopped this role with SIGTERM or SIGINT; the others were told. Start again to go on.",
    ExitCode.MEMORY: "There is not enough memory for this process, or no disk for a spool (`mpfedxgb plan` tells how "
    "much it takes). Give it more, name a spool, or take fewer rows, columns or bins, and start again to go on.",
    ExitCode.WORKERS: "The Dask cluster of this role's own organisation cannot be used any more. Mend what the message "
    "names, and start all roles again to go on.",
}

_BY_ERROR: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (CheckpointError, ExitCode.CHECKPOINT),
    (NoRoomError, ExitCode.MEMORY),
    (WorkersError, ExitCode.WORKERS),
    (UserError, ExitCode.USER),
    (OSError, ExitCode.USER),
    (MemoryError, ExitCode.MEMORY),
    (StoppedError, ExitCode.STOPPED),
    (KeyboardInterrupt, ExitCode.STOPPED),
    (PeerFailedError, ExitCode.PEER_FAILED),
    (ExhaustedError, ExitCode.PEER_LOST),
    (MissingPeerError, ExitCode.PEER_LOST),
    (PeerTimeoutError, ExitCode.PEER_LOST),
    (PeerFinishedError, ExitCode.PEER_LOST),
    (HandshakeError, ExitCode.REFUSED),
    (RefusedError, ExitCode.REFUSED),
    (FrameError, ExitCode.GARBLED),
    (AlienFrameError, ExitCode.GARBLED),
    (OutOfStepError, ExitCode.GARBLED),
    (FederationError, ExitCode.PEER_FAILED),
)


_PASSED_ON = {
    kind.__name__: code for kind, code in _BY_ERROR if code in (ExitCode.PEER_LOST, ExitCode.REFUSED, ExitCode.GARBLED)
}
"""What is wrong between two roles is the same trouble for those who hear of it from one of them: the same code."""


def exit_code(error: BaseException) -> ExitCode:
    """Return the code that a process ends with after an error: its own, one that another role met, or hearsay."""
    if isinstance(error, PeerFailedError):
        if error.is_hearsay:
            return ExitCode.PEER_FAILED
        return _PASSED_ON.get(error.kind, ExitCode.PEER_FAILED)
    if is_full_disk(error):
        return ExitCode.CHECKPOINT
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.UNEXPECTED)


def exit_codes() -> None:
    """List what a process may end with, and what to do about it."""
    for code, text in HELP.items():
        typer.echo(f"{int(code):3}  {text}")
