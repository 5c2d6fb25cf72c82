"""`init`: a federation ready to try, in one folder: settings, certificates and sample tables for every role."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mpfedxgb.atomic import PUBLIC, write_file
from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.data.files import write_table
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.settings.sections import listens
from mpfedxgb.federation.settings.template import Place, settings_text
from mpfedxgb.modes.facts import check_for_real_tables
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.testing.samples import sample_tables
from mpfedxgb.transport.certificates import AUTHORITY, AUTHORITY_DAYS, ROLE_DAYS, Authority
from mpfedxgb.transport.transport import NAME, Address, parse_address

FIRST_PORT = 7701
"""Where the coordinator listens, if the port is free; the participants that listen follow."""

_LOCAL = ("127.0.0.1", "localhost", "::1")


def init(
    folder: Annotated[Path, typer.Argument(help="New or empty folder for the federation.")],
    participants: Annotated[str, typer.Option(help="Names of the participants, such as bank,telecom,retail.")] = "",
    active: Annotated[str, typer.Option(help="The participant that holds the label; the first if not given.")] = "",
    coordinator: Annotated[
        str, typer.Option(help="Name of the coordinator: of a role without columns, or one of three participants.")
    ] = "coordinator",
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "trial",
    host: Annotated[
        list[str] | None,
        typer.Option(help="ROLE=HOST: where a role that listens is reached; this machine if not given. Repeatable."),
    ] = None,
    ports: Annotated[
        str, typer.Option(help="Ports of those who listen, the coordinator first; from 7701, or free ones if taken.")
    ] = "",
    # generated: options
    topology: Annotated[
        str,
        typer.Option(
            help="How participants are connected: star, over the active one, or mesh, each with each.",
            autocompletion=lambda: ["star", "mesh"],
        ),
    ] = "star",
    security: Annotated[
        str,
        typer.Option(
            help='"sealed" shows nobody anything of a training row. One of strict, sealed.',
            autocompletion=lambda: ["strict", "sealed"],
        ),
    ] = "strict",
    # end of generated
) -> None:
    """Write a ready federation into a folder: commented settings, trial certificates and sample tables per role."""
    roster = _roster(participants, active, coordinator)
    for role in (name, *(roster.name(m) for m in roster.roles)):
        if not NAME.fullmatch(role) or role == AUTHORITY:
            text = (
                f"{role!r} cannot be a name here; names have 1 to 63 of the characters a-z, 0-9 and -, no - at their "
                f"ends, and {AUTHORITY} is taken by the certificates' authority"
            )
            raise SettingsError(text, "value", "name", role)
    if topology not in TOPOLOGIES:
        raise SettingsError(
            f"--topology {topology} is not known; it is one of {', '.join(TOPOLOGIES)}", "choice", "topology", topology
        )
    check_for_real_tables(security, "a federation that begins, whose [training] security can be changed later")
    places = _places(roster, host or [], ports, topology)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "is not empty" if folder.is_dir() else "is a file"
        raise SettingsError(
            f"{folder} {what}; give a new or empty folder, so that nothing is overwritten", "file", folder.name
        )
    _write(folder, name, roster, places, topology, security)
    typer.echo(f"Written to {folder}: a folder for each of {', '.join(_names(roster))}, and README.md.\n")
    typer.echo(commands(folder, roster))
    typer.echo(
        f"The certificates are for trials and end after {ROLE_DAYS} days ({_command('cert', 'renew', folder)}); "
        f"{folder / 'README.md'} says how to replace them by real ones."
    )


def _roster(participants: str, active: str, coordinator: str) -> Roster:
    names = [part.strip() for part in participants.split(",") if part.strip()]
    if not names:
        text = "--participants is missing; name two or more, such as --participants bank,telecom,retail"
        raise SettingsError(text, "missing", "participants")
    active = active or names[0]
    if active not in names:
        text = f"--active {active} is none of the participants {', '.join(names)}; name one of them"
        raise SettingsError(text, "choice", "active", active)
    names = [active, *(name for name in names if name != active)]
    return Roster.coordinated_by(names, coordinator) if coordinator in names else Roster(tuple(names), coordinator)


def _names(roster: Roster) -> list[str]:
    return [roster.name(role) for role in roster.roles]


def _places(roster: Roster, hosts: Sequence[str], ports: str, topology: str) -> dict[int, Place]:
    """Return where those who listen do so and are found."""
    listeners = {roster.name(role): role for role in roster.roles if listens(roster, role, topology)}
    found = dict.fromkeys(listeners.values(), _LOCAL[0])
    for text in hosts:
        name, equals, host = text.partition("=")
        if not equals or name not in listeners:
            listed = ", ".join(listeners)
            text = f"--host {text} is not understood; give ROLE=HOST for {listed}, the roles that listen"
            raise SettingsError(text, "value", "host", text)
        found[listeners[name]] = host.strip("[]")
    chosen = _ports(ports, found)
    places = {}
    for role, host in found.items():
        try:
            dial = parse_address(f"[{host}]:{chosen[role]}" if ":" in host else f"{host}:{chosen[role]}")
        except ValueError as error:
            raise SettingsError(
                f"--host {roster.name(role)}={host} is not understood: {error}", "value", "host", host
            ) from None
        anywhere = "::" if ":" in host else "0.0.0.0"  # noqa: S104 # other machines have to reach it; mTLS decides who
        places[role] = Place(dial if host in _LOCAL else Address(anywhere, dial.port), dial)
    return places


def _ports(text: str, hosts: dict[int, str]) -> dict[int, int]:
    if not text:
        taken: list[int] = []
        for role in hosts:
            port = FIRST_PORT + role
            taken.append(_free_port(port, taken) if hosts[role] in _LOCAL else port)
        return dict(zip(hosts, taken, strict=True))
    try:
        given = [int(port) for port in text.split(",")]
    except ValueError:
        given = []
    if len(given) != len(hosts) or not all(1 <= port <= 65535 for port in given) or len(set(given)) < len(given):
        example = ",".join(str(FIRST_PORT + role) for role in hosts)
        text = f"--ports {text} is not understood; give {len(hosts)} different ports such as {example}"
        raise SettingsError(text, "value", "ports", text)
    return dict(zip(hosts, given, strict=True))


def _free_port(wanted: int, taken: Sequence[int]) -> int:
    """Return a port of this machine that nobody listens on, the wanted one if possible."""
    for port in (wanted, 0, 0, 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((_LOCAL[0], port))
            except OSError:
                continue
            free = int(probe.getsockname()[1])
            if free not in taken:
                return free
    return wanted


def _write(folder: Path, name: str, roster: Roster, places: dict[int, Place], topology: str, security: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / AUTHORITY).mkdir(mode=0o700)
    authority = Authority.create(folder / AUTHORITY, name)
    tables = sample_tables(roster.owner_names)
    for number in roster.roles:
        role = roster.name(number)
        own = folder / role
        authority.issue(own, role)
        write_file(own / f"{role}.toml", settings_text(name, roster, number, places, topology, security))
        for purpose, table in tables.get(role, {}).items():
            write_table(table, own / f"{purpose}.csv")
    write_file(folder / "README.md", _readme(folder, name, roster, places), PUBLIC)


def commands(folder: Path, roster: Roster) -> str:
    """Return the commands that run the federation in a folder, from the check to the joined model."""
    settings = {role: folder / role / f"{role}.toml" for role in _names(roster)}
    models = [folder / role / f"{role}.mpfedxgb.json" for role in roster.owner_names]

    def participants(purpose: str) -> list[str]:
        return [_command("participant", settings[role], f"--{purpose}") for role in roster.owner_names]

    independent = {
        "The coordinator, in a terminal of its own: it deals for one session after the other, until Ctrl-C": [
            _command("coordinator", settings[roster.coordinator])
        ]
    }
    blocks = {
        "Check every role (peers that do not listen yet are a warning)": [
            _command("doctor", path) for path in settings.values()
        ],
        **({} if roster.coordinator_owns else independent),
        "Train, in one terminal per participant, in any order": participants("train"),
        "Score the rows of score.csv, in the same terminals": participants("predict"),
        "A page to look at, for each participant": [_command("report", settings[role]) for role in roster.owner_names],
        "Put the whole model together, if all participants agree to that": [
            _command("join", *models, "--out", folder / "joined.json"),
            _command("export-xgboost", *models, "--out", folder / "xgboost.json"),
        ],
    }
    return "\n".join("\n".join([f"# {title}", *lines, ""]) for title, lines in blocks.items())


def _command(*arguments: object) -> str:
    return shlex.join(["mpfedxgb", *map(str, arguments)])


def _readme(folder: Path, name: str, roster: Roster, places: dict[int, Place]) -> str:
    active, coordinator = roster.name(ACTIVE), roster.coordinator
    auxiliaries = ", ".join(roster.owner_names[1:])
    deals = f"{coordinator} is the coordinator, deals random masks and holds no data."
    apart = f"In earnest use {coordinator} shares no machine, disk or log with any participant."
    if roster.coordinator_owns:
        deals = f"{coordinator} is the coordinator too: it deals random masks, and must work together with nobody."
        apart = f"In earnest use {coordinator} shares no machine, disk, log or backup with anybody else."
    return f"""# The federation "{name}"

{active} is the active participant and holds the label. Further columns about the same people: {auxiliaries}.
{deals} The people in the tables are invented.

| folder | for | holds |
|---|---|---|
{_folders(roster)}| `{AUTHORITY}/` | nobody else | the trial authority; anyone who has its key can pose as any role |

A role's folder is all that its organisation needs: hand it over by a safe way, for it holds the role's private key.
Relative paths in a settings file begin at its folder, so the folder can go anywhere.

## Commands

```console
{commands(folder, roster)}```

The predictions are then in `{active}/predictions.csv`. On machines of their own, roles have to be reachable for others:

| role | at | for |
|---|---|---|
{_reached(roster, places)}
Nobody else opens a port. {apart}

## Your own tables

Put your files in the place of `train.csv`, `evaluate.csv` and `score.csv` (CSV or Parquet), name the id column and, at
{active}, the label column in the settings file, and let `mpfedxgb doctor` look at them. All participants need the same
people in each file, or `align = true` to find those that they have in common; the order does not matter. `[training]`
has to be the same at all roles.

## Certificates

The certificates here come from an authority of this folder and are for trials: they end after {ROLE_DAYS} days, the
authority after {AUTHORITY_DAYS}. `{_command("cert", "renew", folder)}` makes new ones; hand them out again.

Real ones, with which no private key leaves its organisation:

1. Agree on who holds the federation's authority, and make it there: `mpfedxgb cert authority FOLDER --name {name}`.
2. Every role makes a key and a request, `mpfedxgb cert renew {active}.toml --new-key`, and sends `{active}.csr`.
3. The authority signs it: `mpfedxgb cert sign {active}.csr --role {active} --authority FOLDER`.
4. Every role puts in place what it gets back: `mpfedxgb cert install {active}.toml {active}.crt --ca ca.crt`.
5. `mpfedxgb doctor` checks name, dates, key and authority. Delete `{AUTHORITY}/` when no role uses trial certificates.

Other authorities do as well, such as a company's own: a certificate has the role's name as DNS name (subject
alternative name) and may be used for `clientAuth` and `serverAuth`. Keys have mode 600; a passphrase goes into an
environment variable, and that variable's name into `[tls] passphrase_env`.
"""


def _reached(roster: Roster, places: dict[int, Place]) -> str:
    rows = []
    for role, place in places.items():
        others = roster.participants[role:]  # of a mesh and of a star: those who listen are called by all that follow
        rows.append(f"| {roster.name(role)} | `{place.dial}` | {', '.join(others)} |\n")
    return "".join(rows)


def _folders(roster: Roster) -> str:
    rows = []
    for number in roster.roles:
        role = roster.name(number)
        tables = ", `train.csv`, `evaluate.csv`, `score.csv`" if roster.owner_of(number) else ""
        rows.append(f"| `{role}/` | {role} | `{role}.toml`, `{role}.crt`, `{role}.key`, `ca.crt`{tables} |\n")
    return "".join(rows)
