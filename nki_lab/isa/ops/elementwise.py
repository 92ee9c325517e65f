"""Vector Engine (and GpSimd, Scalar) arithmetic on tiles of one shape."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.alu import AluOp, exact_int32
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import BF16, F32, INT32, INTEGERS, UINT32
from nki_lab.isa.ops.cycles import (
    ARCH_V3,
    DOC_226,
    PROFILES_V3,
    copy_factor,
    engine_cost,
    free_size,
    in_sbuf,
    is_dense,
    is_fast,
    scalar_factor,
)
from nki_lab.isa.ops.shapes import one_in_sbuf
from nki_lab.isa.spec import ONCHIP, PSUM, SBUF, Cost, Legacy, Predicate, Use, arg, attr, instruction, out, predicate


def _op(use: Use, name: str) -> AluOp | None:
    op: AluOp | None = use.attrs[name]
    return op


def alu_ops(*names: str) -> Predicate:
    """Limit: the target has each named operator."""

    def test(use: Use) -> str | None:
        for name in names:
            op = _op(use, name)
            if op is not None and op.since > use.arch.generation:
                return f"{name}=nl.{op.name} needs NeuronCore-v{op.since}, the target is {use.arch.name}"
        return None

    exist = "exists" if len(names) == 1 else "exist"
    return predicate("NKI221", f"{' and '.join(names)} {exist} on the target", test, operand=names[0], target="trn2",
                     help="build it from operators that the target has", accepts={names[0]: "maximum"},
                     refuses={names[0]: "abs_max"})  # fmt: skip


def _bitvec_integers(*names: str) -> Any:
    def test(use: Use) -> str | None:
        bits = [name for name in names if (op := _op(use, name)) is not None and op.category == "bitvec"]
        if not bits:
            return None
        if len(bits) < len([n for n in names if _op(use, n) is not None]):
            return f"{bits[0]} is a bit operator and the other is arithmetic: one instruction is all one or the other"
        for operand, dtype in use.dtypes.items():
            if dtype is not None and dtype not in INTEGERS:
                return f"{bits[0]}=nl.{use.attrs[bits[0]].name} works on bits of integers, {operand} is {dtype.name}"
        for name in bits:
            number = use.value(name.replace("op", "operand"))
            if isinstance(number, float) and not number.is_integer():
                return f"{name}=nl.{use.attrs[name].name} works on bits of integers, its operand is {number}"
        return None

    return test


def _bits(*names: str) -> Any:
    def precision(use: Use) -> str:
        return "bits" if any((op := _op(use, n)) is not None and op.category == "bitvec" for n in names) else "float32"

    return precision


# Operators of single other instructions: tensor_partition_reduce and activate2.
_ELSEWHERE = frozenset({"average", "bypass"})


def _binary(use: Use) -> str | None:
    op = _op(use, "op")
    if op is None or (op.arity == 2 and op.name not in _ELSEWHERE):
        return None
    return f"op=nl.{op.name} takes one input, tensor_tensor has two" if op.arity == 1 else _not_here("op", op)


def _not_here(name: str, op: AluOp) -> str:
    return f"{name}=nl.{op.name} is no operator of element-wise instructions"


def _stage_operators(use: Use) -> str | None:
    found = [(name, op) for name in ("op0", "op1") if (op := _op(use, name)) is not None and op.name in _ELSEWHERE]
    return _not_here(*found[0]) if found else None


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
    engine = attr("enum", "vector, gpsimd or unknown", default=enums.engine.unknown, enum=enums.engine)

    binary = predicate("NKI215", "op takes two inputs", _binary, operand="op",
                       help="use nisa.activation or nisa.tensor_scalar for operators of one input",
                       accepts={"op": "maximum"}, refuses={"op": "abs"})  # fmt: skip
    known = alu_ops("op")
    integers = predicate("NKI202", "bit operators work on integers", _bitvec_integers("op"), operand="op",
                         help="reinterpret the tiles with .view(nl.int32), or use an arithmetic operator",
                         accepts={"op": "bitwise_and", "dst": "sbuf int32 128x512", "data1": "sbuf int32 128x512",
                                  "data2": "sbuf int32 128x512"},
                         refuses={"op": "bitwise_and"})  # fmt: skip
    one_in_sbuf = one_in_sbuf("data1", "data2")

    example = {"dst": "sbuf float32 128x512", "data1": "sbuf float32 128x512", "data2": "sbuf float32 128x512",
               "op": "add"}  # fmt: skip

    elementwise = True

    def choose(use: Use) -> str:
        if use.attrs["op"].name == "power":
            return "gpsimd"
        whole = all(dtype in (INT32, UINT32) for dtype in use.dtypes.values())
        arithmetic = use.attrs["op"].category == "arithmetic"
        return "gpsimd" if whole and arithmetic and PSUM not in use.spaces() else "vector"

    def precision(use: Use) -> str:
        if use.attrs["op"].category == "bitvec":
            return "bits"
        return "native" if _native_integer(use) else "float32"

    def exact(use: Use) -> bool:
        return bool(use.attrs["op"].selects)

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        if out.dst.dtype.kind == "f" or ins.data1.dtype == ins.data2.dtype == out.dst.dtype:
            use.attrs["op"].apply(ins.data1, ins.data2, out.dst)
            return
        # int32 with uint32: 64 bits hold both, and what is kept are the lowest 32 of them. guess: the same for bit
        # operators on integers of several widths, zeros in front.
        result = np.empty(out.dst.shape, np.int64)
        use.attrs["op"].apply(ins.data1.astype(np.int64), ins.data2.astype(np.int64), result)
        np.copyto(out.dst, result, casting="unsafe")

    def cost(arch: Arch, use: Use) -> Cost:
        n = free_size(use, "dst")
        if use.engine == "gpsimd":
            return engine_cost(arch, use, n, source="not published: one element a cycle and lane", confidence="guess")
        mixed = PSUM in (use.space("data1"), use.space("data2"))
        if arch.generation == 2:
            quick = all(d is BF16 for d in use.dtypes.values()) and use.attrs["op"].name in _QUICK
            dense = all(is_dense(view) for view in use.types.values())
            return engine_cost(arch, use, n if mixed or (quick and dense) else 2 * n)
        if mixed:
            trust = "measured" if arch.generation == 3 else "inferred"
            return engine_cost(arch, use, n, source=f"{PROFILES_V3}: 604 ns for 512 float32", confidence=trust)
        # 256 elements a cycle are both inputs of one result a lane; 16-bit data doubles that.
        fast = in_sbuf(use) and all(is_fast(arch, d) for d in use.dtypes.values())
        factor = 1 / arch.vector_fast_tensor_tensor if fast else 1.0
        return engine_cost(arch, use, n * factor, source=ARCH_V3, confidence="inferred")

    legacy = Legacy(result=lambda v: (v["data1"].shape, None, SBUF), order=("data1", "data2", "op"))


# The operators for which bfloat16 tiles stream at one element a cycle on NeuronCore-v2, by the API documentation.
_QUICK = ("add", "multiply", "subtract")


def operand_given(op: str, operand: str) -> Any:
    def test(use: Use) -> str | None:
        code = _op(use, op)
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


def _stage_engines(use: Use) -> str | None:
    ops = [op for op in (_op(use, "op0"), _op(use, "op1")) if op is not None]
    names = tuple(op.name for op in ops)
    if use.engine == "scalar":
        if use.arch.generation < 3:
            return f"the Scalar Engine has tensor_scalar from NeuronCore-v3, the target is {use.arch.name}"
        if names not in (("multiply", "add"), ("multiply",), ("add",), ()):
            return f"the Scalar Engine computes multiply-add, multiply or add, not {', '.join(names)}"
    if use.engine == "gpsimd" and not {"rsqrt", "power"} & set(names):
        return f"GpSimd runs tensor_scalar for rsqrt and power only, not {', '.join(names) or 'a copy'}"
    return None


def unary_stage(use: Use) -> str | None:
    op = _op(use, "op0")
    if op is None or op.arity == 2:
        return None
    if op.name in ("square", "relu") and use.arch.generation < 4:
        return f"op0=nl.{op.name} needs NeuronCore-v4, the target is {use.arch.name}"
    return None


def _addresses(use: Use) -> str | None:
    """Arithmetic on 32-bit integers throughout, which is what addresses are computed with, takes no gathered tile."""
    ops = [op for op in (_op(use, "op0"), _op(use, "op1")) if op is not None]
    whole = all(use.dtypes[name] in (INT32, UINT32) for name in ("dst", "data"))
    if not whole or not ops or any(op.category == "bitvec" for op in ops):
        return None
    name = next((name for name in ("data", "dst") if use.types[name].indirect == "gather"), "")
    return f"{name} is gathered in 32-bit integer arithmetic" if name else None


def _scalar_width(*names: str) -> Any:
    def test(use: Use) -> str | None:
        bits = any((op := _op(use, n)) is not None and op.category == "bitvec" for n in ("op0", "op1"))
        for name in names:
            dtype = use.dtypes.get(name)
            if dtype is not None and not bits and dtype is not F32:
                return f"{name} is a {dtype.name} tile, per-partition scalars of arithmetic are float32"
        return None

    return test


@instruction(engine=("vector", "scalar", "gpsimd"), see="NKI API, nki.isa.tensor_scalar")
class tensor_scalar:
    """dst = (data op0 operand0) op1 operand1, with numbers or per-partition scalars broadcast along the free dimension.

    `reverse0`/`reverse1` swap the sides of an operator. A stage whose operator is None is passed through. Arithmetic
    is float32; bit operators work on raw integers on the Vector Engine.
    """

    dst = out("P F", ONCHIP, "result, cast on write", indirect=True)
    data = arg("P F", ONCHIP, "input tile", indirect=True)
    op0 = attr("alu", "operator of the first stage, or None to skip it", optional=True)
    operand0 = arg("P 1", ONCHIP, "a number, or a float32 tile of one column", scalar=True, optional=True,
                   default=None)  # fmt: skip
    reverse0 = attr("bool", "compute operand0 op0 data", default=False)
    op1 = attr("alu", "operator of the second stage", default=None)
    operand1 = arg("P 1", ONCHIP, "a number, or a float32 tile of one column", scalar=True, optional=True)
    reverse1 = attr("bool", "compute operand1 op1 stage0", default=False)
    engine = attr("enum", "vector, scalar, gpsimd or unknown", default=enums.engine.unknown, enum=enums.engine)

    first = predicate("NKI218", "op0 comes with operand0", operand_given("op0", "operand0"), operand="operand0",
                      help="give the operand, or None for both", accepts={"op0": None, "operand0": None},
                      refuses={"op0": "add", "operand0": None})  # fmt: skip
    second = predicate("NKI218", "op1 comes with operand1", operand_given("op1", "operand1"), operand="operand1",
                       help="give the operand, or None for both", accepts={"op1": "add", "operand1": 1.0},
                       refuses={"op1": "add"})  # fmt: skip
    known = alu_ops("op0", "op1")
    operators = predicate("NKI215", "op0 and op1 are operators of element-wise instructions", _stage_operators,
                          operand="op0", help="use an operator of the table Supported Math Operators",
                          accepts={"op0": "maximum"}, refuses={"op0": "average"})  # fmt: skip
    unary = predicate("NKI221", "square and relu as op0 need NeuronCore-v4", unary_stage, operand="op0",
                      help="use nisa.activation, or multiply the tile with itself", target="trn2",
                      accepts={"op0": "abs", "operand0": None}, refuses={"op0": "relu", "operand0": None})  # fmt: skip
    kinds = predicate("NKI202", "op0 and op1 are both bit operators on integers or both arithmetic",
                      _bitvec_integers("op0", "op1"), operand="op0",
                      help="split the instruction in two, or reinterpret the tile with .view(nl.int32)",
                      accepts={"op0": "left_shift", "operand0": 2, "dst": "sbuf int32 128x512",
                               "data": "sbuf int32 128x512"},
                      refuses={"op0": "left_shift", "operand0": 2})  # fmt: skip
    scalars = predicate("NKI202", "tile operands of arithmetic are float32", _scalar_width("operand0", "operand1"),
                        operand="operand0", help="keep per-partition scalars in float32 tiles",
                        accepts={"operand0": "sbuf float32 128x1"},
                        refuses={"operand0": "sbuf bfloat16 128x1"})  # fmt: skip
    stages = predicate("NKI208", "Scalar Engine: multiply-add from NeuronCore-v3; GpSimd: rsqrt and power",
                       _stage_engines, operand="engine", help="leave engine= out, or use the Vector Engine",
                       accepts={"op0": "multiply", "engine": enums.engine.vector},
                       refuses={"op0": "maximum", "engine": enums.engine.scalar})  # fmt: skip
    addresses = predicate("NKI309", "32-bit integer arithmetic takes no tensor indirection", _addresses, operand="data",
                          help="copy the gathered elements with nisa.tensor_copy first", target="trn3",
                          accepts={"data": "sbuf float32 128x512 picked"},
                          refuses={"data": "sbuf int32 128x512 picked", "dst": "sbuf int32 128x512"})  # fmt: skip

    example = {"dst": "sbuf float32 128x512", "data": "sbuf float32 128x512", "op0": "multiply", "operand0": 2.0}

    elementwise = True

    def choose(use: Use) -> str:
        names = {op.name for op in (_op(use, "op0"), _op(use, "op1")) if op is not None}
        return "gpsimd" if names & {"rsqrt", "power"} and PSUM not in use.spaces() else "vector"

    precision = _bits("op0", "op1")

    def exact(use: Use) -> bool:
        return use.attrs["op0"] is None and use.attrs["op1"] is None

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs = use.attrs
        data, first, second, target = ins.data, ins.operand0, ins.operand1, out.dst
        if target.dtype.kind != "f":
            data, first, second, target = _one_width(data, first, second, target)
        source = stage(data, attrs["op0"], first, attrs["reverse0"], target)
        source = stage(source, attrs["op1"], second, attrs["reverse1"], target)
        if source is not out.dst:
            np.copyto(out.dst, source, casting="unsafe")

    def cost(arch: Arch, use: Use) -> Cost:
        n = free_size(use, "dst")
        if use.engine == "gpsimd":
            return engine_cost(arch, use, 4 * n, source="Trainium API notes: rsqrt on GpSimd has a quarter of the "
                               "Scalar Engine's throughput", confidence="documented")  # fmt: skip
        if use.engine == "scalar":
            return engine_cost(arch, use, n * scalar_factor(arch, use, "dst", "data"))
        factor = copy_factor(arch, use, "dst", "data")
        return engine_cost(arch, use, n * factor, source=ARCH_V3 if factor < 1 else DOC_226)

    legacy = Legacy(order=("data", "op0", "operand0", "reverse0", "op1", "operand1", "reverse1"))


def _one_width(*arrays: Any) -> tuple[Any, ...]:
    """Operands of bit operators in the widest of their integers, the last of them (dst) replaced by a new array.

    guess: an engine sees narrower integers with zeros in front, and dst keeps the low bits.
    """
    kinds = {array.dtype for array in arrays if isinstance(array, np.ndarray)}
    if len(kinds) == 1:
        return arrays
    wide = max(kinds, key=lambda kind: int(kind.itemsize))
    given = (array.astype(wide) if isinstance(array, np.ndarray) else array for array in arrays[:-1])
    return (*given, np.empty(arrays[-1].shape, wide))


def stage(source: Any, op: AluOp | None, other: Any, reverse: bool, out: Any) -> Any:
    """One stage of a scalar pipeline, written to out; a skipped stage gives its source back."""
    if op is None:
        return source
    if op.arity == 1:
        op.apply(source, None, out)
        return out
    if out.dtype.kind in "iu" and not isinstance(other, np.ndarray):
        other = np.array(int(other) & (2 ** (8 * out.dtype.itemsize) - 1), dtype=out.dtype)
    if reverse:
        op.apply(other, source, out)
    else:
        op.apply(source, other, out)
    return out


def _both_given(use: Use) -> str | None:
    for name in ("op0", "op1"):
        op = _op(use, name)
        if op is None:
            return f"{name} is None, scalar_tensor_tensor always runs both stages"
        if op.category == "bitvec":
            return f"{name}=nl.{op.name} is a bit operator, scalar_tensor_tensor is arithmetic"
        if op.arity == 1:
            return f"{name}=nl.{op.name} takes one input, each stage has two"
        if op.name in _ELSEWHERE:
            return _not_here(name, op)
    return None


@instruction(engine="vector", see="NKI API, nki.isa.scalar_tensor_tensor")
class scalar_tensor_tensor:
    """dst = (data op0 operand0) op1 operand1: a broadcast scalar first, then a full tile, in float32."""

    dst = out("P F", ONCHIP, "result, cast on write")
    data = arg("P F", ONCHIP, "input tile")
    op0 = attr("alu", "operator of the scalar stage")
    operand0 = arg("P 1", ONCHIP, "a number, or a tile of one column", scalar=True)
    op1 = attr("alu", "operator of the tile stage")
    operand1 = arg("P F", ONCHIP, "tile of the shape of data")
    reverse0 = attr("bool", "compute operand0 op0 data", default=False)
    reverse1 = attr("bool", "compute operand1 op1 stage0", default=False)

    arithmetic = predicate("NKI215", "op0 and op1 are arithmetic operators of two inputs", _both_given, operand="op0",
                           help="use nisa.tensor_scalar for one stage or for bit operators",
                           accepts={"op0": "subtract"}, refuses={"op0": "bitwise_and"})  # fmt: skip
    known = alu_ops("op0", "op1")
    one_in_sbuf = one_in_sbuf("data", "operand1")

    example = {"dst": "sbuf float32 128x512", "data": "sbuf float32 128x512", "op0": "multiply", "operand0": 2.0,
               "op1": "add", "operand1": "sbuf float32 128x512"}  # fmt: skip

    elementwise = True
    tolerated = {"dtype": "the dtype of dst decides"}

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        attrs = use.attrs
        staged = stage(ins.data, attrs["op0"], ins.operand0, attrs["reverse0"], np.empty(out.dst.shape, np.float32))
        if attrs["reverse1"]:
            attrs["op1"].apply(ins.operand1, staged, out.dst)
        else:
            attrs["op1"].apply(staged, ins.operand1, out.dst)

    def cost(arch: Arch, use: Use) -> Cost:
        n = free_size(use, "dst")
        quick = (
            use.dtypes["data"] is BF16 and use.dtypes["operand1"] is BF16 and n % 2 == 0
            and use.attrs["op0"].name == "subtract" and use.attrs["op1"].name == "multiply"
        )  # fmt: skip
        return engine_cost(arch, use, n if quick else 2 * n)

    legacy = Legacy()


@instruction(engine="vector", see="NKI API, nki.isa.reciprocal")
class reciprocal:
    """dst = 1 / data, in float32 on the Vector Engine."""

    dst = out("P F", ONCHIP, "result, cast on write")
    data = arg("P F", ONCHIP, "input tile")

    example = {"dst": "sbuf float32 128x512", "data": "sbuf float32 128x512"}

    elementwise = True

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        np.divide(np.float32(1), ins.data, out=out.dst)

    def cost(arch: Arch, use: Use) -> Cost:
        fact = arch.fact("reciprocal_cycles")
        cycles = arch.reciprocal_cycles * free_size(use, "dst")
        return engine_cost(arch, use, cycles, source=fact.source, confidence=fact.confidence)

    legacy = Legacy(order=("data",))
