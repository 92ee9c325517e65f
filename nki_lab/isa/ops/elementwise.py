"""Vector Engine (and GpSimd, Scalar) arithmetic on tiles of one shape."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.alu import AluOp, exact_int32
from nki_lab.isa.dtype import BF16, F32, INT32, INTEGERS, UINT32
from nki_lab.isa.ops.cycles import (
    ARCH_V3,
    DOC_226,
    PROFILES_V3,
    STREAMED_V3,
    WIDTHS_V3,
    are_dense,
    are_fast,
    copy_factor,
    engine_cost,
    free_size,
    in_sbuf,
    scalar_factor,
    trust,
)
from nki_lab.isa.ops.shapes import Test, float32_or_bits, one_in_sbuf
from nki_lab.isa.spec import (
    ONCHIP,
    PSUM,
    SBUF,
    Arrays,
    Beta1,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Use,
    arg,
    attr,
    choice,
    column,
    instruction,
    out,
)


def _ops(use: Use, *names: str) -> dict[str, AluOp]:
    """Return the named operators that a call gives."""
    return {name: use.attrs[name] for name in names if use.attrs[name] is not None}


def alu_ops(*names: str) -> Predicate:
    """Limit: the target has each named operator."""

    def test(use: Use) -> Fault:
        return next(
            filter(
                None, (use.before(op.since, f"{name}=nl.{op.name} needs") for name, op in _ops(use, *names).items())
            ),
            None,
        )

    exist = "exists" if len(names) == 1 else "exist"
    return Predicate(
        "NKI221",
        f"{' and '.join(names)} {exist} on the target",
        test,
        operand=names[0],
        target="trn2",
        help="build it from operators that the target has",
        accepts={names[0]: "maximum"},
        refuses={names[0]: "abs_max"},
    )


def _bitvec_integers(*names: str) -> Test:
    def test(use: Use) -> Fault:
        ops = _ops(use, *names)
        bits = [name for name, op in ops.items() if op.category == "bitvec"]
        if not bits:
            return None
        if len(bits) < len(ops):
            return f"{bits[0]} is a bit operator and the other is arithmetic: one instruction is all one or the other"
        for operand, dtype in use.dtypes.items():
            if dtype is not None and dtype not in INTEGERS:
                return f"{bits[0]}=nl.{ops[bits[0]].name} works on bits of integers, {operand} is {dtype.name}"
        for name, op in ops.items():
            number = use.value(name.replace("op", "operand"))
            if isinstance(number, float) and not number.is_integer():
                return f"{name}=nl.{op.name} works on bits of integers, its operand is {number}"
        return None

    return test


# Operators of single other instructions: tensor_partition_reduce and activate2.
_ELSEWHERE = frozenset({"average", "bypass"})


def _binary(use: Use) -> Fault:
    op = use.attrs["op"]
    return f"op=nl.{op.name} takes one input, tensor_tensor has two" if op.arity == 1 else _stage_operators(use, "op")


def _stage_operators(use: Use, *names: str) -> Fault:
    found = [f"{name}=nl.{op.name}" for name, op in _ops(use, *names).items() if op.name in _ELSEWHERE]
    return f"{found[0]} is no operator of element-wise instructions" if found else None


def two_inputs(use: Use, *names: str) -> Fault:
    """Test that operators are arithmetic ones of two inputs."""
    for name, op in _ops(use, *names).items():
        if op.category == "bitvec" or op.arity == 1 or op.name in _ELSEWHERE:
            return f"{name}=nl.{op.name} is no arithmetic operator of two inputs"
    return None


def _power_engine(use: Use) -> Fault:
    wrong = use.engine == "vector" and use.attrs["op"].name == "power"
    return "the Vector Engine has no op=nl.power" if wrong else None


def _native_integer(use: Use) -> bool:
    whole = all(dtype in (INT32, UINT32) for dtype in use.dtypes.values())
    return use.engine == "gpsimd" and whole and exact_int32(use.attrs["op"]) is not None


@instruction(engine=("vector", "gpsimd"), see="NKI API, nki.isa.tensor_tensor")
class tensor_tensor:
    """dst = data1 op data2, element by element, in float32.

    int32/uint32 throughout runs on GpSimd in exact integer arithmetic unless an operand is in PSUM or engine=vector
    is asked for; bit operators work on raw integers. Comparisons give 1.0 and 0.0. Nothing broadcasts.
    """

    dst = out("P F", ONCHIP, "result, cast on write", indirect=True)
    data1 = arg("P F", ONCHIP, "left input", indirect=True)
    data2 = arg("P F", ONCHIP, "right input")
    op = attr("alu", "binary operator")
    engine = choice("vector, gpsimd or unknown", enums.engine.unknown)

    binary = Predicate(
        "NKI215",
        "op takes two inputs",
        _binary,
        operand="op",
        help="use nisa.activation or nisa.tensor_scalar for operators of one input",
        accepts={"op": "maximum"},
        refuses={"op": "abs"},
    )
    known = alu_ops("op")
    raises = Predicate(
        "NKI208",
        "power runs on GpSimd",
        _power_engine,
        operand="engine",
        help="leave engine= out",
        accepts={"op": "power"},
        refuses={"op": "power", "engine": enums.engine.vector},
    )
    integers = Predicate(
        "NKI202",
        "bit operators work on integers",
        _bitvec_integers("op"),
        operand="op",
        help="reinterpret the tiles with .view(nl.int32), or use an arithmetic operator",
        accepts={
            "op": "bitwise_and",
            "dst": "sbuf int32 128x512",
            "data1": "sbuf int32 128x512",
            "data2": "sbuf int32 128x512",
        },
        refuses={"op": "bitwise_and"},
    )
    one_in_sbuf = one_in_sbuf("data1", "data2")

    example = {
        "dst": "sbuf float32 128x512",
        "data1": "sbuf float32 128x512",
        "data2": "sbuf float32 128x512",
        "op": "add",
    }

    elementwise = True

    def choose(use: Use) -> str:
        if use.attrs["op"].name == "power":
            return "gpsimd"
        whole = all(dtype in (INT32, UINT32) for dtype in use.dtypes.values())
        arithmetic = use.attrs["op"].category == "arithmetic"
        return "gpsimd" if whole and arithmetic and PSUM not in use.spaces() else "vector"

    def precision(use: Use) -> str:
        return "native" if _native_integer(use) else float32_or_bits("op")(use)

    def exact(use: Use) -> bool:
        return bool(use.attrs["op"].selects)

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        if out.dst.dtype.kind == "f" or ins.data1.dtype == ins.data2.dtype == out.dst.dtype:
            use.attrs["op"].apply(ins.data1, ins.data2, out.dst)
            return
        # int32 with uint32: 64 bits hold both, and what is kept are the lowest 32 of them. guess: the same for bit
        # operators on integers of several widths, zeros in front.
        result = np.empty(out.dst.shape, np.int64)
        use.attrs["op"].apply(ins.data1.astype(np.int64), ins.data2.astype(np.int64), result)
        np.copyto(out.dst, result, casting="unsafe")

    def cost(use: Use) -> Cost:
        n = free_size(use, "dst")
        if use.engine == "gpsimd":
            return engine_cost(use, n, source="not published: one element a cycle and lane", confidence="guess")
        mixed = PSUM in (use.space("data1"), use.space("data2"))
        if use.arch.generation == 2:
            quick = all(d is BF16 for d in use.dtypes.values()) and use.attrs["op"].name in _QUICK
            return engine_cost(use, n if mixed or (quick and are_dense(use, *use.types)) else 2 * n)
        if mixed:
            return engine_cost(
                use, n, source=f"{PROFILES_V3}: 604 ns for 512 float32", confidence=trust(use, v3="measured")
            )
        # 256 elements a cycle are both inputs of one result a lane; 16-bit data doubles that.
        factor = 1 / use.arch.vector_fast_tensor_tensor if in_sbuf(use) and are_fast(use, *use.types) else 1.0
        return engine_cost(use, n * factor, source=ARCH_V3, confidence="inferred")

    beta1 = Beta1(result=lambda v: (v["data1"].shape, None, SBUF), order="data1 data2 op")


# The operators for which bfloat16 tiles stream at one element a cycle on NeuronCore-v2, by the API documentation.
_QUICK = ("add", "multiply", "subtract")


def operand_given(op: str, operand: str) -> Test:
    """Test that an operand is given with its operator, and only with one of two inputs."""

    def test(use: Use) -> Fault:
        code: AluOp | None = use.attrs[op]
        value = use.value(operand)
        given = value is not None
        if code is None:
            return f"{operand} is given without {op}" if given else None
        if code.arity == 2 and not given:
            return f"{op}=nl.{code.name} takes two inputs and {operand} is missing"
        if code.arity == 1 and given and value != 0:
            return f"{op}=nl.{code.name} takes one input and {operand} is given"
        return None

    return test


def _stage_engines(use: Use) -> Fault:
    ops = _ops(use, "op0", "op1")
    names = tuple(op.name for op in ops.values())
    if use.engine == "scalar":
        if problem := use.before(3, "the Scalar Engine has tensor_scalar from"):
            return problem
        # The limit is documented for Trainium2; Trainium3's Scalar Engine has what the Vector Engine has.
        pairs = names in (("multiply", "add"), ("multiply",), ("add",), ())
        bits = next((name for name, op in ops.items() if op.category == "bitvec"), None)
        if use.arch.generation == 3 and not pairs:
            return f"the Scalar Engine computes multiply-add, multiply or add, not {', '.join(names)}"
        if bits:
            return f"{bits}=nl.{ops[bits].name} is a bit operator, which the Vector Engine has"
    if use.engine == "gpsimd" and not _OF_GPSIMD & set(names):
        return f"GpSimd runs tensor_scalar for rsqrt and power only, not {', '.join(names) or 'a copy'}"
    return None


_OF_GPSIMD = frozenset({"rsqrt", "power"})


def unary_stage(remedy: str, refuses: str) -> Predicate:
    """Limit: square and relu are operators of the first stage from NeuronCore-v4."""

    def test(use: Use) -> Fault:
        op = use.attrs["op0"]
        return use.before(4, f"op0=nl.{op.name} needs") if op and op.name in ("square", "relu") else None

    return Predicate(
        "NKI221",
        "square and relu as op0 need NeuronCore-v4",
        test,
        operand="op0",
        help=remedy,
        target="trn2",
        accepts={"op0": "abs", "operand0": None},
        refuses={"op0": refuses, "operand0": None},
    )


def _addresses(use: Use) -> Fault:
    """Test 32-bit integer arithmetic throughout, which computes addresses and takes no gathered tile."""
    ops = _ops(use, "op0", "op1").values()
    whole = all(use.dtypes[name] in (INT32, UINT32) for name in ("dst", "data"))
    if not whole or not ops or any(op.category == "bitvec" for op in ops):
        return None
    name = next((name for name in ("data", "dst") if use.types[name].indirect == "gather"), "")
    return f"{name} is gathered in 32-bit integer arithmetic" if name else None


def _scalar_width(use: Use) -> Fault:
    bits = any(op.category == "bitvec" for op in _ops(use, "op0", "op1").values())
    for name in ("operand0", "operand1"):
        dtype = use.dtypes[name]
        if dtype is not None and not bits and dtype is not F32:
            return f"{name} is a {dtype.name} tile, per-partition scalars of arithmetic are float32"
    return None


@instruction(engine=("vector", "scalar", "gpsimd"), see="NKI API, nki.isa.tensor_scalar")
class tensor_scalar:
    """dst = (data op0 operand0) op1 operand1, with numbers or per-partition scalars broadcast along the free dimension.

    `reverse0`/`reverse1` swap the sides of an operator. A stage whose operator is None is passed through. Arithmetic
    is float32; bit operators work on raw integers on the Vector Engine.
    """

    dst = out("P F", ONCHIP, "result, cast on write", indirect=True)
    data = arg("P F", ONCHIP, "input tile", indirect=True)
    op0 = attr("alu", "operator of the first stage, or None to skip it", optional=True)
    operand0 = column("a number, or a float32 tile of one column", optional=True)
    reverse0 = attr("bool", "compute operand0 op0 data", default=False)
    op1 = attr("alu", "operator of the second stage", default=None)
    operand1 = column("a number, or a float32 tile of one column", optional=True)
    reverse1 = attr("bool", "compute operand1 op1 stage0", default=False)
    engine = choice("vector, scalar, gpsimd or unknown", enums.engine.unknown)

    first = Predicate(
        "NKI218",
        "op0 comes with operand0",
        operand_given("op0", "operand0"),
        operand="operand0",
        help="give the operand, or None for both",
        accepts={"op0": None, "operand0": None},
        refuses={"op0": "add", "operand0": None},
    )
    second = Predicate(
        "NKI218",
        "op1 comes with operand1",
        operand_given("op1", "operand1"),
        operand="operand1",
        help="give the operand, or None for both",
        accepts={"op1": "add", "operand1": 1.0},
        refuses={"op1": "add"},
    )
    known = alu_ops("op0", "op1")
    operators = Predicate(
        "NKI215",
        "op0 and op1 are operators of element-wise instructions",
        lambda use: _stage_operators(use, "op0", "op1"),
        operand="op0",
        help="use an operator of the table Supported Math Operators",
        accepts={"op0": "maximum"},
        refuses={"op0": "average"},
    )
    unary = unary_stage("use nisa.activation, or multiply the tile with itself", "relu")
    kinds = Predicate(
        "NKI202",
        "op0 and op1 are both bit operators on integers or both arithmetic",
        _bitvec_integers("op0", "op1"),
        operand="op0",
        help="split the instruction in two, or reinterpret the tile with .view(nl.int32)",
        accepts={"op0": "left_shift", "operand0": 2, "dst": "sbuf int32 128x512", "data": "sbuf int32 128x512"},
        refuses={"op0": "left_shift", "operand0": 2},
    )
    scalars = Predicate(
        "NKI202",
        "tile operands of arithmetic are float32",
        _scalar_width,
        operand="operand0",
        help="keep per-partition scalars in float32 tiles",
        accepts={"operand0": "sbuf float32 128x1"},
        refuses={"operand0": "sbuf bfloat16 128x1"},
    )
    stages = Predicate(
        "NKI208",
        "Scalar Engine: multiply-add on NeuronCore-v3, arithmetic from v4; GpSimd: rsqrt and power",
        _stage_engines,
        operand="engine",
        target="trn2",
        help="leave engine= out, or use the Vector Engine",
        accepts={"op0": "multiply", "engine": enums.engine.vector},
        refuses={"op0": "maximum", "engine": enums.engine.scalar},
    )
    addresses = Predicate(
        "NKI309",
        "32-bit integer arithmetic takes no tensor indirection",
        _addresses,
        operand="data",
        help="copy the gathered elements with nisa.tensor_copy first",
        target="trn3",
        accepts={"data": "sbuf float32 128x512 picked"},
        refuses={"data": "sbuf int32 128x512 picked", "dst": "sbuf int32 128x512"},
    )

    example = {"dst": "sbuf float32 128x512", "data": "sbuf float32 128x512", "op0": "multiply", "operand0": 2.0}

    elementwise = True

    def choose(use: Use) -> str:
        names = {op.name for op in _ops(use, "op0", "op1").values()}
        return "gpsimd" if names & _OF_GPSIMD and in_sbuf(use) else "vector"

    def relief(use: Use) -> str:
        # The Scalar Engine computes scale * data + bias: one of these operators, or a product and then a sum.
        names = tuple(op.name for op in _ops(use, "op0", "op1").values())
        scales = names in (("multiply",), ("add",), ("subtract",), ("multiply", "add"), ("multiply", "subtract"), ())
        floats = all(use.types[name].dtype.kind == "float" for name in ("dst", "data"))
        return "scalar" if scales and floats else ""

    precision = float32_or_bits("op0", "op1")

    def exact(use: Use) -> bool:
        return use.attrs["op0"] is None and use.attrs["op1"] is None

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs = use.attrs
        data, first, second, target = ins.data, ins.operand0, ins.operand1, out.dst
        if target.dtype.kind != "f":
            data, first, second, target = _one_width(data, first, second, target)
        source = stage(data, attrs["op0"], first, attrs["reverse0"], target)
        source = stage(source, attrs["op1"], second, attrs["reverse1"], target)
        if source is not out.dst:
            np.copyto(out.dst, source, casting="unsafe")

    def cost(use: Use) -> Cost:
        n = free_size(use, "dst")
        if use.engine == "gpsimd":
            return engine_cost(
                use,
                4 * n,
                source="Trainium API notes: rsqrt on GpSimd has a quarter of the Scalar Engine's throughput",
                confidence="documented",
            )
        if use.engine == "scalar":
            return engine_cost(use, n * scalar_factor(use, "dst", "data"))
        factor = copy_factor(use, "dst", "data")
        if factor == 1 and use.arch.generation >= 3 and in_sbuf(use) and are_dense(use, "dst", "data"):
            # inferred: as a copy of these dtypes, which the 4x and 2x of the fast modes join with this instruction.
            return engine_cost(use, n / use.arch.vector_fp32_copy, source=WIDTHS_V3, confidence="inferred")
        return engine_cost(use, n * factor, source=ARCH_V3 if factor < 1 else DOC_226)

    beta1 = Beta1(order="data op0 operand0 reverse0 op1 operand1 reverse1")


def _one_width(*arrays: Any) -> tuple[Any, ...]:
    """Return operands of bit operators in the widest of their integers, the last (dst) replaced by a new array.

    guess: an engine sees narrower integers with zeros in front, and dst keeps the low bits.
    """
    kinds = {array.dtype for array in arrays if isinstance(array, np.ndarray)}
    if len(kinds) == 1:
        return arrays
    wide = max(kinds, key=lambda kind: int(kind.itemsize))
    given = (array.astype(wide) if isinstance(array, np.ndarray) else array for array in arrays[:-1])
    return (*given, np.empty(arrays[-1].shape, wide))


def stage(source: Any, op: AluOp | None, other: Any, reverse: bool, out: Any) -> Any:
    """Compute one stage of a scalar pipeline into `out` and return that; return the source of a skipped stage."""
    if op is None:
        return source
    if op.arity == 2 and out.dtype.kind in "iu" and not isinstance(other, np.ndarray):
        other = np.array(int(other) & (2 ** (8 * out.dtype.itemsize) - 1), dtype=out.dtype)
    return op.apply(other, source, out) if reverse and op.arity == 2 else op.apply(source, other, out)


def _both_given(use: Use) -> Fault:
    for name in ("op0", "op1"):
        op: AluOp | None = use.attrs[name]
        if op is None:
            return f"{name} is None, scalar_tensor_tensor always runs both stages"
        if op.category == "bitvec":
            return f"{name}=nl.{op.name} is a bit operator, scalar_tensor_tensor is arithmetic"
        if op.arity == 1:
            return f"{name}=nl.{op.name} takes one input, each stage has two"
    return _stage_operators(use, "op0", "op1")


@instruction(engine="vector", see="NKI API, nki.isa.scalar_tensor_tensor")
class scalar_tensor_tensor:
    """dst = (data op0 operand0) op1 operand1: a broadcast scalar first, then a full tile, in float32."""

    dst = out("P F", ONCHIP, "result, cast on write")
    data = arg("P F", ONCHIP, "input tile")
    op0 = attr("alu", "operator of the scalar stage")
    operand0 = column("a number, or a tile of one column")
    op1 = attr("alu", "operator of the tile stage")
    operand1 = arg("P F", ONCHIP, "tile of the shape of data")
    reverse0 = attr("bool", "compute operand0 op0 data", default=False)
    reverse1 = attr("bool", "compute operand1 op1 stage0", default=False)

    arithmetic = Predicate(
        "NKI215",
        "op0 and op1 are arithmetic operators of two inputs",
        _both_given,
        operand="op0",
        help="use nisa.tensor_scalar for one stage or for bit operators",
        accepts={"op0": "subtract"},
        refuses={"op0": "bitwise_and"},
    )
    known = alu_ops("op0", "op1")
    one_in_sbuf = one_in_sbuf("data", "operand1")

    example = {
        "dst": "sbuf float32 128x512",
        "data": "sbuf float32 128x512",
        "op0": "multiply",
        "operand0": 2.0,
        "op1": "add",
        "operand1": "sbuf float32 128x512",
    }

    elementwise = True
    tolerated = {"dtype": "the dtype of dst decides"}

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        attrs = use.attrs
        staged = stage(ins.data, attrs["op0"], ins.operand0, attrs["reverse0"], np.empty(out.dst.shape, out.dst.dtype))
        stage(staged, attrs["op1"], ins.operand1, attrs["reverse1"], out.dst)

    def cost(use: Use) -> Cost:
        n = free_size(use, "dst")
        ops = use.attrs["op0"].name, use.attrs["op1"].name
        if use.arch.generation > 2:
            return engine_cost(use, n, source=STREAMED_V3, confidence="inferred")
        narrow = use.dtypes["data"] is BF16 and use.dtypes["operand1"] is BF16 and n % 2 == 0
        return engine_cost(use, n if narrow and ops == ("subtract", "multiply") else 2 * n)

    beta1 = Beta1()


@instruction(engine="vector", see="NKI API, nki.isa.reciprocal")
class reciprocal:
    """dst = 1 / data, in float32 on the Vector Engine."""

    dst = out("P F", ONCHIP, "result, cast on write")
    data = arg("P F", ONCHIP, "input tile")

    example = {"dst": "sbuf float32 128x512", "data": "sbuf float32 128x512"}

    elementwise = True

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        np.divide(np.float32(1), ins.data, out=out.dst)

    def cost(use: Use) -> Cost:
        fact = use.arch.fact("reciprocal_cycles")
        return engine_cost(use, fact.value * free_size(use, "dst"), source=fact.source, confidence=fact.confidence)

    beta1 = Beta1(order="data")
