"""The builder of Beta 1 kernels: calls return tiles, and an assignment makes its target the destination.

An instruction that fills a fresh tile is checked when it is called and held back until the next one. If the kernel
assigns the tile in the same statement, the instruction is recorded with the assigned view as its destination; otherwise
the tile enters the program with it. So `x[...] = nisa.f(...)`, `psum += nisa.nc_matmul(...)` and every composite of
`nl` cost no copy, and the assigned tensor's dtype and memory decide.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.frontend import context, language
from nki_lab.kernel_runtime.frontend.issue import Builder, NkiInstruction, placed
from nki_lab.kernel_runtime.frontend.legacy.blocks import BlockTensor, require_tile
from nki_lab.kernel_runtime.frontend.legacy.index import Index
from nki_lab.kernel_runtime.frontend.legacy.mask import Mask
from nki_lab.kernel_runtime.frontend.legacy.subscript import OutsideView, checked, restricted, subscript
from nki_lab.kernel_runtime.frontend.legacy.temporary import assigns_temporary
from nki_lab.kernel_runtime.frontend.legality import fixed_names, legalise, live_names
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor, extent, view_type
from nki_lab.kernel_runtime.tensor.refusal import describe, refuse

Box = tuple[tuple[int, int], ...]

_MATMUL, _ZERO, _OTHER = 1, 2, 4
"""Kinds of writers of a buffer, as bits: accumulating products, fills with zero, anything else."""


class Held:
    """An instruction that waits for its destination.

    `tile` is what the call returned; the instruction writes `box` of it, or all of it where box is None. Without an
    instruction nothing writes the tile: its mask was empty.
    """

    __slots__ = ("box", "fixed", "instruction", "live", "name", "site", "tile")

    def __init__(self, instruction: Instruction | None, live: tuple[Any, ...], fixed: tuple[Any, ...], name: str | None,
                 site: int, tile: NkiTensor) -> None:  # fmt: skip
        self.instruction = instruction
        self.live = live
        self.fixed = fixed
        self.name = name
        self.site = site
        self.tile = tile
        self.box: Box | None = None


class LegacyBuilder(Builder):
    """Records a Beta 1 kernel; see the module for what is held back."""

    elementwise_operators = True

    temporary: bool | None = None
    """Set by who knows, around an assignment: whether its value was computed by the statement. None asks the bytecode."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held: Held | None = None
        self._legal: set[Any] = set()
        self._writers: dict[int, int] = {}
        self._shared: list[NkiTensor] = []
        self._shared_next = -1

    # -- tensors ---------------------------------------------------------------------------------------------------

    def allocate(self, shape: Any, dtype: Any, space: Any, *, name: str = "", address: Any = None,
                 kind: str = "temp") -> NkiTensor:  # fmt: skip
        """A fresh tensor. An on-chip one enters the program with its first access.

        Tensors in shared HBM are the same for every instance of a launch grid: the n-th of one is the n-th of all.
        """
        if kind == "temp" and space is MemoryRegion.shared_hbm and self._shared_next >= 0:
            return self._share(shape, dtype, name)
        tensor = super().allocate(shape, dtype, space, name=name, address=address, kind=kind)
        if kind == "temp" and tensor._buffer.on_chip:
            self.program.buffers.pop()
            tensor._buffer.id = -1
        elif kind == "temp" and space is MemoryRegion.shared_hbm:
            self._shared.append(tensor)
        return tensor

    def start(self, grid: tuple[int, ...], ids: tuple[int, ...]) -> None:
        """Begin the instance `ids` of the launch grid; the first one makes the shared tensors."""
        self.grid, self.program_ids = grid, ids
        self._shared_next = 0 if any(ids) else -1

    def _share(self, shape: Any, dtype: Any, name: str) -> NkiTensor:
        at = self._shared_next
        self._shared_next += 1
        wanted = super().allocate(shape, dtype, MemoryRegion.shared_hbm, name=name)
        self.program.buffers.pop()
        if at < len(self._shared):
            known = self._shared[at]
            if known._shape == wanted._shape and known._dtype is wanted._dtype:
                return known
        raise error_of(
            diagnose(
                "NKI016",
                f"instance {self.program_ids} of the launch grid allocates {describe(wanted)}, which the first did not",
                limit="all instances of a grid allocate the same tensors in shared HBM, in the same order",
                help="allocate shared tensors at the kernel's top level, outside of branches on program_id",
            )
        )

    def view_of(self, tensor: NkiTensor) -> int:
        """Interned number of a view; brings its buffer into the program."""
        if self._held is not None:
            self.sync()
        buffer = tensor._buffer
        if buffer.id < 0 and buffer.owner is self:
            require_tile(tensor)
            buffer.id = len(self.program.buffers)
            self.program.buffers.append(buffer)
        if tensor._indirect is None:
            low, high = extent(tensor._offset, tensor._shape, tensor._strides)
            if low < 0 or high >= buffer.partitions * buffer.row_elements * buffer.dtype.nbytes // tensor._dtype.nbytes:
                raise refuse("NKI303", f"the view reaches from element {low} to {high} of its storage", tensor,
                             limit="views lie inside their tensor")  # fmt: skip
        return super().view_of(tensor)

    def subscript(self, tensor: NkiTensor, key: Any) -> NkiTensor:
        """`tensor[key]` with index expressions."""
        return subscript(tensor, key)

    def read(self, tensor: NkiTensor) -> np.ndarray[Any, Any]:
        """The tensor's values now; a grid of tiles gives them in the grid's shape."""
        if isinstance(tensor, BlockTensor):
            tiles = [self.read(tile) for tile in tensor.tiles()]
            return np.stack(tiles).reshape(tensor._shape)
        view = checked(tensor)
        self.view_of(view)
        return super().read(view)

    def truth(self, tensor: NkiTensor) -> bool:
        """A tensor as a condition: arguments and other HBM tensors are there, and that is all Python can ask."""
        if not tensor._buffer.on_chip:
            return True
        raise refuse("NKI017", f"the tile {describe(tensor)} is used as a condition", tensor,
                     limit="Python decides at specialisation time, from shapes, dtypes and compile-time values",
                     help="test for `is not None`; combine tiles with & and |; select elements with mask= or nl.where",
                     )  # fmt: skip

    def member(self, tensor: NkiTensor, name: str) -> Any:
        """A method of Beta 1 tensors that the current dialect's do not have."""
        from nki_lab.kernel_runtime.frontend.legacy import methods

        return methods.member(tensor, name)

    # -- instructions ----------------------------------------------------------------------------------------------

    def issue(self, instruction: Instruction, live: tuple[Any, ...], fixed: tuple[Any, ...], name: str | None = None,
              ) -> NkiInstruction:  # fmt: skip
        """Record one instruction, or hold it back where it fills a fresh on-chip tile; checked in either case."""
        self.sync()
        for value in live:
            if value.__class__ is OutsideView or value.__class__ is BlockTensor:
                live = tuple([_plain(item) for item in live])
                break
        dst = live[result_position(instruction)]
        if dst.__class__ is NkiTensor and dst._buffer.id < 0 and dst._buffer.owner is self:
            self.check(instruction, live, fixed)
            self._held = Held(instruction, live, fixed, name, self.site(), dst)
            return NkiInstruction(self.program, len(self.program))
        return self._record(instruction, live, fixed, name)

    def _record(self, instruction: Instruction, live: tuple[Any, ...], fixed: tuple[Any, ...], name: str | None,
                ) -> NkiInstruction:  # fmt: skip
        done = super().issue(instruction, live, fixed, name)
        kind = _writer_kind(instruction, live)
        writers = self._writers
        for place in out_positions(instruction):
            value = live[place]
            if value.__class__ is NkiTensor:
                number = value._buffer.id
                writers[number] = writers.get(number, 0) | kind
        return done

    def check(self, instruction: Instruction, live: tuple[Any, ...], fixed: tuple[Any, ...]) -> None:
        """Raise what recording this call would raise; answers are kept by operand types and attributes."""
        key = (instruction, fixed, *[_type_key(value) for value in live])
        try:
            if key in self._legal:
                return
            self._legal.add(key)
        except TypeError:
            key = ()
        try:
            legalise(instruction, live, fixed, self.arch)
        except NkiError:
            self._legal.discard(key)
            raise

    def sync(self) -> None:
        """Record the instruction that is held back."""
        held = self._held
        if held is not None:
            self._held = None
            if held.instruction is not None:
                self._replay(held, held.live, held.fixed)

    def _replay(self, held: Held, live: tuple[Any, ...], fixed: tuple[Any, ...]) -> None:
        assert held.instruction is not None
        former, self.pinned = self.pinned, held.site
        try:
            self._record(held.instruction, live, fixed, held.name)
        except NkiError as error:
            error.diagnostics = tuple(placed(item, self.program.sites[held.site]) for item in error.diagnostics)
            raise
        finally:
            self.pinned = former

    # -- results of calls --------------------------------------------------------------------------------------------

    def widen(self, result: NkiTensor, shape: tuple[int, ...], box: Box) -> NkiTensor:
        """A fresh tile of `shape` of which the call's `result` fills `box`; the rest stays as it is."""
        tile = self.like(result, shape=shape, space=result._buffer.space.value)
        held = self._held
        target = restricted(tile, box)
        if held is not None and held.box is None and held.instruction is not None and result is held.tile:
            place = result_position(held.instruction)
            held.live = (*held.live[:place], target, *held.live[place + 1 :])
            held.tile, held.box = tile, box
        else:
            language.assign(target, result)
            if self._held is not None:
                self._held.tile, self._held.box = tile, box
        return tile

    def unwritten(self, shape: tuple[int, ...], dtype: Any, space: Any) -> NkiTensor:
        """A fresh tile that no instruction fills, as a call under an empty mask returns it."""
        self.sync()
        tile = self.allocate(shape, dtype, space)
        self._held = Held(None, (), (), None, -1, tile)
        return tile

    def _redirect(self, held: Held, target: NkiTensor, value: NkiTensor, **changes: Any) -> bool:
        """Record the held instruction with `target` for its destination; False where it cannot write there.

        `changes` replace attributes of the instruction.
        """
        if held.instruction is None:
            self._held = None
            return True
        if _significant(target._shape) != _significant(value._shape):
            return False
        if held.box is not None and target._shape != held.tile._shape:
            return False
        dst = checked(target) if held.box is None else restricted(target, held.box)
        place = result_position(held.instruction)
        live = (*held.live[:place], dst, *held.live[place + 1 :])
        names = fixed_names(held.instruction)
        fixed = tuple([changes.get(name, item) for name, item in zip(names, held.fixed, strict=True)])
        try:
            self.check(held.instruction, live, fixed)
        except NkiError:
            return False
        self._held = None
        self._replay(held, live, fixed)
        return True

    def _fresh(self, value: Any) -> Held | None:
        """The held instruction, where `value` is its result and the running statement has just computed it."""
        held = self._held
        if held is None or not isinstance(value, NkiTensor) or value._buffer is not held.tile._buffer:
            return None
        if value is not held.tile and (held.box is not None or value.size != held.tile.size):
            return None
        just_computed = assigns_temporary() if self.temporary is None else self.temporary
        return held if just_computed else None

    def assign(self, target: NkiTensor, value: Any) -> None:
        """`target[...] = value`: the value's instruction writes the target, else a copy or fill does."""
        if isinstance(target, BlockTensor):
            self._assign_blocks(target, value)
            return
        if isinstance(value, (Index, Mask)):
            raise refuse("NKI304", "an index expression is assigned to a tensor", target,
                         limit="indices and masks are compile-time values", help="fill a tile with nisa.iota")  # fmt: skip
        assign_into = getattr(value, "assign_into", None)
        if assign_into is not None:
            assign_into(self, target)
            return
        if isinstance(value, NkiTensor) and not isinstance(value, BlockTensor):
            if same_view(target, value):
                return
            held = self._fresh(value)
            if held is not None and self._redirect(held, target, value, accumulate=False):
                return
            if held is not None and held.box is not None and target._shape == value._shape:
                self.sync()
                target, value = restricted(target, held.box), restricted(value, held.box)
            self.copy_into(checked(target), checked(value))
            return
        if isinstance(value, (Number, np.generic)):
            language.fill(checked(target), value.item() if isinstance(value, np.generic) else value)
            return
        raise error_of(
            diagnose("NKI013", f"a {type(value).__name__} is assigned to a tensor", note=describe(target),
                     limit="tensors and numbers are assigned", help="pass arrays as arguments of the kernel")
        )  # fmt: skip

    def _assign_blocks(self, target: BlockTensor, value: Any) -> None:
        if not isinstance(value, (Number, np.generic)):
            require_tile(target)
        for tile in target.tiles():
            self.assign(tile, value)

    def copy_into(self, target: NkiTensor, value: NkiTensor) -> None:
        """Record the copy of a tensor, repeated along its size-1 dimensions, into a view."""
        require_tile(value)
        if target._shape != value._shape and target.size != value.size:
            value = fitted(value, target)
        language.assign(target, value)

    def inplace(self, name: str, tensor: NkiTensor, other: Any) -> NkiTensor:
        """`tensor name= other`: one instruction that reads and writes the tensor.

        A matrix product added to PSUM is accumulated by the Tensor Engine: the first one overwrites what nothing or
        only zeros have been written to.
        """
        require_tile(tensor)
        if hasattr(other, "assign_into"):
            other = other.value()
        held = self._fresh(other)
        if held is not None and held.instruction is None:
            self._held = None
            return tensor
        if (
            held is not None and name == "add" and held.instruction is not None
            and held.instruction.accumulates is not None and tensor._buffer.space is MemoryRegion.psum
        ):  # fmt: skip
            foreign = self._writers.get(tensor._buffer.id, 0) & _OTHER
            if self._redirect(held, tensor, other, accumulate=True if foreign else None):
                return tensor
        if held is not None and held.box is not None and tensor._shape == other._shape:
            self.sync()
            view, other = restricted(tensor, held.box), restricted(other, held.box)
        else:
            view = checked(tensor)
        result = self.operator(name, view, other)
        held = self._held
        if held is None or held.tile is not result or not self._redirect(held, view, result):
            self.copy_into(view, result)
        return tensor

    def operator(self, name: str, left: Any, right: Any, reflected: bool = False) -> Any:
        """`left name right` on tiles: free dimensions of size 1 repeat, partitions do not."""
        from nki_lab.kernel_runtime.frontend.legacy import elementwise

        if reflected:
            left, right = right, left
        return elementwise.operator(self, name, left, right)

    def written(self, tensor: NkiTensor) -> bool:
        """Whether an instruction has written to the tensor's storage."""
        self.sync()
        return tensor._buffer.id in self._writers or tensor._buffer.kind in ("input", "const")


def current(what: str) -> LegacyBuilder:
    """The builder of the Beta 1 kernel being specialised; NKI605 in a kernel of the current dialect."""
    builder = context.current(what)
    if isinstance(builder, LegacyBuilder):
        return builder
    raise error_of(
        diagnose(
            "NKI605",
            f"neuronxcc's {what} is called in a kernel of the current dialect",
            limit="a kernel uses either nki or neuronxcc.nki",
            help=f"import {what.split('.')[0]} from nki, or decorate the kernel with neuronxcc.nki.jit",
        )
    )


def same_view(a: NkiTensor, b: NkiTensor) -> bool:
    """Whether two tensors are the same elements in the same order."""
    return (
        a._buffer is b._buffer and a._offset == b._offset and a._shape == b._shape and a._strides == b._strides
        and a._dtype is b._dtype and a._indirect is b._indirect
    )  # fmt: skip


def fitted(value: NkiTensor, target: NkiTensor) -> NkiTensor:
    """`value` repeated to the target's shape; NKI203 where it is larger or of other sizes."""
    view = value
    while len(view._shape) < len(target._shape):
        view = view.expand_dim(min(1, len(view._shape)))
    try:
        return language.broadcast_to(view, target._shape)
    except (NkiError, IndexError):
        raise error_of(
            diagnose(
                "NKI203",
                f"a value of shape {tuple(value._shape)} is assigned to {tuple(target._shape)}",
                limit="sizes are equal; free dimensions of size 1 repeat",
                help="assign to a part of the target, or reshape the value",
            )
        ) from None


def _significant(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Partition size and the free sizes that are not 1."""
    return (shape[0], *[size for size in shape[1:] if size != 1])


def _plain(value: Any) -> Any:
    if isinstance(value, BlockTensor):
        require_tile(value)
    return checked(value) if isinstance(value, NkiTensor) else value


def _type_key(value: Any) -> Any:
    return view_type(value) if value.__class__ is NkiTensor else (value.__class__, value)


_POSITIONS: dict[int, tuple[int, tuple[int, ...]]] = {}


def _positions(instruction: Instruction) -> tuple[int, tuple[int, ...]]:
    found = _POSITIONS.get(instruction.index)
    if found is None:
        names = live_names(instruction)
        outs = tuple(k for k, name in enumerate(names) if instruction.operands[name].role == "out")
        found = _POSITIONS[instruction.index] = (outs[0], outs)
    return found


def result_position(instruction: Instruction) -> int:
    """Place of the destination among an instruction's live operands."""
    return _positions(instruction)[0]


def out_positions(instruction: Instruction) -> tuple[int, ...]:
    """Places of everything the instruction writes among its live operands."""
    return _positions(instruction)[1]


def _writer_kind(instruction: Instruction, live: tuple[Any, ...]) -> int:
    if instruction.accumulates is not None:
        return _MATMUL
    return _ZERO if instruction.name == "memset" and live[-1] == 0 else _OTHER

