"""Tensor Engine: matrix multiplication and transposition."""


# mypy: disable-error-code="misc"

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.alu import Array
from nki_lab.isa.dtype import BF16, F16, F32, FP8, FP8_E4M3, FP8_E4M3FN, FP8_E5M2, PACKED, TF32, DType
from nki_lab.isa.enums import matmul_perf_mode
from nki_lab.isa.ops.cycles import DOC_226, PROFILES_V3, engine_cost, trust
from nki_lab.isa.ops.shapes import Test, one_dtype
from nki_lab.isa.ops.transposing import transpose_into
from nki_lab.isa.spec import (
    ARRAY_BLOCK,
    ONCHIP,
    PSUM,
    SBUF,
    Accumulation,
    Arrangement,
    Arrays,
    Beta1,
    Contraction,
    Cost,
    EngineState,
    Fault,
    Implicit,
    Predicate,
    Use,
    Values,
    arg,
    attr,
    choice,
    instruction,
    limit,
    out,
)

_PE_DTYPES = (F32, TF32, BF16, F16, FP8_E4M3, FP8_E5M2, FP8_E4M3FN)
_WIDE = (F32, TF32)


MULTIPLY_ADDS: Final = "multiply-adds"


def multiply_adds(use: Use) -> int:
    """Return the multiply-adds: one for each stationary number and column of dst, in the double-row mode too."""
    stationary, result = use.types["stationary"], use.types["dst"]
    numbers = stationary.partitions * stationary.free_size * (4 if stationary.dtype in PACKED else 1)
    return int(numbers * result.free_size)


def _double_row(use: Use) -> bool:
    return use.attrs["perf_mode"] is matmul_perf_mode.double_row


def _same_width_class(use: Use) -> Fault:
    a, b = use.dtypes["stationary"], use.dtypes["moving"]
    if a is None or b is None or (a in _WIDE) == (b in _WIDE):
        return None
    return f"stationary is {a.name} and moving is {b.name}: a 32-bit operand needs a 32-bit partner"


def _fp8_kinds(use: Use) -> Fault:
    kinds = {use.dtypes["stationary"], use.dtypes["moving"]}
    if FP8_E4M3FN in kinds and (problem := use.before(4, "float8_e4m3fn operands need")):
        return problem
    if {FP8_E4M3, FP8_E4M3FN} <= kinds:
        return "float8_e4m3 and float8_e4m3fn cannot be mixed in one matmul"
    return None


def _result_dtype(use: Use) -> Fault:
    dst = use.dtypes["dst"]
    allowed = (F32, BF16) if use.arch.psum_bf16 else (F32,)
    if use.attrs["is_transpose"] or dst in allowed:
        return None
    names = " or ".join(dtype.name for dtype in allowed)
    return f"dst is {dst}, the tensor engine of {use.arch.name} accumulates into {names}"


def _inside_bank(use: Use) -> Fault:
    view, size = use.types["dst"], use.arch.psum_bank_bytes
    end = view.bank_offset + view.span_bytes
    if use.arch.generation >= 4 or end <= size:
        return None
    return f"dst covers bytes {view.bank_offset}..{end} of its PSUM bank, a bank has {size} bytes per partition"


def _tiling_pair(use: Use) -> Fault:
    given = [name for name in ("tile_position", "tile_size") if use.attrs[name]]
    if len(given) != 1:
        return None
    return f"{given[0]} is given without {'tile_size' if given[0] == 'tile_position' else 'tile_position'}"


def _tiling(use: Use) -> Fault:
    if not (use.attrs["tile_size"] and use.attrs["tile_position"]):
        return None
    rows, columns = use.attrs["tile_size"]
    row, column = use.attrs["tile_position"]
    sizes = use.arch.tile_positions
    if rows not in sizes or columns not in sizes:
        return f"tile_size is ({rows}, {columns}), {use.arch.name} has tiles of {', '.join(map(str, sizes))}"
    if row % rows or column % columns or not (0 <= row < 128 and 0 <= column < 128):
        return f"tile_position ({row}, {column}) is not a multiple of tile_size ({rows}, {columns}) inside 128x128"
    wide = _dims(use)["M"]
    if use.dims["K"] > rows or wide > columns:
        return f"a stationary of ({use.dims['K']}, {wide}) does not fit a ({rows}, {columns}) tile"
    return None


def _is_plain(use: Use) -> bool:
    """Check that a call is neither a transpose nor packs contraction rows."""
    return not use.attrs["is_transpose"] and use.attrs["perf_mode"] is matmul_perf_mode.none


def _double_row_rules(use: Use) -> Fault:
    if not _double_row(use):
        return None
    if problem := use.before(3, "double_row needs"):
        return problem
    wrong = next((n for n in ("stationary", "moving") if use.dtypes[n] not in FP8), None)
    if wrong:
        return f"double_row multiplies 8-bit floats, {wrong} is {use.dtypes[wrong]}"
    for name in ("stationary", "moving"):
        shape = use.types[name].shape
        if len(shape) < 3 or shape[1] != 2:
            return f"double_row needs {name} of shape [K, 2, free], it is {tuple(shape)}"
    if use.attrs["is_transpose"]:
        return "double_row cannot be combined with is_transpose"
    if use.attrs["tile_size"] and use.attrs["tile_size"][1] != 128:
        return "double_row cannot be combined with column tiling"
    return None


def _picks(use: Use) -> Fault:
    """Test the modes that exclude tensor indirection."""
    gathered = [name for name, view in use.types.items() if view is not None and view.indirect == "gather"]
    if not gathered:
        return None
    if "moving" in gathered and use.attrs["is_transpose"]:
        return "moving is gathered in transpose mode"
    if use.attrs["tile_position"] not in ((), (0, 0)):
        return f"{gathered[0]} is gathered with tile_position {use.attrs['tile_position']}"
    wide = next((use.dtypes[name] for name in ("stationary", "moving") if use.dtypes[name] in _WIDE), None)
    return f"{gathered[0]} is gathered and the operands are {wide.name}" if wide else None


def _dims(use: Use) -> dict[str, int]:
    """Return the columns of the operands: a double-row operand holds two contraction rows a partition."""
    pair = 2 if _double_row(use) else 1
    return {"M": use.dims["M"] // pair, "N": use.dims["N"] // pair}


def _most_columns(operand: str, letter: str, most: Callable[[Use], int]) -> Test:
    def test(use: Use) -> Fault:
        columns = _dims(use)[letter]
        if columns <= most(use):
            return None
        return f"{operand} has {columns} columns, the tensor engine takes at most {most(use)}"

    return test


def _moving_fmax(use: Use) -> int:
    dst = use.dtypes["dst"]
    if use.arch.generation < 4:
        return use.arch.gemm_moving_fmax
    return use.arch.matmul_dst_bytes // (dst.nbytes if dst else 4)


def _result_shape(use: Use) -> Fault:
    dst, (rows, columns) = use.types["dst"], _dims(use).values()
    if (rows, columns) == (dst.shape[0], dst.free_size):
        return None
    return f"dst is {tuple(dst.shape)}, stationary and moving give ({rows}, {columns})"


ACCUMULATE: Final = attr(
    "any",
    "True adds to dst, False overwrites, None decides element by element",
    default=None,
    choices=(None, True, False),
)
DEPTH: Final = limit(
    "K <= pmax",
    "NKI211",
    operand="stationary",
    help="split K into tiles of 128 partitions and accumulate them in one PSUM tile",
)


@instruction(engine="tensor", see="NKI API, nki.isa.nc_matmul")
class nc_matmul:
    """dst[M, N] = stationary[K, M].T @ moving[K, N] on the systolic array, accumulated in PSUM.

    The contraction dimension K lies on the partitions of both inputs. Products and sums are float32. `accumulate`
    False overwrites dst, True adds to it, None (the default) overwrites where no matmul has written yet and adds
    elsewhere, element by element. Free dimensions beyond the first are flattened.
    """

    dst = out(
        "R C", (PSUM,), "result of M partitions and N columns; float32, on NeuronCore-v4 also bfloat16", indirect=True
    )
    stationary = arg("K M", (SBUF,), "tile held in the array: K rows, M columns", dtypes=_PE_DTYPES, indirect=True)
    moving = arg("K N", (SBUF,), "tile streamed through the array: K rows, N columns", dtypes=_PE_DTYPES, indirect=True)
    is_stationary_onezero = attr("bool", "hint: the stationary tile holds only ones and zeros", default=False)
    is_moving_onezero = attr("bool", "hint: the moving tile holds only ones and zeros", default=False)
    is_transpose = attr("bool", "transpose mode: moving is an identity; bit-exact from NeuronCore-v3", default=False)
    accumulate = ACCUMULATE
    tile_position = attr("pair", "(row, column) where the array tile starts; with tile_size", default=())
    tile_size = attr("pair", "(rows, columns) of the array tile: 32, 64 or 128 each", default=())
    perf_mode = choice("double_row multiplies two 8-bit rows a cycle", matmul_perf_mode.none)

    depth = DEPTH
    double_row = Predicate(
        "NKI221",
        "double_row: NeuronCore-v3, 8-bit floats, operands [K, 2, free]",
        _double_row_rules,
        operand="perf_mode",
        target="trn2",
        help="pack two contraction rows a partition, or drop perf_mode",
        older="drop perf_mode, and multiply the two halves one after the other into dst",
        accepts={
            "stationary": "sbuf float8_e4m3 128x2x64",
            "moving": "sbuf float8_e4m3 128x2x512",
            "perf_mode": matmul_perf_mode.double_row,
        },
        refuses={"perf_mode": matmul_perf_mode.double_row},
    )
    stationary_columns = Predicate(
        "NKI212",
        "M <= gemm_stationary_fmax (128)",
        _most_columns("stationary", "M", lambda use: use.arch.gemm_stationary_fmax),
        operand="stationary",
        help="split the stationary tile along its free dimension",
        accepts={"stationary": "sbuf bfloat16 128x128", "dst": "psum float32 128x512"},
        refuses={"stationary": "sbuf bfloat16 128x129", "dst": "psum float32 129x512"},
    )
    moving_columns = Predicate(
        "NKI213",
        "N <= gemm_moving_fmax (512 on v2 and v3; 4096 float32 or 8192 bfloat16 columns of dst on v4)",
        _most_columns("moving", "N", _moving_fmax),
        operand="moving",
        help="loop over N in steps of 512",
        refuses={"moving": "sbuf bfloat16 128x513", "dst": "psum float32 64x513"},
        target="trn2",
    )
    result_shape = Predicate(
        "NKI203",
        "dst is (M, N)",
        _result_shape,
        operand="dst",
        help="allocate dst with as many partitions as stationary has columns and as many columns as moving has",
        refuses={"dst": "psum float32 64x511"},
    )
    width_class = Predicate(
        "NKI207",
        "float32/tfloat32 only with float32/tfloat32",
        _same_width_class,
        operand="moving",
        help="cast one operand with nisa.tensor_copy so that both have one width",
        accepts={"stationary": "sbuf float32 128x64", "moving": "sbuf tfloat32 128x512"},
        refuses={"stationary": "sbuf float32 128x64", "moving": "sbuf bfloat16 128x512"},
    )
    fp8_kinds = Predicate(
        "NKI207",
        "float8_e4m3fn needs NeuronCore-v4 and never meets float8_e4m3",
        _fp8_kinds,
        operand="moving",
        help="use one float8 kind that the target has",
        target="trn3",
        accepts={"stationary": "sbuf float8_e4m3fn 128x64", "moving": "sbuf float8_e4m3fn 128x512"},
        refuses={"stationary": "sbuf float8_e4m3 128x64", "moving": "sbuf float8_e4m3fn 128x512"},
    )
    result_dtype = Predicate(
        "NKI202",
        "dst is float32 (NeuronCore-v4: or bfloat16)",
        _result_dtype,
        operand="dst",
        help="accumulate in float32 and cast while copying out of PSUM",
        target="trn2",
        refuses={"dst": "psum bfloat16 64x512"},
    )
    one_bank = Predicate(
        "NKI214",
        "dst lies in one PSUM bank on NeuronCore-v2 and v3",
        _inside_bank,
        operand="dst",
        help="write each bank of 2048 bytes per partition with its own nc_matmul",
        target="trn2",
        refuses={"dst": "psum float32 64x512 of 64x768 at 256"},
    )
    tiling_pair = Predicate(
        "NKI218",
        "tile_position and tile_size come together",
        _tiling_pair,
        operand="tile_position",
        help="give both, or neither for the whole array",
        accepts={"tile_position": (0, 0), "tile_size": (128, 128)},
        refuses={"tile_position": (0, 0)},
    )
    tiling = Predicate(
        "NKI210",
        "array tiles are 32 (v3+), 64 or 128 rows and columns at multiples of their size",
        _tiling,
        operand="tile_size",
        help="choose a tile that holds the stationary operand",
        accepts={
            "stationary": "sbuf bfloat16 64x64",
            "moving": "sbuf bfloat16 64x512",
            "tile_position": (64, 64),
            "tile_size": (64, 64),
        },
        refuses={
            "stationary": "sbuf bfloat16 64x64",
            "moving": "sbuf bfloat16 64x512",
            "tile_position": (32, 0),
            "tile_size": (64, 64),
        },
    )

    picks = Predicate(
        "NKI309",
        "tensor indirection: 8- and 16-bit floats, no array tile but the first, no transpose",
        _picks,
        operand="moving",
        help="gather with nisa.tensor_copy first",
        target="trn3",
        accepts={"moving": "sbuf bfloat16 128x512 picked"},
        refuses={"moving": "sbuf float32 128x512 picked", "stationary": "sbuf float32 128x64"},
    )

    example = {"dst": "psum float32 64x512", "stationary": "sbuf bfloat16 128x64", "moving": "sbuf bfloat16 128x512"}
    history = {"stationary": "stationary", "moving": "moving"}
    contraction = Contraction(plain=_is_plain)
    accumulation = Accumulation(mode=lambda use: use.attrs["accumulate"])

    work_unit = MULTIPLY_ADDS
    work = multiply_adds

    def flops(use: Use) -> int:
        return 0 if use.attrs["is_transpose"] else 2 * multiply_adds(use)

    def transpose_flops(use: Use) -> int:
        return 2 * multiply_adds(use) if use.attrs["is_transpose"] else 0

    def exact(use: Use) -> bool:
        return bool(use.attrs["is_transpose"]) and use.arch.generation >= 3

    def shapes(use: Use) -> Mapping[str, tuple[int, ...]]:
        rows = use.dims["K"] * (2 if _double_row(use) else 1)
        m, n = _dims(use)["M"], _dims(use)["N"]
        return {"dst": (m, n), "stationary": (rows, m), "moving": (rows, n)}

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        """`state.add`: False, True, or a mask in the shape of dst's view, of the elements that are added to."""
        if use.attrs["is_transpose"] and use.arch.generation >= 3 and ins.moving.shape[0] == ins.moving.shape[1]:
            transpose_into(out.dst, ins.stationary)
            return
        stationary, moving = _dense(ins.stationary), _dense(ins.moving)
        if state.add is False:
            state.multiply(stationary, moving, out.dst)
        elif state.add is True:
            state.multiply_add(stationary, moving, out.dst)
        else:
            product = state.multiply(stationary, moving)
            np.add(np.where(state.add.reshape(product.shape), out.dst, np.float32(0)), product, out=out.dst)

    def cost(use: Use) -> Cost:
        plain = _array_cost(use, use.dtypes["moving"], transposes=use.attrs["is_transpose"], **_dims(use))
        loading = _strided_load(use, _dims(use)["M"])
        longer = plain if loading is None or loading.interval <= plain.interval else loading
        return on_tile(use, longer, _dims(use)["M"])

    beta1 = Beta1(
        result=lambda v: ((_columns(v, "stationary"), *_sizes(v, "moving")), F32, PSUM),
        order="stationary moving",
        without="accumulate",
    )


def _strided_load(use: Use, columns: int) -> Cost | None:
    """Return the cost of loading a stationary tile whose columns are not next to each other.

    The load of the next tile runs beside a matmul, up to four times as fast as one of its columns: never longer.
    nki-library's MLP has a layout of weights of "unit-stride weight loading, reducing the matrix multiplication
    initiation interval"; without it a column takes `stationary_stride_cycles`.
    """
    view = use.types["stationary"]
    cycles = columns * use.arch.stationary_stride_cycles
    if abs(view.innermost_stride) <= 1 or view.free_size == 1:
        return None
    fact = use.arch.fact("stationary_stride_cycles")
    latency = cycles + use.arch.matmul_latency_cycles
    return Cost(interval=cycles, latency=latency, source=fact.source, confidence=fact.confidence)


def _array_cost(use: Use, dtype: DType | None, *, transposes: bool, M: int, N: int) -> Cost:
    """Return the cost of streaming N columns through the array; results come `matmul_latency_cycles` later."""
    arch, source, confidence = use.arch, DOC_226, trust(use, v2="documented")
    cycles: float = max(min(arch.matmul_min_cycles, M), N)
    if dtype is F32 and transposes:
        cycles *= arch.fp32_transpose_factor
        source, confidence = f"{DOC_226}; factor of float32 by the Trainium2 architecture guide", "inferred"
    elif dtype is F32:
        cycles = cycles * arch.fp32_matmul_factor + arch.fp32_matmul_overhead_cycles
        if arch.generation > 2:
            source, confidence = f"{PROFILES_V3}: float32 matmuls", trust(use, v3="measured")
    return Cost(interval=cycles, latency=cycles + arch.matmul_latency_cycles, source=source, confidence=confidence)


def on_tile(use: Use, cost: Cost, columns: int) -> Cost:
    """Return the cost of a call whose stationary tile has some columns, with the part of the array that it uses.

    Calls on parts that have no row and column in common run in parallel (NKI API, nki.isa.nc_matmul, tiling mode). No
    speed-up is published. inferred: the next one starts after the least interval of a call, its columns up to 64.
    """
    if not (use.attrs["tile_position"] and use.attrs["tile_size"]):
        return cost
    (row, column), (rows, wide) = use.attrs["tile_position"], use.attrs["tile_size"]
    across = use.arch.gemm_stationary_fmax // ARRAY_BLOCK
    blocks = sum(
        1 << down * across + right
        for down in range(row // ARRAY_BLOCK, -(-(row + rows) // ARRAY_BLOCK))
        for right in range(column // ARRAY_BLOCK, -(-(column + wide) // ARRAY_BLOCK))
    )
    issue = min(cost.interval, use.arch.matmul_min_cycles, columns)
    return replace(cost, blocks=blocks, issue=issue, confidence="inferred")


def _dense(operand: Array) -> Array:
    """Return a matrix whose product does not depend on where it lies.

    Strided ones would go round BLAS, single columns through its matrix-vector product, whose sums depend on the step.
    """
    (rows, columns), (row, column), size = operand.shape, operand.strides, operand.itemsize
    fine = column == size and row >= column * columns and columns > 1
    turned = row == size and column >= row * rows and rows > 1 and columns > 1
    return operand if fine or turned else np.ascontiguousarray(operand)


def _columns(values: Values, operand: str) -> int:
    return int(math.prod(values[operand].shape[1:])) // (2 if _is_paired(values) else 1)


def _sizes(values: Values, operand: str) -> tuple[int, ...]:
    """Return the free dimensions that a Beta 1 product has from an operand; those of paired rows are one."""
    return (_columns(values, operand),) if _is_paired(values) else tuple(values[operand].shape[1:])


def _is_paired(values: Values) -> bool:
    mode = values.get("perf_mode")
    return mode is not None and "double_row" in str(getattr(mode, "value", mode))


def _transpose_engine(use: Use) -> str:
    return "tensor" if use.space("dst") == PSUM and use.space("data") == SBUF else "vector"


def _transpose_size(use: Use) -> Fault:
    most = 128 if use.engine == "tensor" else 32
    if use.dims["P"] <= most and use.dims["F"] <= most:
        return None
    return f"data is {use.dims['P']} x {use.dims['F']}, the {use.engine} engine transposes at most {most} x {most}"


def _multiplies(use: Use) -> bool:
    """Whether a transpose is a product with an identity in which NaN and infinity spread."""
    kind = use.dtypes["data"]
    return use.engine == "tensor" and use.arch.generation == 2 and kind is not None and kind.is_float


_IDENTITY: Final = Implicit(
    operand="data",
    text="the Tensor engine transposes by a product with an identity",
    help="multiply by an identity of your own with nisa.nc_matmul, or transpose 32 x 32 on the Vector engine",
)


@instruction(engine=("tensor", "vector"), see="NKI API, nki.isa.nc_transpose")
class nc_transpose:
    """dst[F, P] = data[P, F].T, with the free dimensions of data flattened.

    The Tensor Engine takes up to 128 x 128 from SBUF to PSUM, the Vector Engine up to 32 x 32 between SBUF and PSUM.
    Bit-exact, but for the Tensor Engine of NeuronCore-v2, where it is a real product with an identity matrix and a
    NaN or infinity spreads along its row.
    """

    dst = out("F P", ONCHIP, "transposed tile, dtype of data; in PSUM for the Tensor Engine")
    data = arg("P F", ONCHIP, "tile to transpose; in SBUF for the Tensor Engine")
    engine = choice("tensor, vector, or unknown: by the place of dst", enums.engine.unknown)

    size = Predicate(
        "NKI225",
        "128 x 128 on the Tensor Engine, 32 x 32 on the Vector Engine",
        _transpose_size,
        operand="data",
        help="transpose block by block",
        accepts={"data": "sbuf bfloat16 128x128", "dst": "psum bfloat16 128x128"},
        refuses={"data": "sbuf bfloat16 128x129", "dst": "psum bfloat16 129x128"},
    )
    dtype = Predicate(
        "NKI207",
        "dst.dtype == data.dtype",
        one_dtype("dst", "data"),
        operand="dst",
        help="allocate dst with the dtype of data and cast when copying it out",
        refuses={"dst": "psum float32 128x64"},
    )

    example = {"dst": "psum bfloat16 128x64", "data": "sbuf bfloat16 64x128"}
    history = {"stationary": "data", "transposes": "data"}

    choose = _transpose_engine

    def implicit_operands(use: Use) -> tuple[Implicit, ...]:
        return (_IDENTITY,) if use.engine == "tensor" else ()

    def transpose_flops(use: Use) -> int:
        """Return those of the Tensor Engine: a product with an identity."""
        return 2 * use.dims["P"] ** 2 * use.dims["F"] if use.engine == "tensor" else 0

    precision = "native"
    exact = True

    def moves(use: Use) -> Arrangement:
        return "" if _multiplies(use) else "transposed"

    def shapes(use: Use) -> Mapping[str, tuple[int, ...]]:
        return {"dst": (use.dims["F"], use.dims["P"]), "data": (use.dims["P"], use.dims["F"])}

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        if _multiplies(use):
            flat = np.asarray(ins.data, np.float32)
            if not np.isfinite(flat).all():
                np.copyto(out.dst, flat.T @ np.eye(flat.shape[0], dtype=np.float32), casting="unsafe")
                return
        transpose_into(out.dst, ins.data)

    def cost(use: Use) -> Cost:
        if use.engine == "vector":
            return engine_cost(use, use.dims["F"])
        return _array_cost(use, use.dtypes["data"], transposes=True, M=use.dims["F"], N=use.dims["P"])

    beta1 = Beta1(
        result=lambda v: (
            (int(np.prod(v["data"].shape[1:], dtype=int)), v["data"].shape[0]),
            v["data"].dtype,
            SBUF if getattr(v.get("engine"), "name", "") == "vector" else PSUM,
        ),
        order="data",
    )
