"""The first NaN or infinity of a run, for users."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.kernel_runtime.numerics.nonfinite import Nonfinite
from nki_lab.result.tensors import Instruction, Tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstNonfinite:
    """The first NaN of a run, or the first infinity that an instruction made of finite numbers.

    `value` is at `index` of what `instruction` wrote to `tensor`, one of `count` elements that are not finite.
    `created` is False where it was in the inputs already, as in an argument or memory that nothing wrote. `inputs` are
    the operands with NaN or infinities. `step` is that of the instruction.
    """

    instruction: Instruction
    tensor: str
    index: tuple[int, ...]
    value: float
    count: int
    created: bool
    inputs: tuple[str, ...]

    @property
    def step(self) -> int:
        return self.instruction.step

    def __str__(self) -> str:
        place = f"{self.tensor} at [{', '.join(map(str, self.index))}]"
        text = f"{self.instruction} writes {self.value:g} to {place}; {self.count:,} of its results are not finite"
        if not self.created:
            return f"{text}; it read NaN from {', '.join(self.inputs)}"
        if self.inputs:
            return f"{text}; {', '.join(self.inputs)} had infinities"
        return f"{text}; all its inputs were finite"


def described(found: Nonfinite, tensors: Tensors) -> FirstNonfinite:
    """Return a finding of the simulator with the names of the views."""
    return FirstNonfinite(
        instruction=tensors.instruction(found.op),
        tensor=tensors.labels[found.view.buffer.id],
        index=found.index,
        value=found.value,
        count=found.count,
        created=found.created,
        inputs=found.inputs,
    )
