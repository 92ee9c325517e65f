"""The cost of a kernel under one signature, as an editor shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nki_lab.source.moved_lines import LineOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Predicted time and memory of a kernel on `target` with the arguments of `signature`.

    `arguments` are those of a call of `nki_lab.run` in Python. `time` is the makespan in nanoseconds, `interval` its
    bounds; `sbuf` and `psum` are the peak bytes of a partition and the bytes that a partition has. `lines` has by
    1-based line of the module the nanoseconds in which its instructions execute, of all lanes together. Where there is
    no estimate, `reason` says why, and the rest is empty.
    """

    kernel: str
    target: str
    signature: str = ""
    arguments: str = ""
    time: float = 0.0
    interval: tuple[float, float] | None = None
    sbuf: tuple[int, int] = (0, 0)
    psum: tuple[int, int] = (0, 0)
    lines: Mapping[int, float] = field(default_factory=dict)
    reason: str = ""

    def moved(self, line_of: LineOf) -> Estimate:
        """Return the estimate with its lines mapped."""
        return replace(self, lines={line_of(line): time for line, time in self.lines.items()})
