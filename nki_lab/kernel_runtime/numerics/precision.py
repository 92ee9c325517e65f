"""The rounding errors of a finished program: what each instruction adds, and how they reach the results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Column, rect_of
from nki_lab.kernel_runtime.ir import Program, View
from nki_lab.kernel_runtime.numerics import blas
from nki_lab.kernel_runtime.numerics.deviation import Yardstick, largest, relative_errors
from nki_lab.kernel_runtime.numerics.rounding import Array
from nki_lab.kernel_runtime.numerics.wide import TOO_LARGE, Outcome, WideExecutor

_CARRIERS: Final = 64  # writers of parts of one tensor that are followed at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Culprit:
    """The instruction that is the first to introduce too large an error.

    `view` is the operand, and `index` the element of it, with the largest error; `run`, `exact` and `rounded` are its
    values in the run, in float64, and of the run's instruction on exact inputs. `introduced` and `inherited` are
    relative errors, the largest of each, like those of `Errors`.
    """

    op: int
    view: View
    index: tuple[int, ...]
    run: float
    exact: float
    rounded: float
    introduced: float
    inherited: float


@dataclass(slots=True, kw_only=True, eq=False)
class Errors:
    """The relative errors of a program's floating-point results, by op: `introduced` by it, and in `total`.

    Ops that write no floats have 0, those that were not reached NaN. `outputs` are the largest error and its index in
    each returned tensor, None for those without floats. `path` are the ops that carry the error of the culprit to the
    result with the largest one, the culprit first; it ends early where no result depends on it. `restarts` are ops at
    which exact values begin again from the run's, with the reason. `complete` is False where time ran out.
    """

    introduced: Array
    total: Array
    culprit: Culprit | None = None
    path: list[int] = field(default_factory=list)
    outputs: list[tuple[float, tuple[int, ...]] | None] = field(default_factory=list)
    exact_outputs: list[Array] = field(default_factory=list)
    restarts: Mapping[int, str] = field(default_factory=dict)
    complete: bool = True


@blas.single_thread()
def rounding_errors(
    program: Program,
    arrays: Mapping[int, Array],
    allocation: Allocation | None,
    tolerance: float,
    *,
    limit: int,
    seconds: float = float("inf"),
    stop: bool = False,
) -> Errors:
    """Execute a complete program with exact values beside, and find the first op that introduces more than `tolerance`.

    `limit` bounds the bytes of exact values (NKI028). It ends after about `seconds`, at the fault of a program that has
    one, or with `stop` at the culprit.
    """
    executor = WideExecutor(program, dict(arrays), allocation, limit=limit, compares=True)
    count = len(program)
    out = Errors(introduced=np.full(count, np.nan), total=np.full(count, np.nan), restarts=executor.restarts)
    end = time.monotonic() + seconds
    trail: _Trail | None = None
    for op in range(count):
        if time.monotonic() > end:
            out.complete = False
            return out
        try:
            executor.advance(op + 1)
        except NkiError as refusal:
            if refusal.diagnostics[0].code == TOO_LARGE:
                raise
            out.complete = False  # the fault of the run
            return out
        worst = introduced = 0.0
        for outcome in executor.outcomes:
            error, added = _measured(outcome)
            worst = max(worst, error)
            introduced = max(introduced, added[0])
            if out.culprit is None and added[0] > tolerance:
                out.culprit = _culprit(op, outcome, *added)
        out.introduced[op], out.total[op] = introduced, worst
        if out.culprit is not None:
            if stop:
                out.complete = False
                return out
            trail = trail or _Trail(program, out.total)
            trail.follow(op, out.culprit.op)
    _judge_outputs(executor, out)
    if out.culprit is not None and trail is not None:
        out.path = trail.to_results(out.culprit.op)
    return out


def _rows(view: View) -> int:
    """Return the rows of a view: partitions on the chip, and all but the last dimension in HBM."""
    shape = view.type.shape
    return shape[0] if view.type.on_chip else int(np.prod(shape[:-1], dtype=np.int64))


def _measured(outcome: Outcome) -> tuple[float, tuple[float, tuple[int, ...]]]:
    """Return the largest error of what an op wrote, and the largest that it introduced with its index."""
    if np.array_equal(outcome.run, outcome.exact):
        return 0.0, (0.0, ())
    by_exact = Yardstick(outcome.exact, _rows(outcome.view))
    total = largest(by_exact.errors(outcome.run))
    if outcome.rounded is None:
        return total[0], (0.0, ())
    if np.array_equal(outcome.rounded, outcome.run):  # nothing is inherited
        return total[0], total
    return total[0], largest(by_exact.errors(outcome.rounded))


def _culprit(op: int, outcome: Outcome, introduced: float, index: tuple[int, ...]) -> Culprit:
    assert outcome.rounded is not None
    between = relative_errors(outcome.run, np.asarray(outcome.rounded, np.float64), _rows(outcome.view))
    return Culprit(
        op=op,
        view=outcome.view,
        index=index,
        run=float(outcome.run[index]),
        exact=float(outcome.exact[index]),
        rounded=float(outcome.rounded[index]),
        introduced=introduced,
        inherited=largest(between)[0],
    )


def _judge_outputs(executor: WideExecutor, out: Errors) -> None:
    for tensor in executor.program.outputs:
        exact = executor.values(tensor)
        out.exact_outputs.append(exact)
        if not tensor._dtype.is_float:
            out.outputs.append(None)
            continue
        run = executor.read(tensor).astype(np.float64)
        out.outputs.append(largest(relative_errors(run, exact, rows_of(exact.shape))))


def rows_of(shape: tuple[int, ...]) -> int:
    """Return the rows of a result: all but its last dimension."""
    return int(np.prod(shape[:-1], dtype=np.int64)) if shape else 1


class _Trail:
    """The ops that carry an error on: of each, the op whose result brought the largest."""

    def __init__(self, program: Program, total: Column) -> None:
        self._program = program
        self._total = total
        self._parent: dict[int, int] = {}
        self._carriers: dict[int, list[tuple[int, View]]] = {}

    def follow(self, op: int, culprit: int) -> None:
        """Enter an op: it carries the error where it reads a result that does, and has an error itself."""
        program = self._program
        variant, views = program.variant_of(op), program.views_of(op)
        updates = variant.instruction.updates(variant.use)
        outs = [view for view, is_out in zip(views, variant.outs, strict=True) if is_out]
        carries = op == culprit
        if not carries and self._total[op] > 0:
            read = [view for view, is_out in zip(views, variant.outs, strict=True) if not is_out or updates]
            if op in program.partners:
                read = list(program.op(program.partners[op]).reads)
            found = [
                writer
                for view in read
                for writer, part in self._carriers.get(view.buffer.id, ())
                if _may_overlap(part, view)
            ]
            if found:
                carries = True
                self._parent[op] = max(found, key=lambda writer: (self._total[writer], writer))
        for view in outs:
            held = self._carriers.get(view.buffer.id)
            if held is not None and not updates:
                held[:] = [item for item in held if not (view.full or item[1] is view)]
            if carries and view.type.dtype.is_float:
                held = self._carriers.setdefault(view.buffer.id, [])
                held.append((op, view))
                del held[:-_CARRIERS]

    def to_results(self, culprit: int) -> list[int]:
        """Return the path to the result with the largest error; without one, the culprit alone."""
        results = [
            writer for tensor in self._program.outputs for writer, _ in self._carriers.get(tensor._buffer.id, ())
        ]
        if not results:
            return [culprit]
        op = max(results, key=lambda writer: (self._total[writer], writer))
        path = [op]
        while op != culprit:
            op = self._parent[op]
            path.append(op)
        return path[::-1]


def _may_overlap(one: View, other: View) -> bool:
    """Whether two views of a buffer may share elements."""
    a, b = rect_of(one), rect_of(other)
    return a is None or b is None or (a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3])
