"""SecureArgmax as the paper prints it (section 4.3, Eq. 6-7; Algorithm 3, line 19): `security="paper"`.

A candidate is the four numbers G_L, G_R (squared sums of g) and H_L, H_R (sums of h plus lambda). Two candidates are
compared by the sign of one fraction, nine MULs away. Its denominator is restored at P_1 and its numerator at P_2; P_2
tells P_1 its sign, and P_1 tells everyone who won. All of this is on the ledger: the magnitudes say a lot
(docs/paper-vs-strict.md). The strict way is in tree/level.py and protocols/argmax.py.

The best split of every node as the paper finds it (Algorithm 3, lines 3, 8 and 14-20): `security="paper"`.

The coordinator has given every feature an index by a permutation of its own, and every participant knows its own
features' indices only. Index and bucket of each split are announced to all; whose the feature is they see from the
order of the candidates, which is that of the strict tournament, so that ties fall alike.

SecureLeafWeight as the paper prints it (section 4.4, Eq. 8-11; Appendix A): `security="paper"`.

w = -b / a minimises a w^2 / 2 + b w, for a = H + lambda and b = G. Gradient descent finds it on shares with a public
step size eta' = 1 / (a + sum of sigma_m), where every participant adds a positive sigma_m of its own so that a itself
stays hidden within mu lambda. The strict way is in boosting/active.py.

Numbers are integers: a at scale 2^f_h, b at 2^f_g, w at 2^(f_g + SPARE_BITS). A step is floor(e (a w + b)) with
e = floor(2^s / (a + sigma)), so that a fixed point is within r < 4 units of the last place of -b / a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import FrameError
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import MOST_COLUMNS, check_announced, check_numbers
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.protocols.argmax import fractions, winning_tags
from mpfedxgb.protocols.opening import Product, multiply, open_masked, sums_of_products
from mpfedxgb.protocols.plan import plan
from mpfedxgb.protocols.quotient import ITERATIONS, divide, lift_opened, lift_secret, truncate
from mpfedxgb.protocols.reveal import NOBODY, Opened, reveal
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, public_secret, stack, to_shares
from mpfedxgb.ring.array import RingArray, signs
from mpfedxgb.ring.ring import VECTOR, Ring
from mpfedxgb.tree.level import OFFSET, Constants, Level, Round, SplitData, TreeRules, shifted

P_2 = ACTIVE + 1

Ints = npt.NDArray[np.int64]


def secure_argmax(party: Party, sides: Secret, sizes: Sequence[int], one_by_one: bool = False) -> Ints:
    """Return the best candidate of every node, known to all: sides (4, nodes, candidates) to (nodes,).

    1. Halve the candidates inside each feature until one is left; `sizes` says how many each feature has.
    2. Halve the features' best until one is left. The lower index wins a tie.

    All features of a stage are compared in one batch; `one_by_one` takes one feature after the other, as the paper
    counts. Rounds: 6 per stage, ceil(log2 K) + ceil(log2 J) stages (the former J times one by one). Reveals: NUMERATOR
    to P_2, DENOMINATOR to P_1, COMPARISON to everyone.
    """
    nodes = sides.shape[1]
    with party.phase("argmax"):
        ends = np.cumsum(sizes)
        features = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        batches = [[feature] for feature in features] if one_by_one else [features]
        best = [_halve_all(party, sides, [np.tile(f, (nodes, 1)) for f in batch]) for batch in batches]
        across = np.concatenate([winner for winners in best for winner in winners], axis=1)
        return _halve_all(party, sides, [across])[0][:, 0]


def _halve_all(party: Party, sides: Secret, groups: list[Ints]) -> list[Ints]:
    """Return groups of candidates, each (nodes, size), halved until every group has one."""
    while any(group.shape[1] > 1 for group in groups):
        pairs = [(group[:, 0:-1:2], group[:, 1::2]) for group in groups]
        first = np.concatenate([a for a, _ in pairs], axis=1)
        second = np.concatenate([b for _, b in pairs], axis=1)
        winner = np.where(second_is_better(party, sides, first, second), second, first)
        played = np.split(winner, np.cumsum([a.shape[1] for a, _ in pairs])[:-1], axis=1)
        groups = [
            np.concatenate([new, old[:, 2 * new.shape[1] :]], axis=1) for new, old in zip(played, groups, strict=True)
        ]
    return groups


def second_is_better(party: Party, sides: Secret, first: Ints, second: Ints) -> npt.NDArray[np.bool_]:
    """Return whether L_1 - L_2 < 0 for pairs of candidates (nodes, pairs), by Eq. 7: nine MULs.

    Rounds: 6. Reveals: as `sign_of_fraction`.
    """
    node = np.arange(len(first))[:, None]
    GL1, GR1, HL1, HR1 = (sides[i][node, first] for i in range(4))
    GL2, GR2, HL2, HR2 = (sides[i][node, second] for i in range(4))
    HR12, GL1_HL2, GL2_HL1, HL12, GR1_HR2, GR2_HR1 = MUL(
        party, (HR1, HR2), (GL1, HL2), (GL2, HL1), (HL1, HL2), (GR1, HR2), (GR2, HR1)
    )
    left, right, H = MUL(party, (HR12, GL1_HL2 - GL2_HL1), (HL12, GR1_HR2 - GR2_HR1), (HL12, HR12))
    return sign_of_fraction(party, left + right, H) < 0


def gain_sign(party: Party, sides: Secret, best: Ints, G: Secret, H: Secret, gamma: Secret) -> Ints:
    """Return the sign of the best split's loss reduction, one per node: eight MULs.

    L = (G_L H_R H + G_R H_L H - G H_L H_R - gamma H_L H_R H) / (H_L H_R H), with gamma in XGBoost's scale; G (squared)
    and H are the node's own, (nodes,). Rounds: 7. Reveals: as `sign_of_fraction`.
    """
    node = np.arange(len(best))
    GL, GR, HL, HR = (sides[i][node, best] for i in range(4))
    GL_HR, GR_HL, HL_HR = MUL(party, (GL, HR), (GR, HL), (HL, HR))
    left, right, parent, whole = MUL(party, (GL_HR, H), (GR_HL, H), (HL_HR, G), (HL_HR, H))
    (penalty,) = MUL(party, (gamma.reshape(1), whole))
    return sign_of_fraction(party, left + right - parent - penalty, whole)


def sign_of_fraction(party: Party, G: Secret, H: Secret) -> Ints:
    """Return the sign of G / H to everyone (section 4.3, "process on determining the sign of one fraction").

    1. Restore H at P_1 and G at P_2. 2. P_2 tells P_1 the sign of G. 3. P_1 tells everyone the sign of the fraction.

    Rounds: 4. Reveals: DENOMINATOR to P_1, NUMERATOR to P_2, COMPARISON to everyone, the coordinator too.
    """
    denominator = reveal(party, H, ACTIVE, Entry.DENOMINATOR)
    numerator = reveal(party, G, P_2, Entry.NUMERATOR)
    sign = signs(numerator) if party.role == P_2 else np.zeros(G.shape, np.int64)
    sign = party.tell(P_2, ACTIVE, Entry.COMPARISON, sign)
    _check_signs(party, P_2, sign)
    sign = party.broadcast(Entry.COMPARISON, sign * signs(denominator) if party.is_active else sign)
    _check_signs(party, ACTIVE, sign)
    return sign


def _check_signs(party: Party, sender: int, sign: Ints) -> None:
    """Raise FrameError unless signs are 1, 0 or -1."""
    if not np.isin(sign, (-1, 0, 1)).all():
        text = f"malformed {Entry.COMPARISON} from {party.roster.name(sender)}: got other numbers than -1, 0 and 1"
        raise FrameError(text, parameter=Entry.COMPARISON.value)


def MUL(party: Party, *pairs: tuple[Secret, Secret]) -> list[Secret]:
    """Return elementwise products, all in one round (section 3.3)."""
    return sums_of_products(party, [[Product(pair)] for pair in pairs], name="MUL")


def argmax_by_division(
    party: Party, sides: Secret, bound: int, fraction_bits: int, iterations: int = ITERATIONS
) -> Ints:
    """Return the best candidate of every node by computing each gain with two DIVs: the rival of section 6.1.

    sides (4, nodes, candidates) with H at most `bound`. 2 (2 n + 1) MULs per candidate for n iterations, in phase
    "gains by division"; then a tournament. Reveals: BEST to the participants.
    """
    GL, GR, HL, HR = (sides[i] for i in range(4))
    with party.phase("gains by division"):
        left = divide(party, GL, HL, bound, fraction_bits, iterations)
        right = divide(party, GR, HR, bound, fraction_bits, iterations)
    gain = left + right
    one = public_secret(party, gain.ring, np.ones(gain.shape, np.int64))
    index = public_secret(party, VECTOR, np.tile(np.arange(gain.shape[1]), (gain.shape[0], 1)))
    stages = plan(*gain.shape, gain.ring.bits, party.roster.size, party.topology, party.link).stages
    best = reveal(party, winning_tags(party, fractions(gain, one, index), stages), ALL, Entry.BEST)
    return np.zeros(gain.shape[0], np.int64) if party.is_symbolic else best.decode().astype(np.int64)


@dataclass(frozen=True, slots=True)
class FeatureIndex:
    """Per participant the candidates of each feature, and the permuted indices of its own."""

    sizes: tuple[tuple[int, ...], ...]
    mine: tuple[int, ...]


def index_features(party: Party, mine: list[int]) -> FeatureIndex:
    """Let all know how many candidates each feature has, and each participant the indices of its own features.

    `mine` lists the candidates of this participant's features. Rounds: 2, and a message of the coordinator to each
    participant. Reveals: FEATURE_SIZES to everyone, FEATURE_INDEX to the owner.
    """
    features = party.tell_everyone(Entry.FEATURE_SIZES, None if party.is_coordinator else [len(mine)])
    check_announced(party, Entry.FEATURE_SIZES, features, ("features", 0, MOST_COLUMNS))
    counts = features[:, 0]
    padded = None if party.is_coordinator else mine + [0] * (int(counts.max()) - len(mine))
    announced = party.tell_everyone(Entry.FEATURE_SIZES, padded, (int(counts.max()),))
    check_announced(
        party,
        Entry.FEATURE_SIZES,
        announced,
        *[("candidate columns of a feature", 0, MOST_COLUMNS)] * int(counts.max()),
    )
    sizes = tuple(tuple(int(s) for s in row[:count]) for row, count in zip(announced, counts, strict=True))
    total = int(counts.sum())
    order = np.zeros(total, np.int64)
    if party.is_coordinator:
        words = party.keys.private_stream("feature indices").octets(8 * total).view(np.uint64)
        order = np.argsort(words, kind="stable")
    own: tuple[int, ...] = ()
    for m, last in enumerate(np.cumsum(counts).tolist(), ACTIVE):
        theirs = party.tell(COORDINATOR, m, Entry.FEATURE_INDEX, order[last - int(counts[m - 1]) : last])
        own = tuple(theirs.tolist()) if party.role == m else own
    return FeatureIndex(sizes, own)


def best_splits(
    party: Party,
    data: SplitData,
    level: Level,
    round_: Round,
    rules: TreeRules,
    depth: int,
    features: FeatureIndex,
) -> Opened:
    """Return the owner of every node's best split (NOBODY where it does not pay), and to the owner which one it is."""
    assert level.gh is not None
    assert level.sums is not None
    owners = data.sizes.owners
    if rules.masks_layer(depth):
        owners = [m for m in owners if m == ACTIVE]
    columns = [data.sizes.columns[m - 1] for m in owners]
    sizes = [size for m in owners for size in features.sizes[m - 1] if size]
    n = len(level.nodes)
    if not sizes:
        return _announce(party, data, features, np.zeros(n, np.int64), np.full(n, -1, np.int64))
    totals = level.gh.sum()  # 3
    sides, G, H = _sides(party, level.sums[..., : sum(columns)], totals, round_.constants, rules)  # 8, 14-16
    best = secure_argmax(party, sides, sizes)  # 19
    with party.phase("sign"):
        sign = gain_sign(party, sides, best, G, H, round_.constants.gam)
    pays = sign > 0 if rules.no_split_first else sign >= 0  # 20 (XGBoost splits on gain >= gamma)
    place = np.searchsorted(np.cumsum(columns), best, side="right")
    owner = np.where(pays, np.array(owners)[place], NOBODY)
    before = np.cumsum([0, *columns])[place]
    return _announce(party, data, features, owner, np.where(pays & (owner == party.role), best - before, -1))


def _sides(
    party: Party, sums: Shares, totals: Secret, constants: Constants, rules: TreeRules
) -> tuple[Secret, Secret, Secret]:
    """Return G_L, G_R, H_L, H_R of all candidates, (4, nodes, columns), and the node's own G and H.

    G are squared sums and H includes lambda. Rounds: 3. Reveals: nothing.
    """
    with party.phase("gain"):
        party.step("open bucket sums")
        y = open_masked(party, shifted(party, sums))
        both = concatenate([y, (totals + OFFSET).reshape(*totals.shape, 1)])
        values = lift_opened(party, both, OFFSET, rules.ring)
        g, h = values[:, 0, -1:], values[:, 1, -1:]
        gL, hL = values[:, 0, :-1], values[:, 1, :-1]
        gR, hR = g - gL, h - hL  # 14
        GL, GR, G = MUL(party, (gL, gL), (gR, gR), (g, g))  # 8, 15
        HL, HR, H = (x + constants.lam for x in (hL, hR, h))  # 8, 16
        return stack([GL, GR, HL, HR]), G[:, 0], H[:, 0]


def _announce(party: Party, data: SplitData, features: FeatureIndex, owner: Ints, local: Ints) -> Opened:
    """Write down what all have seen of the splits, and let each owner tell its splits' permuted index and bucket."""
    for receiver in (ALL, COORDINATOR):
        party.record(Entry.TREE_SHAPE, receiver, len(owner))
    for m in sorted(set(owner.tolist()) - {NOBODY}):
        count = int((owner == m).sum())
        party.record(Entry.OWN_SPLIT, m, count)
        index = np.zeros((count, 2), np.int64)
        if party.role == m:
            index = _index(data, features, local[owner == m])
        if m != ACTIVE:
            index = party.tell(m, ACTIVE, Entry.SPLIT_INDEX, index)
        party.broadcast(Entry.SPLIT_INDEX, index)
    return Opened(owner, local)


def _index(data: SplitData, features: FeatureIndex, local: Ints) -> Ints:
    """Return j* and k* of this participant's own splits, (splits, 2)."""
    assert data.candidates is not None
    feature = data.candidates.features[local]
    first = np.searchsorted(data.candidates.features, feature)
    return np.stack([np.array(features.mine)[feature], local - first], axis=1)


MU = 2
"""mu of Appendix A: the perturbations add up to at most mu lambda."""

SPARE_BITS = 16
"""Bits of a weight below those of g while it converges."""

_RATE_BITS = 56
"""Bits of the learning rate after the point, so that its rounding is below any epsilon also for weights of 10^6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRules:
    """The public numbers of the descent.

    `lam` is lambda~ and `f_h` its scale. `largest_sum` bounds |G~| and `largest_weight` the weight, in units of g~, as
    `epsilon` is, what is asked for. Step sizes have `step_bits`; `shift` is how many of a weight's low bits are dropped
    when it is kept.
    """

    f_h: int
    lam: int
    largest_sum: int
    largest_weight: int
    epsilon: float
    step_bits: int
    shift: int
    learning_rate: float


def steps_needed(v: float, ratio: float, mu: float = MU) -> int:
    """Return t_min of Appendix A: after t_min steps w is within epsilon, for ratio = a epsilon / |b|.

    v = (a + sigma) / (mu lambda). The first term takes r = v mu; the second, r = v / (v - 1), holds for v > 1 only.
    """
    if ratio >= 1:
        return 1
    r = v * mu
    steps = math.ceil(math.log(ratio) / math.log1p(-1 / r)) if r > 1 else 1
    if v > 1:
        steps = min(steps, math.ceil(math.log(ratio) / math.log(1 / v)))
    return max(1, steps)


def leaf_bits(rules: LeafRules) -> int:
    """Return the width that the descent needs, for any leaf."""
    weight = (rules.largest_sum << (rules.f_h + SPARE_BITS)) // rules.lam + 1
    return max(2 * weight << rules.step_bits, 2 * weight * _rate(rules)).bit_length() + 3


def secure_leaf_weight(party: Party, totals: Secret, ring: Ring, rules: LeafRules, label: str) -> Shares:
    """Return shares of the leaf weights, (leaves,), from G and H of the leaves, (leaves, 2) (Algorithm 3, lines 5, 43).

    1. Every participant adds its sigma_m to its share of a; P_1 restores the sum and broadcasts eta'.
    2. t_min steps of Eq. 11: one MUL and one truncation each. All leaves take as many as the slowest needs.
    3. Drop the spare bits, in the learning rate on the way; the shares stay where they are.

    Rounds: 1 + 2 + 4 t + 3. Reveals: STEP_SIZE to everyone.
    """
    with party.phase("leaf weights"):
        sums = lift_secret(party, totals, ring)
        b, a = sums[:, 0], sums[:, 1] + rules.lam
        step = _step_size(party, a, rules, label)
        factors = RingArray.encode(ring, step)
        b = b * (1 << (rules.f_h + SPARE_BITS))
        w = public_secret(party, ring, np.zeros(b.shape, np.int64))
        for _ in range(max(steps_of(rules, int(e)) for e in step)):
            gradient = multiply(party, a, w) + b
            w = w - truncate(party, gradient.scaled(factors), rules.step_bits)  # Eq. 11
        places = _RATE_BITS + rules.shift
        kept = truncate(party, w * _rate(rules) + (1 << (places - 1)), places)
        return Shares(to_shares(party, kept).part.cast(VECTOR))


def steps_of(rules: LeafRules, step: int) -> int:
    """Return t_min of a leaf from its public step size e = 2^s / (a + sigma), rounded down.

    Rounding e down acts like more perturbation: with p = 2^s / e, a is above p - mu' lambda for the mu' below.
    """
    perturbed = Fraction(1 << rules.step_bits, step)
    rounding = perturbed - Fraction(1 << rules.step_bits, step + 1)
    mu = MU + rounding / rules.lam
    v = perturbed / (mu * rules.lam)
    least = max(Fraction(rules.lam), (v - 1) * mu * rules.lam)  # a is no less than this
    bound = min(Fraction(rules.largest_weight), Fraction(rules.largest_sum << rules.f_h) / least)
    return steps_needed(float(max(v, 1 / mu)), rules.epsilon / float(bound), float(mu))


def _rate(rules: LeafRules) -> int:
    """Return the learning rate as an integer."""
    return round(Fraction(rules.learning_rate) * (1 << _RATE_BITS))


def _step_size(party: Party, a: Secret, rules: LeafRules, label: str) -> npt.NDArray[np.int64]:
    """Return e = floor(2^s / (a + sum of sigma_m)) to everyone; sigma_m > 0, their sum at most mu lambda."""
    shares = to_shares(party, a)
    if not party.is_symbolic:
        words = party.keys.private_stream(f"{label}/sigma").octets(16 * a.shape[0])
        most = MU * rules.lam // party.roster.size
        sigma = [1 + int.from_bytes(words[16 * i : 16 * i + 16].tobytes(), "little") % most for i in range(a.shape[0])]
        shares = Shares(shares.part + RingArray.encode(a.ring, np.array(sigma, object)))
    restored = reveal(party, shares, ACTIVE, Entry.STEP_SIZE)
    step = np.zeros(a.shape, np.int64)
    if party.is_active:
        whole = [int(v) for v in restored.decode()]
        if min(whole, default=1) < 1:
            text = f"malformed {Entry.STEP_SIZE}: got a sum below 1; some role sent a wrong share or correction"
            raise FrameError(text, parameter=Entry.STEP_SIZE.value)
        step = np.array([(1 << rules.step_bits) // v for v in whole], np.int64)
    steps = party.broadcast(Entry.STEP_SIZE, step)
    check_numbers(party, ACTIVE, steps.tolist(), *[("as step size", 1, 1 << rules.step_bits)] * len(steps))
    return steps
