"""The dialling side of the gRPC transport: a role that tries until its peer answers or refuses for good."""

from __future__ import annotations

import threading
import time
from typing import Any

from mpfedxgb.errors import FrameError, HandshakeError, PeerTimeoutError, SettingsError, printable
from mpfedxgb.transport.certificates import ExpiryWatch
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
from mpfedxgb.transport.grpc.stream import PeerStream
from mpfedxgb.transport.grpc.tls import Identity, grpc  # grpc from where it is held to TLS 1.3
from mpfedxgb.transport.transports import ask_every

_ATTEMPT = 10.0
"""Seconds that one attempt may take."""

_PROBE = 3.0
"""Seconds to find out why an attempt failed."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0

_NOTICED = 5.0
"""Seconds that a peer has to notice that a connection is lost."""

_OPTIONS = (
    *OPTIONS,
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # roles talk to each other, not to whom the environment names
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),  # a new attempt does not inherit the last one's pause
)


class Client:
    """A thread that dials one peer until it is connected, it is refused for good, or the rendezvous is over.

    `end` is when the last attempt has to be over, on the monotonic clock.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        peer: int,
        address: str,
        identity: Identity,
        max_block: int,
        silence: float,
        end: float,
        watch: ExpiryWatch | None = None,
    ) -> None:
        self._rendezvous, self._peer, self._address, self._identity = rendezvous, peer, address, identity
        self._max_block, self._silence, self._end, self._watch = max_block, silence, end, watch
        self._name = rendezvous.names[peer]
        self._credentials = identity.channel_credentials()
        self._call: _Call | None = None
        # Until then "is connected already" may mean a dead connection of this role that nobody has noticed yet.
        self._noticed = time.monotonic() + ask_every(silence) + silence + _NOTICED
        self._thread = threading.Thread(target=self._run, name=f"dials-{self._name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up, and end all threads; the rendezvous must be over."""
        self._thread.join()
        if self._call is not None:
            self._call.close()

    def _run(self) -> None:
        over, pause = self._rendezvous.over, _FIRST_PAUSE
        while not over.is_set():
            call = self._call = self._new_call()
            try:
                reason = self._try(call)
                if over.is_set():
                    return
                self._rendezvous.note(self._peer, reason)
            except Refusal:  # the rendezvous ended in between
                return
            except Exception as error:  # whatever it is, nobody dials any more
                self._rendezvous.fail(error)
                return
            call.close()
            over.wait(pause)
            pause = min(_LONGEST_PAUSE, 1.5 * pause)

    def _new_call(self) -> _Call:
        options = (*_OPTIONS, *keep_alive_options(self._silence), ("grpc.ssl_target_name_override", self._name))
        channel = grpc.secure_channel(self._address, self._credentials, options)
        return _Call(channel, self._rendezvous, PeerStream(self._name, self._rendezvous.me.window, self._max_block))

    def _try(self, call: _Call) -> str:
        """Wait for an answer, and stay as long as there is a connection; return why there is none."""
        over, end = self._rendezvous.over, min(self._end, time.monotonic() + _ATTEMPT)
        while not call.answered.wait(LOOK) and not over.is_set() and time.monotonic() < end:
            pass
        if not call.accepted:
            return self._reason(call)
        self._rendezvous.join(self._peer, call.stream)
        while not over.wait(LOOK) and call.stream.alive:
            pass
        return call.stream.why_ended

    def _reason(self, call: _Call) -> str:
        """Return why an attempt failed; raise HandshakeError if another would fail as well."""
        code, details, refused = call.outcome()
        for_good = HandshakeError(f"{self._name} refused {self._rendezvous.me.name}: {details}")
        if refused and code is grpc.StatusCode.ALREADY_EXISTS:
            if time.monotonic() >= self._noticed:
                raise for_good
        elif refused and code is not grpc.StatusCode.UNAVAILABLE:
            raise for_good
        elif code is grpc.StatusCode.UNIMPLEMENTED:
            raise HandshakeError(f"what answers at {self._address} is no role of mpfedxgb, or of another version")
        elif not refused:
            try:
                self._identity.probe(self._address, self._name, min(_PROBE, max(LOOK, self._end - time.monotonic())))
            except (PeerTimeoutError, SettingsError) as error:  # files that are just replaced are no reason to give up
                return str(error)
            except HandshakeError as error:
                if self._watch is None or not self._watch.has_ended:
                    raise
                return str(error)  # there may be a new certificate soon
        return details


class _Call:
    """One dialled connection: its channel, its stream and the thread that reads it."""

    def __init__(self, channel: Any, rendezvous: Rendezvous, stream: PeerStream) -> None:
        self.stream = stream
        self.answered = threading.Event()
        self.accepted = False
        self._channel = channel
        self._rpc: Any = channel.stream_stream(METHOD)(
            stream.pieces(),
            metadata=rendezvous.me.metadata(),
            wait_for_ready=False,
            compression=grpc.Compression.NoCompression,
        )
        self._reader = threading.Thread(target=self._read, name=f"from-{stream.name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stream = self.stream
        try:
            window = window_in(dict(self._rpc.initial_metadata() or ()))
            if window is not None:
                stream.window = min(stream.window, window)
                self.accepted = True
                self.answered.set()
            for message in self._rpc:  # up to the end of the call, which comes after the peer's last piece
                stream.accept(message)
        except FrameError as error:
            stream.end(error)
            self._rpc.cancel()
        except grpc.RpcError:
            if self.accepted and stream.alive:
                log.info("the connection to %s has broken: %s", stream.name, self._details())
        stream.end(lost(stream.name))
        stream.ended.set()
        self.answered.set()

    def outcome(self) -> tuple[Any, str, bool]:
        """Return how a call that was not accepted has ended: grpc's code, details, and whether a role refused it."""
        if not self.stream.ended.is_set():
            return None, "it did not answer", False
        refused = any(key == REFUSED for key, _ in self._rpc.trailing_metadata() or ())
        return self._rpc.code(), self._details(), refused

    def _details(self) -> str:
        return printable((self._rpc.details() or "")[:500])

    def close(self) -> None:
        """End the call and its threads."""
        self.stream.end(lost(self.stream.name))
        self._rpc.cancel()
        self._channel.close()
        self._reader.join()
