"""The same program in float64: an executor that carries exact values beside those of the run.

Every floating-point tensor has a second memory, in float64, which nothing rounds: neither writes, nor accumulation.
Control flow, integers, indices, packed numbers and registers are the run's. One declaration serves both: `numerics` of
an instruction computes in the precision of the arrays that it gets.

Exact values begin again from the run's (a *restart*) where an instruction has no meaning on them: it is not
`continuous`, it reads a float through another dtype or from packed numbers, or the bytes were written through another
tensor or dtype.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.dtype import F32, DType
from nki_lab.isa.spec import Unmodelled
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program, Variant, View
from nki_lab.kernel_runtime.numerics.indirect import Accessor, Inspection, Resolver
from nki_lab.kernel_runtime.numerics.pool import Bound
from nki_lab.kernel_runtime.numerics.rounding import Array, round_to, to_shadow
from nki_lab.kernel_runtime.numerics.stepping import State, SteppingExecutor, blocks_of
from nki_lab.kernel_runtime.numerics.storage import BYTES, NATIVE, SHADOW, buffer_array, strided, view_array
from nki_lab.kernel_runtime.numerics.variant_plan import KEPT_WIDE, Registers, VariantPlan
from nki_lab.kernel_runtime.numerics.variant_plan import State as EngineState
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor

TOO_LARGE: Final = "NKI028"
"""The code of programs whose exact values take too much memory."""

_KIND: Final = -1  # of bindings in float64


class Exact(NamedTuple):
    """The exact values of a buffer; `seen` are the run's when they were written, where others can write its bytes."""

    bound: Bound
    seen: Bound | None

    @property
    def nbytes(self) -> int:
        return int(self.bound.flat.nbytes + (0 if self.seen is None else self.seen.flat.nbytes))


@dataclass(frozen=True, slots=True, eq=False)
class WideState(State):
    """The state of a `WideExecutor`: units below 0 are exact values."""

    exact: Registers


class Outcome(NamedTuple):
    """The values that an op wrote to one floating-point operand, in the operand's shape, in three ways.

    `run` are the values of the run; `exact` those in float64; `rounded` the result of the run's own instruction on the
    exact inputs, rounded to the dtypes of the operands, where that was asked for.
    """

    view: View
    run: Array
    exact: Array
    rounded: Array | None


class _Pending(NamedTuple):
    """The results of an op until the run has executed it, by the position of the operand."""

    exact: dict[int, Array]
    rounded: dict[int, Array]
    valid: Array | None


class WideExecutor(SteppingExecutor):
    """Executes a program op by op, as the run did and in float64; `limit` bounds the bytes of exact values (NKI028).

    `values` and `at_start` give exact values of floats. With `compares`, `outcomes` has what the last op wrote.
    `restarts` are the ops, the first of each variant, from which on exact values are the run's again, with the reason.
    """

    def __init__(
        self,
        program: Program,
        arrays: dict[int, Array],
        allocation: Allocation | None,
        *,
        limit: int,
        compares: bool = False,
    ) -> None:
        super().__init__(program, arrays, allocation)
        self.outcomes: list[Outcome] = []
        self.restarts: dict[int, str] = {}
        self._compares = compares
        self._limit = limit
        self._bytes = 0
        self._exact: dict[int, Exact] = {}
        self._lanes = Registers(program.arch.pmax, np.float64)
        self._lanes.values = self.registers.values
        self._resolve = Resolver(self.bound, self.registers.values, tolerant=program.options.oob == "warn")
        self._restarted: set[tuple[int, str]] = set()
        self._now = 0

    # -- execution ---------------------------------------------------------------------------------------------------

    def advance(self, stop: int) -> None:
        """Execute the ops before `stop`."""
        with np.errstate(all="ignore"):
            while self.done < stop:
                self._step(self.done)

    def _step(self, index: int) -> None:
        program = self.program
        self._now = index
        self.outcomes = []
        variant = program.variant_of(index)
        views = program.views_of(index)
        targets = [
            position
            for position, (view, is_out) in enumerate(zip(views, variant.outs, strict=True))
            if is_out and view.type.dtype.is_float
        ]
        exchanges = index in program.partners
        if exchanges:
            self._send(index)
        pending = None if exchanges or not targets else self._computed(index, variant, views)
        before = self._released
        super().advance(index + 1)
        for number in self._by_last[before : self._released].tolist():
            self._forget(number)
        if exchanges:
            _, received = self._lanes.mail.pop(index)
            pending = _Pending(dict.fromkeys(targets, received), {}, None)
        if exchanges or not variant.instruction.only_orders:
            for position in targets:
                self._settle(variant, position, views[position], pending)

    def _send(self, index: int) -> None:
        """Take the exact values of both sides of an exchange before either is written."""
        other = self.program.partners[index]
        if index < other:
            for sender, receiver in ((index, other), (other, index)):
                (source,) = self.program.op(sender).reads
                values, _ = self._read(source, self.program.variant_of(sender))
                self._lanes.mail[receiver] = (_KIND, np.array(values))

    def _settle(self, variant: Variant, position: int, view: View, pending: _Pending | None) -> None:
        """Enter the result of an op that the run has executed."""
        if pending is None:
            if view.buffer.id in self._exact:  # what it leaves as it was stays exact only in part: begin again
                self._write(variant, view, self._run_floats(view, variant.use)[0], None)
        else:
            self._write(variant, view, pending.exact[position].reshape(view.type.shape), pending.valid)
        if self._compares:
            run = self._run_floats(view, variant.use)[0]
            exact = run if pending is None else np.array(self._read(view, variant)[0])
            rounded = None if pending is None else pending.rounded.get(position)
            if rounded is not None:
                rounded = rounded.reshape(view.type.shape)
                if pending is not None and pending.valid is not None:
                    rounded[~pending.valid] = exact[~pending.valid]
            self.outcomes.append(Outcome(view, run, exact, rounded))

    def _computed(self, index: int, variant: Variant, views: list[View]) -> _Pending | None:
        """Compute an op in float64; None where that has no meaning."""
        instruction, use = variant.instruction, variant.use
        if not instruction.continuous(use):
            self._restart(variant, "its result jumps, or is random")
            return None
        bounds = [self.bound(view.buffer) for view in views]
        plan = self._variant_plan(variant, bounds)
        if plan.compute == "bits" or isinstance(instruction.numerics, Unmodelled):
            self._restart(variant, "it works on bits")
            return None
        if any(view.type.dtype.kind == "packed" for view in views):
            self._restart(variant, "it reads packed numbers, which are the run's")
        add = self._add.get(index, False) if instruction.accumulation is not None else False
        core = self.program.core_of(index)
        try:
            wide = self._arrays(plan, views, None)
        except NkiError:
            return None  # the run says so itself
        rounded: dict[int, Array] = {}
        if self._compares:
            narrow = self._arrays(plan, views, bounds)
            self._compute(plan, narrow, EngineState(self._lanes.rounded(np.float32), core, add))
            for position, is_out in enumerate(variant.outs):
                if is_out and views[position].type.dtype.is_float:
                    result = np.array(narrow.outs[variant.names[position]], np.float32)
                    rounded[position] = self._rounded(result, plan, position, bounds[position])
        self._compute(plan, wide, EngineState(self._lanes, core, add))
        exact = {
            position: wide.outs[name]
            for position, (name, is_out) in enumerate(zip(variant.names, variant.outs, strict=True))
            if is_out and views[position].type.dtype.is_float
        }
        return _Pending(exact, rounded, wide.valid)

    def _compute(self, plan: VariantPlan, arrays: _Arrays, state: EngineState) -> None:
        instruction, valid = plan.variant.instruction, arrays.valid
        if instruction.merges is not None and instruction.merges(plan.use):
            arrays.ins["kept"], valid = valid, None
        plan.numerics(SimpleNamespace(**arrays.outs), SimpleNamespace(**arrays.ins), plan.use, state)
        arrays.valid = valid

    def _arrays(self, plan: VariantPlan, views: list[View], rounded: list[Bound] | None) -> _Arrays:
        """Return the operands of an op: exact ones, or with the run's bindings exact ones that were `rounded`."""
        variant = plan.variant
        out = _Arrays(plan.empty.copy(), plan.empty.copy())
        precision = np.float64 if rounded is None else np.float32
        for position, (name, is_out) in enumerate(zip(variant.names, variant.outs, strict=True)):
            view, shape = views[position], plan.presented[position].shape
            is_float = view.type.dtype.is_float
            wide = is_float or plan.compute == "float32"
            if is_out:
                out.outs[name] = np.zeros(shape, precision if wide else view.type.dtype.storage)
            if is_out and not variant.instruction.updates(plan.use):
                continue
            values, rows = self._read(view, variant)
            if wide and (values.dtype != precision or rounded is not None):
                values = np.array(values, precision)
            if is_float and rounded is not None:
                values = self._rounded(values, plan, position, rounded[position])
            if is_out:
                out.outs[name][...] = values.reshape(shape)
            else:
                out.ins[name] = values.reshape(shape)
                out.valid = rows if out.valid is None else out.valid
        return out

    def _rounded(self, values: Array, plan: VariantPlan, position: int, bound: Bound) -> Array:
        """Round float32 values in place to what the binding of an operand holds."""
        dtype = plan.dtypes[position]
        if dtype is F32 or (bound.kind == SHADOW and not self._precise and dtype in KEPT_WIDE):
            return values
        return round_to(np.ascontiguousarray(values), dtype)

    def _restart(self, variant: Variant, reason: str) -> None:
        if (variant.id, reason) not in self._restarted:
            self._restarted.add((variant.id, reason))
            self.restarts.setdefault(self._now, reason)

    # -- exact values ------------------------------------------------------------------------------------------------

    def values(self, view: View | NkiTensor) -> Array:
        """Return the exact values of a view now, float64; of what is no float the run's."""
        dtype = view._dtype if isinstance(view, NkiTensor) else view.type.dtype
        if not dtype.is_float:
            return super().values(view)
        with np.errstate(all="ignore"):
            if isinstance(view, View):
                return np.array(self._read(view, None)[0])
            if view._indirect is not None:
                return np.asarray(super().values(view), np.float64)
            return np.array(self._part(view._buffer, dtype, view._offset, view._shape, view._strides))

    def at_start(self, view: View | NkiTensor) -> Array:
        """Return the values of a view before the first op: floats in float64."""
        values = super().at_start(view)
        dtype = view._dtype if isinstance(view, NkiTensor) else view.type.dtype
        return np.asarray(values, np.float64) if dtype.is_float else values

    def _read(self, view: View, variant: Variant | None) -> tuple[Array, Array | None]:
        """Return the elements of a view, floats exact, and which rows are in bounds (None: all)."""
        kind, buffer = view.type, view.buffer
        if not kind.dtype.is_float:
            bound = self.bound(buffer)
            accessor = Inspection({"view": kind}) if variant is None else variant.use
            return self._resolve.read(view, bound, accessor)
        if view.indirect is None:
            return self._part(buffer, kind.dtype, view.offset, kind.shape, kind.strides), None
        accessor = Inspection({"view": kind}) if variant is None else variant.use
        found = self._exact.get(buffer.id)
        if found is None or kind.dtype is not buffer.dtype:
            return self._run_floats(view, accessor)
        bound = found.bound
        if found.seen is not None:
            parts = self._part(buffer, buffer.dtype, 0, (buffer.partitions, buffer.row_elements), _rows(buffer))
            bound = _dense(buffer, np.ascontiguousarray(parts).reshape(-1))
        return self._resolve.read(view, bound, accessor)

    def _part(
        self, buffer: Buffer, dtype: DType, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Array:
        """Return floats of a buffer in float64: exact ones, the run's where there are none."""
        found = self._exact.get(buffer.id)
        if found is None or dtype is not buffer.dtype:
            return self._floats(self.bound(buffer), dtype, offset, shape, strides)
        exact = strided(found.bound, dtype, offset, shape, strides)
        if found.seen is None:
            return exact
        bound = self.bound(buffer)
        bits = np.dtype(f"u{dtype.nbytes}")
        now = strided(bound, dtype, offset, shape, strides)
        changed = now.view(bits) != strided(found.seen, dtype, offset, shape, strides).view(bits)
        return np.where(changed, self._floats(bound, dtype, offset, shape, strides), exact) if changed.any() else exact

    @staticmethod
    def _floats(bound: Bound, dtype: DType, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        part = strided(bound, dtype, offset, shape, strides)
        if bound.kind != SHADOW:
            part = to_shadow(np.ascontiguousarray(part), dtype)
        return part.astype(np.float64)

    def _run_floats(self, view: View, accessor: Accessor) -> tuple[Array, Array | None]:
        """Return the run's floats in float64, in the view's shape, and which rows are in bounds (None: all)."""
        part, rows = self.checked_floats(view, accessor)
        return part.astype(np.float64), rows

    def _write(self, variant: Variant, view: View, values: Array, valid: Array | None) -> None:
        buffer = view.buffer
        if view.type.dtype is not buffer.dtype:
            return  # the run's bytes differ from `seen` now
        found = self._exact.get(buffer.id) or self._made(view)
        self._resolve.write(view, found.bound, values, variant.use, valid)
        self._resolve.notes.clear()
        if found.seen is not None:
            bound = self.bound(buffer)
            if view.indirect is None:
                np.copyto(view_array(found.seen, view), view_array(bound, view))
            else:
                np.copyto(buffer_array(found.seen, buffer), buffer_array(bound, buffer))

    def _made(self, view: View) -> Exact:
        """Return new memory for the exact values of a buffer that an op has just written; what else is in it are the
        run's values.
        """
        buffer = view.buffer
        bound = self.bound(buffer)
        size = buffer.partitions * buffer.row_elements
        needs = size * (8 + (buffer.dtype.nbytes if bound.kind == BYTES else 0))
        if self._bytes + needs > self._limit:
            raise coded_error(
                TOO_LARGE,
                f"exact values take more than {self._limit:,} bytes at instruction {self._now}",
                limit="the float64 values of all tensors that are live at a time fit into replay_bytes",
                help="pass a larger replay_bytes, or a smaller problem: precision rarely depends on its size",
            )
        flat = self._floats(bound, buffer.dtype, 0, (buffer.partitions, buffer.row_elements), _rows(buffer))
        seen = None
        if bound.kind == BYTES:
            stored = np.ascontiguousarray(buffer_array(bound, buffer)).reshape(-1)
            seen = Bound(NATIVE, stored.copy(), 0, buffer.row_elements, buffer.row_elements)
        made = self._exact[buffer.id] = Exact(_dense(buffer, flat.reshape(-1)), seen)
        self._bytes += made.nbytes
        return made

    def _forget(self, number: int) -> None:
        found = self._exact.pop(number, None)
        if found is not None:
            self._bytes -= found.nbytes

    # -- states ------------------------------------------------------------------------------------------------------

    def state(self, before: State | None, written: Iterable[int]) -> State:
        """Return the present state; `before` is an earlier one, since which only the buffers `written` changed."""
        changed = set(written)
        plain = super().state(before, changed)
        units = dict(plain.units)
        for number, exact in self._exact.items():
            if self._last[number] < self.done:
                continue
            for place, bound in enumerate(exact):
                if bound is not None:
                    key = ~(2 * number + place)
                    former = None if before is None else before.units.get(key)
                    fresh = former is None or number in changed
                    units[key] = blocks_of(bound.flat, former) if fresh or former is None else former
        return WideState(plain.position, units, plain.registers, self._lanes.copy())

    def restore(self, state: State | None) -> None:
        """Go back to a state, or to the beginning; all later changes are undone."""
        for number in list(self._exact):
            self._forget(number)
        lanes = Registers(self._lanes.lanes, np.float64)
        if state is None:
            super().restore(None)
        else:
            run = {number: blocks for number, blocks in state.units.items() if number >= 0}
            super().restore(State(state.position, run, state.registers))
            for key, blocks in state.units.items():
                if key < 0 and not ~key % 2:
                    buffer = self.program.buffers[~key // 2]
                    stored = state.units.get(key - 1)
                    flat = np.frombuffer(b"".join(blocks), np.float64).copy()
                    seen = None
                    if stored is not None:
                        bits = np.frombuffer(b"".join(stored), np.uint8).copy().view(buffer.dtype.storage)
                        seen = Bound(NATIVE, bits, 0, buffer.row_elements, buffer.row_elements)
                    made = self._exact[buffer.id] = Exact(_dense(buffer, flat), seen)
                    self._bytes += made.nbytes
            if isinstance(state, WideState):
                lanes = state.exact.copy()
        self._lanes = lanes
        self._lanes.values = self.registers.values


class _Arrays:
    """The operands of an op by name, and the rows that are in bounds (None: all)."""

    __slots__ = ("ins", "outs", "valid")

    def __init__(self, ins: dict[str, Any], outs: dict[str, Any]) -> None:
        self.ins = ins
        self.outs = outs
        self.valid: Array | None = None


def _rows(buffer: Buffer) -> tuple[int, int]:
    return buffer.row_elements, 1


def _dense(buffer: Buffer, flat: Array) -> Bound:
    return Bound(_KIND, flat, 0, buffer.row_elements, buffer.row_elements)
