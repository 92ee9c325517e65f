"""Which builder records a launch."""

from __future__ import annotations

from nki_lab.kernel_runtime.frontend.grid import GridBuilder
from nki_lab.kernel_runtime.frontend.issue import Builder
from nki_lab.kernel_runtime.frontend.legacy import make_builder
from nki_lab.kernel_runtime.ir import Program
from nki_lab.source.kernel_code import Dialect


def builder_of(program: Program, grid: tuple[int, ...], dialect: Dialect) -> Builder:
    """What records a kernel of `dialect` that is launched on `grid`."""
    if dialect == "legacy":
        return make_builder(program)
    return GridBuilder(program) if grid else Builder(program)
