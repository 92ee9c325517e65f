"""The tracer's builder under an evaluation's budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.interpreter.limits import Meter, Unobservable
from nki_lab.kernel_runtime.interpreter.values import Value
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.builder import Builder, NkiInstruction
from nki_lab.kernel_runtime.language.kernel_builder import KernelBuilder
from nki_lab.kernel_runtime.tensor import NkiTensor


class MeteredBuilder(Builder):
    """Records a program as the tracer does; instructions cost steps, and notes become findings of the evaluation."""

    meter: Meter
    findings: list[Diagnostic]

    def issue(
        self, instruction: Instruction, live: tuple[Value, ...], fixed: tuple[Value, ...], name: str | None = None
    ) -> NkiInstruction:
        self.meter.spend(1)
        return super().issue(instruction, live, fixed, name)

    def allocate(
        self, shape: Value, dtype: Value, space: Value, *, name: str = "", address: Value = None, kind: str = "temp"
    ) -> NkiTensor:
        self.meter.spend(1)
        return super().allocate(shape, dtype, space, name=name, address=address, kind=kind)

    def note(self, diagnostic: Diagnostic, site: int) -> None:
        super().note(diagnostic, site)
        self.findings.extend(self.notes)
        self.notes.clear()

    def read(self, tensor: NkiTensor) -> np.ndarray[Any, Any]:
        raise Unobservable


def metered_builder(
    program: Program, meter: Meter, findings: list[Diagnostic], base: type[Builder] = KernelBuilder
) -> MeteredBuilder:
    """Return a builder of the dialect's class `base` that records into `program` and adds its notes to `findings`."""
    builder: MeteredBuilder = type(f"Metered{base.__name__}", (MeteredBuilder, base), {})(program)
    builder.meter, builder.findings = meter, findings
    return builder
