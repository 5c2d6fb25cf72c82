"""Every protocol as a small program for `views`: real code, in rings so small that all randomness can be enumerated.

Z_2 to Z_2^5, single bits, and for tags the smallest ring that holds two candidates of one owner.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from mpfedxgb.party import ACTIVE, ALL, COORDINATOR, Party
from mpfedxgb.protocols import (
    NOBODY,
    BitField,
    BitProduct,
    Borrow,
    Ending,
    Fractions,
    Gated,
    Product,
    Secret,
    Shares,
    Sign,
    Stage,
    bit_signs,
    bits_to_ring,
    both,
    compare_together,
    cut,
    inner_product,
    less_than,
    lift,
    lift_secret,
    look_up,
    make_tags,
    mask_rows,
    multiply,
    negative,
    negative_by_bits,
    open_bit,
    open_tags,
    quotient,
    reveal,
    round_off,
    select,
    split_rows,
    sum_of_products,
    sums_of_bit_products,
    to_shares,
    truncate,
    winning_tags,
)
from mpfedxgb.protocols.bits import shares_of_bit_products
from mpfedxgb.protocols.opening import follow_openings, open_steps
from mpfedxgb.protocols.secret import stack
from mpfedxgb.protocols.share import share_each
from mpfedxgb.ring import BIT, PACKED, Ring, RingArray
from mpfedxgb.ring.kernels import U8
from support.names import unlisted
from support.views import DEALT, Case, Coalition, Draw, Given, Inputs, Output, Values, every_bit

Z2, Z4, Z8, Z16, Z32 = Ring(1), Ring(2), Ring(3), Ring(4), Ring(5)
TAG = Ring(11)
"""The smallest ring in which somebody has two candidates: eight bits of owner, two of index, a sign."""


def of_everyone(participants: int, ring: Ring, values: Sequence[int] | None = None) -> dict[str, Given]:
    """Return one input of every participant: x1, x2, ..., with all values unless some are named."""
    return {f"x{m}": Given(m, ring, values or range(1 << ring.bits)) for m in range(1, participants + 1)}


def shared(party: Party, inputs: Inputs) -> list[Secret]:
    """Share all inputs, in order."""
    return [inputs.share(party, name) for name in inputs.given]


def total(secrets: Sequence[Secret]) -> Secret:
    """Add secrets up."""
    whole = secrets[0]
    for x in secrets[1:]:
        whole = whole + x
    return whole


def no_padding(used: int) -> Callable[[Draw], tuple[int, int]]:
    """Enumerate only the bits of dealt look-up tables that are entries of a table; the padding is sampled."""
    return lambda draw: (0, used) if draw.ring == PACKED else every_bit(draw)


def products(participants: int, ring: Ring = Z4, last: int = 0) -> Case:
    """Return x1 (x2 + ... + xM): MUL. A last owner who is the coordinator has one more factor's summand."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        first, *rest = shared(party, inputs)
        return [multiply(party, first, total(rest))]

    def expect(v: Values) -> list[int]:
        return [v["x1"] * (sum(v.values()) - v["x1"])]

    return Case(program, of_everyone(last or participants, ring), expect, coordinator_owns=last > participants)


def revealed_products(participants: int) -> Case:
    """Return x1 (x2 + ... + xM), revealed to all participants."""
    ring = Z4 if participants == 2 else Z2
    case = products(participants, ring)

    def program(party: Party, inputs: Inputs) -> list[Output]:
        (z,) = case.program(party, inputs)
        assert isinstance(z, Secret)
        return [reveal(party, z, ALL, unlisted("product"))]

    def learns(v: Values, coalition: Coalition) -> Hashable:
        return None if COORDINATOR in coalition else v["x1"] * (sum(v.values()) - v["x1"]) % (1 << ring.bits)

    return Case(program, case.given, case.expect, learns)


def inner_products(participants: int) -> Case:
    """Return x1 x2 + x2 xM, one opened element for two products."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        x = shared(party, inputs)
        return [inner_product(party, stack([x[0], x[1]], 1), stack([x[1], x[-1]], 1))]

    def expect(v: Values) -> list[int]:
        return [v["x2"] * (v["x1"] + v[f"x{participants}"])]

    return Case(program, of_everyone(participants, Z4), expect)


def threefold(participants: int) -> Case:
    """Return x1 x2 xM - x1 x2 + x1; of two participants' factors one is squared."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        x = shared(party, inputs)
        terms = [Product((x[0], x[1], x[-1])), Product((x[0], x[1]), -1), Product((x[0],))]
        return [sum_of_products(party, terms)]

    def expect(v: Values) -> list[int]:
        return [v["x1"] * v["x2"] * v[f"x{participants}"] - v["x1"] * v["x2"] + v["x1"]]

    return Case(program, of_everyone(participants, Z4 if participants == 2 else Z2), expect)


def comparisons(participants: int) -> Case:
    """Return whether a masked bit is less than its mask: one digit of one bit."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [less_than(party, total(shared(party, inputs)), 1, digit=1)]

    return Case(program, of_everyone(participants, Z2), enumerated=no_padding(2))


def comparisons_with_padding(participants: int) -> Case:
    """Do the same, with the padding of the dealt tables enumerated too."""
    case = comparisons(participants)
    return Case(case.program, case.given)


def comparisons_of_wide_digits(participants: int) -> Case:
    """Return whether m is less than its mask: one digit of two bits."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [less_than(party, total(shared(party, inputs)), 2, digit=2)]

    given = {"x1": Given(1, Z4, (0, 1, 3)), f"x{participants}": Given(participants, Z4, (0, 1, 3))}
    return Case(program, given, enumerated=no_padding(2))


def comparisons_of_two_digits(participants: int, owner: int) -> Case:
    """Return whether one participant's m is less than its mask: two digits of one bit."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [less_than(party, inputs.share(party, "x"), 2, digit=1)]

    return Case(program, {"x": Given(owner, Z4, (0, 3))}, enumerated=no_padding(6))


def comparisons_seen_by_auxiliaries(participants: int) -> Case:
    """Compare a sum in two digits; what is dealt goes to the active participant, and is sampled here."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [less_than(party, total(shared(party, inputs)), 2, digit=1)]

    def enumerated(draw: Draw) -> tuple[int, int]:
        dealt = draw.label.endswith("less than") and draw.index > 0
        return (0, 0) if dealt else every_bit(draw)

    return Case(program, of_everyone(participants, Z4, (0, 1, 3)), enumerated=enumerated)


def signs(participants: int) -> Case:
    """Return whether x1 + ... + xM is negative, as a shared bit."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [negative(party, total(shared(party, inputs)), digit=1)]

    values = range(4) if participants == 2 else (0, 1)
    return Case(program, of_everyone(participants, Z4, values), lambda v: [sign(v)], enumerated=no_padding(2))


def signs_by_bits(participants: int) -> Case:
    """Return whether x1 + ... + xM is negative, on bits: two digits of one bit become one."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [negative_by_bits(party, total(shared(party, inputs)), 3, 1, digit=1)]

    values = range(8) if participants == 2 else (0, 5)
    return Case(program, of_everyone(participants, Z8, values), lambda v: [sum(v.values()) % 8 >> 2])


def signs_in_two_rounds(participants: int, owner: int) -> Case:
    """Return whether one participant's x is negative, on bits: three digits of one bit become two, and these one."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [negative_by_bits(party, inputs.share(party, "x"), 4, 2, digit=1)]

    return Case(program, {"x": Given(owner, Z16, (0, 11))}, lambda v: [v["x"] >> 3])


def signs_of_valid_ones(participants: int) -> Case:
    """Return who of a pair wins, the second and the first: by a sign, and by who is valid."""
    signs = bit_signs(2, 1, digit=1, ending=Ending.BEATS)

    def program(party: Party, inputs: Inputs) -> list[Output]:
        x, valid = total(shared(party, inputs)[:2]), [inputs.share(party, name) for name in ("a", "b")]
        count, flat = inputs.batch, x.reshape(1, inputs.batch)
        party.step("signs")

        def planes(bits: Sequence[RingArray]) -> U8:
            return np.packbits(np.stack([b.data for b in bits]), axis=1, bitorder="little")

        def deal(masks: list[RingArray]) -> list[RingArray]:
            return signs.deal(flat.mask, masks, planes([bit.mask for bit in valid]))

        fresh, dealt = party.prepare(signs.fresh(count), signs.dealt(count), deal)
        if party.is_coordinator:
            follow_openings(party, [("", specs, None) for specs in signs.opened(count)])
            return [Shares(RingArray.hidden(BIT, (count,)))] * 2
        steps = signs.steps(
            int(party.is_active),
            flat.masked,
            fresh,
            dealt,
            lambda: (planes([bit.mask for bit in valid]), planes([bit.masked for bit in valid])),
        )
        won = np.unpackbits(open_steps(party, steps), axis=1, count=count, bitorder="little")
        return [Shares(RingArray(BIT, bits)) for bits in won]

    def expect(v: Values) -> list[int]:
        less = (v["x1"] + v["x2"]) % 4 >> 1
        return [v["b"] & (less | 1 - v["a"]), v["a"] & (1 - (less & v["b"]))]

    given = {"x1": Given(1, Z4, range(4)), "x2": Given(participants, Z4, range(4))}
    return Case(program, given | {"a": Given(1, BIT, (0, 1)), "b": Given(participants, BIT, (0, 1))}, expect)


def tournaments(participants: int, owner: int) -> Case:
    """Return shares of the tag of the larger of two fractions x / 1 and 0 / 1: one pair, by its sign."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        x = inputs.share(party, "x")
        value = stack([stack([x * 0, x], 1), stack([x * 0 + 1, x * 0 + 1], 1)])
        tag = stack([x * 0 + 1, x * 0 + 2], 1)
        return [winning_tags(party, Fractions(value, tag), [Stage(2, 2)])]

    return Case(program, {"x": Given(owner, Z4, (3, 0, 1))}, lambda v: [2 if v["x"] == 1 else 1])


def sign(v: Values) -> int:
    """Return whether the sum is negative in Z_4."""
    return sum(v.values()) % 4 >> 1


def revealed_signs(participants: int) -> Case:
    """Return whether x1 + ... + xM is negative, told to the active participant."""
    case = signs(participants)

    def program(party: Party, inputs: Inputs) -> list[Output]:
        (bit,) = case.program(party, inputs)
        assert isinstance(bit, Shares)
        return [reveal(party, bit, ACTIVE, unlisted("sign"))]

    def learns(v: Values, coalition: Coalition) -> Hashable:
        return sign(v) if ACTIVE in coalition else None

    return Case(program, case.given, case.expect, learns, case.enumerated)


def selections(participants: int) -> Case:
    """Return x or y, by a bit that has been opened under everyone's mask."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        bit = open_bit(party, to_shares(party, inputs.share(party, "bit")))
        return [*select(party, bit, [(inputs.share(party, "x"), inputs.share(party, "y"))])]

    ring = Z4 if participants == 2 else Z2
    values = range(1 << ring.bits)
    given = {"bit": Given(1, BIT, (0, 1)), "x": Given(2, ring, values), "y": Given(participants, ring, values)}
    return Case(program, given, lambda v: [v["y"] if v["bit"] else v["x"]])


def double_gates(participants: int) -> Case:
    """Return x + b (1 - c) x for two opened bits, as a tournament selects among three or four."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        b, c = (open_bit(party, to_shares(party, inputs.share(party, name))) for name in ("b", "c"))
        x = inputs.share(party, "x")
        return [*sums_of_bit_products(party, [BitProduct((b, ~c), x, x)])]

    given = {"b": Given(1, BIT, (0, 1)), "c": Given(2, BIT, (0, 1)), "x": Given(participants, Z2, (0, 1))}
    return Case(program, given, lambda v: [v["x"] + v["x"] * v["b"] * (1 - v["c"])])


def owned_gates(participants: int, last: int = 0) -> Case:
    """Return b (1 - c) x for two bits that their owners have masked, one of them a coordinator's if it is the last."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        b, c, x = inputs.share_bit(party, "b"), inputs.share_bit(party, "c"), inputs.share(party, "x")
        return [*sums_of_bit_products(party, [BitProduct((b, ~c), x)])]

    x = Given(2, Z4, (0, 3)) if participants == 2 and not last else Given(participants, Z2, (0, 1))
    given = {"b": Given(1, BIT, (0, 1)), "c": Given(last or 2, BIT, (0, 1)), "x": x}
    return Case(program, given, lambda v: [v["x"] * v["b"] * (1 - v["c"])], coordinator_owns=last > participants)


def children(participants: int, last: int = 0) -> Case:
    """Return x and membership of both children; the left one's membership is opened to the active one as in a leaf.

    The node's x is the active participant's and, with three, partly the second one's; the bits are the last owner's. Of
    the packed bits the lowest is a row's, and is enumerated.
    """

    def program(party: Party, inputs: Inputs) -> list[Output]:
        goes_left, member = inputs.share(party, "q"), inputs.share(party, "s")
        x = total([inputs.share(party, name) for name in inputs.given if name.startswith("x")])
        packed, shared = goes_left.reshape(inputs.batch, 1), range(inputs.batch) if last > participants else ()
        sides = split_rows(party, packed, x.reshape(inputs.batch, 1, 1), shared=shared).both
        left, right = (side.reshape(inputs.batch) for side in (sides[: inputs.batch], sides[inputs.batch :]))
        in_left = both(party, member, goes_left)
        leaf = reveal(party, in_left, ACTIVE, unlisted("leaf membership"))
        return [left, right, in_left, member - in_left, leaf]

    def learns(v: Values, coalition: Coalition) -> Hashable:
        return v["s"] & v["q"] if ACTIVE in coalition else None

    def expect(v: Values) -> list[int]:
        x = sum(v[name] for name in v if name.startswith("x"))
        return [v["q"] * x, (1 - v["q"]) * x, v["s"] & v["q"], v["s"] & ~v["q"], v["s"] & v["q"]]

    given = {"q": Given(last or participants, PACKED, (0, 1)), "s": Given(1, PACKED, (0, 1))}
    given |= of_everyone(participants - 1, Z4 if participants == 2 and not last else Z2)
    return Case(program, given, expect, learns, no_padding(1), last > participants)


def leaf_sums(participants: int) -> Case:
    """Return s1 w1 + s2 w2 to the active participant, who knows the weights w, as in a prediction."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        x = shared(party, inputs)
        leaf, weight = stack(x[:2], 1), stack(x[2:], 1)
        bits = open_bit(party, to_shares(party, leaf))
        (part,) = shares_of_bit_products(party, [BitProduct((bits,), weight, axis=1)])
        return [reveal(party, part, ACTIVE, unlisted("prediction"))]

    ring = Z4 if participants == 2 else Z2
    values = (0, 1)
    given = {"s1": Given(participants, BIT, (0, 1)), "s2": Given(2, BIT, (0, 1))}
    given |= {"w1": Given(1, ring, values), "w2": Given(1, ring, values)}

    def expect(v: Values) -> list[int]:
        return [(v["s1"] * v["w1"] + v["s2"] * v["w2"]) % (1 << ring.bits)]

    def learns(v: Values, coalition: Coalition) -> Hashable:
        return expect(v)[0] if ACTIVE in coalition else None

    return Case(program, given, expect, learns)


def leaf_sums_at_once(participants: int, last: int = 0) -> Case:
    """Return s t w to the active participant, who knows the weight w: marks of two owners, multiplied at once."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        bits = inputs.share_bit(party, "s"), inputs.share_bit(party, "t")
        (part,) = shares_of_bit_products(party, [BitProduct(bits, inputs.share(party, "w"))])
        return [reveal(party, part, ACTIVE, unlisted("prediction"))]

    def expect(v: Values) -> list[int]:
        return [v["s"] * v["t"] * v["w"]]

    def learns(v: Values, coalition: Coalition) -> Hashable:
        return expect(v)[0] if ACTIVE in coalition else None

    given = {
        "s": Given(last or participants, BIT, (0, 1)),
        "t": Given(participants - 1, BIT, (0, 1)),
        "w": Given(1, Z2, (0, 1)),
    }
    return Case(program, given, expect, learns, coordinator_owns=last > participants)


def shares_of_each(participants: int, last: int = 0) -> Case:
    """Return x1, xM and y1, shared in one round."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        owners = [given.owner for given in inputs.given.values()]
        mine = {i: inputs.mine[name] for i, name in enumerate(inputs.given) if name in inputs.mine}
        x = share_each(party, owners, Z4, (inputs.batch,), mine)
        return [x[i] for i in range(len(owners))]

    given = {"x": Given(1, Z4, range(4)), "y": Given(last or participants, Z4, range(4)), "z": Given(1, Z4, range(4))}
    return Case(program, given, lambda v: [v["x"], v["y"], v["z"]], coordinator_owns=last > participants)


def tags(participants: int, last: int = 0) -> Case:
    """Open the winner's blinded tag; which candidate has won is dealt, as the outcome of a tournament.

    The low byte of a tag is the owner, whom all may know. Enumerated are the bits above it: those of kappa that reach
    the tag, and those of the shares that lie over the index.
    """
    last = last or participants
    counts = [(NOBODY, 1), (1, 2), (last, 2)]
    candidates = [(owner, local) for owner, count in counts for local in range(count)]

    def program(party: Party, inputs: Inputs) -> list[Output]:
        made = make_tags(party, (inputs.batch,), counts, TAG)
        spec = (TAG, (inputs.batch,))
        party.step("tournament")

        def minus_winner() -> list[RingArray]:
            public = RingArray.encode(TAG, [owner + 256 * local for owner, local in candidates])
            tag, place = public - made.secret.mask, inputs.mine["winner"].data
            return [-tag[range(inputs.batch), place]]

        (mask,) = party.deal([spec], minus_winner)
        winner = Secret(RingArray.hidden(*spec) if party.is_coordinator else RingArray.zeros(*spec), mask)
        opened = open_tags(party, made, winner, unlisted("owner"))
        return [RingArray.encode(Z8, opened.owner)]

    def learns(v: Values, coalition: Coalition) -> Hashable:
        owner, local = candidates[v["winner"]]
        return owner, local if case.is_in(owner, coalition, participants) else None

    def enumerated(draw: Draw) -> tuple[int, int]:
        return (0, 3) if draw.label.endswith("tags") else (8, 3)

    given = {"winner": Given(DEALT, Z8, range(len(candidates)))}
    case = Case(program, given, lambda v: [candidates[v["winner"]][0]], learns, enumerated, last > participants)
    return case


def reveals(participants: int, to: int, factor: int) -> Case:
    """Return factor (x1 + ... + xM) to one participant or to all: a sum whose summands stay secret."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [reveal(party, factor * total(shared(party, inputs)), to, unlisted("sum"))]

    def expect(v: Values) -> list[int]:
        return [factor * sum(v.values())]

    def learns(v: Values, coalition: Coalition) -> Hashable:
        known = to in coalition or (to == ALL and COORDINATOR not in coalition)
        return expect(v)[0] % 4 if known else None

    return Case(program, of_everyone(participants, Z4), expect, learns)


def lifts(participants: int, owner: int) -> Case:
    """Return shares of one participant's x in a ring of one bit more."""
    narrow, wider = (Z8, Z16) if participants == 2 else (Z4, Z8)

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [lift(party, to_shares(party, inputs.share(party, "x")), wider)]

    values = (-2, -1, 0, 1) if participants == 2 else (-1, 0)
    return Case(program, {"x": Given(owner, narrow, values)}, lambda v: [v["x"]])


def lifts_of_secrets(participants: int, owner: int) -> Case:
    """Return one participant's masked x in a ring of one bit more."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [lift_secret(party, inputs.share(party, "x"), Z8)]

    return Case(program, {"x": Given(owner, Z4, (-1, 0))}, lambda v: [v["x"]])


def truncations(participants: int, owner: int) -> Case:
    """Return floor(x / 2) of one participant's x.

    The wrap-around is a multiple of 4: of its shares only the top bit has something to hide, and is enumerated.
    """

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [truncate(party, inputs.share(party, "x"), 1, digit=1)]

    def enumerated(draw: Draw) -> tuple[int, int]:
        is_wrap = draw.label.endswith("truncate") and draw.participant > ACTIVE and draw.index == 1
        return (2, 1) if is_wrap else no_padding(2)(draw)

    return Case(program, {"x": Given(owner, Z8, (-1, 1))}, lambda v: [v["x"] // 2], enumerated=enumerated)


def quotients(participants: int, owner: int) -> Case:
    """Return floor(n / d) of one participant's n by another's d, both bits: the only digit of a quotient of one bit."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [quotient(party, inputs.share(party, "n"), inputs.share(party, "d"), 1, 1)]

    given = {"n": Given(owner, Z8, (0, 1)), "d": Given(3 - owner, Z8, (1,))}
    return Case(program, given, lambda v: [v["n"] // v["d"]])


def quotients_of_two_digits(participants: int, owner: int) -> Case:
    """Return floor(n / d) of one participant's n by another's d, in two digits, with a remainder between them.

    What is dealt is sampled, and looked at are those who get no correction.
    """

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [quotient(party, inputs.share(party, "n"), inputs.share(party, "d"), 2, 2, digit=1)]

    def enumerated(draw: Draw) -> tuple[int, int]:
        dealt = draw.label.endswith("compare") or (draw.ring == Z32 and draw.shape != ())
        return (0, 0) if dealt else every_bit(draw)

    given = {"n": Given(owner, Z32, (0, 3)), "d": Given(3 - owner, Z32, (1, 2))}
    return Case(program, given, lambda v: [v["n"] // v["d"]], enumerated=enumerated)


def comparisons_together(participants: int) -> Case:
    """Return whether x1 + ... + xM is negative, of three bits and of its lowest two: one round, and none, at once."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        x = total(shared(party, inputs))
        return [*compare_together(party, [Sign(x, 3), Sign(x, 2)], 1, digit=1)]

    def expect(v: Values) -> list[int]:
        return [sum(v.values()) >> 2 & 1, sum(v.values()) >> 1 & 1]

    return Case(program, of_everyone(participants, Z8, (0, 2, 5) if participants == 2 else (0, 5)), expect)


def comparisons_and_bits(participants: int) -> Case:
    """Return whether x1 + x2 is negative, times an opened bit."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        x, bit = total(shared(party, inputs)[:2]), inputs.share(party, "a")
        return [*compare_together(party, [Gated(x.reshape(1, *x.shape), 2, Ending.AND, (bit,))], 1, digit=1)]

    given = {"x1": Given(1, Z4, range(4)), "x2": Given(participants, Z4, range(4)), "a": Given(1, BIT, (0, 1))}
    return Case(program, given, lambda v: [((v["x1"] + v["x2"]) % 4 >> 1) * v["a"]])


def cuts(participants: int, owner: int) -> Case:
    """Return the two upper bits of one participant's x and its lowest one, by the borrow of the latter."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        x = inputs.share(party, "x")
        (borrow,) = compare_together(party, [Borrow(x, 1)], 1, digit=1)
        return [*cut(party, x, 1, 2, open_bit(party, borrow))]

    given = {"x": Given(owner, Z8, (0, 3, 5))}
    return Case(program, given, lambda v: [v["x"] >> 1, v["x"] & 1])


def roundings(participants: int, owner: int) -> Case:
    """Return x / 2 of one participant's x, a half rounded up, with a comparison on bits.

    Of the wrap-around, a multiple of 4, only the top bit has something to hide (see `truncations`).
    """

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [round_off(party, inputs.share(party, "x"), 1, rounds=2)]

    def enumerated(draw: Draw) -> tuple[int, int]:
        return (2, 1) if draw.label.endswith("truncate") and draw.index == 1 else every_bit(draw)

    return Case(program, {"x": Given(owner, Z8, (-1, 0))}, lambda v: [(v["x"] + 1) // 2], enumerated=enumerated)


def look_ups(participants: int, places: int) -> Case:
    """Return the entry of a small table at x1 + ... + xM."""
    table = np.array([5, 2, 7, 0], np.uint64)[: 1 << places]

    def program(party: Party, inputs: Inputs) -> list[Output]:
        found = look_up(party, to_shares(party, total(shared(party, inputs))), table, 3)
        return [found.reshape(inputs.batch)]

    def expect(v: Values) -> list[int]:
        return [int(table[sum(v.values()) % len(table)])]

    given = of_everyone(participants, Ring(places), (0, 1, 3)[: 1 << places] if participants == 2 else (0, 1))
    return Case(program, given, expect, enumerated=no_padding(len(table)))


def conversions(participants: int, owner: int) -> Case:
    """Return two bits of one participant as a signed number."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        bits = to_shares(party, inputs.share(party, "x")).reshape(inputs.batch, 1)
        return [*bits_to_ring(party, bits, [BitField(0, 2, signed=True)], Z4)]

    given = {"x": Given(owner, PACKED, range(4))}
    return Case(program, given, lambda v: [v["x"] - (v["x"] >> 1) * 4], enumerated=no_padding(2))


def masked_rows(participants: int) -> Case:
    """Return x1 + ... + xM, masked by everybody's part."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        return [mask_rows(party, to_shares(party, total(shared(party, inputs))))[0]]

    return Case(program, of_everyone(participants, Z4), lambda v: [sum(v.values())])
