"""Tensors and instructions of a run by the names and numbers under which the views show them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.lifetimes import in_steps
from nki_lab.kernel_runtime.tensor import Buffer
from nki_lab.wire.labels import tensor_labels
from nki_lab.wire.rows import Steps

_LISTED: Final = 12  # candidates that a message lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """An executed instruction: its `step` and `row` in the recording, `file` and `line`, and loop values around it.

    As text it is what the views show: `nc_matmul #217, line 17, i = 3`; numbers after # count from 1.
    """

    name: str
    step: int
    row: int
    file: str
    line: int
    iteration: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        loops = "".join(f", {variable or 'iteration'} = {value}" for variable, value in self.iteration)
        return f"{self.name} #{self.step + 1}{f', line {self.line}' if self.line else ''}{loops}"


class Tensors:
    """The tensors and instructions of one run. `program` is the one that was executed, a row for each instruction."""

    def __init__(self, program: Program, recording: Recording) -> None:
        self.program = program
        self.recording = recording

    @cached_property
    def labels(self) -> list[str]:
        """The name of each buffer as the views show it."""
        return tensor_labels(self._steps)

    @cached_property
    def step_of(self) -> Array:
        """The step of each row."""
        return self._steps.step_of

    @cached_property
    def _steps(self) -> Steps:
        return Steps(self.recording)

    def instruction(self, row: int) -> Instruction:
        """Return an instruction by its row in the recording."""
        found = self.recording.row(row)
        return Instruction(
            name=found.name,
            step=int(self.step_of[row]),
            row=row,
            file=found.file,
            line=found.line,
            iteration=found.iteration,
        )

    def find(self, what: object, step: int | None) -> Any:
        """Return the buffer of a name, a number or a tensor; NKI027 where there is none, or more than one.

        Where several tensors bear a name, the one is meant that is in use at the `step`.
        """
        buffers = self.program.buffers
        if isinstance(what, int) and not isinstance(what, bool):
            if 0 <= what < len(buffers):
                return buffers[what]
            raise self._unknown(f"the run has no tensor {what}", f"numbers go from 0 to {len(buffers) - 1}")
        if not isinstance(what, str):
            return what
        found = self._named(what)
        if step is not None and len(found) > 1:
            live = [number for number in found if self._used[number][0] <= step <= self._used[number][1]]
            found = live if len(live) == 1 else found
        if len(found) == 1:
            return buffers[found[0]]
        if not found:
            known = dict.fromkeys([*self.labels, *map(_base, self.labels)])
            raise self._unknown(f"the run has no tensor {what!r}", did_you_mean(what, known) or self._listed(known))
        texts = [self._candidate(number) for number in found[:_LISTED]]
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise self._unknown(
            f"{len(found)} tensors are called {what!r}",
            f"name one, or the step at which it is in use, or its number: {'; '.join(texts)}{more}",
        )

    def _named(self, name: str) -> list[int]:
        """Return the buffers of a label; else of labels that differ in the index only."""
        text = name.strip()
        exact = [number for number, label in enumerate(self.labels) if label == text]
        return exact or [number for number, label in enumerate(self.labels) if _base(label) == text]

    def _candidate(self, number: int) -> str:
        buffer: Buffer = self.program.buffers[number]
        site = self.program.sites[buffer.site] if 0 <= buffer.site < len(self.program.sites) else None
        where = f", line {site.line}" if site is not None and site.line else ""
        first, last = self._used[number]
        steps = f", steps {first} to {last}" if last >= 0 else ", never used"
        return f"{self.labels[number]} (number {number}{where}{steps})"

    @cached_property
    def _used(self) -> dict[int, tuple[int, int]]:
        """The first and last step that accesses each buffer."""
        found = in_steps(self.recording.table, self.step_of)
        used = whole(self.recording.table("lifetimes")["buffer"]).tolist()
        pairs = zip(np.asarray(found["first"]).tolist(), np.asarray(found["last"]).tolist(), strict=True)
        spans = dict(zip(used, pairs, strict=True))
        return {number: spans.get(number, (0, -1)) for number in range(len(self.program.buffers))}

    @staticmethod
    def _listed(known: dict[str, None]) -> str:
        names = list(dict.fromkeys(map(_base, known)))
        return f"it has {', '.join(names[:_LISTED])}{' and others' if len(names) > _LISTED else ''}"

    @staticmethod
    def _unknown(message: str, remedy: str) -> NkiError:
        return coded_error(
            "NKI027",
            message,
            operand="name",
            limit="a name that the views show, a buffer's number, a tensor or a buffer of the run's program",
            help=remedy,
        )


def _base(label: str) -> str:
    return label.partition("[")[0]
