"""Moving data across partitions of a quadrant, and picking elements by computed indices."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.diagnostic import coded_error
from nki_lab.isa.alu import Array
from nki_lab.isa.dtype import F32, INT32, UINT16, UINT32
from nki_lab.isa.ops.cycles import engine_cost, streaming
from nki_lab.isa.ops.shapes import by_partition, partitions_of, same_dtype, sizes
from nki_lab.isa.spec import (
    ONCHIP,
    SBUF,
    Arrays,
    Beta1,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Unmodelled,
    Use,
    Values,
    arg,
    attr,
    instruction,
    out,
)

KEEP: Final = 255
"""Entry of a shuffle mask that leaves a partition of dst as it is."""

_CORE: Final = 16  # partitions that one of the eight GpSimd cores reaches


def _mask(use: Use) -> Fault:
    mask = use.attrs["shuffle_mask"]
    if len(mask) != 32:
        return f"shuffle_mask has {len(mask)} entries"
    strange = [entry for entry in mask if not (0 <= entry < 32 or entry == KEEP)]
    return f"shuffle_mask has the entry {strange[0]}" if strange else None


def _quadrants(use: Use) -> Fault:
    views = {name: use.types[name] for name in ("dst", "src")}
    active = -(-max(view.shape[0] for view in views.values()) // 32) * 32
    starts = {32: (0, 32, 64, 96), 64: (0, 64)}.get(active, (0,))
    for name, view in views.items():
        if view.start_partition not in starts and view.start_partition + view.shape[0] <= use.arch.pmax:
            allowed = ", ".join(map(str, starts))
            return f"{name} starts at partition {view.start_partition}, {active} active partitions start at {allowed}"
    return None


@instruction(engine="vector", see="NKI API, nki.isa.nc_stream_shuffle")
class nc_stream_shuffle:
    """dst[32 q + i] = src[32 q + shuffle_mask[i]]: moves whole partitions within each quadrant of 32.

    One mask of 32 entries serves all quadrants; 255 leaves a partition of dst as it is. Copied bit by bit; dst may be
    src itself. A mask of one number repeated copies one partition to the others of its quadrant.
    """

    dst = out("Q F", ONCHIP, "destination")
    src = arg("P G", ONCHIP, "source; may have fewer partitions")
    shuffle_mask = attr("integers", "32 numbers: source partition of each, or 255")

    mask = Predicate(
        "NKI012",
        "shuffle_mask is 32 numbers from 0 to 31, or 255",
        _mask,
        operand="shuffle_mask",
        help="give a list of 32 partitions",
        accepts={"shuffle_mask": [255] * 32},
        refuses={"shuffle_mask": [32] * 32},
    )
    one_dtype = same_dtype("dst", "src", refuses="sbuf bfloat16 32x512")
    sizes = Predicate(
        "NKI203",
        "src and dst have as many elements in each partition",
        sizes("src", "dst"),
        operand="src",
        help="slice the longer one",
        accepts={"src": "sbuf float32 1x512"},
        refuses={"src": "sbuf float32 32x511"},
    )
    starts = Predicate(
        "NKI210",
        "32 active partitions start at a quadrant, 64 at a half, more at 0",
        _quadrants,
        operand="src",
        help="move the tile to a partition where so many may start",
        accepts={"src": "sbuf float32 32x512 of 64x512 row 32"},
        refuses={"src": "sbuf float32 32x512 of 64x512 row 32", "dst": "sbuf float32 64x512"},
    )

    example = {"dst": "sbuf float32 32x512", "src": "sbuf float32 32x512", "shuffle_mask": [0] * 32}
    shapes = by_partition

    precision = "native"
    exact = True

    def merges(use: Use) -> bool:
        return KEEP in use.attrs["shuffle_mask"] or use.types["src"].shape[0] < use.types["dst"].shape[0]

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        rows = np.arange(out.dst.shape[0])
        mask = np.array(use.attrs["shuffle_mask"])[rows % 32]
        source = rows - rows % 32 + mask
        # guess: a partition that src does not have leaves dst as it is; the documentation does not say.
        moved = (mask != KEEP) & (source < ins.src.shape[0])
        out.dst[moved] = ins.src[source[moved]]

    cost = streaming("dst")

    beta1 = Beta1(returns="", order="src dst shuffle_mask")


def _require_inside(indices: Array, size: int, operand: str, name: str) -> None:
    """Raise NKI310 where an index points beyond a row."""
    wrong = indices >= size
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise coded_error(
            "NKI310",
            f"{name}: {operand}[{', '.join(map(str, at))}] is {int(indices[at])}, a row has {size} elements",
            operand=operand,
            limit=f"0 <= index < {size}",
            help="clip the indices, or correct what computes them",
            measured=(int(indices[at]), size),
        )


@instruction(engine="gpsimd", see="NKI API, nki.isa.nc_n_gather")
class nc_n_gather:
    """dst[p, j] = data[p, indices[p, j]] within each partition, on GpSimd. Copied bit by bit.

    Free dimensions count in row-major order. An index beyond the row is refused.
    """

    dst = out("P J", (SBUF,), "picked elements")
    data = arg("P F", (SBUF,), "tile to pick from")
    indices = arg("P I", (SBUF,), "free index of each element", dtypes=(UINT32,))

    one_dtype = same_dtype("dst", "data", refuses="sbuf bfloat16 128x512")
    sizes = Predicate(
        "NKI203",
        "dst has an element for each index",
        sizes("dst", "indices"),
        operand="dst",
        help="give dst and indices as many elements in each partition",
        accepts={"dst": "sbuf float32 128x2x8"},
        refuses={"dst": "sbuf float32 128x15"},
    )

    example = {"dst": "sbuf float32 128x16", "data": "sbuf float32 128x512", "indices": "sbuf uint32 128x16"}
    shapes = by_partition

    precision = "native"
    exact = True

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        _require_inside(ins.indices, ins.data.shape[1], "indices", "nc_n_gather")
        np.copyto(out.dst, np.take_along_axis(ins.data, ins.indices.astype(np.int64), axis=1), casting="unsafe")

    cost = streaming(
        "indices",
        _CORE,
        confidence="guess",
        source="not published: a core serves its 16 partitions one after the other",
    )

    beta1 = Unmodelled("Beta 1 has no nc_n_gather")


def _cores(use: Use) -> Fault:
    rows, indexed = use.types["src_buffer"].shape[0], use.types["index"].shape[0]
    if rows != indexed:
        return f"src_buffer has {rows} partitions and index has {indexed}"
    return partitions_of("src_buffer", _CORE)(use)


def _elements(use: Use) -> Fault:
    each = use.attrs["num_elem_per_idx"]
    return None if each in (1, 2, 4, 8, 16, 32) else f"num_elem_per_idx is {each}"


def _valid(use: Use) -> int:
    """Return the number of indices that each core uses."""
    given = use.attrs["num_valid_indices"]
    return int(use.types["index"].free_size * _CORE if given is None else given)


def _valid_count(use: Use) -> Fault:
    have = use.types["index"].free_size * _CORE
    valid = _valid(use)
    if not 0 < valid <= have:
        return f"num_valid_indices is {valid}, a core has {have} indices"
    return None if valid <= 4096 else f"a core gathers {valid} indices"


def _gathered(use: Use) -> Fault:
    dst, rows = use.types["dst"], use.types["src_buffer"].shape[0]
    if dst.shape[0] != rows:
        return f"dst has {dst.shape[0]} partitions and src_buffer has {rows}"
    size = _valid(use) * int(use.attrs["num_elem_per_idx"])
    return None if size == dst.free_size else f"dst has {dst.free_size} elements per partition, the indices give {size}"


def _beta1_shape(values: Values) -> tuple[int, ...]:
    """Return the shape of Beta 1's tile: a row, or a place for each element of every index of a core."""
    rows, columns = values["src_buffer"].shape[0], values["index"].shape[-1]
    each = values.get("num_elem_per_idx") or 1
    valid = values.get("num_valid_indices") or columns * _CORE
    return (rows, columns, _CORE, each) if each > 1 and valid == columns * _CORE else (rows, valid * each)


@instruction(engine="gpsimd", see="NKI API, nki.isa.local_gather")
class local_gather:
    """dst[p] = the elements of src_buffer[p] at the indices of p's GpSimd core. Copied bit by bit.

    Each of the eight cores serves 16 partitions, and takes its indices from the same 16 partitions of `index`,
    partition by partition first: index j of a core stands in partition j % 16. An index counts elements of a row, and
    picks `num_elem_per_idx` elements from there on. `num_valid_indices` is how many a core uses, all by default.
    """

    dst = out("P J", (SBUF,), "picked elements")
    src_buffer = arg("Q F", (SBUF,), "tile to pick from")
    index = arg("R I", (SBUF,), "indices of each core", dtypes=(UINT16,))
    num_elem_per_idx = attr("number", "elements picked from each index on", default=1)
    num_valid_indices = attr("any", "indices that each core uses; None for all", default=None)

    one_dtype = same_dtype("dst", "src_buffer", refuses="sbuf bfloat16 128x512")
    cores = Predicate(
        "NKI203",
        "src_buffer and index have the same partitions, a multiple of 16",
        _cores,
        operand="src_buffer",
        help="use whole groups of 16 partitions",
        accepts={"src_buffer": "sbuf float32 128x64"},
        refuses={"src_buffer": "sbuf float32 120x512", "index": "sbuf uint16 120x4"},
    )
    elements = Predicate(
        "NKI012",
        "num_elem_per_idx is 1, 2, 4, 8, 16 or 32",
        _elements,
        operand="num_elem_per_idx",
        help="use one of these",
        accepts={"num_elem_per_idx": 2, "dst": "sbuf float32 128x128"},
        refuses={"num_elem_per_idx": 3, "dst": "sbuf float32 128x192"},
    )
    count = Predicate(
        "NKI220",
        "a core uses up to 4096 indices, and those it has",
        _valid_count,
        operand="num_valid_indices",
        help="gather in several calls",
        accepts={"num_valid_indices": 64},
        refuses={"num_valid_indices": 65},
    )
    sizes = Predicate(
        "NKI203",
        "dst holds what the indices pick",
        _gathered,
        operand="dst",
        help="give dst num_valid_indices * num_elem_per_idx elements in each partition",
        accepts={"dst": "sbuf float32 128x8x8"},
        refuses={"dst": "sbuf float32 128x63"},
    )

    example = {"dst": "sbuf float32 128x64", "src_buffer": "sbuf float32 128x512", "index": "sbuf uint16 128x4"}
    shapes = by_partition

    precision = "native"
    exact = True

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        each, valid = int(use.attrs["num_elem_per_idx"]), _valid(use)
        rows, size = ins.src_buffer.shape
        groups = ins.index.reshape(rows // _CORE, _CORE, -1).transpose(0, 2, 1).reshape(rows // _CORE, -1)
        picked = groups[:, :valid].astype(np.int64)
        _require_inside(picked + (each - 1), size, "index", "local_gather")
        places = (picked[:, :, None] + np.arange(each)).reshape(rows // _CORE, -1)
        np.copyto(
            out.dst, np.take_along_axis(ins.src_buffer, np.repeat(places, _CORE, axis=0), axis=1), casting="unsafe"
        )

    def cost(use: Use) -> Cost:
        each, dtype = int(use.attrs["num_elem_per_idx"]), use.dtypes["src_buffer"]
        assert dtype is not None
        rate = ((28 + 4 * each) / (4 * each)) / min(4 / dtype.nbytes, each)
        # The published formula divides by this rate; fewer elements an index then cost less, which cannot be meant.
        return engine_cost(use, _valid(use) * each * rate, confidence="inferred")

    beta1 = Beta1(shape=_beta1_shape, order="src_buffer index num_elem_per_idx num_valid_indices")


def _whole_numbers(use: Use) -> Fault:
    for name in ("index_offset", "padding_val"):
        value = use.attrs[name]
        if value != int(value) or not -(2**31) <= value < 2**31:
            return f"{name} is {value}"
    return None


@instruction(engine="gpsimd", since=3, see="NKI API, nki.isa.nonzero_with_count")
class nonzero_with_count:
    """dst = the free indices of src's elements that are not zero, then padding, and in the last place their number.

    Only the first partition of each GpSimd core is read and written: 0, 16, ... 112; the others keep their values.
    """

    dst = out("P T", (SBUF,), "indices, padding and the count; one element more than src", dtypes=(INT32,))
    src = arg("P F", (SBUF,), "tile to search", dtypes=(F32, INT32))
    index_offset = attr("number", "added to each index", default=0)
    padding_val = attr("number", "written after the last index", default=-1)

    sizes = Predicate(
        "NKI203",
        "dst has one element more than src",
        sizes("dst", "src", lambda size: size + 1),
        operand="dst",
        help="allocate dst with a place for the count",
        refuses={"dst": "sbuf int32 128x64"},
    )
    numbers = Predicate(
        "NKI012",
        "index_offset and padding_val are int32",
        _whole_numbers,
        operand="index_offset",
        help="add what is larger afterwards",
        accepts={"index_offset": 2**31 - 1},
        refuses={"index_offset": 2**31},
    )

    example = {"dst": "sbuf int32 128x65", "src": "sbuf float32 128x64"}
    shapes = by_partition

    precision = "native"
    exact = True
    merges = True

    continuous = False

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        for row in range(-use.types["src"].start_partition % _CORE, ins.src.shape[0], _CORE):
            found = np.flatnonzero(ins.src[row] != 0)
            out.dst[row] = use.attrs["padding_val"]
            out.dst[row, : len(found)] = found + use.attrs["index_offset"]
            out.dst[row, -1] = len(found)

    cost = streaming("src", source="not published: one element a cycle", confidence="guess")

    beta1 = Unmodelled("Beta 1 has no nonzero_with_count")


def _starts_and_ends(use: Use) -> Fault:
    """Test for all starts before all ends: (1, 2, N), or flat."""
    shape, count = tuple(use.types["dst"].shape), use.types["segment_ids"].free_size
    if use.types["dst"].free_size == 2 * count and (len(shape) == 2 or shape[1] == 2):
        return None
    return f"dst is {shape}, the bounds of {count} ids are (1, 2, {count})"


@instruction(engine="gpsimd", see="NKI API, nki.isa.sequence_bounds")
class sequence_bounds:
    """dst[0, 0] = where each element's run of equal segment ids begins, dst[0, 1] = one past where it ends.

    Id 0 is padding: it begins at the number of elements and ends at -1.
    """

    dst = out("1 B", (SBUF,), "starts, then ends: (1, 2, N)", dtypes=(F32, INT32))
    segment_ids = arg("1 N", (SBUF,), "ids that are not negative", dtypes=(F32, INT32))

    sizes = Predicate(
        "NKI203",
        "dst is (1, 2, N): all starts, then all ends",
        _starts_and_ends,
        operand="dst",
        help="allocate dst as (1, 2, N)",
        accepts={"dst": "sbuf int32 1x128"},
        refuses={"dst": "sbuf int32 1x64x2"},
    )

    example = {"dst": "sbuf int32 1x2x64", "segment_ids": "sbuf int32 1x64"}
    shapes = by_partition

    continuous = False

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        ids = ins.segment_ids[0]
        count = len(ids)
        changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
        begins = np.concatenate(([0], changes))
        ends = np.concatenate((changes, [count]))
        run = np.repeat(np.arange(len(begins)), ends - begins)
        out.dst[0, :count] = np.where(ids == 0, count, begins[run])
        out.dst[0, count:] = np.where(ids == 0, -1, ends[run])

    cost = streaming("segment_ids", source="not published: one element a cycle", confidence="guess")

    beta1 = Beta1(shape=lambda v: (1, 2, v["segment_ids"].shape[-1]))
