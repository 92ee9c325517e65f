"""View operations that change sizes and strides and keep the elements: permute, reshape and their kin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.tensor.buffer import integer_of
from nki_lab.kernel_runtime.tensor.indirect import require_no_gather
from nki_lab.kernel_runtime.tensor.pattern import Sizes, reshape_strides
from nki_lab.kernel_runtime.tensor.refusal import bad_dimension, elements, partition_refusal, refuse
from nki_lab.kernel_runtime.tensor.strided_view import Layout, StridedView
from nki_lab.printable import shown


def first_is_fixed(tensor: StridedView) -> bool:
    """Return whether dimension 0 may not be moved, split, merged or resized: on-chip, and after vector_select."""
    return tensor._buffer.on_chip or (tensor._indirect is not None and tensor._indirect.kind == "vector")


def dimension(tensor: StridedView, operation: str, dim: object, last: int | None = None) -> int:
    """Check that `dim` is a dimension number of the tensor, 0..last, and return it."""
    top = len(tensor._shape) - 1 if last is None else last
    number = integer_of(dim)
    if number is None or not 0 <= number <= top:
        raise bad_dimension(tensor, operation, dim if number is None else number, top)
    return number


def permute(tensor: StridedView, dims: object) -> Sizes:
    """Check that `dims` is a permutation that leaves a fixed dimension 0 in place, and return it."""
    require_no_gather(tensor, "permute")
    rank = len(tensor._shape)
    order = tuple(integer_of(dim) for dim in dims) if isinstance(dims, tuple | list) else ()
    if None in order or sorted(order) != list(range(rank)):  # type: ignore[type-var]
        raise refuse(
            "NKI305",
            f"permute: dims is {shown(dims)}",
            tensor,
            limit=f"dims is a tuple with each of 0..{rank - 1} once",
        )
    if order[0] != 0 and first_is_fixed(tensor):
        raise partition_refusal(tensor, "permute", f"dims {order} move dimension 0")
    return order  # type: ignore[return-value]


def broadcast(tensor: StridedView, dim: object, size: object) -> Layout:
    """Return the layout of `broadcast(dim, size)`."""
    require_no_gather(tensor, "broadcast")
    number = dimension(tensor, "broadcast", dim)
    count = integer_of(size)
    if count is None or count < 1:
        raise refuse("NKI305", f"broadcast: size is {shown(size)}", tensor, limit="size is a positive integer")
    if tensor._shape[number] != 1:
        raise refuse(
            "NKI305",
            f"broadcast: dimension {number} of {tensor._shape} has size {tensor._shape[number]}",
            tensor,
            limit="only a dimension of size 1 is broadcast",
            help="insert one with expand_dim first",
        )
    if number == 0 and first_is_fixed(tensor):
        raise partition_refusal(tensor, "broadcast", "dimension 0 cannot be repeated")
    return _replaced(tensor._shape, number, count), _replaced(tensor._strides, number, 0)


def _replaced(values: Sizes, position: int, value: int) -> Sizes:
    return (*values[:position], value, *values[position + 1 :])


def expand_dim(tensor: StridedView, dim: object) -> tuple[int, Layout]:
    """Return the dimension and the layout of `expand_dim(dim)`."""
    require_no_gather(tensor, "expand_dim")
    shape, strides = tensor._shape, tensor._strides
    number = dimension(tensor, "expand_dim", dim, len(shape))
    if number == 0 and first_is_fixed(tensor):
        raise partition_refusal(tensor, "expand_dim", "nothing goes before dimension 0")
    step = strides[number] * shape[number] if number < len(shape) else 1
    return number, ((*shape[:number], 1, *shape[number:]), (*strides[:number], step, *strides[number:]))


def squeeze_dim(tensor: StridedView, dim: object) -> tuple[int, Layout]:
    """Return the dimension and the layout of `squeeze_dim(dim)`; two dimensions stay on-chip, one in HBM."""
    require_no_gather(tensor, "squeeze_dim")
    shape, strides = tensor._shape, tensor._strides
    number = dimension(tensor, "squeeze_dim", dim)
    if shape[number] != 1:
        raise refuse(
            "NKI305",
            f"squeeze_dim: dimension {number} of {shape} has size {shape[number]}",
            tensor,
            limit="only a dimension of size 1 is removed",
        )
    if number == 0 and first_is_fixed(tensor):
        raise partition_refusal(tensor, "squeeze_dim", "dimension 0 cannot be removed")
    if len(shape) <= (2 if tensor._buffer.on_chip else 1):
        return number, (shape, strides)
    return number, (shape[:number] + shape[number + 1 :], strides[:number] + strides[number + 1 :])


def sizes_of(tensor: StridedView, operation: str, shape: object) -> Sizes:
    """Check that `shape` is a sequence of integers, and return it as a tuple."""
    if not isinstance(shape, tuple | list) or not shape:
        raise refuse(
            "NKI305",
            f"{operation}: shape is {shown(shape)}",
            tensor,
            limit="shape is a tuple of integers",
            help=f"write {operation}(({shape},))" if integer_of(shape) is not None else "",
        )
    sizes = [integer_of(size) for size in shape]
    if None in sizes:
        raise refuse("NKI305", f"{operation}: shape is {shown(shape)}", tensor, limit="shape is a tuple of integers")
    return tuple(sizes)  # type: ignore[arg-type]


def reshape(tensor: StridedView, shape: object) -> Layout:
    """Return the layout of `reshape(shape)`."""
    require_no_gather(tensor, "reshape")
    old, strides = tensor._shape, tensor._strides
    new = sizes_of(tensor, "reshape", shape)
    if min(new) < (1 if tensor._buffer.fault is None else 0):
        whole, rest = math.prod(old), math.prod(size for size in new if size > 0)
        fits = new.count(-1) == 1 and min(new) == -1 and not whole % rest
        raise refuse(
            "NKI305",
            f"reshape: shape is {new}",
            tensor,
            limit="reshape takes positive sizes; nothing is inferred",
            help=f"write {tuple(whole // rest if size == -1 else size for size in new)}" if fits else "",
        )
    if math.prod(new) != math.prod(old):
        raise refuse(
            "NKI305",
            f"reshape: {old} has {elements(math.prod(old))}, {new} has {math.prod(new)}",
            tensor,
            limit="a reshape keeps the number of elements",
        )
    if first_is_fixed(tensor):
        if new[0] != old[0]:
            raise partition_refusal(tensor, "reshape", f"{old} to {new} changes the size of dimension 0")
        found = reshape_strides(old[1:], strides[1:], new[1:])
        result = None if found is None else (strides[0], *found)
    else:
        result = reshape_strides(old, strides, new)
    if result is None:
        raise refuse(
            "NKI305",
            f"reshape: {old} with strides {strides} cannot be read as {new} without a copy",
            tensor,
            limit="a reshape is a view: dimensions that merge must lie densely behind each other",
            help="reshape before slicing or permuting, or copy into a new tile first",
        )
    return new, result


def reshape_dim(tensor: StridedView, dim: object, shape: object) -> tuple[int, Layout]:
    """Return the dimension and the layout of `reshape_dim(dim, shape)`: one dimension split, one -1 inferred."""
    require_no_gather(tensor, "reshape_dim")
    number = dimension(tensor, "reshape_dim", dim)
    whole, step = tensor._shape[number], tensor._strides[number]
    parts = sizes_of(tensor, "reshape_dim", shape)
    sizes = _inferred(parts, whole)
    if sizes is None:
        raise refuse(
            "NKI305",
            f"reshape_dim: dimension {number} has size {whole}, shape is {parts}",
            tensor,
            limit="the sizes multiply to the dimension's; one of them may be -1",
        )
    if number == 0 and len(sizes) > 1 and first_is_fixed(tensor):
        raise partition_refusal(tensor, "reshape_dim", f"dimension 0 cannot be split into {sizes}")
    steps = [step]
    for size in reversed(sizes[1:]):
        steps.insert(0, steps[0] * size)
    return number, (
        (*tensor._shape[:number], *sizes, *tensor._shape[number + 1 :]),
        (*tensor._strides[:number], *steps, *tensor._strides[number + 1 :]),
    )


def _inferred(parts: Sequence[int], whole: int) -> Sizes | None:
    """Return `parts` with one -1 replaced so that they multiply to `whole`; None where they cannot."""
    known = math.prod(size for size in parts if size != -1)
    if any(size < min(whole, 1) and size != -1 for size in parts):
        return None
    holes = parts.count(-1)
    if holes == 0:
        return tuple(parts) if known == whole else None
    if holes > 1 or not known or whole % known:
        return None
    return tuple(whole // known if size == -1 else size for size in parts)


def flatten_dims(tensor: StridedView, start_dim: object, end_dim: object) -> tuple[int, int, Layout]:
    """Return the first and last dimension and the layout of `flatten_dims(start_dim, end_dim)`, both ends included."""
    require_no_gather(tensor, "flatten_dims")
    shape, strides = tensor._shape, tensor._strides
    first = dimension(tensor, "flatten_dims", start_dim)
    last = dimension(tensor, "flatten_dims", end_dim)
    if first > last:
        raise refuse(
            "NKI305",
            f"flatten_dims: start_dim {first} comes after end_dim {last}",
            tensor,
            limit="start_dim <= end_dim",
        )
    if first == 0 and first_is_fixed(tensor):
        raise partition_refusal(tensor, "flatten_dims", "dimension 0 cannot be merged")
    end = last + 1
    size = math.prod(shape[first:end])
    step = reshape_strides(shape[first:end], strides[first:end], (size,))
    if step is None:
        raise refuse(
            "NKI305",
            f"flatten_dims: dimensions {first}..{last} of {shape} with strides {strides} do not lie densely",
            tensor,
            limit="strides[k] == strides[k + 1] * shape[k + 1] for the dimensions that merge",
            help="flatten before slicing or permuting, or copy into a new tile first",
        )
    return first, last, ((*shape[:first], size, *shape[end:]), (*strides[:first], *step, *strides[end:]))


def reinterpret(tensor: StridedView, dtype: DType) -> tuple[Sizes, Sizes, int]:
    """Return the shape, strides and offset of `view(dtype)`: the same bytes, the last dimension rescaled."""
    if tensor._indirect is not None:
        raise refuse(
            "NKI309",
            f"view: {dtype.name} of a view with a run-time index",
            tensor,
            limit="view() is not supported after a dynamic or vector select",
            help="call view() first, then select",
        )
    shape, strides, offset = tensor._shape, tensor._strides, tensor._offset
    old, new = tensor._dtype.nbytes, dtype.nbytes
    if old == new:
        return shape, strides, offset
    if len(shape) == 1 and tensor._buffer.on_chip:
        raise partition_refusal(tensor, "view", f"{dtype.name} would resize dimension 0, the only one")
    if tensor._buffer.on_chip and tensor._buffer.partition_bytes % new:
        raise refuse(
            "NKI305",
            f"view: a partition of {tensor._buffer.partition_bytes} bytes is no whole number of {dtype.name} elements",
            tensor,
            limit=f"the bytes of a partition are a multiple of {new}",
        )
    if shape[-1] != 1 and strides[-1] != 1:
        raise refuse(
            "NKI305",
            f"view: the last dimension steps {strides[-1]} elements",
            tensor,
            limit="the last dimension is contiguous (stride 1)",
            help="copy into a new tile first",
        )
    last, odd = divmod(shape[-1] * old, new)
    if odd:
        raise refuse(
            "NKI305",
            f"view: a last dimension of {shape[-1]} {tensor._dtype.name} is no whole number of {dtype.name}",
            tensor,
            limit=f"the last dimension is a multiple of {new // math.gcd(old, new)}",
        )
    start, odd = divmod(offset * old, new)
    steps = [divmod(step * old, new) for step in strides[:-1]]
    if odd or any(rest and size != 1 for (_, rest), size in zip(steps, shape[:-1], strict=True)):
        raise refuse(
            "NKI305",
            f"view: offset {offset} and strides {strides} do not fall on whole {dtype.name} elements",
            tensor,
            limit=f"offset and outer strides are multiples of {new} bytes",
        )
    return (*shape[:-1], last), (*(step for step, _ in steps), 1), start


Names = tuple[str | tuple[str, ...], ...]


def rearrange(
    tensor: StridedView, src_pattern: object, dst_pattern: object, fixed_sizes: Mapping[str, int] | None
) -> Layout:
    """Return the layout of `rearrange`: source groups split, names reordered, destination groups merged."""
    require_no_gather(tensor, "rearrange")
    source = _groups(tensor, "src_pattern", src_pattern)
    target = _groups(tensor, "dst_pattern", dst_pattern)
    axes = _named_axes(tensor, source, dict(fixed_sizes or {}))
    listed = [name for group in target for name in group]
    if sorted(listed) != sorted(axes):
        raise refuse(
            "NKI305",
            f"rearrange: {sorted(axes)} on the left, {sorted(listed)} on the right",
            tensor,
            limit="both patterns use the same names, each once",
        )
    if first_is_fixed(tensor) and (len(source[0]) != 1 or target[0] != source[0]):
        raise partition_refusal(tensor, "rearrange", f"{src_pattern!r} to {dst_pattern!r} changes dimension 0")
    shape, strides = [], []
    for group in target:
        sizes, steps = [axes[name][0] for name in group], [axes[name][1] for name in group]
        size = math.prod(sizes)
        step = reshape_strides(sizes, steps, (size,)) if group else (1,)
        if step is None:
            raise refuse(
                "NKI305",
                f"rearrange: {group} of sizes {tuple(sizes)} and strides {tuple(steps)} cannot merge without a copy",
                tensor,
                limit="names that merge must lie densely behind each other",
                help="leave the dimensions apart, or copy into a new tile first",
            )
        shape.append(size)
        strides.append(step[0])
    return tuple(shape), tuple(strides)


def _groups(tensor: StridedView, which: str, pattern: object) -> list[tuple[str, ...]]:
    groups: list[tuple[str, ...]] = []
    if isinstance(pattern, tuple | list):
        for entry in pattern:
            names = (entry,) if isinstance(entry, str) else entry
            if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
                break
            groups.append(tuple(names))
        else:
            if groups:
                return groups
    raise refuse(
        "NKI305",
        f"rearrange: {which} is {shown(pattern)}",
        tensor,
        limit="a pattern is a tuple of names and of tuples of names",
        help="for example ('b', ('h', 'w')) to ('b', 'w', 'h')",
    )


def _named_axes(
    tensor: StridedView, source: list[tuple[str, ...]], fixed: dict[str, int]
) -> dict[str, tuple[int, int]]:
    """Return the size and stride of each name."""
    if len(source) != len(tensor._shape):
        raise refuse(
            "NKI305",
            f"rearrange: src_pattern has {len(source)} entries, the tensor {len(tensor._shape)} dimensions",
            tensor,
            limit="one entry of src_pattern per dimension",
        )
    axes: dict[str, tuple[int, int]] = {}
    for group, whole, step in zip(source, tensor._shape, tensor._strides, strict=True):
        parts = [integer_of(fixed.get(name, whole if len(group) == 1 else -1)) or 0 for name in group]
        sizes = _inferred(parts, whole)
        if sizes is None or any(name in axes for name in group) or len(set(group)) < len(group):
            raise refuse(
                "NKI305",
                f"rearrange: a dimension of {whole} as {dict(zip(group, parts, strict=True))}",
                tensor,
                limit="the sizes of a group multiply to its dimension; one name per group may be left out of "
                "fixed_sizes; no name twice",
            )
        inner = step
        for name, size in zip(reversed(group), reversed(sizes), strict=True):
            axes[name] = (size, inner)
            inner *= size
    return axes
