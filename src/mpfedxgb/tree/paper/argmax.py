"""SecureArgmax as the paper prints it (section 4.3, Eq. 6-7; Algorithm 3, line 19): `security="paper"`.

A candidate is the four numbers G_L, G_R (squared sums of g) and H_L, H_R (sums of h plus lambda). Two candidates are
compared by the sign of one fraction, nine MULs away. Its denominator is restored at P_1 and its numerator at P_2; P_2
tells P_1 its sign, and P_1 tells everyone who won. All of this is on the ledger: the magnitudes say a lot
(docs/paper-vs-strict.md). The strict way is in gain.py and protocols/argmax.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import FrameError
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.argmax import fractions, winning_tags
from mpfedxgb.protocols.divide import ITERATIONS, divide
from mpfedxgb.protocols.multiply import Product, sums_of_products
from mpfedxgb.protocols.plan import plan
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.secret import Secret, public_secret
from mpfedxgb.ring.bits import signs
from mpfedxgb.ring.ring import VECTOR

NUMERATOR = "numerator of a difference of gains"
DENOMINATOR = "denominator of a difference of gains"
COMPARISON = "which of two candidates is better"
BEST = "index of the best candidate"

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
    denominator = reveal(party, H, ACTIVE, DENOMINATOR)
    numerator = reveal(party, G, P_2, NUMERATOR)
    sign = signs(numerator) if party.role == P_2 else np.zeros(G.shape, np.int64)
    sign = party.tell(P_2, ACTIVE, COMPARISON, sign)
    _check_signs(party, P_2, sign)
    sign = party.broadcast(COMPARISON, sign * signs(denominator) if party.is_active else sign)
    _check_signs(party, ACTIVE, sign)
    return sign


def _check_signs(party: Party, sender: int, sign: Ints) -> None:
    """Raise FrameError unless signs are 1, 0 or -1."""
    if not np.isin(sign, (-1, 0, 1)).all():
        raise FrameError(f"malformed {COMPARISON} from {party.roster.name(sender)}: got other numbers than -1, 0 and 1")


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
    best = reveal(party, winning_tags(party, fractions(gain, one, index), stages), ALL, BEST)
    return np.zeros(gain.shape[0], np.int64) if party.is_coordinator else best.decode().astype(np.int64)
