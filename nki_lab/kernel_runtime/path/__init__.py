"""Paths through programs with device loops: trip counts, and the contents of registers.

A program holds the body of a device loop once. A `Path` describes one run; `executed` lays the program out along it, as
a program without loops with a row for each instruction that the chip executes. Numerics makes a path from values, and
`known_path` finds it where the program itself, or the user, gives the trip counts.
"""

from nki_lab.kernel_runtime.path.findings import loop_findings
from nki_lab.kernel_runtime.path.follow import UNKNOWN, Path, PathLog, endless, uneven
from nki_lab.kernel_runtime.path.known import TripCounts, check_trip_counts, known_path
from nki_lab.kernel_runtime.path.unroll import executed

__all__ = [
    "UNKNOWN",
    "Path",
    "PathLog",
    "TripCounts",
    "check_trip_counts",
    "endless",
    "executed",
    "known_path",
    "loop_findings",
    "uneven",
]
