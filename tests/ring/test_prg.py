"""The one door for randomness: key streams against the bare cipher, HKDF against `cryptography`, uniformity."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, wide
from mpfedxgb.ring.prg import _CHUNK, KEY_BYTES, Stream, digest, expand, extract, os_entropy
from support.property_tests import examples
from support.ring_strategies import ALL_RINGS, to_ints

P_VALUE = 1e-6
keys = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)
some = examples(50)


def fixed_key(number: int) -> bytes:
    """Return a key that is the same in every run."""
    return hashlib.sha256(f"test key {number}".encode()).digest()


def uniform(values: npt.NDArray[np.integer], cells: int) -> float:
    """Return the p-value of values in 0..cells-1 under the uniform distribution (chi-square)."""
    counts = np.bincount(values.ravel().astype(np.int64), minlength=cells)
    assert counts.size == cells
    return float(stats.chisquare(counts).pvalue)


# Streams


@some
@given(keys, st.integers(0, 300))
def test_stream_is_aes_in_counter_mode(key: bytes, count: int) -> None:
    """The bytes are those of AES-128-CTR under the first half of the key, from the counter in the second."""
    encryptor = Cipher(algorithms.AES(key[:16]), modes.CTR(key[16:])).encryptor()
    assert Stream(key).octets(count).tobytes() == encryptor.update(bytes(count))


@some
@given(keys, st.lists(st.integers(0, 100), max_size=8))
def test_pieces_are_the_whole(key: bytes, sizes: list[int]) -> None:
    """However the bytes are asked for, they come in one order, none twice and none left out."""
    stream = Stream(key)
    pieces = b"".join(stream.octets(size).tobytes() for size in sizes)
    assert pieces == Stream(key).octets(sum(sizes)).tobytes()


@pytest.mark.parametrize("count", [_CHUNK - 1, _CHUNK, _CHUNK + 1, 3 * _CHUNK + 5])
def test_streams_go_on_over_chunk_boundaries(count: int) -> None:
    """The internal chunks leave no seam, in one request or in two."""
    key = fixed_key(1)
    encryptor = Cipher(algorithms.AES(key[:16]), modes.CTR(key[16:])).encryptor()
    wanted = encryptor.update(bytes(count + 100))
    stream = Stream(key)
    assert stream.octets(count).tobytes() == wanted[:count]
    assert stream.octets(100).tobytes() == wanted[count:]


@some
@given(keys, st.sampled_from(ALL_RINGS), st.sampled_from([(), (0,), (3,), (2, 0, 3), (2, 9)]))
def test_elements_are_repeatable(key: bytes, ring: Ring, shape: tuple[int, ...]) -> None:
    """The same key gives the same elements, in the ring and of the shape asked for."""
    first, second = Stream(key), Stream(key)
    for _ in range(2):
        x, y = first.elements(ring, shape), second.elements(ring, shape)
        assert (x.ring, x.shape) == (ring, shape)
        assert to_ints(x).tolist() == to_ints(y).tolist()


@some
@given(keys, st.sampled_from(ALL_RINGS))
def test_again_starts_over(key: bytes, ring: Ring) -> None:
    """`again` is the stream from its beginning, wherever the first one is; neither disturbs the other."""
    stream = Stream(key)
    beginning = to_ints(stream.elements(ring, (40,))).tolist()
    repeated = stream.again()
    rest = to_ints(stream.elements(ring, (40,))).tolist()
    assert to_ints(repeated.elements(ring, (40,))).tolist() == beginning
    assert to_ints(repeated.elements(ring, (40,))).tolist() == rest


@some
@given(keys, st.integers(0, 200), st.integers(0, 70))
def test_a_stream_starts_anywhere(key: bytes, start: int, count: int) -> None:
    """From a start, at or between the cipher's blocks, come the bytes that the whole stream has there."""
    whole = Stream(key).octets(start + count)
    assert Stream(key, start).octets(count).tobytes() == whole[start:].tobytes()
    moved = Stream(key)
    moved.octets(5)
    assert moved.again(start).octets(count).tobytes() == whole[start:].tobytes()


def test_a_start_carries_over_the_end_of_the_counter() -> None:
    """A counter of all ones goes on at zero, wherever the stream is begun."""
    key = fixed_key(4)[:16] + b"\xff" * 16
    whole = Stream(key).octets(1000)
    for start in (15, 16, 17, 999):
        assert Stream(key, start).octets(1000 - start).tobytes() == whole[start:].tobytes()


def test_elements_go_on_where_the_last_ended() -> None:
    """Two requests are one long one, for rings of whole bytes."""
    for ring in (VECTOR, PACKED, wide(3)):
        stream = Stream(fixed_key(2))
        parts = [*to_ints(stream.elements(ring, (7,))), *to_ints(stream.elements(ring, (2, 3))).ravel()]
        assert parts == to_ints(Stream(fixed_key(2)).elements(ring, (13,))).tolist()


def test_streams_of_two_keys_differ() -> None:
    """A single bit of the key, in either half, changes the stream."""
    key = fixed_key(3)
    streams = {Stream(key).octets(64).tobytes()}
    for place in range(KEY_BYTES):
        other = bytearray(key)
        other[place] ^= 1
        streams.add(Stream(bytes(other)).octets(64).tobytes())
    assert len(streams) == KEY_BYTES + 1


def test_a_stream_does_not_print_its_key() -> None:
    """`repr` has no secret in it."""
    assert repr(Stream(bytes(range(32)))) == "Stream()"


# Uniformity: keys are fixed, so these tests never flake


@pytest.mark.parametrize("ring", [*(Ring(bits) for bits in range(1, 9)), BIT, Ring(3, bitwise=True), PACKED], ids=repr)
def test_small_elements_are_uniform(ring: Ring) -> None:
    """Every element is equally frequent."""
    values = Stream(fixed_key(ring.bits)).elements(ring, (1 << 16,)).data
    assert uniform(values, 1 << ring.bits) > P_VALUE


@pytest.mark.parametrize("ring", [Ring(9), Ring(40), Ring(63), VECTOR, wide(2), wide(3), wide(4)], ids=repr)
def test_every_byte_of_large_elements_is_uniform(ring: Ring) -> None:
    """Every byte, and the incomplete one at the top, is uniform at every place."""
    octets = Stream(fixed_key(ring.bits)).elements(ring, (1 << 14,)).data.view(np.uint8).reshape(1 << 14, -1)
    for place in range(octets.shape[1]):
        bits = min(8, ring.bits - 8 * place)
        if bits <= 0:
            assert not octets[:, place].any()
        else:
            assert uniform(octets[:, place], 1 << bits) > P_VALUE, place


def test_neighbours_are_independent() -> None:
    """Pairs of successive elements, and the elements of two streams side by side, fill their squares evenly."""
    first = Stream(fixed_key(10)).elements(Ring(4), (1 << 17,)).data.astype(np.int64)
    second = Stream(fixed_key(11)).elements(Ring(4), (1 << 17,)).data.astype(np.int64)
    assert uniform(16 * first[0::2] + first[1::2], 256) > P_VALUE
    assert uniform(16 * first + second, 256) > P_VALUE


def test_the_uniformity_test_can_fail() -> None:
    """One value in a hundred moved is enough to be noticed."""
    values = Stream(fixed_key(12)).elements(Ring(4), (1 << 16,)).data.copy()
    values[::100] = 3
    assert uniform(values, 16) < P_VALUE


def test_os_entropy() -> None:
    """Seeds have the length asked for and do not repeat."""
    assert len({os_entropy(32) for _ in range(100)}) == 100
    assert [len(os_entropy(count)) for count in (0, 1, 16, 32)] == [0, 1, 16, 32]


# HKDF and digests


def test_hkdf_of_the_rfc() -> None:
    """Test case 1 of RFC 5869, as far as its first 32 bytes."""
    key = extract(bytes(range(13)), b"\x0b" * 22)
    assert key.hex() == "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5"
    output = expand(key, bytes(range(0xF0, 0xFA)))
    assert output.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


@some
@given(st.binary(min_size=1, max_size=100), st.binary(max_size=100), st.binary(max_size=100))
def test_hkdf_is_that_of_cryptography(salt: bytes, secret: bytes, info: bytes) -> None:
    """`extract` and `expand`, together and apart, agree with another implementation."""
    whole = HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)
    assert expand(extract(salt, secret), info) == whole
    key = extract(salt, secret)
    assert expand(key, info) == HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(key)


parts = st.lists(st.binary(max_size=12), max_size=5)


@examples(100)
@given(parts, parts)
def test_digests_of_different_parts_differ(a: list[bytes], b: list[bytes]) -> None:
    """Equal digests mean equal lists."""
    assert (digest(*a) == digest(*b)) == (a == b)


@examples(100)
@given(st.binary(max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_digests_know_where_parts_end(blob: bytes, cut: int, other: int) -> None:
    """The same bytes divided elsewhere, or not divided, have another digest; so have empty parts."""
    cut, other = min(cut, len(blob)), min(other, len(blob))
    assert (digest(blob[:cut], blob[cut:]) == digest(blob[:other], blob[other:])) == (cut == other)
    assert digest(blob) != digest(blob, b"")
    assert digest(blob) != digest(b"", blob)
    assert digest() != digest(b"")


def test_a_part_cannot_imitate_two() -> None:
    """Even a part that holds another's length and content stays one part."""
    forged = b"ab" + (2).to_bytes(8, "little") + b"cd"
    assert digest(forged) != digest(b"ab", b"cd")
