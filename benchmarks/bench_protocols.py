"""Rates, rounds and bytes of every protocol, and the kernels against their limits and against plain NumPy.

    python benchmarks/bench_protocols.py [--json] [--repeat N] [--quick]

All roles of a federation are threads of this process, so `seconds` is the time of all of them on this machine
together: from a common start, the slowest role's, and of N repetitions the best. Rounds and bytes are one
repetition's, from the meters; sharing the inputs comes before and is not counted. Bytes are payload unless they are
called wire bytes, and `bytes_per_participant` is the mean over the auxiliary participants of what each of them sends.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from call_counts import calls_per_round
from kernel_rates import COLUMNS, VECTORS, WIDE, Job, kernel_rows, kernel_table, limits_line
from mpfedxgb.party import ACTIVE, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.protocols import (
    Bit,
    BitField,
    BitMatrix,
    Borrow,
    Product,
    Secret,
    Sign,
    Stage,
    argmax,
    bit_times,
    bits_to_ring,
    both,
    compare_together,
    cut,
    fractions,
    inner_product,
    less_than,
    lift,
    look_up,
    make_tags,
    mask_rows,
    matrices_times,
    multiply,
    negative,
    negative_by_bits,
    open_bit,
    open_masked,
    open_tags,
    plan,
    publish_matrix,
    reciprocal,
    reveal,
    round_off,
    rounded_quotient,
    select,
    share,
    share_bit,
    split_rows,
    sum_of_products,
    to_shares,
    truncate,
    winning_tags,
)
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide
from plain_table import scaled, table

PARTICIPANTS = (2, 4)
SECOND = 2
"""An auxiliary participant, where a protocol has an owner: its messages take the longer way over the star."""

CANDIDATES = 91
"""Ten features with nine thresholds each, and "no split"."""

PAIRS = [Stage(2, 1)] * 7
"""Stages of pairs, compared on bytes."""

FOURS = [Stage(4, 1), Stage(4, 1), Stage(6, 1)]
"""Stages of four, and of the six that are left."""

DIVISION = wide(2)
"""The ring of a division: quotient and denominator together."""

PATIENCE = 300.0
"""Seconds after which roles that wait for each other at the start of a repetition give up."""


@dataclass(frozen=True)
class Case:
    """One protocol: what its size counts, a small and a large size, and how a role gets ready to run it."""

    name: str
    element: str
    sizes: tuple[int, int]
    prepare: Callable[[Party, int], Job]


@dataclass(frozen=True)
class ProtocolRow:
    """What one protocol cost at one size."""

    name: str
    element: str
    elements: int
    participants: int
    rounds: int
    hops: int
    bytes_per_participant: float
    wire_bytes_per_participant: float
    active_bytes: int
    dealer_bytes: int
    products: int
    comparisons: int
    seconds: float
    elements_per_second: float


def random_integers(bits: int, shape: tuple[int, ...], low: int | None = None) -> npt.NDArray[np.int64]:
    """Return integers of up to `bits` bits, of both signs unless a lowest one is given."""
    lowest = -(1 << bits) if low is None else low
    return np.random.default_rng(7).integers(lowest, 1 << bits, shape, np.int64)


def secret(party: Party, ring: Ring, *shape: int, bits: int = 40, low: int | None = None) -> Secret:
    """Return random integers of P_1, shared, and masked anew so that every participant has a share of the mask."""
    values = RingArray.encode(ring, random_integers(bits, shape, low)) if party.is_active else None
    shares = to_shares(party, share(party, ACTIVE, ring, shape, values))
    party.step("mask anew")
    return open_masked(party, shares)


def packed_bits(party: Party, count: int) -> Secret:
    """Return random bits, eight to an element."""
    return secret(party, PACKED, -(-count // 8), bits=8, low=0)


def prepare_share(party: Party, n: int) -> Job:
    """Prepare SHR by an auxiliary participant."""
    values = RingArray.encode(VECTOR, random_integers(40, (n,))) if party.role == SECOND else None
    return lambda: share(party, SECOND, VECTOR, (n,), values)


def prepare_multiply(party: Party, n: int, ring: Ring = VECTOR) -> Job:
    """Prepare MUL, element by element."""
    x, y = secret(party, ring, n), secret(party, ring, n)
    return lambda: multiply(party, x, y)


def prepare_inner_product(party: Party, n: int) -> Job:
    """Prepare one sum of n products."""
    x, y = secret(party, VECTOR, n), secret(party, VECTOR, n)
    return lambda: inner_product(party, x, y)


def prepare_sum_of_products3(party: Party, n: int) -> Job:
    """Prepare the gain's numerator, G_L^2 H_R + G_R^2 H_L."""
    GL, GR, HL, HR = (secret(party, WIDE, n) for _ in range(4))
    return lambda: sum_of_products(party, [Product((GL, GL, HR)), Product((GR, GR, HL))])


def prepare_less_than(party: Party, n: int) -> Job:
    """Prepare comparisons of masked value and mask, 63 bits."""
    x = secret(party, VECTOR, n)
    return lambda: less_than(party, x, 63)


def prepare_sign192(party: Party, n: int, rounds: int = 1) -> Job:
    """Prepare signs: from plain shares of 192 bits to an opened bit, 1 where the secret is negative.

    In one round on bytes, or in two or three on bits.
    """
    shares = to_shares(party, secret(party, WIDE, n))

    def job() -> Bit:
        party.step("sign")
        masked = open_masked(party, shares)
        return open_bit(party, negative(party, masked) if rounds == 1 else negative_by_bits(party, masked, 192, rounds))

    return job


def prepare_select(party: Party, n: int) -> Job:
    """Prepare the choice of one of two secrets, by a bit that nobody knows."""
    a, b = secret(party, VECTOR, n), secret(party, VECTOR, n)
    bit = Bit(secret(party, BIT, n, bits=1, low=0))
    return lambda: select(party, bit, [(a, b)])


def prepare_bit_times(party: Party, n: int) -> Job:
    """Prepare the child update: the bits of a split's owner times g and h of every row."""
    g_h = secret(party, VECTOR, 2, n)
    values = RingArray.encode(BIT, random_integers(1, (n,), low=0)) if party.role == SECOND else None
    goes_left = share_bit(party, SECOND, (n,), values)
    return lambda: bit_times(party, goes_left, g_h)


def prepare_and_packed(party: Party, n: int) -> Job:
    """Prepare AND of row memberships, eight to a byte."""
    x, y = packed_bits(party, n), packed_bits(party, n)
    return lambda: both(party, x, y)


def prepare_lift(party: Party, n: int) -> Job:
    """Prepare the way from 64 to 192 bits."""
    shares = to_shares(party, secret(party, VECTOR, n))
    return lambda: lift(party, shares, WIDE)


def prepare_truncate(party: Party, n: int) -> Job:
    """Prepare the division of 192 bits by 2^24."""
    x = secret(party, WIDE, n)
    return lambda: truncate(party, x, 24)


def prepare_signs_together(party: Party, n: int) -> Job:
    """Prepare the comparisons of a clamped argument: two signs of 62 bits and a borrow of 19, in two rounds on bits."""
    x = secret(party, VECTOR, n)
    return lambda: compare_together(party, [Sign(x, 62), Sign(x - (1 << 30), 62), Borrow(x, 19)])


def prepare_round_off(party: Party, n: int) -> Job:
    """Prepare the division of 64 bits by 2^38, rounded, compared in two rounds on bits."""
    x = secret(party, VECTOR, n, bits=61)
    return lambda: round_off(party, x, 38, rounds=2)


def prepare_cut(party: Party, n: int) -> Job:
    """Prepare to cut 10 bits out above the lowest 19, where their borrow is opened already."""
    x, borrow = secret(party, VECTOR, n), Bit(secret(party, BIT, n, bits=1, low=0))
    return lambda: cut(party, x, 19, 10, borrow)


def prepare_look_up(party: Party, n: int) -> Job:
    """Prepare look-ups in a table of 1,024 entries of 53 bits."""
    index = to_shares(party, secret(party, Ring(10), n, bits=9))
    entries = random_integers(53, (1 << 10,), low=0).astype(np.uint64)
    return lambda: look_up(party, index, entries, 53)


def prepare_bits_to_ring(party: Party, n: int) -> Job:
    """Prepare to bring three coefficients of 53 bits in all into the vector ring."""
    bits = to_shares(party, secret(party, PACKED, n, 7, bits=8, low=0))
    fields = [BitField(0, 26), BitField(26, 18), BitField(44, 9, signed=True)]
    return lambda: bits_to_ring(party, bits, fields, VECTOR)


def prepare_mask_rows(party: Party, n: int) -> Job:
    """Prepare to mask the g and h of n rows, everybody's part by itself."""
    shares = to_shares(party, secret(party, VECTOR, VECTORS, n))
    return lambda: mask_rows(party, shares)


def prepare_tags(party: Party, n: int) -> Job:
    """Prepare to make the tags of n tournaments and to open one for each."""
    counts = [(0, 1), (ACTIVE, 45), (SECOND, 45)]

    def job() -> object:
        tags = make_tags(party, (n,), counts)
        return open_tags(party, tags, tags.secret[..., -1], Entry.TREE_SHAPE)

    return job


def prepare_reveal(party: Party, n: int) -> Job:
    """Prepare a reveal to P_1."""
    x = secret(party, VECTOR, n)
    return lambda: reveal(party, x, ACTIVE, Entry.LEAF_MEMBERSHIP)


def prepare_reciprocal(party: Party, n: int) -> Job:
    """Prepare twenty Newton steps (Appendix B) on positive numbers of up to 30 bits."""
    x = secret(party, WIDE, n, bits=30, low=1)
    return lambda: reciprocal(party, x, 1 << 30, 40)


def prepare_quotient(party: Party, n: int) -> Job:
    """Prepare exact division, as for the weights of n leaves: quotients of 37 bits and a sign, by up to 37 bits."""
    x, d = secret(party, DIVISION, n, bits=37), secret(party, DIVISION, n, bits=37, low=1)
    return lambda: rounded_quotient(party, x, d, (1 << 37) - 1, 37)


def prepare_argmax(party: Party, n: int, stages: Sequence[Stage] = ()) -> Job:
    """Prepare tournaments of 91 fractions, all at once, with n candidates altogether; without stages, as planned."""
    shape = (n // CANDIDATES, CANDIDATES)
    candidates = fractions(
        secret(party, WIDE, *shape, bits=60, low=0),
        secret(party, WIDE, *shape, bits=60, low=1),
        make_tags(party, shape[:1], [(0, 1), (ACTIVE, CANDIDATES - 1)]).secret,
    )
    if stages:
        return lambda: argmax(party, candidates, stages)
    planned = plan(*shape, WIDE.bits, party.roster.size)
    return lambda: winning_tags(party, candidates, planned.stages)


def matrix_of_second(party: Party, rows: int) -> BitMatrix | None:
    """Return random candidate columns in their owner's run."""
    if party.role != SECOND:
        return None
    return BitMatrix(random_integers(1, (COLUMNS, rows), low=0).astype(np.uint8))


def prepare_matrix_setup(party: Party, n: int) -> Job:
    """Prepare to publish E, which happens once per training."""
    rows = n // COLUMNS
    plain = matrix_of_second(party, rows)
    return lambda: publish_matrix(party, SECOND, COLUMNS, rows, plain)


def sides(party: Party, rows: int) -> Secret:
    """Return random sides of one node's rows, packed and masked by their owner."""
    bits = RingArray.encode(PACKED, random_integers(8, (1, -(-rows // 8)), low=0))
    return share(party, SECOND, PACKED, bits.shape, bits)


def prepare_split_rows(party: Party, n: int) -> Job:
    """Prepare to split the g and h of one node of n rows, as for its children."""
    q, x = sides(party, n), secret(party, VECTOR, 1, VECTORS, n)
    return lambda: split_rows(party, q, x)


def prepare_private_matrix(party: Party, n: int) -> Job:
    """Publish E, and prepare its product with two secret vectors: n multiply-adds."""
    rows = n // (COLUMNS * VECTORS)
    matrix = publish_matrix(party, SECOND, COLUMNS, rows, matrix_of_second(party, rows))
    x = split_rows(party, sides(party, rows), secret(party, VECTOR, 1, VECTORS, rows)).left.reshape(VECTORS, rows)
    return lambda: matrices_times(party, [matrix], x)


CASES = [
    Case("share", "element, 64 bits", (1_000, 200_000), prepare_share),
    Case("multiply", "product, 64 bits", (1_000, 200_000), prepare_multiply),
    Case("multiply192", "product, 192 bits", (1_000, 50_000), lambda p, n: prepare_multiply(p, n, WIDE)),
    Case("inner_product", "product, 64 bits", (1_000, 200_000), prepare_inner_product),
    Case("sum_of_products3", "numerator, 192 bits", (90, 10_000), prepare_sum_of_products3),
    Case("less_than", "comparison, 63 bits", (90, 5_000), prepare_less_than),
    Case("sign192", "sign, 192 bits", (90, 5_000), prepare_sign192),
    Case("sign192_bits2", "sign, 192 bits", (90, 5_000), lambda p, n: prepare_sign192(p, n, 2)),
    Case("sign192_bits3", "sign, 192 bits", (90, 5_000), lambda p, n: prepare_sign192(p, n, 3)),
    Case("select", "choice, 64 bits", (1_000, 100_000), prepare_select),
    Case("bit_times", "row of g and h", (1_000, 100_000), prepare_bit_times),
    Case("split_rows", "row of g and h", (1_000, 100_000), prepare_split_rows),
    Case("and_packed", "bit", (8_000, 1_600_000), prepare_and_packed),
    Case("lift", "element, 64 to 192 bits", (180, 20_000), prepare_lift),
    Case("truncate", "element, 192 bits", (90, 5_000), prepare_truncate),
    Case("signs_together", "row of two signs and a borrow", (90, 10_000), prepare_signs_together),
    Case("round_off_bits2", "element, 64 bits", (90, 10_000), prepare_round_off),
    Case("cut", "element, 64 bits", (90, 10_000), prepare_cut),
    Case("look_up", "place in 1,024 entries", (90, 10_000), prepare_look_up),
    Case("bits_to_ring", "row of 53 bits", (90, 10_000), prepare_bits_to_ring),
    Case("mask_rows", "row of g and h", (1_000, 100_000), prepare_mask_rows),
    Case("tags", "winner", (1, 32), prepare_tags),
    Case("reveal", "element, 64 bits", (1_000, 200_000), prepare_reveal),
    Case("reciprocal", "reciprocal, 192 bits", (10, 500), prepare_reciprocal),
    Case("quotient", "quotient, 38 bits", (8, 1_000), prepare_quotient),
    Case("argmax91_binary", "candidate", (91, 32 * 91), lambda p, n: prepare_argmax(p, n, PAIRS)),
    Case("argmax91_fan4", "candidate", (91, 32 * 91), lambda p, n: prepare_argmax(p, n, FOURS)),
    Case("argmax91_planned", "candidate", (91, 32 * 91), prepare_argmax),
    Case("matrix_setup", "matrix entry", (90 * 1_000, 90 * 20_000), prepare_matrix_setup),
    Case("private_matrix", "multiply-add", (180 * 1_000, 180 * 20_000), prepare_private_matrix),
]


def measure(case: Case, size: int, participants: int, repeat: int) -> ProtocolRow:
    """Run one protocol once to warm up and then `repeat` times; return the best time and one repetition's counts."""
    start = threading.Barrier(participants + 1)

    def program(party: Party) -> None:
        job = case.prepare(party, size)
        for i in range(repeat + 1):
            start.wait(PATIENCE)
            with party.phase(f"repetition {i}"):
                job()

    meters = run_locally(program, participants, one_core=False).meters
    seconds = min(max(meter.total(f"repetition {i}").seconds for meter in meters) for i in range(1, repeat + 1))
    coordinator, active, *auxiliaries = (meter.total(f"repetition {repeat}") for meter in meters)
    return ProtocolRow(
        name=case.name,
        element=case.element,
        elements=size,
        participants=participants,
        rounds=active.rounds,
        hops=active.hops,
        bytes_per_participant=_mean([counts.bytes_sent for counts in auxiliaries]),
        wire_bytes_per_participant=_mean([sum(counts.wire_sent.values()) for counts in auxiliaries]),
        active_bytes=active.bytes_sent,
        dealer_bytes=coordinator.dealer_bytes,
        products=active.products,
        comparisons=active.comparisons,
        seconds=seconds,
        elements_per_second=size / seconds,
    )


def _mean(counts: Sequence[int]) -> float:
    mean = sum(counts) / len(counts)
    return int(mean) if mean.is_integer() else mean


def protocol_table(rows: Sequence[ProtocolRow]) -> str:
    """Return the protocols for a reader."""
    header = [
        "protocol",
        "an element is a",
        "M",
        "elements",
        "rounds",
        "aux. sends",
        "P_1 sends",
        "dealer",
        "ms",
        "el./s",
    ]
    cells = [
        [
            r.name,
            r.element,
            str(r.participants),
            f"{r.elements:,}",
            str(r.rounds),
            scaled(r.bytes_per_participant, "B"),
            scaled(r.active_bytes, "B"),
            scaled(r.dealer_bytes, "B"),
            f"{1e3 * r.seconds:.2f}",
            scaled(r.elements_per_second),
        ]
        for r in rows
    ]
    return table("Protocols: payload bytes, and the time of all roles together", header, cells, left=(0, 1))


def machine() -> dict[str, Any]:
    """Return what the figures depend on: the cores, and how busy they are."""
    return {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2), "numpy": np.__version__}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description="Rates, rounds and bytes of every protocol; kernels and their limits.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="repetitions; the best counts (default 5)")
    parser.add_argument("--quick", action="store_true", help="small sizes only, once: for rounds and bytes, not rates")
    options = parser.parse_args(arguments)
    if options.repeat < 1:
        parser.error(f"--repeat must be 1 or more, not {options.repeat}")
    repeat = 1 if options.quick else options.repeat

    before = machine()
    kernels = list(kernel_rows(1 if options.quick else 4 * repeat, options.quick))
    protocols = [
        measure(case, size, participants, repeat)
        for case in CASES
        for size in (case.sizes[:1] if options.quick else case.sizes)
        for participants in PARTICIPANTS
    ]
    calls = calls_per_round(lambda party: prepare_argmax(party, 4 * CANDIDATES), PARTICIPANTS[-1])
    if options.json:
        rows = {"protocols": [asdict(row) for row in protocols], "kernels": [asdict(row) for row in kernels]}
        print(json.dumps({**rows, "argmax_calls_per_round": calls, "machine": before}, indent=1))
    else:
        print(f"{before['cores']} cores, load {before['load']:.2f} before the run; NumPy {before['numpy']}.")
        print(limits_line(kernels), end="\n\n")
        print(kernel_table(kernels), end="\n\n")
        print(protocol_table(protocols), end="\n\n")
        told = ", ".join(f"{name} {count:.0f}" for name, count in calls.items())
        print(f"Calls into ring/ and NumPy per round of a planned tournament: {told}.")


if __name__ == "__main__":
    main()
