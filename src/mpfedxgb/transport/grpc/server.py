"""The listening side of the gRPC transport: a port that admits each expected role once and refuses all others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

from mpfedxgb.errors import ExhaustedError, FrameError, UserError, is_exhaustion
from mpfedxgb.transport.grpc.rendezvous import (
    LOOK,
    METHOD,
    OPTIONS,
    REFUSED,
    Refusal,
    Rendezvous,
    keep_alive_options,
    log,
    lost,
    window_in,
)
from mpfedxgb.transport.grpc.stream import PeerStream, Threads, join
from mpfedxgb.transport.grpc.tls import Identity, grpc, peer_names, tls_version  # grpc from where it is held to TLS 1.3
from mpfedxgb.transport.transport import parse_address

resource: Any
try:
    import resource
except ImportError:  # not a Unix
    resource = None

_OPTIONS = (
    *OPTIONS,
    ("grpc.so_reuseport", 0),  # two roles on one port are a mistake
    ("grpc.server_handshake_timeout_ms", 10_000),
)
_MOST_CONNECTIONS = 256
"""Connections at a time, of whomever; above that they are closed as they come. Who has not shown a certificate after
ten seconds loses its place, and roles dial until they get one."""

_SPARE_CALLS = 8
"""Calls at a time beside the expected ones: of callers that are about to be refused."""


class Server:
    """A listening role's port.

    Raises UserError if the port cannot be had.
    """

    def __init__(self, rendezvous: Rendezvous, listen: str, identity: Identity, max_block: int, silence: float) -> None:
        self._rendezvous, self._max_block = rendezvous, max_block
        self._threads = Threads(f"{identity.name}-admits")
        self._readers: list[threading.Thread] = []
        self._grpc: Any = grpc.server(
            self._threads,
            options=(
                *_OPTIONS,
                *keep_alive_options(silence),
                ("grpc.max_allowed_incoming_connections", _most_connections()),
            ),
            maximum_concurrent_rpcs=len(rendezvous.callers) + _SPARE_CALLS,
            compression=grpc.Compression.NoCompression,
        )
        service, method = METHOD.strip("/").split("/")
        handler = grpc.stream_stream_rpc_method_handler(self._admit)
        self._grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        credentials = identity.server_credentials()
        _refuse_if_taken(listen)
        try:
            self._grpc.add_secure_port(listen, credentials)
        except RuntimeError:
            raise UserError(f"cannot listen on {listen}; is the address one of this machine's?") from None
        self._grpc.start()
        log.info("%s listens on %s", identity.name, listen)

    def _admit(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        metadata = dict(context.invocation_metadata())
        proved = context.auth_context()
        rendezvous = self._rendezvous
        try:
            role = rendezvous.examine(metadata, peer_names(proved), tls_version(proved))
            stream = PeerStream(
                rendezvous.names[role], min(rendezvous.me.window, window_in(metadata) or 0), self._max_block
            )
            rendezvous.join(role, stream)
        except Refusal as refusal:
            if refusal.lasting:
                rendezvous.warn(str(metadata.get("mpfedxgb-role", "")), peer_names(proved), refusal.reason)
            context.set_trailing_metadata(((REFUSED, "1"),))
            context.abort(_code(refusal), refusal.reason)
        reader = threading.Thread(
            target=_read, args=(rendezvous, role, stream, requests, context), name=f"from-{stream.name}", daemon=True
        )
        self._readers.append(reader)
        reader.start()  # first: if the caller has hung up by now, the next line raises, and reading ends the stream
        context.send_initial_metadata(rendezvous.me.metadata())
        return _until_ended(stream)

    def close(self) -> None:
        """Free the port and end all threads."""
        self._grpc.stop(LOOK).wait()
        for thread in threading.enumerate():  # gRPC's own that waited with us: at the end of a process nobody joins it
            if "cancel_all_calls_after_grace" in thread.name:
                join(thread, LOOK)
        self._threads.shutdown()
        for reader in self._readers:
            join(reader)


def _most_connections() -> int:
    """Return how many connections may take a descriptor: half of them at most, the rest is for this role's own work."""
    if resource is None:
        return _MOST_CONNECTIONS
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if descriptors == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, descriptors // 2)


def _code(refusal: Refusal) -> Any:
    if refusal.duplicate:
        return grpc.StatusCode.ALREADY_EXISTS
    return grpc.StatusCode.PERMISSION_DENIED if refusal.lasting else grpc.StatusCode.UNAVAILABLE


def _read(rendezvous: Rendezvous, role: int, stream: PeerStream, requests: Iterator[bytes], context: Any) -> None:
    try:
        for message in requests:
            if not stream.accept(message):
                break
    except FrameError as error:
        stream.end(error)
        context.cancel()
    except Exception:  # grpc's own, without a type: the call has ended badly
        log.info("the connection of %s has broken", stream.name)
    stream.end(lost(stream.name))
    rendezvous.leave(role, stream)
    stream.ended.set()


def _until_ended(stream: PeerStream) -> Iterator[bytes]:
    yield from stream.pieces()
    stream.ended.wait()  # a call that ends too early would cut off what the caller has not read


def _refuse_if_taken(listen: str) -> None:
    """Ask the system first: grpc is content if it gets one of several addresses that a name stands for."""
    bound = parse_address(listen)
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(bound.host, bound.port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(address)
    except OSError as error:
        if is_exhaustion(error):
            raise ExhaustedError(f"cannot listen on {listen}: {error.strerror}") from None
        raise UserError(
            f"cannot listen on {listen}: {error.strerror}; "
            "is another role or program using the port, and is the address one of this machine's?"
        ) from None
