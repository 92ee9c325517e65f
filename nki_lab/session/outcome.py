"""The result of one call of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.protocols import ValueSource
from nki_lab.session.launch import Launch
from nki_lab.session.values import NOTHING
from nki_lab.timeline.timeline import Timeline

OnError = Literal["raise", "report"]
INTERRUPTED: Final = "NKI008"


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of wall time: `specialize` tracing, `check` rules and coverage, `numeric` values with all conversions.

    `timing` addresses, queues and the simulation of time, None where no times were asked for. The same by item:
    `timings["numeric"]`.
    """

    specialize: float = 0.0
    check: float = 0.0
    numeric: float = 0.0
    timing: float | None = None

    def __getitem__(self, name: str) -> float | None:
        if name not in self.__slots__:
            raise KeyError(name)
        value: float | None = getattr(self, name)
        return value

    def keys(self) -> tuple[str, ...]:
        """The names of the stages."""
        return tuple(self.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The result of one call of a kernel.

    `outputs` is the kernel's return value with arrays of the caller's library for tensors; `flat` the arrays in order.
    With an `error` there are no outputs, `program` ends where it happened, and `fault` is the instruction that failed.
    Where that one was refused, or code between instructions failed, `fault` is the last instruction issued, and
    `fault_after` is true; -1 says that nothing was issued. `interrupted` says that the user stopped it, and
    `cancelled` how many instructions were executed then, in the order of the program (-1: it was not). `cached` says
    that the program is that of an earlier call. `timeline` is there where the caller asked for it; that of a failed
    kernel shows the instructions issued until then. `values` gives the content of memory at each step of the timeline.
    `on_target` times the same call on another target; None of a call that did not end well.
    """

    program: Program
    outputs: object = None
    flat: tuple[Any, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    timings: Timings = Timings()
    error: NkiError | None = None
    cached: bool = False
    timeline: Timeline | None = None
    fault: int = -1
    fault_after: bool = False
    cancelled: int = -1
    values: ValueSource = NOTHING
    on_target: Callable[[Arch], Execution] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the call."""
        return self.error is not None and self.error.diagnostics[0].code == INTERRUPTED


def not_executed(launch: Launch, error: NkiError) -> Execution:
    """Return the result of a call that was refused before it began."""
    return Execution(program=launch.program(), diagnostics=error.diagnostics, error=error)
