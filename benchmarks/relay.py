"""A relay on loopback that holds back every byte for a while: a slow network, where the kernel offers none.

Bytes keep their order and their rate; each arrives `delay` seconds after it was sent. What passes is TLS, untouched,
unless a fault is asked for: once, after so many bytes. Or a middlebox: connections that are idle for too long are
forgotten, and nothing passes any more, without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_CHUNK = 1 << 18

FAULTS = ("garble", "truncate", "drop", "duplicate", "delay", "reset", "blackhole")


@dataclass
class Fault:
    """What happens to the chunk in which byte number `after` of all that pass lies."""

    kind: str
    after: int
    has_struck: bool = False

    def strikes(self, size: int) -> bool:
        """Return whether it is the turn of a chunk of this size."""
        self.after -= size
        if self.has_struck or self.after > 0:
            return False
        self.has_struck = True
        return True


class Relay:
    """Relays from free ports to given ones; use it in a `with` block.

    Parameters
    ----------
    targets : dict
        Name -> port on loopback.
    delay : float
        Seconds that each direction takes.
    fault : Fault or None
        Strikes once.
    forgets : float
        Seconds without a byte in a direction after which nothing passes in it any more.
    """

    def __init__(
        self, targets: dict[int, int], delay: float, fault: Fault | None = None, forgets: float = math.inf
    ) -> None:
        self.ports: dict[int, int] = {}
        self._fault, self._forgets = fault, forgets
        self._writers: list[asyncio.StreamWriter] = []
        self._targets, self._delay = targets, delay
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        servers = self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        for server in servers:
            server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for writer in self._writers:
            writer.transport.abort()
        self._loop.run_until_complete(asyncio.sleep(0))  # lets transports close their sockets
        self._loop.close()

    async def _listen(self) -> list[asyncio.Server]:
        servers = []
        for name, port in self._targets.items():

            async def admit(r: asyncio.StreamReader, w: asyncio.StreamWriter, port: int = port) -> None:
                try:
                    there = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    w.close()
                    return
                self._writers += w, there[1]
                await asyncio.gather(self._pass_on(r, there[1]), self._pass_on(there[0], w), return_exceptions=True)

            server = await asyncio.start_server(admit, "127.0.0.1", 0)
            self.ports[name] = server.sockets[0].getsockname()[1]
            servers.append(server)
        return servers

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, chunk = await waiting.get()
                pause = due - self._loop.time()
                if pause > 0:
                    await asyncio.sleep(pause)
                if chunk is None:
                    break
                target.write(chunk)
                await target.drain()
            target.close()

        task = asyncio.ensure_future(deliver())
        with contextlib.suppress(OSError):
            heard, hole = self._loop.time(), False
            while chunk := await source.read(_CHUNK):
                hole = hole or self._loop.time() - heard > self._forgets
                heard = self._loop.time()
                kind = self._fault.kind if self._fault is not None and self._fault.strikes(len(chunk)) else ""
                hole = hole or kind == "blackhole"
                if kind == "reset":
                    for writer in self._writers:
                        writer.transport.abort()
                await asyncio.sleep(1.0 if kind == "delay" else 0.0)
                if not hole:
                    waiting.put_nowait((self._loop.time() + self._delay, _struck(chunk, kind)))
                if kind == "truncate":
                    break
        waiting.put_nowait((self._loop.time() + self._delay, None))
        with contextlib.suppress(OSError):
            await task

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def _struck(chunk: bytes, kind: str) -> bytes:
    half = len(chunk) // 2
    return {
        "garble": chunk[:half] + bytes([chunk[half] ^ 1]) + chunk[half + 1 :],
        "truncate": chunk[:half],
        "drop": b"",
        "duplicate": 2 * chunk,
    }.get(kind, chunk)
