"""Launch grids, `kernel[...]`: the number of physical cores, and the places where no grid may stand."""

from __future__ import annotations

from typing import Any

from nki_lab import printable
from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa.arch import Arch


def grid_in_kernel(name: str, grid: tuple[object, ...]) -> Diagnostic:
    """Diagnose a launch grid on a kernel that another kernel calls."""
    return diagnose(
        "NKI016",
        f"{name} is called inside a kernel with the grid {shown(grid)}",
        limit="a called kernel runs on its caller's core",
        help=f"call {name}(...)",
    )


def misshapen(name: str, key: object) -> Diagnostic | None:
    """Diagnose the bracket of a launch in the current dialect, whatever the chip."""
    if isinstance(key, int) and not isinstance(key, bool) and key > 0:
        return None
    return diagnose(
        "NKI016",
        f"{name} is launched with [{shown(key)}{',' if isinstance(key, tuple) and len(key) == 1 else ''}]",
        limit="the bracket holds one whole number: the physical cores of a logical core",
        help=f"write {name}[2](...), and loop over the rest of the work inside",
    )


def too_many(name: str, grid: tuple[int, ...], arch: Arch) -> Diagnostic | None:
    """Diagnose a launch on more physical cores than a logical core of the chip has."""
    cores = 1 if arch.generation < 3 else 2
    if not grid or grid[0] <= cores:
        return None
    return diagnose(
        "NKI016",
        f"{name}[{grid[0]}] asks for {grid[0]} physical cores",
        limit=f"physical cores of a logical core <= {cores} ({arch.name})",
        help=f"launch {name}[{cores}], and loop over the rest of the work inside",
    )


def refused(name: str, grid: tuple[Any, ...], arch: Arch) -> Diagnostic | None:
    """Diagnose a launch in the current dialect; None where it is legal."""
    if not grid:
        return None
    return misshapen(name, grid[0] if len(grid) == 1 else grid) or too_many(name, grid, arch)


def shown(grid: object) -> str:
    """Return a grid as it stands in the bracket."""
    return ", ".join(map(printable.shown, grid)) if isinstance(grid, tuple) else printable.shown(grid)
