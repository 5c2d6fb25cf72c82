"""What each protocol's docstring says of rounds, bytes and reveals, held to the meter and the ledger."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpfedxgb import protocols
from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.party import ALL, Party, Reveal
from mpfedxgb.party.entries import Entry
from mpfedxgb.protocols import (
    Bit,
    BitField,
    BitMatrix,
    BitProduct,
    Borrow,
    Product,
    Secret,
    Shares,
    Sign,
    Stage,
    add_public,
    argmax,
    bit_times,
    bits_to_ring,
    both,
    compare_together,
    cut,
    divide,
    follow_openings,
    fractions,
    inner_product,
    less_than,
    lift,
    lift_opened,
    lift_secret,
    look_up,
    make_tags,
    mask_rows,
    masked_by,
    matrices_times,
    multiply,
    negative,
    negative_by_bits,
    open_bit,
    open_groups,
    open_masked,
    open_pending,
    open_shares,
    open_tags,
    public_secret,
    public_shares,
    publish_matrices,
    publish_matrix,
    quotient,
    reciprocal,
    reveal,
    round_off,
    rounded_quotient,
    select,
    share,
    share_bit,
    share_each,
    share_together,
    shares_of_bit_products,
    shift,
    split_rows,
    sum_of_products,
    sums_of_bit_products,
    sums_of_products,
    to_shares,
    truncate,
    winning_tags,
)
from mpfedxgb.protocols.opening import masking
from mpfedxgb.protocols.share import publish
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide
from mpfedxgb.transport.transport import MESH, STAR
from support.evaluation import Compute, Evaluation, Operand, evaluate, operand, run_patiently
from support.names import unlisted

Function = Callable[..., Any]

Sent = Callable[[int, str], list[dict[str, int]]]
"""From the number of participants and the topology: what each of them sends to whom, in bytes, P_1 first."""

COST = re.compile(r"Rounds: (?P<rounds>.+?)\.(?: Sent: (?P<sent>.+?)\.)? Reveals: (?P<reveals>.+?)\.( |$)")


@dataclass(frozen=True)
class Words:
    """The last lines of a protocol's docstring."""

    rounds: str
    sent: str | None
    reveals: str


def words(function: Function) -> Words | None:
    """Return what a docstring says of the cost, if it does."""
    found = COST.search(" ".join((function.__doc__ or "").split()))
    return None if found is None else Words(**{key: found.group(key) for key in ("rounds", "sent", "reveals")})


def no_reveal(count: int) -> set[Reveal]:
    """Nobody learns anything."""
    return set()


@dataclass(frozen=True)
class Case:
    """One call, the words its docstring has for the cost, and what they come to here."""

    function: Function
    operands: Sequence[Operand]
    compute: Compute
    rounds: tuple[str, int]
    sent: tuple[str | None, Sent | None]
    reveals: tuple[str, Callable[[int], set[Reveal]]] = ("nothing", no_reveal)


def names(first: int, last: int) -> list[str]:
    """Return the names of participants."""
    return [f"P{m}" for m in range(first, last + 1)]


def everyone(count: int, of: Callable[[int], int]) -> list[dict[str, int]]:
    """Each sends the others as many bytes as `of` says; nothing, where that is none."""
    return [{name: of(m) for name in names(1, count) if name != f"P{m}" and of(m)} for m in range(1, count + 1)]


def opening(size: int) -> Sent:
    """In a star, every auxiliary sends its part to P_1, who returns the sum; in a mesh, everyone sends to everyone."""
    return lambda count, topology: (
        everyone(count, lambda m: size)
        if topology == MESH
        else [dict.fromkeys(names(2, count), size), *[{"P1": size}] * (count - 1)]
    )


def from_active(size: int) -> Sent:
    """P_1 sends to every auxiliary."""
    return lambda count, topology: [dict.fromkeys(names(2, count), size), *[{}] * (count - 1)]


def from_second(size: int) -> Sent:
    """In a star, P_2 sends to P_1, who passes it on to the others; in a mesh, P_2 sends to all."""
    return lambda count, topology: (
        everyone(count, lambda m: size if m == 2 else 0)
        if topology == MESH
        else [dict.fromkeys(names(3, count), size), {"P1": size}, *[{}] * (count - 2)]
    )


def each(count: int, topology: str) -> list[dict[str, int]]:
    """Of three arrays of 32 bytes two are P_2's and one P_1's, who in a star sends on what a participant lacks."""
    if topology == MESH:
        return everyone(count, lambda m: {1: 32, 2: 64}.get(m, 0))
    return [{"P2": 32, **dict.fromkeys(names(3, count), 96)}, {"P1": 64}, *[{}] * (count - 2)]


def tags(count: int, topology: str) -> list[dict[str, int]]:
    """One tag for each participant is opened, and the active one announces the result."""
    active, *others = opening(8 * count)(count, topology)
    return [{**active, "coordinator": 8 * count}, *others]


def to_active(count: int, topology: str) -> list[dict[str, int]]:
    """Everybody sends to P_1."""
    return [{}, *[{"P1": 8 * N}] * (count - 1)]


def to_second(count: int, topology: str) -> list[dict[str, int]]:
    """In a star, everybody sends to P_1, who sends the sum to P_2; in a mesh, everybody sends to P_2."""
    others = {"P2" if topology == MESH else "P1": 8 * N}
    return [{"P2": 8 * N}, {}, *[others] * (count - 2)]


def nothing(count: int, topology: str) -> list[dict[str, int]]:
    """Nobody sends."""
    return [{}] * count


X = operand(VECTOR, np.arange(12).reshape(3, 4) - 5)
Y = operand(VECTOR, 7 - np.arange(12).reshape(3, 4))
WX, WY = (Operand(wide(3), x.values) for x in (X, Y))
B = operand(BIT, np.arange(12).reshape(3, 4) % 2)
P = operand(PACKED, np.arange(12))
N = 12
PACKED_BITS = operand(PACKED, [5, 10, 12])
XX = operand(VECTOR, np.arange(24) - 9)


def owned(ring: Ring, owner: int) -> Compute:
    """Share zeros (3, 4) of one participant."""
    return lambda party, xs: [share(party, owner, ring, (3, 4), RingArray.zeros(ring, (3, 4)))]


def shared_together(party: Party, xs: list[Secret]) -> list[Secret]:
    """Share zeros (3, 4) of P_2 in two rings."""
    specs = [(VECTOR, (3, 4)), (wide(3), (3, 4))]
    return share_together(party, 2, specs, [RingArray.zeros(*spec) for spec in specs])


def opened_masked(party: Party, xs: list[Secret]) -> list[Secret]:
    """Open shares in a step of their own."""
    party.step("open")
    return [open_masked(party, to_shares(party, xs[0]))]


def opened_groups(party: Party, xs: list[Secret]) -> list[Secret]:
    """Open shares of two rings, in a step of their own."""
    party.step("open")
    first, second = open_groups(party, *([masking(party, to_shares(party, x))] for x in xs))
    return [*first, *second]


def opened_shares(party: Party, xs: list[Secret]) -> list[Secret]:
    """Open shares of two rings under masks of the caller's."""
    party.step("open")
    masks = [party.fresh(x.ring, x.shape) for x in xs]
    parts = [to_shares(party, x).part + mask for x, mask in zip(xs, masks, strict=True)]
    return [Secret(total, mask) for total, mask in zip(open_shares(party, parts), masks, strict=True)]


def published(party: Party, xs: list[Secret]) -> list[Secret]:
    """Publish what P_2 has masked."""
    party.step("publish")
    mask = party.fresh_of(2, VECTOR, (3, 4))
    value = mask if party.role == 2 else RingArray.hidden(VECTOR, (3, 4))
    return [Secret(publish(party, 2, [value])[0], mask)]


def shared_each(party: Party, xs: list[Secret]) -> list[Secret]:
    """Share two arrays of P_2 and one of P_1."""
    mine = {i: RingArray.zeros(VECTOR, (4,)) for i, owner in enumerate((2, 1, 2)) if owner == party.role}
    return [share_each(party, (2, 1, 2), VECTOR, (4,), mine)]


def published_matrix(party: Party, xs: list[Secret]) -> list[Secret]:
    """Publish 5 columns of 4 rows of P_2."""
    publish_matrix(party, 2, 5, 4, BitMatrix(np.ones((5, 4), np.uint8)) if party.role == 2 else None)
    return []


def prepared_matrices_times(party: Party, xs: list[Secret]) -> list[Shares]:
    """Multiply with matrices of no columns, which cost nothing to publish."""
    empty = BitMatrix(np.ones((0, 4), np.uint8))
    matrices = [publish_matrix(party, m, 0, 4, empty if party.role == m else None) for m in (1, 2)]
    return [matrices_times(party, matrices, masked_by(party, party.roster.size, xs[0]))]


def split_in_two(party: Party, xs: list[Secret]) -> list[Secret]:
    """Split two vectors of four rows, of each of three nodes, by bits of the last participant."""
    return [split_rows(party, xs[0].reshape(3, 1), xs[1].reshape(3, 2, 4)).both]


def tournament(*stages: Stage) -> Compute:
    """Play four candidates in each of three tournaments."""

    def compute(party: Party, xs: list[Secret]) -> list[Secret]:
        return [argmax(party, fractions(xs[0], xs[1], xs[2]), stages).tag]

    return compute


def tags_won(*stages: Stage) -> Compute:
    """Play four candidates in each of three tournaments, up to shares of the winners' tags."""

    def compute(party: Party, xs: list[Secret]) -> list[Shares]:
        return [winning_tags(party, fractions(xs[0], xs[1], xs[2]), stages)]

    return compute


def compared(party: Party, xs: list[Secret]) -> list[Shares]:
    """Compare numbers of 64 bits in two rounds, of 21 low bits in two, and of 4 in none, all at once."""
    return compare_together(party, [Sign(xs[0], 64), Borrow(xs[1], 21), Borrow(xs[0], 4)])


def from_borrow(function: Function, *arguments: int) -> Case:
    """Return the case of what comes of an opened borrow without a round."""

    def compute(party: Party, xs: list[Secret]) -> list[Shares]:
        found = function(party, xs[0], *arguments, Bit(xs[1]))
        return [*found] if isinstance(found, tuple) else [found]

    return Case(function, [X, B], compute, ("0", 0), ("nothing", nothing))


def opened_tags(party: Party, xs: list[Secret]) -> list[Secret]:
    """Open one tag of each participant."""
    tags = make_tags(party, (), [(m, 1) for m in range(1, party.roster.size + 1)])
    open_tags(party, tags, tags.secret, unlisted("winner"))
    return []


def revealed(to: int, receiver: str, sent: Sent) -> Case:
    """Return the case of revealing the first operand."""

    def compute(party: Party, xs: list[Secret]) -> list[Secret]:
        reveal(party, xs[0], to, unlisted("value"))
        return []

    said = "size elements by each auxiliary but the receiver", sent
    ledger = "`name` to the receiver", lambda count: {Reveal("value", receiver, N)}
    return Case(reveal, [X], compute, ("1", 1), said, ledger)


def local(function: Function, compute: Compute, operands: Sequence[Operand] = (X,)) -> Case:
    """Return the case of a function that only says it is local."""
    return Case(function, operands, compute, ("local", 0), ("local", nothing))


def opens(
    function: Function, said: str, size: int, operands: Sequence[Operand], compute: Compute, rounds: int = 1
) -> Case:
    """Return the case of a protocol whose traffic is openings over the star, of so many bytes."""
    return Case(function, operands, compute, (str(rounds), rounds), (said, opening(size)))


def gates(party: Party, xs: list[Secret]) -> list[Secret]:
    """Gate the rows of all operands but the first by two bits, added up."""
    return sums_of_bit_products(party, [BitProduct((Bit(xs[0]),) * 2, x, axis=-1) for x in xs[1:]])


def cubes(party: Party, xs: list[Secret]) -> list[Secret]:
    """Return x^3 + x of each operand, added up along the first axis."""
    return sums_of_products(party, [[Product((x, x, x)), Product((x,))] for x in xs], axis=0)


AS_MANY = "at most `rounds`"
TWO_BITS = "two bits per digit, and then per group of digits, by each auxiliary"


def by_bits(bits: int, rounds: int, planes: int, ring: Ring = VECTOR) -> Case:
    """Return the case of a comparison on bits, in which so many bits are sent for each number: two bytes hold N."""
    return Case(
        compare_together,
        [Operand(ring, X.values)],
        lambda party, xs: [negative_by_bits(party, xs[0], bits, rounds)],
        (AS_MANY, rounds),
        (TWO_BITS, opening(2 * planes)),
    )


def divided(function: Function, said: tuple[str, str], compute: Compute) -> Case:
    """Return the case of N quotients of ten bits by 37, in digits of 3, 3 and 4 bits, and so of 7, 7 and 15 multiples.

    Of each multiple's 12, 11 and 11 digits, "less" and "equal" are opened, and then those of their groups.
    """
    signs = [(7 * N, 24 - 1 + 2 * 4 - 1), (7 * N, 22 - 1 + 2 * 4 - 1), (15 * N, 22 - 1 + 2 * 4 - 1)]
    size = sum(-(-count // 8) * planes for count, planes in signs) + sum(-(-N * w // 8) for w in (3, 3, 4)) + 3 * 24 * N
    operands = [operand(wide(3), np.arange(N) * 1000), operand(wide(3), np.arange(N) + (1 << 20))]
    return Case(function, operands, compute, (said[0], 4 * 3), (said[1], opening(size)))


SHARED = (
    "size elements by the owner (in a mesh, to each of the others; in a star, an auxiliary's are sent on to the others "
    "by the active participant)"
)
EACH = (
    "size elements per entry by its owner; in a star, the active participant sends each auxiliary what is not its own, "
    "in a mesh the owner each of the others"
)
MATRIX = (
    "8 columns * rows bytes by the owner to each receiver (in a star, an auxiliary's E is passed on by the active "
    "participant)"
)
OPENED = (
    "the elements of all parts by each auxiliary, in a star; in a mesh, by each participant to each other, or twice "
    "(M - 1) / M of them in all"
)
SIZE = "size elements by each auxiliary"
RESULT = "one element per result by each auxiliary"
DIGIT = "one byte per digit by each auxiliary"
BITS = "the bits of the result by each auxiliary"
TRUNCATED = "2, and at most `rounds` of the comparison"
LOW_DIGITS = "the digits of the low bits, a byte each or two bits and more, a bit and an element by each auxiliary"
STAGES = "3 and those of the comparison per stage, and 1 more where groups have more than two"

CASES = {
    "share, P_1": Case(share_together, [], owned(VECTOR, 1), ("1", 1), (SHARED, from_active(8 * N))),
    "share, P_2": Case(share_together, [], owned(wide(3), 2), ("1", 1), (SHARED, from_second(24 * N))),
    "share_together": Case(share_together, [], shared_together, ("1", 1), (SHARED, from_second(32 * N))),
    "publish": Case(
        publish,
        [],
        published,
        ("1", 1),
        ("as `share_together`", from_second(8 * N)),
        ("nothing, since the caller has masked it", no_reveal),
    ),
    "share_each": Case(
        share_each,
        [],
        shared_each,
        ("1", 1),
        (EACH, each),
    ),
    "share_bit": Case(
        share_bit,
        [],
        lambda party, xs: [share_bit(party, 2, (3, 4), RingArray.zeros(BIT, (3, 4))).secret],
        ("1", 1),
        ("one bit each by the owner (in a star passed on by the active participant)", from_second(2)),
    ),
    "open_masked": opens(open_masked, SIZE, 8 * N, [X], opened_masked),
    "open_groups": opens(
        open_groups, "the elements of all of them by each auxiliary", (8 + 24) * N, [X, WX], opened_groups
    ),
    "open_shares": Case(
        open_shares,
        [X, WX],
        opened_shares,
        ("1", 1),
        (OPENED, opening((8 + 24) * N)),
        ("nothing, since the caller has masked it", no_reveal),
    ),
    "multiply": opens(multiply, SIZE, 8 * N, [X, Y], lambda party, xs: [multiply(party, xs[0], xs[1])]),
    "multiply, wide": opens(multiply, SIZE, 24 * N, [WX, WY], lambda party, xs: [multiply(party, xs[0], xs[1])]),
    "inner_product": opens(
        inner_product,
        "one element per sum by each auxiliary",
        8 * 3,
        [X, Y],
        lambda party, xs: [inner_product(party, xs[0], xs[1])],
    ),
    "sums_of_products": opens(sums_of_products, RESULT, 4 * 8 + 4 * 24, [X, WY], cubes),
    "negative": opens(negative, DIGIT, 16 * N, [X], lambda party, xs: [negative(party, xs[0])]),
    "negative, wide": opens(negative, DIGIT, 48 * N, [WX], lambda party, xs: [negative(party, xs[0])]),
    "negative, by two bits": opens(negative, DIGIT, 32 * N, [X], lambda party, xs: [negative(party, xs[0], digit=2)]),
    "negative_by_bits, two rounds": by_bits(64, 2, 32 - 1 + 2 * 5 - 1),
    "negative_by_bits, three rounds": by_bits(64, 3, 32 - 1 + 2 * 8 - 1 + 2 * 3 - 1),
    "negative_by_bits, wide": by_bits(192, 2, 96 - 1 + 2 * 8 - 1, wide(3)),
    "negative_by_bits, wide, three rounds": by_bits(192, 3, 96 - 1 + 2 * 16 - 1 + 2 * 5 - 1, wide(3)),
    "compare_together": Case(
        compare_together,
        [X, WX],
        compared,
        (AS_MANY, 2),
        (TWO_BITS, opening(2 * (32 - 1 + 2 * 5 - 1 + 12 - 1 + 2 * 3 - 1))),
    ),
    "less_than": opens(less_than, DIGIT, 6 * N, [WX], lambda party, xs: [less_than(party, xs[0], 21)]),
    "open_bit": opens(
        open_bit,
        "one bit each by each auxiliary",
        2,
        [B],
        lambda party, xs: [open_bit(party, to_shares(party, xs[0])).secret],
    ),
    "both": opens(both, BITS, 2, [B, B], lambda party, xs: [both(party, xs[0], xs[1])]),
    "both, packed": opens(both, BITS, N, [P, P], lambda party, xs: [both(party, xs[0], xs[1])]),
    "sums_of_bit_products": opens(sums_of_bit_products, RESULT, 3 * 8 + 3 * 24, [B, X, WX], gates),
    "shares_of_bit_products": Case(
        shares_of_bit_products,
        [B, X],
        lambda party, xs: shares_of_bit_products(party, [BitProduct((Bit(xs[0]),), xs[1])]),
        ("0", 0),
        ("nothing", nothing),
    ),
    "select": opens(
        select,
        RESULT,
        2 * 8 * N,
        [B, X, Y],
        lambda party, xs: select(party, Bit(xs[0]), [(xs[1], xs[2]), (xs[2], xs[1])]),
    ),
    "bit_times": opens(bit_times, RESULT, 24 * N, [B, WX], lambda party, xs: [bit_times(party, Bit(xs[0]), xs[1])]),
    "lift": opens(
        lift,
        "size elements of either ring by each auxiliary",
        (8 + 24) * N,
        [X],
        lambda party, xs: [lift(party, to_shares(party, xs[0]), wide(3))],
        rounds=2,
    ),
    "lift_secret": opens(
        lift_secret,
        "size wide elements by each auxiliary",
        24 * N,
        [X],
        lambda party, xs: [lift_secret(party, xs[0], wide(3))],
    ),
    "lift_opened": opens(
        lift_opened,
        "size wide elements by each auxiliary",
        24 * N,
        [X],
        lambda party, xs: [lift_opened(party, xs[0] + 10, 10, wide(3))],
    ),
    "truncate": Case(
        truncate,
        [WX],
        lambda party, xs: [truncate(party, xs[0], 21)],
        (TRUNCATED, 3),
        (LOW_DIGITS, opening(6 * N + 2 + 24 * N)),
    ),
    "truncate, on bits": Case(
        truncate,
        [X],
        lambda party, xs: [truncate(party, xs[0], 21, rounds=2)],
        (TRUNCATED, 4),
        (LOW_DIGITS, opening(2 * (12 - 1 + 2 * 3 - 1) + 2 + 8 * N)),
    ),
    "round_off": Case(
        round_off,
        [X],
        lambda party, xs: [round_off(party, xs[0], 21)],
        ("as `truncate`", 3),
        ("as `truncate`", opening(6 * N + 2 + 8 * N)),
    ),
    "shift": from_borrow(shift, 21),
    "cut": from_borrow(cut, 21, 11),
    "look_up": opens(
        look_up,
        "one index each by each auxiliary",
        8 * N,
        [operand(Ring(11), np.arange(12).reshape(3, 4))],
        lambda party, xs: [look_up(party, to_shares(party, xs[0]), np.arange(2048, dtype=np.uint64), 20)],
    ),
    "bits_to_ring": opens(
        bits_to_ring,
        "the packed bits by each auxiliary",
        N,
        [operand(PACKED, np.arange(12).reshape(4, 3))],
        lambda party, xs: bits_to_ring(party, to_shares(party, xs[0]), [BitField(0, 5), BitField(9, 8)], VECTOR),
    ),
    "mask_rows": opens(mask_rows, SIZE, 8 * N, [X], lambda party, xs: [mask_rows(party, to_shares(party, xs[0]))[0]]),
    "reciprocal": Case(
        reciprocal,
        [WX],
        lambda party, xs: [reciprocal(party, xs[0], 100, 20, 3)],
        ("8 per iteration (two MULs, two truncations)", 8 * 3),
        (None, None),
    ),
    "divide": Case(
        divide,
        [WX, WY],
        lambda party, xs: [divide(party, xs[0], xs[1], 100, 20, 2)],
        ("8 n + 4", 8 * 2 + 4),
        (None, None),
    ),
    "quotient": divided(
        quotient,
        (
            "4 a digit, and fewer where the numbers are short",
            "what `negative_by_bits` takes for each multiple, and per value the bits of the quotient and an element a "
            "digit, by each auxiliary",
        ),
        lambda party, xs: [quotient(party, xs[0], xs[1], 10, 37, digit=4)],
    ),
    "rounded_quotient": divided(
        rounded_quotient,
        ("as `quotient`", "as `quotient`"),
        lambda party, xs: [rounded_quotient(party, xs[0], xs[1], 511, 36, digit=4)],
    ),
    "argmax, by pairs": Case(argmax, [WX, WY, X], tournament(Stage(2, 1), Stage(2, 3)), (STAGES, 4 + 6), (None, None)),
    "argmax, by fours": Case(argmax, [WX, WY, X], tournament(Stage(4, 2)), (STAGES, 6), (None, None)),
    "winning_tags": Case(
        winning_tags, [WX, WY, X], tags_won(Stage(2, 2), Stage(2, 1)), ("as `argmax`, less 1", 5 + 3), (None, None)
    ),
    "publish_matrix": Case(publish_matrix, [], published_matrix, ("1 per tile", 1), (MATRIX, from_second(8 * 5 * 4))),
    "matrices_times": Case(matrices_times, [X], prepared_matrices_times, ("0", 0), ("nothing", nothing)),
    "split_rows": opens(
        split_rows, "one element per row and vector by each auxiliary", 8 * 24, [PACKED_BITS, XX], split_in_two
    ),
    "masked_by": local(
        masked_by, lambda party, xs: [Secret(masked_by(party, party.roster.size, xs[0]).masked, xs[0].mask)]
    ),
    "open_tags": Case(
        open_tags,
        [],
        opened_tags,
        ("1, and an announcement to the coordinator, two where winners are its own", 1),
        (
            "one element per winner by each auxiliary",
            tags,
        ),
        (
            "`name`, the owners, to everyone; OWN_SPLIT, the local index, to its owner",
            lambda count: {
                Reveal("winner", "participants", count),
                Reveal("winner", "coordinator", count),
                *(Reveal(Entry.OWN_SPLIT, name, 1) for name in names(1, count)),
            },
        ),
    ),
    "reveal to all": revealed(ALL, "participants", opening(8 * N)),
    "reveal to P_1": revealed(1, "P1", to_active),
    "reveal to P_2": revealed(2, "P2", to_second),
    "make_tags": local(make_tags, lambda party, xs: [make_tags(party, (3,), [(0, 1), (2, 5)]).secret]),
    "to_shares": local(to_shares, lambda party, xs: [to_shares(party, xs[0])]),
    "public_secret": local(public_secret, lambda party, xs: [public_secret(party, VECTOR, [1, 2])]),
    "add_public": local(
        add_public, lambda party, xs: [Shares(add_public(party, to_shares(party, xs[0]).part, lambda: xs[0].masked))]
    ),
    "public_shares": local(public_shares, lambda party, xs: [public_shares(party, RingArray.encode(VECTOR, [1, 2]))]),
}

SEE: dict[Function, Function] = {
    follow_openings: open_shares,
    negative_by_bits: compare_together,
    open_pending: open_groups,
    publish_matrices: publish_matrix,
    share: share_together,
    sum_of_products: sums_of_products,
}
"""Functions whose docstring points to another."""

HALF = re.compile(r"Prepare `(?P<whole>\w+)` up to its opening\. Rounds: 0\.")
"""What the first half of a protocol says; its cost is that of the whole."""


@cache
def run(name: str, participants: int, topology: str = STAR) -> Evaluation:
    """Evaluate a case, once for all that is asked of it."""
    case = CASES[name]
    return evaluate(participants, case.operands, case.compute, topology=topology)


EVERY_CASE = pytest.mark.parametrize("name", CASES)
PARTICIPANTS = pytest.mark.parametrize("participants", [2, 3, 5])


def test_every_protocol_states_its_cost() -> None:
    """Each public function that takes the party has a case here, and a docstring with its cost, "Local" or "see"."""
    public = {getattr(protocols, name) for name in protocols.__all__}
    functions: list[Function] = [f for f in public if inspect.isfunction(f)]
    talking = {f for f in functions if next(iter(inspect.signature(f).parameters)) == "party"}

    halves = {f: getattr(protocols, found["whole"]) for f in talking if (found := HALF.search(f.__doc__ or ""))}

    assert set(halves.values()) <= talking
    assert talking <= {case.function for case in CASES.values()} | SEE.keys() | halves.keys()
    for function in talking - halves.keys():
        doc = function.__doc__ or ""
        if function in SEE:
            assert f"(see `{SEE[function].__name__}`)" in doc
        else:
            assert words(function) is not None or "Local" in doc


def test_the_rooms_above_find_everything_here() -> None:
    """What other rooms import from the engine's modules, the engine exports."""
    source = Path(protocols.__file__).parents[1]
    above = [path for path in source.rglob("*.py") if not path.is_relative_to(source / "protocols")]
    used = {
        alias.name
        for path in above
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mpfedxgb.protocols")
        for alias in node.names
    }

    assert {"share", "multiplying"} <= used <= set(protocols.__all__)


@EVERY_CASE
def test_the_words_are_those_of_the_docstring(name: str) -> None:
    """A docstring that changes its mind has to change it here too; plain numbers mean what they say."""
    case = CASES[name]
    said = words(case.function)
    if case.rounds[0] == "local":
        assert said is None
        assert "Local" in (case.function.__doc__ or "")
        return

    assert said == Words(case.rounds[0], case.sent[0], case.reveals[0])
    if case.rounds[0].isdigit():
        assert int(case.rounds[0]) == case.rounds[1]


@EVERY_CASE
@pytest.mark.parametrize(("participants", "topology"), [(2, STAR), (3, STAR), (5, STAR), (3, MESH)])
def test_rounds_and_bytes_are_as_stated(name: str, participants: int, topology: str) -> None:
    """The meters of all participants show the rounds and the bytes that the docstring promises, exactly.

    In a mesh, every opening of so few bytes and every message from an owner takes one hop.
    """
    case, costs = CASES[name], run(name, participants, topology).costs

    assert [counts.rounds for counts in costs] == [0, *[case.rounds[1]] * participants]
    if case.sent[1] is not None:
        assert [counts.payload_sent for counts in costs[1:]] == case.sent[1](participants, topology)
    if topology == MESH:
        assert [counts.hops for counts in costs] == [0, *[case.rounds[1]] * participants]


@EVERY_CASE
@PARTICIPANTS
def test_reveals_are_as_stated(name: str, participants: int) -> None:
    """The ledger holds what the docstring names, in every role; nothing where it says nothing."""
    expected = CASES[name].reveals[1](participants)

    assert [set(reveals) for reveals in run(name, participants).reveals] == [expected] * (participants + 1)


@EVERY_CASE
@PARTICIPANTS
def test_the_coordinator_deals_and_listens(name: str, participants: int) -> None:
    """Its bytes are the dealer bytes of all participants; nobody but P_1 tells it anything, and that announcements."""
    coordinator, active, *auxiliaries = run(name, participants).costs

    assert coordinator.bytes_sent == coordinator.dealer_bytes
    for m, counts in enumerate((active, *auxiliaries), 1):
        assert counts.dealer_bytes == coordinator.payload_sent.get(f"P{m}", 0)
        assert counts.dealer_bytes == counts.payload_received.get("coordinator", 0)
    for counts in auxiliaries:
        assert "coordinator" not in counts.wire_sent
    told = 8 * participants if CASES[name].function is open_tags else 0
    assert coordinator.bytes_received == told


@EVERY_CASE
def test_what_is_sent_is_received(name: str) -> None:
    """Every byte in one role's books is in its peer's."""
    costs = dict(zip(("coordinator", "P1", "P2", "P3"), run(name, 3).costs, strict=True))

    for sender, counts in costs.items():
        for receiver, other in costs.items():
            assert counts.payload_sent.get(receiver, 0) == other.payload_received.get(sender, 0)
            assert counts.wire_sent.get(receiver, 0) == other.wire_received.get(sender, 0)


@pytest.mark.parametrize("size", [0, 1, 1000])
@PARTICIPANTS
def test_a_multiplication_sends_eight_bytes_per_element(participants: int, size: int) -> None:
    """MUL in the vector ring: one round, 8 bytes per element and auxiliary, 8 from the dealer, whatever the size."""
    x = operand(VECTOR, np.arange(size))

    costs = evaluate(participants, [x, x], lambda party, xs: [multiply(party, xs[0], xs[1])]).costs

    assert [counts.rounds for counts in costs[1:]] == [1] * participants
    assert [counts.payload_sent for counts in costs[2:]] == [{"P1": 8 * size}] * (participants - 1)
    assert costs[0].dealer_bytes == 8 * size


@PARTICIPANTS
def test_the_sign_of_a_192_bit_secret(participants: int) -> None:
    """From shares to an opened bit in three rounds, whatever M, for at most 1.5 KB of the dealer."""

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        party.step("open")
        masked = open_masked(party, to_shares(party, secrets[0]))
        return [open_bit(party, negative(party, masked)).secret]

    costs = evaluate(participants, [operand(wide(3), [-5])], compute).costs

    assert [counts.rounds for counts in costs[1:]] == [3] * participants
    assert costs[0].dealer_bytes <= 1500


@pytest.mark.parametrize(("rounds", "most"), [(2, 320), (3, 145)])
@PARTICIPANTS
def test_the_sign_of_a_192_bit_secret_on_bits(participants: int, rounds: int, most: int) -> None:
    """Two or three rounds instead of one, for a quarter or a tenth of the dealer's bytes."""
    values = operand(wide(3), np.arange(80) - 40)

    costs = evaluate(participants, [values], lambda party, xs: [negative_by_bits(party, xs[0], 192, rounds)]).costs

    assert [counts.rounds for counts in costs[1:]] == [rounds] * participants
    assert costs[0].dealer_bytes <= 80 * most


DEALT = {
    "cut": 2 * 8 * N,
    "shift": 3 * 8 * N,
    "look_up": 256 * N,
    "bits_to_ring": 4 * (5 + 8) * 8,
    "mask_rows": 0,
}
"""Bytes dealt: elements, one-hot bits, and an element for every bit of four rows."""


@pytest.mark.parametrize("name", DEALT)
@PARTICIPANTS
def test_what_is_dealt_for_rows(name: str, participants: int) -> None:
    """The dealer's bytes do not depend on the number of participants, and are as few as they should be."""
    assert run(name, participants).costs[0].dealer_bytes == DEALT[name]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_participants_take_turns_at_the_corrections(topology: str) -> None:
    """One product after the other: the corrected participant changes with every step, and all have the same load."""

    def program(party: Party) -> list[int]:
        x = share(party, 2, VECTOR, (3,), RingArray.encode(VECTOR, [1, 2, 3]))
        turns = []
        with party.phase("run"):
            for _ in range(8):
                x = multiply(party, x, x)
                turns.append(party.corrected)
        return turns

    run = run_patiently(program, 4, topology=topology)

    turns = run.results[0]
    assert run.results == [turns] * 5
    assert turns[:4] == turns[4:]
    assert sorted(turns[:4]) == [1, 2, 3, 4]
    assert [meter.total("run").dealer_bytes for meter in run.meters] == [8 * 24, *[2 * 24] * 4]
    assert run.meters[0].total("run").wire_received == {}
