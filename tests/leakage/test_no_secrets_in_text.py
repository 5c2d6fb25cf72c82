"""Nothing that can be printed, formatted or raised shows a seed, a key, a mask or a value."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import DoesNotFitError, PeerFailedError, SecretError
from mpfedxgb.party import ACTIVE, Party, run_locally, run_roles
from mpfedxgb.party.roster import Keyring
from mpfedxgb.protocols import (
    Bit,
    BitMatrix,
    BitProduct,
    Fractions,
    Opened,
    Product,
    Secret,
    Shares,
    make_tags,
    publish_matrix,
    share,
)
from mpfedxgb.ring import BIT, PACKED, VECTOR, RingArray, wide
from mpfedxgb.ring.prg import Stream
from mpfedxgb.transport.frame import Kind, decode, encode
from patience import patience
from support.every_protocol import ZEROS, Everything, every_protocol
from support.names import unlisted

VALUE = 7_391_846_205
"""A number that occurs nowhere by chance."""

BYTES = b"\x9d\xe1\x07\xb3" * 8
"""A seed or key; neither its bytes, hexadecimal digits nor numbers may be shown."""

FORBIDDEN = [str(VALUE), hex(VALUE)[2:], "157, 225", "157 225", "9de107", r"\x9d", "e1\\x07", "[1, 1", "[1 1", "1 1 1"]


def texts(thing: object) -> list[str]:
    """Return every way to turn something into text."""
    return [repr(thing), str(thing), f"{thing}", f"{thing!r:>3}", f"{thing}", repr([thing]), repr({"key": thing})]


def assert_silent(thing: object) -> None:
    """Make sure that no text of something shows what must not be shown."""
    for text in texts(thing):
        assert not any(secret in text for secret in FORBIDDEN), text


def ring_array() -> RingArray:
    """Return ring elements that must not be seen."""
    return RingArray.encode(VECTOR, np.full(9, VALUE))


def secret() -> Secret:
    """Return a masked secret."""
    return Secret(ring_array(), ring_array())


def bit() -> Bit:
    """Return masked bits."""
    ones = RingArray.encode(BIT, np.ones(9, np.int64))
    return Bit(Secret(ones, ones), True)


THINGS: dict[str, Callable[[], object]] = {
    "Keyring": lambda: Keyring({1: BYTES, 2: BYTES}, BYTES, private=BYTES),
    "private stream": lambda: Keyring({1: BYTES}, BYTES, private=BYTES).private_stream("coin"),
    "Stream": lambda: Stream(BYTES),
    "RingArray": ring_array,
    "RingArray, wide": lambda: RingArray.encode(wide(3), np.full(9, VALUE)),
    "RingArray, packed": lambda: RingArray.encode(PACKED, np.full(9, 157)),
    "RingArray, hidden": lambda: RingArray.hidden(VECTOR, (9,)),
    "Secret": secret,
    "Shares": lambda: Shares(ring_array()),
    "Bit": bit,
    "BitProduct": lambda: BitProduct((bit(),), secret(), secret()),
    "Product": lambda: Product((secret(), secret())),
    "Fractions": lambda: Fractions(secret(), secret()),
    "BitMatrix": lambda: BitMatrix(np.ones((9, 9), np.uint8)),
    "Opened": lambda: Opened(np.zeros(9, np.int64), np.full(9, VALUE)),
    "Everything": lambda: Everything([secret()], [Shares(ring_array())], [ring_array()]),
    "frame with a seed": lambda: frame(np.frombuffer(BYTES, np.uint8)),
    "frame with shares": lambda: frame(np.full(9, VALUE, np.uint64)),
}


def frame(array: np.ndarray[Any, Any]) -> object:
    """Return a decoded frame."""
    block = encode(Kind.HELLO, 0, bytes(16), 1, "handshake", [array])
    return decode(block, len(block))


@pytest.mark.parametrize("name", THINGS)
def test_text_of_a_thing_shows_no_content(name: str) -> None:
    """Whatever holds a secret is shown by type, ring and shape."""
    assert_silent(THINGS[name]())


def hold_everything(party: Party, value: int) -> list[object]:
    """Return one of everything that a role gets hold of in a run; all content is the same well-known number."""
    mine = RingArray.encode(VECTOR, np.full(9, value)) if party.role == 2 else None
    matrix = BitMatrix(np.ones((9, 9), np.uint8)) if party.role == 2 else None
    x = share(party, 2, VECTOR, (9,), mine)
    tags = make_tags(party, (9,), [(1, 2), (2, 2)])
    private = publish_matrix(party, 2, 9, 9, matrix)
    return [
        party,
        party.keys,
        party._communicator,
        party.meter,
        party.ledger,
        party.roster,
        x,
        tags,
        private,
        party.meter.now,
    ]


class Loud:
    """A stream of a known number, as a test's replacement for the keyed streams."""

    def elements(self, ring: Any, shape: tuple[int, ...]) -> RingArray:
        """Return the number over and over."""
        return RingArray.encode(ring, np.full(shape, VALUE % (1 << ring.bits)))

    def again(self, start: int = 0) -> Loud:
        """Return the same stream."""
        return Loud()


@pytest.mark.parametrize("participants", [2, 3])
def test_text_of_what_a_run_holds_shows_no_content(participants: int) -> None:
    """Party, keys, frames, meter, ledger, secrets, tags with their blinding, matrices; the whole run; every outcome."""
    private = [(VALUE,)] * (participants + 1)
    run = run_locally(hold_everything, participants, private, make_source=lambda p, label, key: Loud())
    outcomes = run_roles(lambda party, value: value, participants, private)

    for held in run.results:
        assert_silent(held)
        for thing in held:
            assert_silent(thing)
    assert_silent(run)
    assert_silent(outcomes)


def test_text_of_a_run_with_real_keys_shows_no_seed() -> None:
    """No long run of hexadecimal digits or of byte escapes stands in what a run leaves behind."""
    run = run_locally(every_protocol, 2, [(8,), (8, ZEROS), (8, ZEROS)], SessionSettings(insecure_seed=1))
    for text in texts(run) + texts(run.meters) + texts(run.ledgers):
        assert not re.search(r"[0-9a-f]{24}|(\\x[0-9a-f]{2}){4}", re.sub(r"0x[0-9a-f]+", "", text))


REFUSALS: dict[str, Callable[[Party], object]] = {
    "number that does not fit": lambda party: RingArray.encode(BIT, [VALUE]),
    "number that does not fit a wide ring": lambda party: RingArray.encode(VECTOR, [VALUE << 64]),
    "fraction": lambda party: RingArray.encode(VECTOR, [VALUE + 0.5]),
    "text among numbers": lambda party: RingArray.encode(VECTOR, np.array([str(VALUE)], object)),
    "wrong shape": lambda party: share(party, party.role, VECTOR, (3,), ring_array()),
    "wrong ring": lambda party: share(party, party.role, BIT, (9,), ring_array()),
    "factor that is a label": lambda party: secret() * np.int64(VALUE),  # type: ignore[operator]
    "factor that is a float": lambda party: secret() * float(VALUE),  # type: ignore[operator]
    "factor that is a column": lambda party: secret() * np.full(9, VALUE),
    "factor that is an array": lambda party: secret() * ring_array(),  # type: ignore[operator]
    "truth of a secret": lambda party: bool(secret()),
    "truth of an array": lambda party: bool(ring_array()),
    "equality": lambda party: secret() == VALUE,
    "loop": lambda party: list(secret()),
    "matrix of another shape": lambda party: publish_matrix(
        party, party.role, 3, 9, BitMatrix(np.ones((9, 3), np.uint8))
    ),
    "foreign error": lambda party: int(f"{VALUE}?"),
    "owner that does not exist": lambda party: share(party, 99, VECTOR, (9,), ring_array()),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("failing", [1, 2])
def test_error_of_one_role_tells_the_others_no_content(name: str, failing: int) -> None:
    """Whatever goes wrong with a value in one role, the abort that reaches the others does not quote it."""
    blocks = []

    def program(party: Party) -> None:
        if party.role == failing:
            REFUSALS[name](party)
        party.tell_everyone(unlisted("never"), [0])

    outcomes = run_roles(
        program, 3, settings=SessionSettings(deadline=patience(5)), tap=lambda s, r, block: blocks.append(block)
    )

    assert outcomes[failing].error is not None
    for outcome in outcomes:
        if outcome.role != f"P{failing}":
            assert isinstance(outcome.error, PeerFailedError)
            assert_silent(outcome.error)
            assert_silent("".join(traceback.format_exception(outcome.error)))
        assert_silent(outcome)
    for block in blocks:
        assert str(VALUE).encode() not in block


OWN = [name for name in REFUSALS if name != "foreign error"]


@pytest.mark.parametrize("name", OWN)
def test_error_of_the_engine_shows_no_content_even_at_home(name: str) -> None:
    """The engine's own errors, their notes and their chain do not quote values, so they may be logged anywhere."""

    def program(party: Party) -> None:
        if party.role == ACTIVE:
            REFUSALS[name](party)
        party.tell_everyone(unlisted("never"), [0])

    with pytest.raises((SecretError, DoesNotFitError, IndexError)) as caught:
        run_locally(program, 2, settings=SessionSettings(deadline=patience(5)))

    assert_silent(caught.value)
    assert any("in the program of P1" in note for note in caught.value.__notes__)
    assert not any(secret in note for note in caught.value.__notes__ for secret in FORBIDDEN)


def test_forbidden_texts_are_found() -> None:
    """Negative control: arrays, numbers and bytes that nobody hides are caught."""
    for loud in (np.full(9, VALUE), VALUE, BYTES, np.frombuffer(BYTES, np.uint8), np.ones((9, 9), np.uint8)):
        with pytest.raises(AssertionError):
            assert_silent(loud)
