"""The memory of this computer: a run that needs more of it than there is ends before it begins."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.kernel_runtime.tensor import Buffer
from nki_lab.source_files import read_source


def require_memory(buffers: Iterable[Buffer], present: Container[int]) -> None:
    """Check that the tensors in HBM fit into the free memory, but for those `present` already, by number; NKI035."""
    wanted = [buffer for buffer in buffers if not buffer.on_chip and buffer.id not in present]
    need = sum(buffer.nbytes for buffer in wanted)
    if need > 1 << 28:  # less is not worth the question
        free = free_bytes()
        if need > free:
            raise too_little_memory(f"the tensors in HBM need {_gib(need)}, {_gib(free)} are free", wanted)


def too_little_memory(reason: str, buffers: Iterable[Buffer]) -> NkiError:
    """Return the NKI035 error with the largest tensors."""
    largest = sorted((buffer for buffer in buffers if not buffer.on_chip), key=lambda buffer: -buffer.nbytes)[:3]
    names = ", ".join(f"{buffer.name or 'a tensor'} {buffer.shape} {buffer.dtype.name}" for buffer in largest)
    return coded_error(
        "NKI035",
        f"{reason}{f': the largest are {names}' if names else ''}",
        limit="a run keeps the values of all tensors in HBM in the memory of this computer",
        help="run a smaller case, or time this one without values: nki_lab.profile(kernel, nki_lab.spec(shape, dtype))",
    )


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"


def free_bytes() -> int:
    """Return the bytes of memory that this process may still take; all of the computer's where that is unknown."""
    found = 1 << 62
    with suppress(AttributeError, OSError, ValueError):  # Windows has no sysconf
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError, StopIteration):
        lines = _text("/proc/meminfo").splitlines()
        found = min(found, int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10)
    with suppress(OSError, ValueError):  # a container's own limit
        group = Path("/sys/fs/cgroup")
        limit, used = _text(group / "memory.max"), _text(group / "memory.current")
        found = min(found, max(0, int(limit) - int(used)))
    return found


def _text(path: str | Path) -> str:
    return read_source(path, 1 << 16).decode("ascii", "replace")
