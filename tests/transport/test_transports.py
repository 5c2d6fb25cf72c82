"""The table of transports: what it names is there, is tested, and is told to users."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest

from mpfedxgb.errors import UserError
from mpfedxgb.transport.transport import Address
from mpfedxgb.transport.transports import TRANSPORTS, ConnectionSettings, Credentials

TESTS = Path(__file__).parent
DEPLOYMENT = TESTS.parents[1] / "docs" / "deployment.md"


@pytest.mark.parametrize("name", TRANSPORTS)
def test_it_can_be_opened(name: str) -> None:
    """Its folder or module is called as in the table and opens a transport from connection settings."""
    try:
        module = import_module(f"mpfedxgb.transport.{name}")
    except UserError as error:
        pytest.skip(str(error))  # a library that is an extra
    (parameter,) = inspect.signature(module.open_transport).parameters
    hints = get_type_hints(module.open_transport)
    assert hints[parameter] is ConnectionSettings
    for method in ("send", "receive", "close"):
        assert callable(getattr(hints["return"], method))


@pytest.mark.parametrize("name", TRANSPORTS)
def test_it_passes_the_contracts(name: str) -> None:
    """Its test file, called after it, holds it to both."""
    (path,) = TESTS.rglob(f"test_{name}.py")
    text = path.read_text()
    for contract in ("TransportContract", "CommunicatorContract"):
        assert re.search(rf"^class Test\w+\(.*\b{contract}\):", text, re.MULTILINE), contract


@pytest.mark.parametrize("name", TRANSPORTS)
def test_users_are_told(name: str) -> None:
    """The settings that docs/deployment.md explains have it."""
    (line,) = re.findall(r"^\| `transport` \|.*$", DEPLOYMENT.read_text(), re.MULTILINE)
    assert f"{name} {TRANSPORTS[name].where}" in line


def test_a_passphrase_is_not_shown() -> None:
    """Neither by the credentials nor by the settings that hold them."""
    credentials = Credentials(Path("ca.crt"), Path("bank.crt"), Path("bank.key"), b"correct horse")
    addresses = {0: Address("deals.example.org", 7701)}
    settings = ConnectionSettings(1, ("c", "bank", "telecom"), "loans", None, addresses, credentials, 1.0, 1, 1, 60.0)
    assert "bank.key" in repr(settings)
    assert "horse" not in repr(settings)
