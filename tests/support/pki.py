"""Certificates for tests, good ones and all kinds of bad ones."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

from mpfedxgb.transport.tls.identity import Identity, contexts_of

PASSPHRASE = b"correct horse"

Key = ec.EllipticCurvePrivateKey


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Key, passphrase: bytes | None) -> bytes:
    lock = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


@dataclass(frozen=True)
class Pair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """An authority that certifies whatever a test asks for, into one folder."""

    def __init__(self, folder: Path, title: str = "test authority", days: tuple[float, float] = (-1, 1)) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._certify(title, self.key, None, days, (), ca=True)
        self.file = folder / "ca.pem"
        self.file.write_bytes(_pem(self.certificate))
        self._numbers = itertools.count(1)

    def _certify(
        self,
        subject: str,
        key: Key,
        issuer: Authority | None,
        days: tuple[float, float],
        names: tuple[str, ...],
        ca: bool = False,
        usages: tuple[ObjectIdentifier, ...] = (),
        raw_names: bytes = b"",
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name(subject) if issuer is None else issuer.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + dt.timedelta(days=days[0]))
            .not_valid_after(now + dt.timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca, None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=False)
        if raw_names:
            subject_alternative_name = ObjectIdentifier("2.5.29.17")
            builder = builder.add_extension(x509.UnrecognizedExtension(subject_alternative_name, raw_names), False)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
        return builder.sign(key if issuer is None else issuer.key, hashes.SHA256())

    def issue(
        self,
        *names: str,
        days: tuple[float, float] = (-1, 1),
        self_signed: bool = False,
        usages: tuple[ObjectIdentifier, ...] = (),
        passphrase: bytes | None = None,
        common_name: str = "someone",
        raw_names: bytes = b"",
    ) -> Pair:
        """Return a certificate for some DNS names; valid from and to so many days from now."""
        number = next(self._numbers)
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = None if self_signed else self
        certificate = self._certify(common_name, key, issuer, days, names, usages=usages, raw_names=raw_names)
        pair = Pair(self.folder / f"{number}.crt", self.folder / f"{number}.key")
        pair.certificate.write_bytes(_pem(certificate))
        pair.key.write_bytes(_key_pem(key, passphrase))
        return pair

    def between(self, folder: Path) -> Authority:
        """Return an authority that this one has certified."""
        other = Authority(folder, "authority in between")
        other.certificate = self._certify("authority in between", other.key, self, (-1, 1), (), ca=True)
        other.file.write_bytes(_pem(other.certificate))
        return other

    def identity(self, name: str) -> Identity:
        """Return a role's identity, a good one."""
        pair = self.issue(name)
        return Identity.load(name, self.file, pair.certificate, pair.key)


def unchecked(name: str, ca: Path, pair: Pair) -> Identity:
    """Return an identity that `Identity.load` may refuse, as a role with another clock or other software has it."""
    end, contents = dt.datetime.now(dt.UTC), (ca.read_bytes(), pair.certificate.read_bytes())
    contexts = contexts_of(ca, pair.certificate, pair.key, None)
    return Identity(name, ca, pair.certificate, pair.key, end, None, None, *contents, *contexts)
