"""Plan of one variant: its arithmetic with the conversions that the operands' bindings ask for.

A plan is made once for each variant and combination of bindings. Where all operands are presented as they lie in
memory the step is a plain call; otherwise a general step gathers, converts, computes, rounds and writes back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.isa.dtype import BF16, F16, F32, FP8, FP8_E8M0, TF32, DType, grid_contains
from nki_lab.isa.spec import Unmodelled, Use
from nki_lab.kernel_runtime.coverage import Added
from nki_lab.kernel_runtime.ir import Variant, View
from nki_lab.kernel_runtime.numerics.blas import multiply, multiply_add
from nki_lab.kernel_runtime.numerics.conform import present
from nki_lab.kernel_runtime.numerics.evacuation import copies_as_it_is
from nki_lab.kernel_runtime.numerics.indirect import Resolver
from nki_lab.kernel_runtime.numerics.pool import Bound
from nki_lab.kernel_runtime.numerics.rounding import (
    Array,
    Scratch,
    convert_to_int,
    from_shadow,
    round_to,
    to_shadow,
    to_storage,
)
from nki_lab.kernel_runtime.numerics.storage import BYTES, NATIVE, SHADOW, strided, unit_of, view_array

Mail = dict[int, tuple[int, Array]]
"""Kind of binding and values of a tile on its way, by the op that takes it."""


def collect(mail: Mail, receiver: int, bound: Bound, view: View) -> None:
    """Keep the present values of a view for op `receiver`."""
    mail[receiver] = (bound.kind, view_array(bound, view).copy())


def deliver(mail: Mail, receiver: int, bound: Bound, view: View, on_grid: bool) -> None:
    """Write the values for op `receiver` to a view of the same dtype; `on_grid`: no value needs rounding."""
    kind, values = mail.pop(receiver)
    dtype = view.type.dtype
    if kind == SHADOW and bound.kind != SHADOW:
        values = to_storage(values, dtype) if on_grid else from_shadow(values, dtype).view(dtype.storage)
    elif kind != SHADOW and bound.kind == SHADOW:
        values = to_shadow(values, dtype)
    np.copyto(view_array(bound, view), values)


ndarray: Final[Any] = np.ndarray
Step = tuple[Callable[..., object], tuple[Any, ...]]
"""A call: function and arguments."""

PlannedStep = tuple[int, Step]
"""A call and the op that it belongs to."""


class Place(NamedTuple):
    """The place of a matrix: the buffer, its first element there, elements from row to row and column to column."""

    buffer: int
    offset: int
    row: int
    column: int


KEPT_WIDE: Final = frozenset({BF16, TF32, FP8_E8M0, *FP8})
"""Dtypes that stay in float32 without `precise`; float16 is rounded all the same (Beta 1 simulated it natively)."""

_HALVES: Final = np.dtype(
    {"names": ["upper"], "formats": [np.uint16], "offsets": [2 if sys.byteorder == "little" else 0], "itemsize": 4}
)


class State:
    """State of a core's instructions between calls: accumulation registers, and how the matmul at hand treats dst."""

    __slots__ = ("add", "random", "scalar_accumulators", "values", "vector_accumulators")

    def __init__(self, registers: Registers, core: int, add: Added = False) -> None:
        engines = registers.of_core(core)
        self.scalar_accumulators = engines.scalar
        self.vector_accumulators = engines.vector
        self.random = engines.random
        self.values = registers.values
        self.add = add

    def multiply(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """Return left.T @ right, in `out` where it is given."""
        return multiply(left, right, out)

    def multiply_add(self, left: Array, right: Array, out: Array) -> None:
        """Set out += left.T @ right."""
        multiply_add(left, right, out)


class EngineRegisters:
    """The state of one core's engines: accumulators, a row for each partition, and generators of random numbers.

    `random` holds the 24 words of each engine's random generator, by engine; NKI documents none after power-up.
    """

    __slots__ = ("random", "scalar", "vector")

    def __init__(self, lanes: int, precision: type[np.floating[Any]]) -> None:
        self.scalar: Array = np.zeros(lanes, precision)
        self.vector: Array = np.zeros(lanes, precision)
        self.random: dict[str, Array] = {}

    def clear(self) -> None:
        """Return to the state at power-up, in place."""
        self.scalar.fill(0)
        self.vector.fill(0)
        self.random.clear()

    def restore(self, other: EngineRegisters) -> None:
        """Take over the state of another, in place."""
        self.scalar[...], self.vector[...] = other.scalar, other.vector
        self.random.clear()
        self.random.update({engine: words.copy() for engine, words in other.random.items()})


class Registers:
    """The engines' own state: of each core accumulators for `lanes` partitions in a `precision`, and generators.

    `values` are the contents of the sequencers' registers by number, where anything has been written. `mail` is what
    one side of an exchange between cores has brought for the other one, by the op that takes it.
    """

    __slots__ = ("_cores", "lanes", "mail", "precision", "values")

    def __init__(self, lanes: int, precision: type[np.floating[Any]] = np.float32) -> None:
        self.lanes = lanes
        self.precision = precision
        self._cores: dict[int, EngineRegisters] = {}
        self.values: dict[int, int | float] = {}
        self.mail: Mail = {}

    def of_core(self, core: int) -> EngineRegisters:
        """Return the state of a core's engines, that at power-up where nothing has asked for it before."""
        found = self._cores.get(core)
        if found is None:
            found = self._cores[core] = EngineRegisters(self.lanes, self.precision)
        return found

    def copy(self) -> Registers:
        """Return the state as it is now."""
        return self.rounded(self.precision)

    def rounded(self, precision: type[np.floating[Any]]) -> Registers:
        """Return the state as it is now with accumulators of another precision."""
        twin = Registers(self.lanes, precision)
        twin.restore(self)
        return twin

    def clear(self) -> None:
        """Return to the state at power-up, in place."""
        for engines in self._cores.values():
            engines.clear()
        self.values.clear()
        self.mail.clear()

    def restore(self, other: Registers) -> None:
        """Take over the state of another, in place."""
        for core in {*self._cores, *other._cores}:
            self.of_core(core).restore(other.of_core(core))
        self.values.clear()
        self.values.update(other.values)
        self.mail.clear()
        self.mail.update(other.mail)  # nothing writes these arrays


def call_position(function: Callable[..., object], *, is_out: bool) -> int:
    """Return the position of the result or the source among the arguments of a step that takes them as they are."""
    if function is round_to:
        return 3 if is_out else 0
    assert function is np.copyto
    return 0 if is_out else 1


class VariantPlan:
    """The execution of a variant under given bindings.

    `compute` is the precision of the computation: float32, bits, or native. `rounds` gives for each operand the dtype
    that an output in a shadow must be rounded to, if its values may lie off the grid. `direct` steps present every
    operand as it lies; `casts` marks a copy that rounds, `stores` a plain copy of a bfloat16 tile to true width, and
    `loads` one from there.
    """

    def __init__(self, variant: Variant, kinds: tuple[int, ...], precise: bool) -> None:
        self.variant = variant
        self.kinds = kinds
        self.use: Use = variant.use
        instruction, outs = variant.instruction, variant.outs
        assert not isinstance(instruction.numerics, Unmodelled)
        self.numerics = instruction.numerics
        types = [variant.use.types[name] for name in variant.names]
        self.dtypes: list[DType] = [view.dtype for view in types]
        presented = present(instruction, variant.use)
        self.presented = [presented[name] for name in variant.names]
        declared = instruction.precision(variant.use)
        self.compute = declared
        if declared == "native" and len(set(kinds)) > 1 and all(dtype.is_float for dtype in self.dtypes):
            self.compute = "float32"  # a same-dtype move between different bindings: exact
        self.moves = declared == "native" and precise
        self.rounds = [self._rounding(i, precise) for i in range(len(outs))]
        self.layout = [self._laid_out(i) for i in range(len(outs))]
        self.pairs = [
            (i, j) for i, into in enumerate(outs) if into for j, out in enumerate(outs) if j > i or (j < i and not out)
        ]
        # Numbers in the place of tiles, in the precision of the computation; None for absent operands.
        number = np.float32 if self.compute == "float32" else lambda value: value
        values = {
            name: variant.use.value(name)
            for name, operand in instruction.operands.items()
            if operand.is_tensor and name not in variant.names
        }
        self.empty: dict[str, Any] = {name: None if value is None else number(value) for name, value in values.items()}
        laid = all(item.strides is not None for item in self.presented)
        self.direct = laid and not any(view.indirect for view in types) and all(map(self._as_is, kinds, self.dtypes))
        self.casts = (
            self.compute == "float32"
            and instruction.role == "copy"
            and variant.names == ("dst", "src")
            and self.rounds[0] is not None
            and self.presented[0].shape == self.presented[1].shape
        )
        self.stores = (
            precise and kinds == (NATIVE, SHADOW) and laid and copies_as_it_is(variant) and self.dtypes[0] is BF16
        )
        self.loads = kinds == (SHADOW, NATIVE) and laid and copies_as_it_is(variant) and self.dtypes[0] is BF16
        self.direct |= self.stores or self.loads

    def _laid_out(self, position: int) -> tuple[Any, ...]:
        """Return name, shape, element strides, byte strides, NumPy dtype, whether it is written, and rounding."""
        shape, strides = self.presented[position]
        dtype = self.dtypes[position]
        unit = unit_of(self.kinds[position], dtype)
        steps = None if strides is None else tuple(step * unit.itemsize for step in strides)
        kind = np.dtype(f"u{dtype.nbytes}") if self.compute == "bits" else unit
        name, into = self.variant.names[position], self.variant.outs[position]
        return name, shape, strides, steps, kind, into, self.rounds[position]

    def _as_is(self, kind: int, dtype: DType) -> bool:
        return kind == SHADOW if self.compute == "float32" else kind in (SHADOW, NATIVE) or dtype.kind != "float"

    def _rounding(self, position: int, precise: bool) -> DType | None:
        dtype, outs = self.dtypes[position], self.variant.outs
        if not outs[position] or self.kinds[position] != SHADOW:
            return None
        if dtype is F32 or (not precise and dtype in KEPT_WIDE):
            return None
        # float8_e8m0fnu has no zero, which selecting operators may give.
        if dtype is not FP8_E8M0 and self.variant.instruction.exact(self.use):
            sources = [source for source, is_out in zip(self.dtypes, outs, strict=True) if not is_out]
            wide = not precise and any(source in KEPT_WIDE for source in sources)
            if not (wide and dtype is F16) and all(grid_contains(dtype, source) for source in sources):
                return None
        return dtype

    def clashes(self, views: list[View], bounds: list[Bound]) -> bool:
        """Whether an output shares memory with another operand that is not the very same view."""
        for i, j in self.pairs:  # noqa: SIM110 - done for each op that is planned, and three times as fast
            if bounds[i].flat is bounds[j].flat and views[i] is not views[j]:
                return True
        return False

    def steps(
        self, views: list[View], bounds: list[Bound], state: State, scratch: Scratch, resolver: Resolver
    ) -> list[Step]:
        """Return the calls that execute one op."""
        if not self.direct or self.clashes(views, bounds):
            return [(self._general, (views, bounds, state, scratch, resolver))]
        if self.stores:
            return [self._store(views, bounds)]
        if self.loads:
            return [(np.copyto, tuple(self._as_it_lies(views, bounds)))]
        ins = self.empty.copy()
        outs = self.empty.copy()
        rounding: list[Step] = []
        for view, bound, layout in zip(views, bounds, self.layout, strict=True):
            name, shape, strides, steps, kind, into, dtype = layout
            if bound.pitch == bound.row and bound.kind != BYTES:
                # The inner loop of planning: `strided` for a dense binding, with the byte strides worked out before.
                array = ndarray(shape, kind, bound.flat, (bound.base + view.offset) * bound.unit, steps)
            else:
                array = strided(bound, view.type.dtype, view.offset, shape, strides)
                if self.compute == "bits":
                    array = array.view(kind)
            if not into:
                ins[name] = array
                continue
            outs[name] = array
            if dtype is not None:
                rounding.append((round_to, (array, dtype, scratch)))
        if self.casts:
            return [(round_to, (ins["src"], self.rounds[0], scratch, outs["dst"]))]
        call: Step = (self.numerics, (SimpleNamespace(**outs), SimpleNamespace(**ins), self.use, state))
        return [call, *rounding]

    def steps_elsewhere(
        self, views: list[View], bounds: list[Bound], places: Mapping[int, Place], rows: int | None, state: State
    ) -> list[Step]:
        """Return the calls that execute one op some of whose operands, by position, are read at other places.

        With `rows` it stands for other products as well: those operands have as many. All operands lie as they are in
        shadows, whose results need no rounding; `bounds` are those of the places.
        """
        assert self.direct and not any(self.rounds)
        ins, outs = self.empty.copy(), self.empty.copy()
        for position, (view, bound, layout) in enumerate(zip(views, bounds, self.layout, strict=True)):
            name, shape, strides, _, _, into, _ = layout
            place = places.get(position)
            if place is None:
                array = strided(bound, view.type.dtype, view.offset, shape, strides)
            else:
                steps = place.row * bound.unit, place.column * bound.unit
                shape = shape if rows is None else (rows, shape[1])
                array = ndarray(shape, bound.flat.dtype, bound.flat, (bound.base + place.offset) * bound.unit, steps)
            (outs if into else ins)[name] = array
        return [(self.numerics, (SimpleNamespace(**outs), SimpleNamespace(**ins), self.use, state))]

    def _store(self, views: list[View], bounds: list[Bound]) -> Step:
        """Return a copy of the upper halves of a shadow's numbers: those of true width, as the lower ones are zero.

        Sums that are yet to be rounded are converted.
        """
        narrow, wide = self._as_it_lies(views, bounds)
        if bounds[1].wide:
            return (np.copyto, (narrow, wide, "unsafe"))
        return (np.copyto, (narrow.view(np.uint16), wide.view(_HALVES)["upper"]))

    def _as_it_lies(self, views: list[View], bounds: list[Bound]) -> list[Array]:
        """Return the operands of a copy of bfloat16 numbers, each in its binding's width."""
        return [
            strided(bound, BF16, view.offset, shape, strides or ())
            for view, bound, (shape, strides) in zip(views, bounds, self.presented, strict=True)
        ]

    def _general(
        self, views: list[View], bounds: list[Bound], state: State, scratch: Scratch, resolver: Resolver
    ) -> None:
        ins, outs = self.empty.copy(), self.empty.copy()
        written: list[tuple[int, Array]] = []
        valid: Array | None = None
        instruction = self.variant.instruction
        for position, (name, is_out) in enumerate(zip(self.variant.names, self.variant.outs, strict=True)):
            view, bound, shape = views[position], bounds[position], self.presented[position].shape
            if is_out:
                outs[name] = np.empty(shape, self._working(position))
                written.append((position, outs[name]))
            if not is_out or instruction.updates(self.use):
                part, rows = resolver.read(view, bound, self.use)
                values = self._taken(position, part).reshape(shape)
                if is_out:
                    outs[name][...] = values
                else:
                    ins[name] = values
                    valid = rows if valid is None else valid
        if instruction.merges is not None and instruction.merges(self.use):
            ins["kept"], valid = valid, None  # the instruction itself leaves out what is outside
        self.numerics(SimpleNamespace(**outs), SimpleNamespace(**ins), self.use, state)
        for position, result in written:
            view = views[position]
            values = self._narrowed(position, result.reshape(view.type.shape), scratch)
            resolver.write(view, bounds[position], values, self.use, valid)

    def _working(self, position: int) -> np.dtype[Any]:
        storage = self.dtypes[position].storage
        if self.compute == "bits":
            return np.dtype(f"u{storage.itemsize}")
        return np.dtype(np.float32) if self.compute == "float32" or self.kinds[position] == SHADOW else storage

    def _taken(self, position: int, part: Array) -> Array:
        """Return an operand's elements in the precision of the computation."""
        if self.compute == "bits":
            return np.ascontiguousarray(part).view(np.dtype(f"u{part.dtype.itemsize}"))
        if self.compute == "float32" and self.kinds[position] != SHADOW:
            return to_shadow(np.ascontiguousarray(part), self.dtypes[position])
        return part

    def _narrowed(self, position: int, values: Array, scratch: Scratch) -> Array:
        """Return results in the binding's precision."""
        dtype, rounded = self.dtypes[position], self.rounds[position]
        if self.compute == "bits":
            return values.view(dtype.storage)
        if self.kinds[position] == SHADOW:
            return values if rounded is None else round_to(values, rounded, scratch)
        if self.compute != "float32":
            return values
        if dtype.kind == "float":
            return to_storage(values, dtype) if self.moves else from_shadow(values, dtype).view(dtype.storage)
        return convert_to_int(values, dtype, None, scratch).view(dtype.storage)
