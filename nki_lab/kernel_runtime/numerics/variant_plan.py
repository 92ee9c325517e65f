"""How one variant is executed: its arithmetic with the conversions that the operands' bindings ask for.

A recipe is made once for each variant and combination of bindings. Where all operands are presented as they lie in
memory the step is a plain call; otherwise a general step gathers, converts, computes, rounds and writes back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import BF16, F16, F32, FP8, FP8_E8M0, TF32, DType, grid_contains
from nki_lab.isa.spec import Unmodelled, Use
from nki_lab.kernel_runtime.ir import Variant, View
from nki_lab.kernel_runtime.numerics.conform import Presented, present
from nki_lab.kernel_runtime.numerics.indirect import Resolver
from nki_lab.kernel_runtime.numerics.program_plan import copies_as_it_is
from nki_lab.kernel_runtime.numerics.rounding import (
    Scratch,
    convert_to_int,
    from_shadow,
    round_into,
    round_to,
    to_shadow,
    to_storage,
)
from nki_lab.kernel_runtime.numerics.storage import BYTES, NATIVE, SHADOW, Bound, unit_of, window

Array = NDArray[Any]
ndarray: Final[Any] = np.ndarray
Step = tuple[Callable[..., Any], tuple[Any, ...]]

KEPT_WIDE: Final = frozenset({BF16, TF32, FP8_E8M0, *FP8})
"""Dtypes that stay in float32 without `precise`; float16 is rounded all the same (Beta 1 simulated it natively)."""


_HALVES: Final = np.dtype(
    {"names": ["upper"], "formats": [np.uint16], "offsets": [2 if sys.byteorder == "little" else 0], "itemsize": 4}
)


class State:
    """What instructions remember between calls: accumulation registers, and how the matmul at hand treats dst."""

    __slots__ = ("add", "random", "scalar_accumulators", "values", "vector_accumulators")

    def __init__(self, registers: Registers, add: Any = False) -> None:
        self.scalar_accumulators = registers.scalar
        self.vector_accumulators = registers.vector
        self.random = registers.random
        self.values = registers.values
        self.add = add


class Registers:
    """The engines' own state, a row for each of `lanes` partitions: float32 accumulators, and generators.

    `random` holds the 24 words of each engine's random generator, by engine; NKI documents none after power-up.
    `values` are the contents of the sequencers' registers by number, where anything has been written. `mail` is what
    one side of an exchange between cores has brought for the other one, by the op that takes it.
    """

    __slots__ = ("mail", "random", "scalar", "values", "vector")

    def __init__(self, lanes: int) -> None:
        self.scalar = np.zeros(lanes, np.float32)
        self.vector = np.zeros(lanes, np.float32)
        self.random: dict[str, Array] = {}
        self.values: dict[int, int | float] = {}
        self.mail: dict[int, tuple[int, Array]] = {}

    def copy(self) -> Registers:
        """The state as it is now."""
        twin = Registers(len(self.scalar))
        twin.restore(self)
        return twin

    def restore(self, other: Registers) -> None:
        """Take over the state of another, in place."""
        self.scalar[...], self.vector[...] = other.scalar, other.vector
        self.random.clear()
        self.random.update({engine: words.copy() for engine, words in other.random.items()})
        self.values.clear()
        self.values.update(other.values)
        self.mail.clear()
        self.mail.update(other.mail)  # nothing writes these arrays


class VariantPlan:
    """The execution of a variant under given bindings."""

    __slots__ = (
        "casts",
        "compute",
        "direct",
        "empty",
        "kinds",
        "layout",
        "moves",
        "numerics",
        "pairs",
        "presented",
        "rounds",
        "stores",
        "use",
        "variant",
    )

    def __init__(self, variant: Variant, kinds: tuple[int, ...], precise: bool) -> None:
        self.variant = variant
        self.kinds = kinds
        self.use: Use = variant.use
        numerics = variant.instruction.numerics
        assert not isinstance(numerics, Unmodelled)
        self.numerics = numerics
        presented = present(variant.instruction, variant.use)
        self.presented: list[Presented] = [presented[name] for name in variant.names]
        declared = variant.instruction.precision(variant.use)
        self.compute = self._compute_in(declared)
        self.moves = declared == "native" and precise
        self.rounds = [self._rounding(i, precise) for i in range(len(variant.names))]
        self.layout = [self._laid_out(i) for i in range(len(variant.names))]
        written = [i for i, is_out in enumerate(variant.outs) if is_out]
        self.pairs = [
            (i, j) for i in written for j, is_out in enumerate(variant.outs) if j > i or (j < i and not is_out)
        ]
        self.empty: dict[str, Any] = {
            name: self._number(name) for name, operand in variant.instruction.operands.items()
            if operand.is_tensor and name not in variant.names
        }  # fmt: skip
        self.direct = all(
            shown.strides is not None and self._as_is(i) for i, shown in enumerate(self.presented)
        ) and not any(view is not None and view.indirect for view in variant.use.types.values())
        self.casts = self.compute == "float32" and self._casts()
        self.stores = precise and kinds == (NATIVE, SHADOW) and self._stores()
        self.direct |= self.stores

    def _number(self, name: str) -> Any:
        """A number in the place of a tile, in the precision of the computation; None for an absent operand."""
        number = self.use.value(name)
        return number if number is None or self.compute != "float32" else np.float32(number)

    def _casts(self) -> bool:
        """Whether this is a copy that rounds."""
        copies = self.variant.instruction.role == "copy"
        shapes = {shown.shape for shown in self.presented}
        return copies and self.rounds[0] is not None and self.variant.names == ("dst", "src") and len(shapes) == 1

    def _stores(self) -> bool:
        """Whether this is a plain copy of a bfloat16 tile to where it lies at true width."""
        dtypes = {self._dtype(0), self._dtype(1)}
        laid = all(shown.strides is not None for shown in self.presented)
        return copies_as_it_is(self.variant) and dtypes == {BF16} and laid

    def _laid_out(self, position: int) -> tuple[Any, ...]:
        """Of an operand: name, shape, element strides, byte strides, NumPy dtype, whether it is written, rounding."""
        shape, strides = self.presented[position]
        unit = unit_of(self.kinds[position], self._dtype(position))
        steps = None if strides is None else tuple(step * unit.itemsize for step in strides)
        kind = np.dtype(f"u{self._dtype(position).nbytes}") if self.compute == "bits" else unit
        name, into = self.variant.names[position], self.variant.outs[position]
        return name, shape, strides, steps, kind, into, self.rounds[position]

    def _compute_in(self, declared: str) -> str:
        """float32, bits, or native; a same-dtype move between different bindings goes through float32, exactly."""
        if declared == "native" and len(set(self.kinds)) > 1:
            floats = all(view is None or view.dtype.is_float for view in self.use.types.values())
            return "float32" if floats else "native"
        return declared

    def _as_is(self, position: int) -> bool:
        kind = self.kinds[position]
        if self.compute == "float32":
            return kind == SHADOW
        return kind in (SHADOW, NATIVE) or self._dtype(position).kind != "float"

    def _dtype(self, position: int) -> DType:
        view = self.use.types[self.variant.names[position]]
        assert view is not None
        dtype: DType = view.dtype
        return dtype

    def _rounding(self, position: int, precise: bool) -> DType | None:
        """The dtype that an output in a shadow must be rounded to, if its values may lie off the grid."""
        if not self.variant.outs[position] or self.kinds[position] != SHADOW:
            return None
        dtype = self._dtype(position)
        if dtype is F32 or (not precise and dtype in KEPT_WIDE):
            return None
        # float8_e8m0fnu has no zero, which selecting operators may give.
        if dtype is not FP8_E8M0 and self.variant.instruction.exact(self.use):
            sources = [self._dtype(i) for i, is_out in enumerate(self.variant.outs) if not is_out]
            wide = not precise and any(source in KEPT_WIDE for source in sources)
            if not (wide and dtype is F16) and all(grid_contains(dtype, source) for source in sources):
                return None
        return dtype

    def clashes(self, views: list[View], bounds: list[Bound]) -> bool:
        """Whether an output shares memory with another operand that is not the very same view."""
        return any(bounds[i].flat is bounds[j].flat and views[i] is not views[j] for i, j in self.pairs)

    def steps(self, views: list[View], bounds: list[Bound], state: State, scratch: Scratch,
              resolver: Resolver) -> list[Step]:  # fmt: skip
        """The calls that execute one op."""
        if not self.direct or self.clashes(views, bounds):
            return [(self._general, (views, bounds, state, scratch, resolver))]
        if self.stores:
            return [self._store(views, bounds)]
        ins = self.empty.copy()
        outs = self.empty.copy()
        rounding: list[Step] = []
        for view, bound, layout in zip(views, bounds, self.layout, strict=True):
            name, shape, strides, steps, kind, into, dtype = layout
            if bound.pitch == bound.row and bound.kind != BYTES:
                # The inner loop of planning: `window` for a dense binding, with the byte strides worked out before.
                array = ndarray(shape, kind, bound.flat, (bound.base + view.offset) * bound.unit, steps)
            else:
                array = window(bound, view.type.dtype, view.offset, shape, strides)
                if self.compute == "bits":
                    array = array.view(kind)
            if not into:
                ins[name] = array
                continue
            outs[name] = array
            if dtype is not None:
                rounding.append((round_to, (array, dtype, scratch)))
        if self.casts:
            return [(round_into, (outs["dst"], ins["src"], self.rounds[0], scratch))]
        call: Step = (self.numerics, (SimpleNamespace(**outs), SimpleNamespace(**ins), self.use, state))
        return [call, *rounding]

    def _store(self, views: list[View], bounds: list[Bound]) -> Step:
        """The upper halves of a shadow's numbers are those of true width: the lower ones are zero."""
        wide, narrow = (
            window(bounds[i], BF16, views[i].offset, self.presented[i].shape, self.presented[i].strides or ())
            for i in (1, 0)
        )
        return (np.copyto, (narrow.view(np.uint16), wide.view(_HALVES)["upper"]))

    def _general(self, views: list[View], bounds: list[Bound], state: State, scratch: Scratch,
                 resolver: Resolver) -> None:  # fmt: skip
        ins: dict[str, Any] = self.empty.copy()
        outs: dict[str, Any] = self.empty.copy()
        written: list[tuple[int, Array]] = []
        valid: Array | None = None
        for position, (name, is_out) in enumerate(zip(self.variant.names, self.variant.outs, strict=True)):
            view, bound = views[position], bounds[position]
            dtype = view.type.dtype
            if is_out:
                outs[name] = np.empty(self.presented[position].shape, self._working(position))
                if self.variant.instruction.updates(self.use):
                    old, _ = resolver.read(view, bound, self.use)
                    outs[name][...] = self._taken(position, old).reshape(outs[name].shape)
                written.append((position, outs[name]))
                continue
            part, kept = resolver.read(view, bound, self.use)
            valid = kept if valid is None else valid
            taken = self._taken(position, part)
            ins[name] = _shaped(taken, self.presented[position].shape, dtype)
        merges = self.variant.instruction.merges
        if merges is not None and merges(self.use):
            ins["kept"], valid = valid, None  # the instruction itself leaves out what is outside
        self.numerics(SimpleNamespace(**outs), SimpleNamespace(**ins), self.use, state)
        for position, result in written:
            self._write(position, views[position], bounds[position], result, scratch, resolver, valid)

    def _working(self, position: int) -> Any:
        if self.compute == "float32":
            return np.float32
        storage = self._dtype(position).storage
        if self.compute == "bits":
            return np.dtype(f"u{storage.itemsize}")
        return np.float32 if self.kinds[position] == SHADOW else storage

    def _taken(self, position: int, part: Array) -> Array:
        """An operand's elements in the precision of the computation."""
        if self.compute == "bits":
            return np.ascontiguousarray(part).view(np.dtype(f"u{part.dtype.itemsize}"))
        if self.compute == "float32" and self.kinds[position] != SHADOW:
            return to_shadow(np.ascontiguousarray(part), self._dtype(position))
        return part

    def _write(self, position: int, view: View, bound: Bound, result: Array, scratch: Scratch, resolver: Resolver,
               valid: Array | None) -> None:  # fmt: skip
        dtype = self._dtype(position)
        values = result.reshape(view.type.shape)
        if self.compute == "bits":
            values = values.view(dtype.storage)
        elif self.compute == "float32" or self.kinds[position] == SHADOW:
            values = self._narrowed(position, values, dtype, scratch)
        resolver.write(view, bound, values, self.use, valid)

    def _narrowed(self, position: int, values: Array, dtype: DType, scratch: Scratch) -> Array:
        if self.kinds[position] == SHADOW:
            wanted = self.rounds[position]
            return values if wanted is None else round_to(values, wanted, scratch)
        if dtype.kind == "float":
            return to_storage(values, dtype) if self.moves else from_shadow(values, dtype).view(dtype.storage)
        return convert_to_int(values, dtype, None, scratch).view(dtype.storage)


def _shaped(values: Array, shape: tuple[int, ...], _dtype: DType) -> Array:
    if values.shape == shape:
        return values
    return np.ascontiguousarray(values).reshape(shape)
