"""The best split of every node as the paper finds it (Algorithm 3, lines 3, 8 and 14-20): `security="paper"`.

The coordinator has given every feature an index by a permutation of its own, and every participant knows its own
features' indices only. Index and bucket of each split are told to all; whose the feature is they see from the order in
which the candidates stand, which is that of the strict tournament, so that ties fall alike.
"""

from __future__ import annotations

import numpy as np

from mpfedxgb.party.bounds import MOST_COLUMNS, check_told
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.protocols.lift import lift_opened
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, stack
from mpfedxgb.protocols.tag import NOBODY, OWN_SPLIT, Opened
from mpfedxgb.tree.gain import OFFSET, shifted
from mpfedxgb.tree.level import Constants, FeatureIndex, Level, Round, SplitData, TreeRules
from mpfedxgb.tree.paper.argmax import MUL, Ints, gain_sign, secure_argmax
from mpfedxgb.tree.split import TREE_SHAPE

FEATURE_SIZES = "candidate columns of each feature"
FEATURE_INDEX = "permuted index of an own feature"
SPLIT_INDEX = "permuted feature index and bucket of a split"


def index_features(party: Party, mine: list[int]) -> FeatureIndex:
    """Let all know how many candidates each feature has, and each participant the indices of its own features.

    `mine` lists the candidates of this participant's features. Rounds: 2, and a message of the coordinator to each
    participant. Reveals: FEATURE_SIZES to everyone, FEATURE_INDEX to the owner.
    """
    features = party.tell_everyone(FEATURE_SIZES, None if party.is_coordinator else [len(mine)])
    check_told(party, FEATURE_SIZES, features, ("features", 0, MOST_COLUMNS))
    counts = features[:, 0]
    padded = None if party.is_coordinator else mine + [0] * (int(counts.max()) - len(mine))
    told = party.tell_everyone(FEATURE_SIZES, padded, (int(counts.max()),))
    check_told(party, FEATURE_SIZES, told, *[("candidate columns of a feature", 0, MOST_COLUMNS)] * int(counts.max()))
    sizes = tuple(tuple(int(s) for s in row[:count]) for row, count in zip(told, counts, strict=True))
    total = int(counts.sum())
    order = np.zeros(total, np.int64)
    if party.is_coordinator:
        words = party.keys.private_stream("feature indices").octets(8 * total).view(np.uint64)
        order = np.argsort(words, kind="stable")
    own: tuple[int, ...] = ()
    for m, last in enumerate(np.cumsum(counts).tolist(), ACTIVE):
        theirs = party.tell(COORDINATOR, m, FEATURE_INDEX, order[last - int(counts[m - 1]) : last])
        own = tuple(theirs.tolist()) if party.role == m else own
    return FeatureIndex(sizes, own)


def best_splits(party: Party, data: SplitData, level: Level, round_: Round, rules: TreeRules, depth: int) -> Opened:
    """Return the owner of every node's best split (NOBODY where it does not pay), and to the owner which one it is."""
    assert level.gh is not None
    assert level.sums is not None
    assert data.features is not None
    owners = data.sizes.owners
    if rules.masks_layer(depth):
        owners = [m for m in owners if m == ACTIVE]
    columns = [data.sizes.columns[m - 1] for m in owners]
    sizes = [size for m in owners for size in data.features.sizes[m - 1] if size]
    n = len(level.nodes)
    if not sizes:
        return _announce(party, data, np.zeros(n, np.int64), np.full(n, -1, np.int64))
    totals = level.gh.sum()  # 3
    sides, G, H = _sides(party, level.sums[..., : sum(columns)], totals, round_.constants, rules)  # 8, 14-16
    best = secure_argmax(party, sides, sizes)  # 19
    with party.phase("sign"):
        sign = gain_sign(party, sides, best, G, H, round_.constants.gam)
    pays = sign > 0 if rules.no_split_first else sign >= 0  # 20 (XGBoost splits on gain >= gamma)
    place = np.searchsorted(np.cumsum(columns), best, side="right")
    owner = np.where(pays, np.array(owners)[place], NOBODY)
    before = np.cumsum([0, *columns])[place]
    return _announce(party, data, owner, np.where(pays & (owner == party.role), best - before, -1))


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


def _announce(party: Party, data: SplitData, owner: Ints, local: Ints) -> Opened:
    """Write down what all have seen of the splits, and let each owner tell its splits' permuted index and bucket."""
    for receiver in (ALL, COORDINATOR):
        party.record(TREE_SHAPE, receiver, len(owner))
    for m in sorted(set(owner.tolist()) - {NOBODY}):
        count = int((owner == m).sum())
        party.record(OWN_SPLIT, m, count)
        index = np.zeros((count, 2), np.int64)
        if party.role == m:
            index = _index(data, local[owner == m])
        if m != ACTIVE:
            index = party.tell(m, ACTIVE, SPLIT_INDEX, index)
        party.broadcast(SPLIT_INDEX, index)
    return Opened(owner, local)


def _index(data: SplitData, local: Ints) -> Ints:
    """Return j* and k* of this participant's own splits, (splits, 2)."""
    assert data.features is not None
    assert data.candidates is not None
    feature = data.candidates.features[local]
    first = np.searchsorted(data.candidates.features, feature)
    return np.stack([np.array(data.features.mine)[feature], local - first], axis=1)
