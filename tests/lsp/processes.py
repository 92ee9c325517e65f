"""What a server and the processes that it started take, as Linux counts it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task")
    found = [task.joinpath("children").read_text(encoding="ascii") for task in tasks.iterdir()]
    return [int(number) for number in " ".join(found).split()]


def family(pid: int) -> list[int]:
    """A process with those that it has started, and those that they have."""
    return [pid, *(item for child in children(pid) for item in family(child))]


def resident_bytes(pid: int) -> list[int]:
    """The resident memory of a process and of each that it has started; pages of several processes count once."""
    texts = [Path(f"/proc/{item}/smaps_rollup").read_text(encoding="ascii") for item in family(pid)]
    return [int(text.partition("\nPss:")[2].split()[0]) << 10 for text in texts]


def cpu_seconds(pid: int) -> dict[int, float]:
    """The processor time of a process and of each that it has started, by their numbers."""
    found = {}
    for item in family(pid):
        fields = Path(f"/proc/{item}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        found[item] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def servers() -> dict[int, Path]:
    """The language servers that run below this process: the interpreter of each, by number."""
    found = {}
    with contextlib.suppress(OSError):  # one may end meanwhile
        for pid in family(os.getpid()):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[1:4] == [b"-P", b"-m", b"nki_lab.lsp"]:
                found[pid] = Path(os.fsdecode(words[0]))
    return found
