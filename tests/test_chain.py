"""Chained files: every change of them is noticed, and lines are added by several processes, after crashes, for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mpfedxgb.atomic import HEX, PRIVATE, ChainedFiles, chain_start, chained, read_alone, whole_lines
from support.small_disk import small_disk

BODIES = tuple(json.dumps({"entry": f"e{i}", "text": "x" * (i % 7)}).encode() for i in range(50))


def files(folder: Path, most_bytes: int = 1000) -> ChainedFiles:
    """Return chained files, short ones."""
    return ChainedFiles(folder, "record", folder / "record.jsonl", most_bytes)


def filled(folder: Path) -> ChainedFiles:
    """Return files with some lines in them."""
    made = files(folder)
    for body in BODIES:
        made.append(body)
    return made


def bodies(chain: ChainedFiles) -> list[bytes]:
    """Return what the lines say."""
    return [body for _, body in chain.read().lines]


def test_lines_follow_each_other_over_files(tmp_path: Path) -> None:
    """The chain goes on from file to file; all of them are their owner's only; another object goes on with it."""
    chain = filled(tmp_path)
    found = chain.read()
    assert [body for _, body in found.lines] == list(BODIES)
    assert found.problems == found.damaged == ()
    assert found.files == len(chain.numbers()) > 3
    assert all(path.stat().st_size <= 1000 and path.stat().st_mode & 0o777 == PRIVATE for path in tmp_path.iterdir())
    files(tmp_path).append(b"more")
    chain.append(b"and more")
    assert bodies(chain) == [*BODIES, b"more", b"and more"]
    assert chain.read().problems == ()
    assert chain.read().digest in chain.path(chain.numbers()[-1]).read_text().splitlines()[-1]


def test_no_flipped_byte_goes_unreported(tmp_path: Path) -> None:
    """Each byte of each file, changed in one bit or to anything else; lines that are not hit are read all the same."""
    chain = filled(tmp_path)
    rng = np.random.default_rng(7)
    flips = 0
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for place in rng.permutation(len(whole))[:120].tolist():
            changed = bytearray(whole)
            changed[place] ^= 1 << int(rng.integers(8)) if rng.integers(2) else int(rng.integers(1, 256))
            path.write_bytes(changed)
            found = chain.read()
            assert found.problems, (path.name, place)
            assert len(found.lines) >= len(BODIES) - 3  # two that became one, and the next
            assert {body for _, body in found.lines} <= set(BODIES)
            flips += 1
        path.write_bytes(whole)
    assert flips >= 600
    assert chain.read().problems == ()


@pytest.mark.parametrize("lines", [slice(3, 4), slice(2, 5), slice(1, 2), slice(0, 1), slice(-1, None)])
def test_lines_that_were_removed(tmp_path: Path, lines: slice) -> None:
    """In the middle, at the beginning or at the end of a file: the first that does not fit is named."""
    chain = filled(tmp_path)
    path = chain.path(2)
    kept = path.read_bytes().splitlines(keepends=True)
    del kept[lines]
    path.write_bytes(b"".join(kept))
    first = chain.read().problems[0]
    assert first.startswith("record-0003.chain does not continue" if lines.start == -1 else "record-0002.chain:")


def test_lines_that_were_removed_at_the_very_end(tmp_path: Path) -> None:
    """Show by the digest that is kept beside them; the next line goes into a file of its own, and it still shows."""
    chain = filled(tmp_path)
    path = chain.path(chain.numbers()[-1])
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (problem,) = chain.read().problems
    assert problem.startswith("lines are missing at the end")
    files(tmp_path).append(b"more")
    assert bodies(chain) == [*BODIES[:-1], b"more"]
    assert any("does not continue" in problem for problem in chain.read().problems)


@pytest.mark.parametrize("gone", ["record-0001.chain", "record-0002.chain", "record.last"])
def test_files_that_were_removed(tmp_path: Path, gone: str) -> None:
    """Are missed, by name."""
    chain = filled(tmp_path)
    (tmp_path / gone).unlink()
    assert any(gone in problem and "missing" in problem for problem in chain.read().problems)


def test_lines_that_changed_places(tmp_path: Path) -> None:
    """Two lines, or two files."""
    chain = filled(tmp_path)
    path = chain.path(1)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    assert "record-0001.chain:3" in chain.read().problems[0]
    path.write_bytes(chain.path(2).read_bytes())
    chain.path(2).write_bytes(whole)
    assert chain.read().problems


def test_what_was_there_before_the_chain(tmp_path: Path) -> None:
    """Its digest is what the first file continues, so changes made since then show."""
    (tmp_path / "record.jsonl").write_bytes(b"{}\n")
    chain = filled(tmp_path)
    assert chain.read().problems == ()
    for change in (b"{ }\n", b"", None):
        if change is None:
            (tmp_path / "record.jsonl").unlink()
        else:
            (tmp_path / "record.jsonl").write_bytes(change)
        assert "record-0001.chain does not continue what is before it" in chain.read().problems[0]


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    """What a killed process left half written was never acknowledged; it shows until the next line."""
    chain = filled(tmp_path)
    path = chain.path(chain.numbers()[-1])
    with path.open("ab") as file:
        file.write(b"0123 {")
    assert "is torn" in chain.read().problems[0]
    files(tmp_path, 1 << 20).append(b"next")
    assert chain.read().problems == ()
    assert bodies(chain) == [*BODIES, b"next"]


def test_a_line_without_the_digest_beside_it(tmp_path: Path) -> None:
    """Where a process is killed between the two, the next line brings both together again, also after a new file."""
    for lines in (3, len(BODIES)):
        chain = files(tmp_path, 1 << 20)
        before = b""
        for body in BODIES[:lines]:
            before = (tmp_path / "record.last").read_bytes() if (tmp_path / "record.last").exists() else b""
            chain.append(body)
        (tmp_path / "record.last").write_bytes(before)
        assert chain.read().problems == ()
        files(tmp_path, 1 if lines == 3 else 1 << 20).append(b"next")
        assert chain.read().problems == ()


def test_a_digest_beside_it_that_is_old(tmp_path: Path) -> None:
    """Is no damage, if its line is there: lines follow where they belong."""
    chain = files(tmp_path)
    chain.append(BODIES[0])
    old = (tmp_path / "record.last").read_bytes()
    for body in BODIES[1:]:
        chain.append(body)
    (tmp_path / "record.last").write_bytes(old)
    files(tmp_path).append(b"next")
    assert bodies(chain) == [*BODIES, b"next"]
    assert chain.read().problems == ()


@pytest.mark.parametrize("content", [b"", b"x" * 130, b"x" * 200, None])
def test_a_digest_beside_it_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    """Is written anew with the next line."""
    chain = filled(tmp_path)
    if content is None:
        (tmp_path / "record.last").unlink()
    else:
        (tmp_path / "record.last").write_bytes(content)
    assert "record.last is missing or damaged" in chain.read().problems[-1]
    files(tmp_path).append(b"next")
    assert chain.read().problems == ()


def test_damage_stays_as_it_is(tmp_path: Path) -> None:
    """A file that is damaged at its end, also where that looks like a torn line, is never written to again."""
    chain = filled(tmp_path)
    number = chain.numbers()[-1]
    path = chain.path(number)
    damaged = path.read_bytes()[:-1] + b"x"
    path.write_bytes(damaged)
    files(tmp_path).append(b"next")
    assert path.read_bytes() == damaged
    assert chain.numbers()[-1] == number + 1
    assert bodies(chain)[-1] == b"next"
    assert chain.read().problems


def test_two_processes_at_a_time(tmp_path: Path) -> None:
    """No line is lost, and the chain is whole."""
    program = (
        "import sys, pathlib; from mpfedxgb.atomic import ChainedFiles\n"
        "chain = ChainedFiles(pathlib.Path(sys.argv[1]), 'record', None, 3000)\n"
        "for i in range(60): chain.append(f'{sys.argv[2]} {i}'.encode())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name])  # noqa: S603 # a program of this test
        for name in ("a", "b")
    ]
    assert [process.wait(120) for process in running] == [0, 0]
    found = ChainedFiles(tmp_path, "record").read()
    assert found.problems == ()
    assert sorted(body for _, body in found.lines) == sorted(f"{n} {i}".encode() for n in "ab" for i in range(60))


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    """At any moment: what it had acknowledged is there, and after the next line the chain is whole."""
    program = (
        "import sys, pathlib; from mpfedxgb.atomic import ChainedFiles\n"
        "chain = ChainedFiles(pathlib.Path(sys.argv[1]), 'record', None, 3000)\n"
        "for i in range(1_000_000):\n"
        "    chain.append(f'{sys.argv[2]} {i}'.encode()); print(i, flush=True)"
    )
    acknowledged = set()
    for kill in range(5):
        running = subprocess.Popen(  # noqa: S603 # a program of this test
            [sys.executable, "-c", program, str(tmp_path), str(kill)], stdout=subprocess.PIPE, text=True
        )
        assert running.stdout is not None
        with running.stdout as lines:
            acknowledged |= {f"{kill} {next(lines).strip()}".encode() for _ in range(20 + 7 * kill)}
            running.kill()
            running.wait()
        chain = ChainedFiles(tmp_path, "record", None, 3000)
        chain.append(b"after")
        found = chain.read()
        assert found.problems == ()
        assert acknowledged <= {body for _, body in found.lines}


def test_links_and_others_are_refused(tmp_path: Path) -> None:
    """Nobody who can place a link decides what this process writes to; a pipe does not hold it up."""
    (tmp_path / "victim").write_bytes(b"x\n")
    (tmp_path / "record-0001.chain").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        files(tmp_path).append(b"y")
    (tmp_path / "record-0001.chain").unlink()
    os.mkfifo(tmp_path / "record-0001.chain")
    with pytest.raises(OSError, match="not a file"):
        files(tmp_path).append(b"y")
    assert (tmp_path / "victim").read_bytes() == b"x\n"


def test_a_full_disk(tmp_path: Path) -> None:
    """What was there stays whole, and once there is room, lines follow."""
    with small_disk(tmp_path / "disk", "20k") as disk:
        chain = files(disk, 1 << 20)
        chain.append(b"first")
        with pytest.raises(OSError, match="No space left"):
            chain.append(b"x" * 100_000)
        assert bodies(chain) == [b"first"]
        assert chain.read().problems == ()
        chain.append(b"last")
        assert bodies(chain) == [b"first", b"last"]


def test_one_line_alone() -> None:
    """Is read where it is whole, and nothing follows."""
    start = chain_start(b"a")
    line = chained(start, b"body")
    assert read_alone(line, start) == b"body"
    assert [body for body, _, _ in whole_lines(line, start)] == [b"body"]
    for other in (b"", line[:-1], line + line, line + b"\n", line[HEX:], line.replace(b"body", b"body ")):
        with pytest.raises(ValueError, match="not one whole line"):
            read_alone(other, start)
