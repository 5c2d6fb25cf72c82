"""A relay on loopback that holds back every byte for a while: a slow network, where the kernel offers none.

Bytes keep their order and their rate; each arrives `delay` seconds after it was sent. What passes is TLS, untouched.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self

_CHUNK = 1 << 18


class Relay:
    """Relays from free ports to given ones; use it in a `with` block.

    Parameters
    ----------
    targets : dict
        Name -> port on loopback.
    delay : float
        Seconds that each direction takes.
    """

    def __init__(self, targets: dict[int, int], delay: float) -> None:
        self.ports: dict[int, int] = {}
        self._targets, self._delay = targets, delay
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()

    async def _listen(self) -> None:
        for name, port in self._targets.items():

            async def admit(r: asyncio.StreamReader, w: asyncio.StreamWriter, port: int = port) -> None:
                try:
                    there = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    w.close()
                    return
                await asyncio.gather(self._pass_on(r, there[1]), self._pass_on(there[0], w), return_exceptions=True)

            server = await asyncio.start_server(admit, "127.0.0.1", 0)
            self.ports[name] = server.sockets[0].getsockname()[1]

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, chunk = await waiting.get()
                pause = due - self._loop.time()
                if pause > 0:
                    await asyncio.sleep(pause)
                if not chunk:
                    break
                target.write(chunk)
                await target.drain()
            target.close()

        task = asyncio.ensure_future(deliver())
        with contextlib.suppress(OSError):
            while chunk := await source.read(_CHUNK):
                waiting.put_nowait((self._loop.time() + self._delay, chunk))
        waiting.put_nowait((self._loop.time() + self._delay, b""))
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
