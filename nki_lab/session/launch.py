"""The launch of a kernel: function, target, options, grid and schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.beta1 import Beta1Builder
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.language.kernel_builder import GridBuilder, KernelBuilder
from nki_lab.kernel_runtime.language.scheduling import Pair
from nki_lab.kernel_runtime.options import Options
from nki_lab.source.kernel_code import Dialect

DEFAULTS: Final = Options()


@dataclass(frozen=True, slots=True)
class Launch:
    """A function with all that decides how it runs, but for its arguments.

    `notes` are findings about the launch itself, `schedule` the order of instructions that the user asks for. With
    `records`, the calls of the kernel and its helpers are recorded where the run ends well.
    """

    function: Callable[..., Any]
    target: str | Arch
    options: Options = DEFAULTS
    grid: tuple[int, ...] = ()
    dialect: Dialect = "current"
    notes: tuple[Diagnostic, ...] = ()
    schedule: tuple[Pair, ...] = ()
    records: bool = False

    def __hash__(self) -> int:
        """Hash what differs between most launches: plans are found by them, in each call."""
        return hash((self.function, self.grid, self.target))

    @property
    def arch(self) -> Arch:
        """The target."""
        return arch_of(self.target)

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def file(self) -> str:
        """The file of the function; empty where it has no code."""
        code = getattr(self.function, "__code__", None)
        return "" if code is None else str(code.co_filename)

    def program(self) -> Program:
        """Return an empty program for the kernel."""
        return Program(self.name, self.arch, self.options, self.dialect)

    def builder(self, program: Program) -> Builder:
        """Return what records the kernel into `program`."""
        if self.dialect == "beta1":
            return Beta1Builder(program)
        return GridBuilder(program) if self.grid else KernelBuilder(program)
