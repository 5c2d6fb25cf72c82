"""What a run cost, by phase and by peer."""

from __future__ import annotations

import pytest

from mpfedxgb.party import ALL, Counts, LocalRun, Meter, Party, run_locally
from mpfedxgb.protocols import multiply, reveal, share
from mpfedxgb.ring import VECTOR, RingArray
from mpfedxgb.transport import Kind, decode
from support.names import unlisted


def test_messages_are_counted_by_peer() -> None:
    """Payload and wire bytes, sent and received, each for its peer."""
    meter = Meter()
    meter.sent("P2", 80, 100)
    meter.sent("P2", 8, 30)
    meter.sent("P3", 1, 21)
    meter.received("P2", 5, 25)
    counts = meter.total()
    assert counts.messages == {"P2": 2, "P3": 1}
    assert counts.payload_sent == {"P2": 88, "P3": 1}
    assert counts.wire_sent == {"P2": 130, "P3": 21}
    assert (counts.payload_received, counts.wire_received) == ({"P2": 5}, {"P2": 25})
    assert (counts.bytes_sent, counts.bytes_received) == (89, 5)


def test_phases_nest() -> None:
    """What happens inside a phase is counted under its path, and after it under the outer one again."""
    meter = Meter()
    meter.now.rounds += 1
    with meter.phase("tree"):
        meter.now.rounds += 10
        with meter.phase("histogram"):
            meter.now.rounds += 100
            meter.sent("P2", 8, 20)
        meter.now.rounds += 10
    with meter.phase("tree"):
        meter.now.rounds += 1000
    with meter.phase("trees"):
        meter.now.rounds += 5000
    meter.now.rounds += 1
    assert {path: counts.rounds for path, counts in meter.phases.items()} == {
        "": 2,
        "tree": 1020,
        "tree/histogram": 100,
        "trees": 5000,
    }
    assert meter.total().rounds == 6122
    assert meter.total("tree").rounds == 1120
    assert meter.total("tree/histogram").rounds == 100
    assert meter.total("tree/histogram").messages == {"P2": 1}
    assert meter.total("nothing").rounds == 0


def test_a_phase_ends_with_an_error_too() -> None:
    """After an exception the outer phase counts again."""
    meter = Meter()
    with pytest.raises(ZeroDivisionError), meter.phase("tree"):
        _ = 1 // 0
    meter.now.rounds += 1
    assert meter.phases[""].rounds == 1
    assert meter.phases["tree"].rounds == 0


def test_seconds_are_those_of_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time inside an inner phase is not counted in the outer one as well."""
    now = 0.0
    monkeypatch.setattr("mpfedxgb.party.meter.time.perf_counter", lambda: now)
    meter = Meter()
    now += 1.0
    with meter.phase("outer"):
        now += 10.0
        with meter.phase("inner"):
            now += 100.0
        now += 1000.0
    assert meter.phases[""].seconds == 1.0
    assert meter.phases["outer/inner"].seconds == 100.0
    assert meter.phases["outer"].seconds == 1010.0
    assert meter.total().seconds == 1111.0


def test_adding_leaves_the_other_alone() -> None:
    """Sums over roles and phases are new counters."""
    first, second = Counts(rounds=1, messages={"P2": 1}), Counts(rounds=2, messages={"P2": 3, "P3": 4})
    total = Counts()
    total.add(first)
    total.add(second)
    assert (total.rounds, total.messages) == (3, {"P2": 4, "P3": 4})
    assert (first.messages, second.messages) == ({"P2": 1}, {"P2": 3, "P3": 4})


def test_counts_as_plain_numbers() -> None:
    """Every counter is in the dictionary, under its own name."""
    plain = Counts(rounds=2, dealer_bytes=7).to_dict()
    assert plain["rounds"] == 2
    assert plain["dealer_bytes"] == 7
    assert set(plain) == set(Counts.__dataclass_fields__)


def product(party: Party) -> None:
    """Multiply two shared vectors of five elements and open the result."""
    values = RingArray.encode(VECTOR, range(5))
    with party.phase("share"):
        x = share(party, 1, VECTOR, (5,), values)
        y = share(party, 2, VECTOR, (5,), values)
    with party.phase("multiply"):
        z = multiply(party, x, y)
    reveal(party, z, ALL, unlisted("z"))


@pytest.fixture(scope="module", params=[2, 3])
def measured(request: pytest.FixtureRequest) -> tuple[LocalRun[None], list[tuple[int, int, bytes]]]:
    """Run a program and keep its blocks."""
    blocks: list[tuple[int, int, bytes]] = []
    return run_locally(product, request.param, tap=lambda *what: blocks.append(what)), blocks


def test_the_meter_counts_what_was_sent(measured: tuple[LocalRun[None], list[tuple[int, int, bytes]]]) -> None:
    """Every role's messages, payload and wire bytes are those of the blocks that passed by, at both ends."""
    run, blocks = measured
    for sender in run.roster.roles:
        for receiver in run.roster.neighbours(sender):
            name, mine = run.roster.name(sender), [b for s, r, b in blocks if (s, r) == (sender, receiver)]
            payload = sum(decode(b, 1 << 20).payload_bytes for b in mine)
            sent = run.meters[sender].total()
            assert sent.messages.get(run.roster.name(receiver), 0) == len(mine)
            assert sent.payload_sent.get(run.roster.name(receiver), 0) == payload
            assert sent.wire_sent.get(run.roster.name(receiver), 0) == sum(map(len, mine))
            received = run.meters[receiver].total()
            assert received.payload_received.get(name, 0) == payload
            assert received.wire_received.get(name, 0) == sum(map(len, mine))


def test_dealer_bytes_are_seen_from_either_end(
    measured: tuple[LocalRun[None], list[tuple[int, int, bytes]]],
) -> None:
    """The corrections, without the seeds of the handshake: the coordinator's are those of all participants' turns."""
    run, blocks = measured
    frames = [decode(b, 1 << 20) for sender, _, b in blocks if sender == 0]
    dealt = sum(frame.payload_bytes for frame in frames if frame.kind is Kind.DATA)
    assert dealt == 2 * 5 * 8
    assert run.meters[0].total().dealer_bytes == sum(meter.total().dealer_bytes for meter in run.meters[1:]) == dealt
    for m, meter in enumerate(run.meters[1:], 1):
        got = [decode(b, 1 << 20) for sender, receiver, b in blocks if (sender, receiver) == (0, m)]
        assert meter.total().dealer_bytes == sum(f.payload_bytes for f in got if f.kind is Kind.DATA)


def test_rounds_and_products_go_to_their_phase(
    measured: tuple[LocalRun[None], list[tuple[int, int, bytes]]],
) -> None:
    """Participants count rounds where they happen; the program is timed in every role."""
    run, _ = measured
    for meter in run.meters[1:]:
        assert [meter.total(phase).rounds for phase in ("share", "multiply", "")] == [2, 1, 4]
        assert [meter.total(phase).products for phase in ("share", "multiply", "")] == [0, 5, 5]
        assert meter.total("multiply").seconds > 0
