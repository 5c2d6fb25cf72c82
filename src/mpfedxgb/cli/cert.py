"""`cert`: certificates of roles, from the authority to the renewal; every private key stays where it was made."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from mpfedxgb.atomic import PUBLIC, write_file
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.settings.sections import Tls
from mpfedxgb.transport.certificates import (
    AUTHORITY,
    AUTHORITY_DAYS,
    CA_CERTIFICATE,
    ROLE_DAYS,
    Authority,
    check_private,
    fingerprint,
    make_key,
    read_request,
    requested_names,
    write_request,
)
from mpfedxgb.transport.expiry import SOON, now_utc
from mpfedxgb.transport.tls.identity import Identity, dns_names, load_private_key
from mpfedxgb.units import counted

cert = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_Days = Annotated[int, typer.Option(min=1, max=36_500, help="How long it is valid.")]
_PassphraseEnv = Annotated[
    str, typer.Option(help="Environment variable with the passphrase of the authority's key; none if not given.")
]
_Settings = Annotated[Path, typer.Argument(help="Settings file of the role (.toml).")]


@cert.command()
def authority(
    folder: Annotated[Path, typer.Argument(help="Gets ca.crt, which all roles trust, and ca.key.")],
    name: Annotated[str, typer.Option(help="Name of the federation.")],
    days: _Days = AUTHORITY_DAYS,
    passphrase_env: _PassphraseEnv = "",
) -> None:
    """Make the authority of a federation.

    Anyone who has its key can pose as any role.
    """
    made = Authority.create(folder, name, days, passphrase=_passphrase(passphrase_env), kind="authority")
    folder.chmod(0o700)
    typer.echo(f"Written to {folder}: {CA_CERTIFICATE}, for all roles, and ca.key, for nobody else.")
    typer.echo(_key_line(made.certificate.public_key()))


@cert.command()
def request(settings: _Settings) -> None:
    """Make a role's private key and a request.

    The key stays here, readable by its owner only; the request goes to the authority.
    """
    role, tls = _role_of(settings)
    if tls.key.exists():
        raise SettingsError(
            f"{tls.key} is there already; mpfedxgb cert renew {settings} asks for a certificate for it, and with "
            "--new-key for another key, if this one was made elsewhere",
            "file",
            tls.key.name,
        )
    key = make_key(tls.key, tls.passphrase())
    _request(settings, role, tls, key, f"Made the private key {tls.key}; it stays here.")


@cert.command()
def sign(
    request: Annotated[Path, typer.Argument(help="The request of a role (.csr).")],
    role: Annotated[str, typer.Option(help="Name of the role that you have made sure that the request is from.")],
    authority: Annotated[Path, typer.Option(help="Folder of the authority.")],
    days: _Days = ROLE_DAYS,
    out: Annotated[
        Path | None, typer.Option(help="The certificate; beside the request, with the ending .crt, if not given.")
    ] = None,
    passphrase_env: _PassphraseEnv = "",
) -> None:
    """Sign a role's request, as the authority.

    It must be for this role alone, and unchanged since the role made it. Compare the fingerprint of its key with the
    one that the role sees, by telephone for example.
    """
    target = out or request.with_suffix(".crt")
    signed = Authority.load(authority, _passphrase(passphrase_env)).answer(request, role, target, days)
    typer.echo(f"Written to {target}: for {role}, valid until {_minute(signed.not_valid_after_utc)}.")
    typer.echo(_key_line(signed.public_key()))
    typer.echo(f"Send it to {role}, with {authority / CA_CERTIFICATE}.")


@cert.command()
def install(
    settings: _Settings,
    certificate: Annotated[Path, typer.Argument(help="What the authority sent (.crt).")],
    ca: Annotated[
        Path | None, typer.Option(help="The authority's certificate, if it is to take the place of [tls] ca.")
    ] = None,
) -> None:
    """Check a signed certificate and put it in place.

    Its key too, if that is new. A role that runs takes both up by itself.
    """
    role, tls = _role_of(settings)
    passphrase, roots = tls.credentials().passphrase, ca or tls.ca
    key = next((path for path in (_next(tls), tls.key) if _belongs(certificate, path, passphrase)), tls.key)
    identity = Identity.load(role.role.name, roots, certificate, key, passphrase)
    identity.check_usage(listens=role.network.listen is not None, dials=bool(role.peers()))
    check_private(key)
    # The key first: should this end in between, the same command puts the certificate beside it.
    if key != tls.key:
        write_file(tls.key, key.read_bytes())
    write_file(tls.certificate, identity.certificate, PUBLIC)
    if roots != tls.ca:
        write_file(tls.ca, identity.ca, PUBLIC)
    _next(tls).unlink(missing_ok=True)
    typer.echo(f"{tls.certificate} is in place, valid until {_minute(identity.expires)}; a role that runs takes it up.")


@cert.command()
def renew(
    path: Annotated[Path, typer.Argument(help="Settings file of a role (.toml), or a folder that init wrote.")],
    new_key: Annotated[bool, typer.Option("--new-key", help="Make a new private key too.")] = False,
) -> None:
    """Ask for a newer certificate of the same name.

    The key stays the same; one made by --new-key comes into use when its certificate is installed. In a folder that
    init wrote everybody's certificate is made at once.
    """
    if path.is_dir():
        _renew_trial(path, new_key)
        return
    role, tls = _role_of(path)
    if new_key:
        _next(tls).unlink(missing_ok=True)
        key = make_key(_next(tls), tls.passphrase())
        _request(path, role, tls, key, f"Made the private key {_next(tls)}, to be used from the installation on.")
        return
    key = load_private_key(tls.key, tls.credentials().passphrase)
    check_private(tls.key)
    _request(path, role, tls, key, f"The private key is {tls.key}, as before.")


@cert.command()
def show(
    paths: Annotated[list[Path], typer.Argument(help="Settings files (.toml), certificates (.crt), requests (.csr).")],
) -> None:
    """Print names, validity and fingerprints; warn.

    The exit code is 2 if something cannot be used.
    """
    problems = 0
    for path in paths:
        for line in _shown(path):
            typer.echo(line)
            problems += line.startswith("  problem")
    if problems:
        raise SettingsError(f"{counted(problems, 'problem')}; the lines above say what to do", "certificate")


def _role_of(path: Path) -> tuple[RoleSettings, Tls]:
    settings = RoleSettings.from_toml(path)
    if settings.tls is None:
        text = f"{path} has no [tls]: transport {settings.network.transport} needs no certificates"
        raise SettingsError(text, "place", "tls")
    return settings, settings.tls


def _passphrase(variable: str) -> str | None:
    if not variable:
        return None
    if not (value := os.environ.get(variable)):
        text = f"--passphrase-env {variable} is not set; set it to the passphrase of the authority's key"
        raise SettingsError(text, "missing", "passphrase-env", variable)
    return value


def _next(tls: Tls) -> Path:
    """Return where a new key waits for its certificate."""
    return tls.key.with_name(f"{tls.key.name}.next")


def _request(settings: Path, role: RoleSettings, tls: Tls, key: object, about_key: str) -> None:
    name, path = role.role.name, tls.certificate.with_suffix(".csr")
    write_request(path, name, key)  # type: ignore[arg-type] # of several kinds, which the library has no name for
    typer.echo(about_key)
    typer.echo(_key_line(read_request(path).public_key()))
    typer.echo(
        f"Send {path} to the authority: mpfedxgb cert sign {path.name} --role {name} --authority FOLDER\n"
        f"Then: mpfedxgb cert install {settings} {tls.certificate.name}"
    )


def _belongs(certificate: Path, key: Path, passphrase: bytes | None) -> bool:
    if not key.exists() or not certificate.exists():
        return False
    try:
        found = x509.load_pem_x509_certificates(certificate.read_bytes())
    except ValueError:  # Identity.load says so
        return False
    return fingerprint(found[0].public_key()) == fingerprint(load_private_key(key, passphrase).public_key())


def _renew_trial(folder: Path, new_key: bool) -> None:
    authority = Authority.load(folder / AUTHORITY)
    renewed, others = [], []
    for settings in sorted(folder.glob("*/*.toml")):
        own, role = settings.parent, settings.parent.name
        if settings.stem != role:
            continue
        if not authority.has_issued(own / f"{role}.crt"):
            others.append(role)
            continue
        renewed.append(role)
        if new_key:
            authority.renew(own, role)
        else:
            authority.prolong(own / f"{role}.crt", role)
    if not renewed:
        text = f"{folder} has no role with a certificate of the authority in {folder / AUTHORITY}"
        raise SettingsError(text, "missing", folder.name)
    what = "certificates and keys" if new_key else "certificates for the same keys"
    typer.echo(f"New {what}, valid for {ROLE_DAYS} days: {', '.join(renewed)}")
    if others:
        typer.echo(f"Left alone, since they are not of this authority: {', '.join(others)}")


def _shown(path: Path) -> Iterator[str]:
    if path.suffix == ".toml":
        yield from _shown_role(path)
        return
    try:
        content = path.read_bytes()
    except OSError as error:
        text = f"cannot read {path}: {error.strerror}; correct the path or its permissions"
        raise SettingsError(text, "file", path.name) from None
    if b"CERTIFICATE REQUEST" in content:
        asked = read_request(path)
        yield f"{path}: a request"
        yield f"  names        {', '.join(requested_names(asked)) or 'none'}"
        yield f"  {_key_line(asked.public_key())}"
        return
    try:
        found = x509.load_pem_x509_certificates(content)
    except ValueError:
        text = f"{path} contains no certificate and no request in PEM form"
        raise SettingsError(text, "damaged", path.name) from None
    for certificate in found:
        yield f"{path}: a certificate"
        yield from _shown_certificate(certificate)


def _shown_certificate(certificate: x509.Certificate) -> Iterator[str]:
    names, now = dns_names(certificate), now_utc()
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    days = (end - now).days
    yield f"  names        {', '.join(names) or f'{_common_name(certificate.subject)} (no role)'}"
    yield f"  issued by    {_common_name(certificate.issuer)}"
    yield f"  valid        {_minute(start)} to {_minute(end)}, {max(days, 0)} days left"
    yield f"  {_key_line(certificate.public_key())}"
    yield f"  certificate  SHA-256 {certificate.fingerprint(hashes.SHA256()).hex(':')}"
    if end < now:
        yield "  problem      it has ended, and no role accepts it; renew it (mpfedxgb cert renew)"
    elif now < start:
        yield "  problem      it is not valid yet; wait, or set the clock right"
    elif end - now < SOON:
        yield f"  warning      it ends in {counted(days, 'day')}; renew it soon (mpfedxgb cert renew)"


def _shown_role(path: Path) -> Iterator[str]:
    """Yield the role's files, and whether they fit each other."""
    role, tls = _role_of(path)
    yield from _shown(tls.certificate)
    yield from _shown(tls.ca)
    yield f"{tls.key}: the private key"
    try:
        check_private(tls.key)
        Identity.of(role.role.name, tls.credentials(), may_have_ended=True)
    except (SettingsError, OSError) as error:
        yield f"  problem      {error}"
    else:
        yield f"  fits         certificate, authority and the name {role.role.name}; readable by its owner only"
    if _next(tls).exists():
        yield f"  waiting      {_next(tls)}, until its certificate is installed (mpfedxgb cert install)"


def _key_line(public: object) -> str:
    return f"public key   SHA-256 {fingerprint(public)}"  # type: ignore[arg-type] # of several kinds, without a name


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found[0].value) if found else "somebody without a name"


def _minute(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
