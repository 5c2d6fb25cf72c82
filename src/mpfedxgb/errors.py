"""Every error this package raises.

MpfedxgbError
├── UserError (also ValueError)       what a caller passed
│   ├── SettingsError                 a setting is missing, unknown or out of range
│   ├── DataError                     a table or label cannot be used; its text quotes data and stays with its role
│   ├── DoesNotFitError               a number does not fit the ring or the scale asked for
│   └── CheckpointError               a checkpoint cannot be written, read, or used for this training
├── SecretError (also TypeError)      a secret was tested, printed, pickled or looked at by the wrong role
├── KeyReuseError                     a mask would have been used for a second value
└── FederationError                   something between the roles
    ├── FrameError                    bytes that are not a frame: truncated, oversized, garbled
    ├── AlienFrameError               a frame of another session or another sender
    ├── OutOfStepError                two roles met at different steps of the program
    ├── HandshakeError                the roles do not agree on what they are about to run
    ├── PeerTimeoutError              a peer did not answer, or did not take a message, in time
    ├── PeerFinishedError             a peer ended its program while something was still expected of it
    ├── PeerFailedError               a peer failed, and said why
    └── StoppedError                  somebody stopped this role on purpose

The text of an error is safe to send to other organisations: it names roles, steps, shapes and sizes, never data. There
are two exceptions. Of a DataError other roles are told the type only, as of errors that are not ours; and of a
checkpoint that fails they are not told where it is.
"""

from __future__ import annotations


class MpfedxgbError(Exception):
    """Base of every error of this package."""


class UserError(MpfedxgbError, ValueError):
    """What the caller passed cannot be used; the message names it and the remedy."""


class SettingsError(UserError):
    """A setting is missing, unknown or out of range."""


class DataError(UserError):
    """A table, label or weight cannot be used; the message may quote column and value, so it stays with its role."""


class DoesNotFitError(UserError):
    """A number does not fit the ring or the scale asked for."""


class CheckpointError(UserError):
    """A checkpoint cannot be written, or is damaged, missing or of another training."""


class SecretError(MpfedxgbError, TypeError):
    """A secret was tested, printed, pickled or looked at by the wrong role."""


class KeyReuseError(MpfedxgbError):
    """A stream key was about to mask a second value."""


class FederationError(MpfedxgbError):
    """Something went wrong between the roles."""


class FrameError(FederationError):
    """Bytes that are not a frame of this protocol."""


class AlienFrameError(FederationError):
    """A frame of another session or from another sender."""


class OutOfStepError(FederationError):
    """Two roles met at different steps of the program."""


class HandshakeError(FederationError):
    """The roles do not agree on what they are about to run."""


class PeerTimeoutError(FederationError):
    """A peer did not answer, or did not take a message, in time."""


class PeerFinishedError(FederationError):
    """A peer ended its program while something was still expected of it."""


class PeerFailedError(FederationError):
    """A peer failed; `origin` is the role it began with and `reason` what that role said."""

    def __init__(self, origin: str, reason: str) -> None:
        super().__init__(f"{origin} failed: {reason}")
        self.origin = origin
        self.reason = reason


class StoppedError(FederationError):
    """Somebody stopped this role on purpose, with a signal."""


def public_reason(error: BaseException) -> str:
    """Return what other roles may be told of an error: our own errors whole, unless they quote data; else the type.

    Where checkpoints are on a role's machine is nobody else's business either.
    """
    if isinstance(error, CheckpointError):
        return f"{type(error).__name__}: a checkpoint cannot be written, read or used; the log there says which"
    if isinstance(error, MpfedxgbError) and not isinstance(error, DataError):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__
