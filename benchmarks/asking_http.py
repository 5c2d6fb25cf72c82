"""A program of clients that ask for scores over HTTP, each as soon as it has its last answer; a process of its own.

    python benchmarks/asking_http.py HOST:PORT CLIENTS ROWS SECONDS < rows.json

Standard input is a JSON list of rows. Standard output gets one JSON object: milliseconds of each request, how many were
not answered with scores, and the processor seconds that the clients themselves took.
"""

from __future__ import annotations

import http.client
import json
import resource
import sys
import threading
import time
from typing import Any


def ask(host: str, bodies: list[bytes], first: int, until: float, took: list[float], failed: list[str]) -> None:
    """Ask over one connection, again and again."""
    connection = http.client.HTTPConnection(host, timeout=120.0)
    number = first
    while time.monotonic() < until or not took:
        began = time.perf_counter()
        connection.request("POST", "/invocations", bodies[number % len(bodies)], {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        took.append(1000 * (time.perf_counter() - began))
        if answer.status != 200 or b'"error": "' in text:
            failed.append(text[:200].decode(errors="replace"))
        number += 1
    connection.close()


def bodies_of(rows: list[dict[str, Any]], size: int) -> list[bytes]:
    """Return requests of `size` rows each, all rows in turn."""
    count = max(1, min(200, len(rows) // size))
    parts = [rows[i * size : (i + 1) * size] for i in range(count)]
    return [json.dumps({"dataframe_records": part}).encode() for part in parts]


def main() -> None:
    """Ask, and tell what came of it."""
    host, clients, size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
    bodies = bodies_of(json.load(sys.stdin), size)
    took: list[list[float]] = [[] for _ in range(clients)]
    failed: list[str] = []
    began, cpu = time.monotonic(), _processors()
    threads = [
        threading.Thread(target=ask, args=(host, bodies, 7 * i, began + seconds, mine, failed))
        for i, mine in enumerate(took)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {
        "ms": [ms for mine in took for ms in mine],
        "seconds": time.monotonic() - began,
        "cpu": _processors() - cpu,
        "failed": failed,
    }
    print(json.dumps(found))


def _processors() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
