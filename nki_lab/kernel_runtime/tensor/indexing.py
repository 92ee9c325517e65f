"""NumPy-style keys address views in `tensor[key]`, `slice` and a static `select`; other keys are refused."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.tensor.buffer import integer_of
from nki_lab.kernel_runtime.tensor.indirect import dynamic_select, dynamic_slice, moved
from nki_lab.kernel_runtime.tensor.refusal import elements, refuse
from nki_lab.kernel_runtime.tensor.register import VirtualRegister
from nki_lab.kernel_runtime.tensor.strided_view import Indirect, StridedView
from nki_lab.printable import shown

KEY_RULE = "a key is made of integers, registers, slices, nl.ds(start, size) and at most one ..."


@dataclass(slots=True, eq=False, repr=False)
class DynamicSlice:
    """`nl.ds(start, size)`: `size` elements from `start`, which may be a register or loop variable."""

    start: object
    size: object

    def __repr__(self) -> str:
        return f"ds({self.start!r}, {self.size!r})"


ds = DynamicSlice


Indexed = tuple[tuple[int, ...], tuple[int, ...], int, Indirect | None]
"""Shape, strides, offset and run-time index of an indexed view."""

_FULL = slice(None)


def resolve(tensor: StridedView, key: object, faults: list[NkiError] | None = None) -> Indexed:
    """Return the view `tensor[key]`.

    Slices that leave their dimension or are empty raise NKI303, or append it to `faults` where that is given.

    An integer drops its dimension, and so does a register, as `select` does. On-chip, dimension 0 stays as size 1, and
    so does the last free dimension indexed by an integer where fewer than two dimensions would remain; in HBM the last
    dimension stays where none would.
    """
    shape, strides = tensor._shape, tensor._strides
    offset = tensor._offset
    keys = key if type(key) is tuple else (key,)
    rank = len(shape)
    if len(keys) != rank:
        keys = _expanded(tensor, keys)
    on_chip = tensor._buffer.on_chip
    indirect = tensor._indirect
    frozen = -1 if indirect is None or indirect.frozen_dim is None else indirect.frozen_dim
    sizes: list[int] = []
    steps: list[int] = []
    place = -1
    dropped = -1
    dropped_at = 0
    for dim in range(rank):
        item, size, step = keys[dim], shape[dim], strides[dim]
        kind = type(item)
        if kind is slice:
            start, count, stride = _slice_range(tensor, dim, item, size, faults)
        elif kind is int:
            start, count, stride = _wrapped(tensor, dim, item, size), 1, 1
            if dim or not on_chip:
                if dim == frozen:
                    raise _frozen(tensor, dim)
                offset += start * step
                dropped, dropped_at = dim, len(sizes)
                continue
        elif kind is DynamicSlice and isinstance(item.start, VirtualRegister):
            count, stride, start = _ds_size(tensor, dim, item, size, faults), 1, 0
            indirect = dynamic_slice(_pending(tensor, indirect), dim, item.start, count)
            place = len(sizes)
        elif kind is DynamicSlice:
            count, stride = _ds_size(tensor, dim, item, size, faults), 1
            start = _ds_start(tensor, dim, item, size, count, faults)
        elif item is Ellipsis:
            return resolve(tensor, _expanded(tensor, keys), faults)
        elif kind is VirtualRegister:
            indirect = dynamic_select(_pending(tensor, indirect), dim, item)
            dropped, dropped_at = dim, len(sizes)
            continue
        else:
            return resolve(tensor, (*keys[:dim], _integer_key(tensor, dim, item), *keys[dim + 1 :]), faults)
        if dim == frozen:
            if count != size:
                raise _frozen(tensor, dim)
            place = len(sizes)
        offset += start * step
        sizes.append(count)
        steps.append(step * stride if count != 1 else step)
    if dropped >= 0 and len(sizes) < (2 if on_chip else 1):
        sizes.insert(dropped_at, 1)
        steps.insert(dropped_at, strides[dropped])
    if indirect is not None and place >= 0:
        indirect = moved(indirect, place)
    return tuple(sizes), tuple(steps), offset, indirect


def _pending(tensor: StridedView, indirect: Indirect | None) -> StridedView:
    """Return the tensor; refuse it where an earlier part of the same key has a run-time index."""
    if indirect is not None and tensor._indirect is None:
        raise refuse(
            "NKI309",
            "two nl.ds with run-time starts in one key",
            tensor,
            limit="one run-time index per view",
            help="copy the first selection into a tile, then index the tile",
        )
    return tensor


def _expanded(tensor: StridedView, keys: tuple[object, ...]) -> tuple[object, ...]:
    """Return `keys` with `...` and the omitted trailing dimensions written out."""
    rank = len(tensor._shape)
    dots = [position for position, item in enumerate(keys) if item is Ellipsis]
    if len(dots) > 1:
        raise refuse("NKI304", f"{len(dots)} ellipses in one key", tensor, limit=KEY_RULE)
    given = len(keys) - len(dots)
    if given > rank:
        for dim, item in enumerate(keys):
            if item is None:
                raise _bad_key(tensor, dim, item)
        raise refuse(
            "NKI303",
            f"{given} indices for the {rank} dimensions of {tensor._shape}",
            tensor,
            limit="at most one index per dimension",
        )
    fill = (_FULL,) * (rank - given)
    return keys[: dots[0]] + fill + keys[dots[0] + 1 :] if dots else keys + fill


def _defer(error: NkiError, faults: list[NkiError] | None) -> None:
    """Keep the fault of a view until something uses the view; raise it where faults are not collected."""
    if faults is None:
        raise error
    faults.append(error)


def _slice_range(
    tensor: StridedView, dim: int, item: slice, size: int, faults: list[NkiError] | None
) -> tuple[int, int, int]:
    """Return the start, count and step of a slice; explicit bounds must lie inside the dimension."""
    start, stop, step = item.start, item.stop, item.step
    if type(start) is not int:
        start = 0 if start is None else _bound(tensor, dim, start)
    if type(stop) is not int:
        stop = size if stop is None else _bound(tensor, dim, stop)
    if step is None:
        step = 1
    else:
        if type(step) is not int:
            step = _bound(tensor, dim, step)
        if step < 1:
            raise refuse(
                "NKI303",
                f"slice {_spelled(item)} of dimension {dim} steps by {step}",
                tensor,
                limit="step >= 1",
                help="reversed access has no view; a negative step in ap() has one" if step < 0 else "",
            )
    first = start + size if start < 0 else start
    last = stop + size if stop < 0 else stop
    if not 0 <= first < last <= size:
        _defer(_bad_slice(tensor, dim, _spelled(item), first, last, size), faults)
        last = max(first, last)
    return first, (last - first + step - 1) // step, step


def _spelled(item: slice) -> str:
    parts = ["" if part is None else repr(part) for part in (item.start, item.stop)]
    if item.step is not None:
        parts.append(repr(item.step))
    return ":".join(parts)


def _bad_slice(tensor: StridedView, dim: int, spelled: str, first: int, last: int, size: int) -> NkiError:
    if 0 <= first <= size and last <= first:
        return refuse(
            "NKI303",
            f"{spelled} of dimension {dim} is empty",
            tensor,
            limit=f"start < stop <= {size}, the size of dimension {dim}",
            measured=(first + 1, last),
        )
    return refuse(
        "NKI303",
        f"{spelled} runs outside dimension {dim}, which has {elements(size)}",
        tensor,
        limit=f"0 <= start < stop <= {size}; bounds are not clipped",
        help=f"stop at min(stop, {size})" if last > size > first >= 0 else "",
        measured=(last, size),
    )


def _bound(tensor: StridedView, dim: int, bound: object) -> int:
    if isinstance(bound, VirtualRegister):
        raise refuse(
            "NKI304",
            f"a slice of dimension {dim} is bounded by {shown(bound)}",
            tensor,
            limit="slice bounds are compile-time integers",
            help="a run-time start of fixed length is nl.ds(start, size)",
        )
    if isinstance(bound, StridedView):
        raise refuse(
            "NKI304",
            f"a slice of dimension {dim} is bounded by a tensor",
            tensor,
            limit="slice bounds are compile-time integers",
            help="register_load the value and slice with nl.ds(register, size), or use ap(scalar_offset=...)",
        )
    value = integer_of(bound)
    if value is None:
        raise refuse(
            "NKI304",
            f"a slice of dimension {dim} is bounded by {shown(bound)}, a {type(bound).__name__}",
            tensor,
            limit="slice bounds are compile-time integers",
            help="divide with // for an integer" if isinstance(bound, float) else "",
        )
    return value


def _wrapped(tensor: StridedView, dim: int, index: int, size: int) -> int:
    """Return a possibly negative index as a position in 0..size-1."""
    position = index + size if index < 0 else index
    if 0 <= position < size:
        return position
    raise refuse(
        "NKI303",
        f"index {index} of dimension {dim}, which has {elements(size)}",
        tensor,
        limit=f"{-size} <= index < {size}",
        measured=(position + 1, size),
    )


def _ds_size(tensor: StridedView, dim: int, item: DynamicSlice, size: int, faults: list[NkiError] | None) -> int:
    count = integer_of(item.size)
    if count is None:
        raise refuse(
            "NKI304",
            f"nl.ds size of dimension {dim} is a {type(item.size).__name__}",
            tensor,
            limit="the size of nl.ds is a compile-time integer",
        )
    if not 1 <= count <= size:
        _defer(_bad_slice(tensor, dim, f"nl.ds size {count}", 0, count, size), faults)
    return max(0, count)


def _ds_start(
    tensor: StridedView, dim: int, item: DynamicSlice, size: int, count: int, faults: list[NkiError] | None
) -> int:
    if isinstance(item.start, StridedView):
        raise refuse(
            "NKI304",
            f"nl.ds starts dimension {dim} at a tensor",
            tensor,
            limit="nl.ds starts at an integer, a register or a loop variable",
            help="register_load the value, or use ap(scalar_offset=tensor)",
        )
    start = integer_of(item.start)
    if start is None:
        raise refuse(
            "NKI304",
            f"nl.ds starts dimension {dim} at a {type(item.start).__name__}",
            tensor,
            limit="nl.ds starts at an integer, a register or a loop variable",
        )
    if start < 0 or start + count > size:
        _defer(_bad_slice(tensor, dim, repr(item), start, start + count, size), faults)
    return start


def _integer_key(tensor: StridedView, dim: int, item: object) -> int:
    """Return a key that is neither slice nor plain int as an integer, or refuse it."""
    if not isinstance(item, VirtualRegister | StridedView):
        value = integer_of(item)
        if value is not None:
            return value
    raise _bad_key(tensor, dim, item)


def _bad_key(tensor: StridedView, dim: int, item: object) -> NkiError:
    if isinstance(item, StridedView):
        what = "a tensor"
        help_text = (
            f"rows picked by a tensor: vector_select({dim}, index) or ap(vector_offset=index); "
            f"one index: select({dim}, index)"
        )
    elif item is None:
        what, help_text = "None", f"insert a dimension of size 1 with expand_dim({dim})"
    elif isinstance(item, bool):
        what, help_text = "a bool", "masks are no keys"
    elif isinstance(item, float):
        what, help_text = f"the float {item!r}", "divide with // for an integer"
    elif hasattr(item, "__array__") or isinstance(item, list):
        what = f"a {type(item).__name__}"
        help_text = "arrays and masks are no keys; slice, or gather with vector_select"
    else:
        what, help_text = f"a {type(item).__name__}", ""
    return refuse("NKI304", f"dimension {dim} is indexed by {what}", tensor, limit=KEY_RULE, help=help_text)


def _frozen(tensor: StridedView, dim: int) -> NkiError:
    return refuse(
        "NKI309",
        f"dimension {dim} takes part in the view's run-time addressing",
        tensor,
        limit="the dimension of a run-time index is not sliced or selected again",
        help="slice first, then index; is_indirect() tells",
    )
