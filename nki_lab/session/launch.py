"""Which builder records a launch."""

from __future__ import annotations

from nki_lab.kernel_runtime.beta1 import Beta1Builder
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.language.grid import GridBuilder
from nki_lab.kernel_runtime.language.kernel_builder import KernelBuilder
from nki_lab.source.kernel_code import Dialect


def builder_of(program: Program, grid: tuple[int, ...], dialect: Dialect) -> Builder:
    """What records a kernel of `dialect` that is launched on `grid`."""
    if dialect == "legacy":
        return Beta1Builder(program)
    return GridBuilder(program) if grid else KernelBuilder(program)
