"""Assignments of Beta 1 kernels: what a call returned is written where it is assigned.

In `x[...] = nisa.f(...)` and `psum += nisa.nc_matmul(...)`, the instruction that the builder holds back gets the
assigned view for its destination, where it can write there; otherwise its result is copied.
"""

from __future__ import annotations

from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.kernel_runtime.beta1.blocks import BlockTensor, require_tile
from nki_lab.kernel_runtime.beta1.builder import DeferringBuilder
from nki_lab.kernel_runtime.beta1.deferred import OTHER, Deferred, result_position
from nki_lab.kernel_runtime.beta1.elementwise import operator
from nki_lab.kernel_runtime.beta1.index import Index, Mask
from nki_lab.kernel_runtime.beta1.subscript import checked, restricted
from nki_lab.kernel_runtime.beta1.user_code import computes_what_it_assigns
from nki_lab.kernel_runtime.issue.legality import fixed_names
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor
from nki_lab.kernel_runtime.tensor.refusal import describe, refuse


class LoopReduction(NamedTuple):
    """The result of `nl.loop_reduce`: a tile that its assignment target accumulates with `op`."""

    tile: NkiTensor
    op: str


def redirect(
    builder: DeferringBuilder, deferred: Deferred, target: NkiTensor, value: NkiTensor, **changes: Any
) -> bool:
    """Record the deferred instruction with `target` for its destination; False where it cannot write there.

    `changes` replace attributes of the instruction.
    """
    if deferred.instruction is None:
        builder.deferred = None
        return True
    other_box = deferred.box is not None and target._shape != deferred.tile._shape
    if other_box or not _takes(target, value, flattened=deferred.instruction.accumulation is not None):
        return False
    dst = checked(target) if deferred.box is None else restricted(target, deferred.box)
    place = result_position(deferred.instruction)
    live = (*deferred.live[:place], dst, *deferred.live[place + 1 :])
    fixed = deferred.fixed
    if not changes.keys().isdisjoint(names := fixed_names(deferred.instruction)):
        fixed = tuple([changes.get(name, item) for name, item in zip(names, fixed, strict=True)])
    try:
        builder.check(deferred.instruction, live, fixed)
    except NkiError:
        return False
    builder.deferred = None
    builder.replay(deferred, live, fixed)
    return True


def computed_here(builder: DeferringBuilder, value: Any) -> Deferred | None:
    """The deferred instruction, where `value` is its result and the running statement has just computed it."""
    deferred = builder.deferred
    if deferred is None or not isinstance(value, NkiTensor) or value._buffer is not deferred.tile._buffer:
        return None
    if value is not deferred.tile and (deferred.box is not None or value.size != deferred.tile.size):
        return None
    # Without source text nothing is known, and a copy is right in any case.
    just_computed = computes_what_it_assigns() if builder.temporary is None else builder.temporary
    return deferred if just_computed else None


def assign(builder: DeferringBuilder, target: NkiTensor, value: Any) -> None:
    """`target[...] = value`: the value's instruction writes the target, else a copy or fill does."""
    if isinstance(target, BlockTensor):
        if not isinstance(value, (Number, np.generic)):
            require_tile(target)
        for tile in target.tiles():
            assign(builder, tile, value)
        return
    if isinstance(value, (Index, Mask)):
        raise refuse(
            "NKI304",
            "an index expression is assigned to a tensor",
            target,
            limit="indices and masks are compile-time values",
            help="fill a tile with nisa.iota",
        )
    if isinstance(value, LoopReduction):
        if builder.written(target):
            inplace(builder, value.op, target, value.tile)
        else:  # a target that nothing has written takes the tile
            copy_into(checked(target), checked(value.tile))
        return
    if isinstance(value, NkiTensor):
        require_tile(value)
        if same_view(target, value):
            return
        deferred = computed_here(builder, value)
        if deferred is not None and redirect(builder, deferred, target, value, accumulate=False):
            return
        if deferred is not None and deferred.box is not None and target._shape == value._shape:
            builder.sync()
            target, value = restricted(target, deferred.box), restricted(value, deferred.box)
        if value._buffer.on_chip and value._indirect is not None:
            raise refuse(
                "NKI309",
                "a view with a run-time index is assigned",
                value,
                limit="assignments copy views with static addresses",
                help="write target[...] = nisa.tensor_copy_dynamic_src(source[...])",
            )
        copy_into(checked(target), checked(value))
        return
    if isinstance(value, (Number, np.generic)):
        operations.fill(checked(target), value.item() if isinstance(value, np.generic) else value)
        return
    raise coded_error(
        "NKI013",
        f"a {type(value).__name__} is assigned to a tensor",
        note=describe(target),
        limit="tensors and numbers are assigned",
        help="pass arrays as arguments of the kernel",
    )


def copy_into(target: NkiTensor, value: NkiTensor) -> None:
    """Record the copy of a tensor, repeated along its size-1 dimensions, into a view."""
    if target._shape != value._shape and target.size != value.size:
        value = fitted(value, target)
    operations.assign(target, value)


def inplace(builder: DeferringBuilder, name: str, tensor: NkiTensor, other: Any) -> NkiTensor:
    """`tensor name= other`: one instruction that reads and writes the tensor.

    A matrix product added to PSUM is accumulated by the Tensor Engine: the first one overwrites what nothing or
    only zeros have been written to.
    """
    require_tile(tensor)
    other = other.tile if isinstance(other, LoopReduction) else other
    deferred = computed_here(builder, other)
    if deferred is not None and deferred.instruction is None:
        builder.deferred = None
        return tensor
    if (
        deferred is not None
        and name == "add"
        and deferred.instruction is not None
        and deferred.instruction.accumulation is not None
        and tensor._buffer.space is MemoryRegion.psum
    ):
        foreign = builder.writers.get(tensor._buffer.id, 0) & OTHER
        if redirect(builder, deferred, tensor, other, accumulate=True if foreign else None):
            return tensor
    if deferred is not None and deferred.box is not None and tensor._shape == other._shape:
        builder.sync()
        view, other = restricted(tensor, deferred.box), restricted(other, deferred.box)
    else:
        view = checked(tensor)
    result = operator(name, view, other)
    deferred = builder.deferred
    if deferred is None or deferred.tile is not result or not redirect(builder, deferred, view, result):
        copy_into(view, result)
    return tensor


def same_view(a: NkiTensor, b: NkiTensor) -> bool:
    """Whether two tensors are the same elements in the same order."""
    return (
        a._buffer is b._buffer
        and a._offset == b._offset
        and a._shape == b._shape
        and a._strides == b._strides
        and a._dtype is b._dtype
        and a._indirect is b._indirect
    )


def fitted(value: NkiTensor, target: NkiTensor) -> NkiTensor:
    """`value` repeated to the target's shape; NKI203 where it is larger or of other sizes."""
    view = value
    while len(view._shape) < len(target._shape):
        view = view.expand_dim(min(1, len(view._shape)))
    try:
        return operations.broadcast_to(view, target._shape)
    except (NkiError, IndexError):
        raise coded_error(
            "NKI203",
            f"a value of shape {tuple(value._shape)} is assigned to {tuple(target._shape)}",
            limit="sizes are equal; free dimensions of size 1 repeat",
            help="assign to a part of the target, or reshape the value",
        ) from None


def _takes(target: NkiTensor, value: NkiTensor, *, flattened: bool) -> bool:
    """Return whether a tile's instruction can write a target; matrix products count columns, whatever their shape."""
    if flattened:
        return target._shape[0] == value._shape[0] and target.size == value.size
    return _significant(target._shape) == _significant(value._shape)


def _significant(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Partition size and the free sizes that are not 1."""
    return (shape[0], *[size for size in shape[1:] if size != 1])
