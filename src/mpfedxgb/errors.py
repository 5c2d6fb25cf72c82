"""Every error this package raises.

MpfedxgbError
├── UserError (also ValueError)       what a caller passed
│   ├── SettingsError                 a setting is missing, unknown or out of range
│   │   └── UnknownParameterError (also TypeError)   there is no parameter of that name
│   ├── DataError                     a table or label cannot be used; its text quotes data and stays with its role
│   ├── DoesNotFitError               a number does not fit the ring or the scale asked for
│   ├── NoRoomError                   a training would need more memory or disk than a machine has
│   └── CheckpointError               a checkpoint or record cannot be written, read, or used; or a disk is full
├── SecretError (also TypeError)      a secret was tested, printed, pickled or looked at by the wrong role
├── KeyReuseError                     a mask would have been used for a second value
├── WorkersError                      this role's own cluster of workers cannot be used any more
└── FederationError                   something between the roles
    ├── FrameError                    bytes that are not a frame: truncated, oversized, garbled
    ├── AlienFrameError               a frame of another session or another sender
    ├── OutOfStepError                two roles met at different steps of the program
    ├── HandshakeError                the roles do not agree on what they are about to run
    ├── RefusedError                  a role does not answer what another one asks, and says why
    ├── PeerTimeoutError              a peer did not answer, or did not take a message, in time
    │   └── MissingPeerError          not all roles came in time, so that nothing has begun
    ├── ExhaustedError                this machine has no descriptor or memory left for a connection, for now
    ├── PeerFinishedError             a peer ended its program while something was still expected of it
    └── PeerFailedError               a peer failed, and said why

StoppedError (a BaseException)        somebody stopped this role on purpose

A stop comes with a signal, anywhere: in this package, in Python's own library. Much of that survives every
Exception, or takes it for trouble of its own. So a stop is none, as KeyboardInterrupt is none.

The text of an error is safe to send to other organisations: it names roles, steps, shapes and sizes, never data. There
are four exceptions. Of a DataError other roles learn the kind only, as of errors that are not ours; of a checkpoint
or a spool that fails, and of a role's own workers, they do not learn where it is; and of a lack of room they learn
what is needed, which they can compute themselves, and not what the machine has.

Roles tell each other an error's kind, a name in this tree or MemoryError, beside its text. Programs go by the kind; the
text is for people.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Literal, TypeVar

Code = Literal[
    "",  # the class says all there is to say
    "missing",  # something that is needed was not given, or is not there
    "unknown",  # nothing has that name
    "choice",  # none of those that there are
    "type",  # a value of another type or form
    "range",  # beyond what is possible or allowed
    "value",  # not understood, or of no use by itself
    "few",  # less of it than is needed: rows, columns, classes, candidates
    "duplicate",  # there twice, or once too often
    "mismatch",  # differs from something that it has to agree with
    "mode",  # does not go with the mode (`security`) or another choice that was made
    "place",  # belongs to another place, role or command
    "refused",  # known, and not supported or not accepted
    "version",  # of another version, or by other rules
    "package",  # a package has to be installed
    "file",  # the system does not let it be read, written, locked or listened on
    "busy",  # somebody else is using it
    "room",  # no memory, disk or place is left for it
    "damaged",  # not what was written or sent
    "certificate",  # a certificate is not accepted
    "secret",  # would be shown to somebody
    "late",  # did not come in time
    "ended",  # is closed, or has ended
    "failed",  # failed by itself
]
"""What is wrong, in a word for programs."""


class MpfedxgbError(Exception):
    """Base of every error of this package: a text for people, and the same for programs.

    `code` says what is wrong. `parameter` is what it is about: an argument or key (`table.key`), an option without its
    hyphens, a column, a file's name, a role. `value` is what was given or found, where that is short and no secret.
    Other roles get none of the three, and no log shows them.
    """

    code: Code = ""

    def __init__(self, message: str = "", code: Code | None = None, parameter: str = "", value: object = None) -> None:
        super().__init__(message)
        self.code = type(self).code if code is None else code
        self.parameter, self.value = parameter, value


class UserError(MpfedxgbError, ValueError):
    """What the caller passed cannot be used; the message names it and the remedy."""


class SettingsError(UserError):
    """A setting is missing, unknown or out of range; `faults` are all that it names."""

    named: tuple[SettingsError, ...] = ()

    @property
    def faults(self) -> tuple[SettingsError, ...]:
        """The errors that this one puts together, or itself."""
        return self.named or (self,)


class UnknownParameterError(SettingsError, TypeError):
    """There is no parameter of that name; as for any function's unknown argument, this is also a TypeError."""


class DataError(UserError):
    """A table, label or weight cannot be used; the message may quote column and value, so it stays with its role."""


class DoesNotFitError(UserError):
    """A number does not fit the ring or the scale asked for."""

    code = "range"


class NoRoomError(UserError):
    """A training would need more memory or disk than this machine has; `needed` is what other roles may read."""

    code = "room"

    def __init__(
        self, needed: str, there: str = "", code: Code | None = None, parameter: str = "", value: object = None
    ) -> None:
        self.needed = needed
        super().__init__(f"{needed}{there}", code, parameter, value)


class CheckpointError(UserError):
    """A checkpoint or record cannot be written, or is damaged, missing or of another training; or a disk is full."""


class SecretError(MpfedxgbError, TypeError):
    """A secret was tested, printed, pickled or looked at by the wrong role."""

    code = "secret"


class KeyReuseError(MpfedxgbError):
    """A stream key was about to mask a second value."""

    code = "duplicate"


class WorkersError(MpfedxgbError):
    """The scheduler or the workers of this role's own cluster are gone, or do not do what they have to."""


class StoppedError(BaseException):
    """Somebody stopped this role on purpose, with a signal."""


_IN_ONE_GO: set[CodeType] = set()

_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_one_go(function: _Function) -> _Function:
    """Have stops wait for the end of every call of a function that never waits, and that must not be left half done."""
    _IN_ONE_GO.add(function.__code__)
    return function


def may_stop_in(frame: FrameType | None) -> bool:
    """Return whether a program may be stopped where it is."""
    while frame is not None and frame.f_code not in _IN_ONE_GO:
        frame = frame.f_back
    return frame is None


class FederationError(MpfedxgbError):
    """Something went wrong between the roles."""


class FrameError(FederationError):
    """Bytes that are not a frame of this protocol."""

    code = "damaged"


class AlienFrameError(FederationError):
    """A frame of another session or from another sender."""

    code = "mismatch"


class OutOfStepError(FederationError):
    """Two roles met at different steps of the program."""

    code = "mismatch"


class HandshakeError(FederationError):
    """The roles do not agree on what they are about to run."""

    code = "mismatch"


class RefusedError(FederationError):
    """A role does not answer what another one asks of it: it is not how the program asks, or beyond a limit.

    `public` is what other roles may read of it.
    """

    def __init__(
        self, public: str, figures: str = "", code: Code | None = None, parameter: str = "", value: object = None
    ) -> None:
        self.public = public
        super().__init__(f"{public}{figures}", code, parameter, value)


class PeerTimeoutError(FederationError):
    """A peer did not answer, or did not take a message, in time."""

    code: Code = "late"


class MissingPeerError(PeerTimeoutError):
    """Not all roles came in time; nothing has begun without them."""

    code = "missing"


class ExhaustedError(FederationError):
    """Nothing is left on this machine for another connection, no descriptor or no memory; that may pass."""

    code = "room"


class PeerFinishedError(FederationError):
    """A peer ended its program while something was still expected of it."""

    code = "ended"


class PeerFailedError(FederationError):
    """A peer failed; `origin` is the role it began with, `reason` what that role said, `kind` the name of its error.

    `sender` is the role whose connection brought this: the origin, or else all of it is the word of another one.
    """

    code = "failed"

    def __init__(self, origin: str, reason: str, kind: str, sender: str | None = None) -> None:
        self.origin, self.reason, self.kind = origin, reason, kind if kind in KINDS else UNKNOWN
        self.sender = origin if sender is None else sender
        said = f"{sender} says that " if self.is_hearsay else ""
        text = f"{said}{origin} failed: {'' if self.kind == UNKNOWN else f'{self.kind}: '}{reason}"
        super().__init__(text, parameter=origin, value=self.kind)

    @property
    def is_hearsay(self) -> bool:
        """Whether another role than the failed one said so."""
        return self.sender != self.origin


def raise_all(errors: Iterable[SettingsError], place: str = "") -> None:
    """Raise one error that names all the others, the first of which gives it its code; none, if there are none."""
    faults = tuple(fault for error in errors for fault in error.faults)
    if not faults:
        return
    texts = [f"({i}) {fault}" for i, fault in enumerate(faults[:MOST_FAULTS], 1)]
    texts += [f"and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
    message = f"{place}: " if place else ""
    message += str(faults[0]) if len(faults) == 1 else "; ".join(texts)
    kind = next((type(fault) for fault in faults if isinstance(fault, UnknownParameterError)), SettingsError)
    error = kind(message, faults[0].code, faults[0].parameter, faults[0].value)
    error.named = faults
    raise error


MOST_FAULTS = 12
"""How many mistakes one message lists."""


@contextmanager
def as_checkpoint_error(what: str) -> Iterator[None]:
    """Raise an OSError of the block as a CheckpointError that begins with `what` and gives the system's reason."""
    try:
        yield
    except OSError as error:
        text = f"{what}: {error.strerror or type(error).__name__}; what was there before is unchanged"
        raise CheckpointError(text, "file", value=error.errno) from None


def is_full_disk(error: BaseException) -> bool:
    """Return whether something could not be written because there is no room for it: on the disk, or by a limit."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_exhaustion(error: BaseException) -> bool:
    """Return whether the operating system has run out of something that others may give back."""
    passing = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
    return isinstance(error, OSError) and error.errno in passing


UNKNOWN = "Exception"
"""The kind of an error that is not ours, or that a peer did not name as we do."""

NO_MEMORY = MemoryError.__name__
"""The one kind that is not ours but has a name: a machine that is too small is no defect."""

KINDS = frozenset(
    name
    for name, found in list(globals().items())
    if isinstance(found, type) and issubclass(found, (MpfedxgbError, StoppedError))
) | {NO_MEMORY}
"""The names in the tree above, and that one."""


def kind_of(error: BaseException) -> str:
    """Return which of KINDS an error is, by the nearest class of the tree above; UNKNOWN if it is not ours."""
    if isinstance(error, MemoryError):
        return NO_MEMORY
    return next((c.__name__ for c in type(error).__mro__ if c.__module__ == __name__), UNKNOWN)


def public_reason(error: BaseException) -> str:
    """Return what people at other roles may read of an error: our own texts, unless they quote data; else the type.

    Where checkpoints are on a role's machine is nobody else's business either.
    """
    if isinstance(error, DataError):
        return "a table, label or weight cannot be used; the log there says which"
    if isinstance(error, CheckpointError):
        return "a file cannot be written, read or used; the log there says which"
    if isinstance(error, NoRoomError):
        return error.needed
    if isinstance(error, RefusedError):
        return error.public
    if isinstance(error, WorkersError):
        return "the workers of that role cannot be used any more; the log there says why"
    if isinstance(error, MemoryError):
        return "there is not enough memory on that machine"
    return str(error) if isinstance(error, (MpfedxgbError, StoppedError)) else type(error).__name__


def own_reason(error: BaseException) -> str:
    """Return what this role's own people read of an error; Python says little of a lack of memory."""
    if not isinstance(error, MemoryError):
        return str(error)
    detail = f" ({error})" if str(error) else ""
    return (
        f"there is not enough memory on this machine{detail}; take a larger one, or fewer rows, columns or bins, or "
        "raise the limit of this process"
    )


def printable(text: str) -> str:
    """Return a text without what a terminal or a log would obey: controls, line breaks, changes of direction."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)
