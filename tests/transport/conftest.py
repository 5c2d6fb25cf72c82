"""What several tests of the TLS transport begin with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.transport_contract import LONG, Call
from support.loopback import Loopback, loopback


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Loopback]:
    """Return a federation of three: coordinator, bank, telecom; somebody called retail has a certificate too."""
    with loopback(tmp_path / "pki", roles=3) as made:
        yield made


@pytest.fixture
def coordinator(federation: Loopback, caplog: pytest.LogCaptureFixture) -> Iterator[Call]:
    """Return a coordinator that waits for the bank; after the test the bank comes, and they must be able to talk."""
    caplog.set_level(logging.WARNING, "mpfedxgb.transport")
    waiting = federation.call(0, peers=[1])
    federation.wait_for_port()
    yield waiting
    assert waiting.waits
    bank = federation.connect(1, peers=[0])
    bank.send(0, b"at last", LONG)
    end = waiting.result()
    assert end.receive(1, LONG) == b"at last"
    bank.close()
    end.close()
