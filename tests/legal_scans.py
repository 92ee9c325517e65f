"""Legal calls of scans, register reductions and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nki_lab.isa.activation import ACTIVATIONS
from tests.calls import Call
from tests.draws import Choice, Scene
from tests.ingredients import (
    ARITHMETIC,
    column,
    draw_dtype,
    draw_flavour,
    draw_integers,
    draw_partitions,
    draw_shape,
    dtypes_of,
    member,
    number,
    op,
    output,
    put,
    tile,
)

_BOTH = ("sbuf", "sbuf", "psum")
_EXPONENTIAL = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "int8", "int16", "int32", "uint8",
                "uint16")  # fmt: skip
_QUIET = ("copy", "relu", "abs", "square")


def _start(scene: Scene, partitions: int, dtype: str = "float32") -> Any:
    """A scalar operand: a number or a tile of one column."""
    if scene.choice.chance(40):
        return column(scene, dtype, partitions, flavour="plain")
    return scene.choice.pick((0.0, 1.0, -2.5, 3))


def _scan(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene, most=256)
    flavour = draw_flavour(choice)
    first = put(scene, _BOTH)
    left = tile(scene, first, draw_dtype(choice, arch), shape, flavour=flavour)
    right = tile(scene, "sbuf" if first == "psum" else put(scene, _BOTH), draw_dtype(choice, arch), shape,
                 flavour=flavour)  # fmt: skip
    dst = output(scene, put(scene, _BOTH), shape, [left, right], draw_dtype(choice, arch))
    call = Call("tensor_tensor_scan", {
        "dst": dst, "data0": left, "data1": right, "initial": _start(scene, shape[0], draw_dtype(choice, arch)),
        "op0": op(choice.pick(("multiply", "add", *ARITHMETIC))), "op1": op(choice.pick(("add", "maximum", *ARITHMETIC))),
    })  # fmt: skip
    for name in ("reverse0", "reverse1"):
        call = call.but(**{name: True}) if choice.chance(25) else call
    return call


def _loading(scene: Scene, call: Call, operand: str, partitions: int) -> Call:
    """The call with one of the commands, and what load_reduce needs."""
    command = scene.choice.pick(("reset_reduce", "", "reduce", "load_reduce"))
    if command == "load_reduce":
        call = call.but(**{operand: _start(scene, partitions)})
    return call.but(reduce_cmd=member("reduce_cmd", command)) if command else call


_NOT_CUMULATIVE = ("int32", "uint32", "tfloat32", "bool_", "float8_e8m0fnu")


def _cumulative(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene, most=256)
    kinds = [name for name in dtypes_of(arch) if name not in _NOT_CUMULATIVE]
    src = tile(scene, put(scene, _BOTH), choice.pick(kinds), shape, flavour=draw_flavour(choice))
    dst = output(scene, put(scene, _BOTH), shape, [src], choice.pick(kinds))
    call = Call("tensor_scalar_cumulative", {
        "dst": dst, "src": src, "op0": op(choice.pick(ARITHMETIC)),
        "op1": op(choice.pick(("add", "subtract", "multiply", "maximum", "minimum"))),
        "imm0": _start(scene, shape[0]),
    })  # fmt: skip
    return _loading(scene, call, "imm1", shape[0])


def _scalar_reduce(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    fold = choice.pick(("add", "maximum", "minimum", "multiply"))
    shape = draw_shape(scene, most=32 if fold == "multiply" else 1024)
    bounded = fold in ("add", "multiply")
    flavour = "positive" if bounded else draw_flavour(choice)
    names = ("multiply", "maximum") if bounded else (*ARITHMETIC, "abs", "reciprocal")
    name = choice.pick(names)
    data = tile(scene, put(scene, _BOTH), draw_dtype(choice, arch), shape, flavour=flavour)
    dst = output(scene, put(scene, _BOTH), shape, [data], draw_dtype(choice, arch))
    arguments: dict[str, Any] = {"dst": dst, "data": data, "op0": op(name), "reduce_op": op(fold)}
    if name in ("abs", "reciprocal"):
        arguments["operand0"] = choice.pick((None, 0.0))
    elif choice.chance(50):
        arguments["operand0"] = column(scene, "float32", shape[0], flavour="positive" if bounded else flavour)
    else:
        arguments["operand0"] = choice.pick((1.0, 0.5, 2)) if bounded else number(choice)
    if choice.chance(70):
        arguments["reduce_res"] = column(scene, draw_dtype(choice, arch), shape[0], written=True)
    if choice.chance(25):
        arguments["reduce_res_negate"] = True
    return _loading(scene, Call("tensor_scalar_reduce", arguments), "reduce_init", shape[0])


def _activation_reduce(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene)
    data = tile(scene, put(scene, _BOTH), draw_dtype(choice, arch), shape, flavour="plain")
    dst = output(scene, put(scene, _BOTH), shape, [data], draw_dtype(choice, arch))
    name = choice.pick(("exp", "copy", "square", "sigmoid", "tanh", "gelu"))
    arguments: dict[str, Any] = {"dst": dst, "op": op(name), "data": data, "reduce_op": op("add")}
    kept = choice.chance(80)
    arguments["reduce_res"] = column(scene, draw_dtype(choice, arch), shape[0], written=True) if kept else None
    if choice.chance(40):
        arguments["scale"] = column(scene, "float32", shape[0], flavour="positive") if choice.chance(50) else 0.25
    if choice.chance(40):
        arguments["bias"] = column(scene, "float32", shape[0])
    return Call("activation_reduce", arguments)


def _activate2(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene, most=256)
    fold = choice.pick((None, "add", "maximum", "minimum", "abs_max", "abs_min"))
    usual = [n for n in ACTIVATIONS if n not in ("log", "sqrt", "rsqrt", "reciprocal", "prelu")]
    name = choice.pick(_QUIET if fold else (*usual, "prelu"))
    data = tile(scene, put(scene, _BOTH), draw_dtype(choice, arch), shape, flavour="plain")
    dst = output(scene, put(scene, _BOTH), shape, [data], draw_dtype(choice, arch))
    first, second = choice.pick(
        (("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass"),
         ("subtract", "bypass"), ("bypass", "bypass"))
    )  # fmt: skip
    arguments: dict[str, Any] = {"dst": dst, "op": op(name), "data": data, "imm0": _start(scene, shape[0]),
                                 "imm1": _start(scene, shape[0]), "op0": op(first), "op1": op(second)}  # fmt: skip
    for stage, operator in (("0", first), ("1", second)):
        if operator != "bypass" and choice.chance(25):
            arguments[f"reverse{stage}"] = True
    if name == "prelu":
        arguments["relu_param"] = _start(scene, shape[0])
    if fold:
        arguments["reduce_op"] = op(fold)
        arguments["reduce_cmd"] = member("reduce_cmd", choice.pick(("reset_reduce", "reset")))
        arguments["reduce_res"] = column(scene, draw_dtype(choice, arch), shape[0], written=True)
    return Call("activate2", arguments)


def _exponential(scene: Scene) -> Call:
    choice = scene.choice
    shape = draw_shape(scene, most=1024)
    src = tile(scene, put(scene, _BOTH), choice.pick((*_EXPONENTIAL, "uint32")), shape, flavour="plain")
    dst = output(scene, put(scene, _BOTH), shape, [], choice.pick((*_EXPONENTIAL, "tfloat32")))
    arguments: dict[str, Any] = {"dst": dst, "src": src}
    if choice.chance(50):
        arguments["max_value"] = _start(scene, shape[0])
    if choice.chance(70):
        command = choice.pick(("reset_reduce", "load_reduce", "reduce"))
        arguments["reduce_cmd"] = member("reduce_cmd", command)
        if command == "load_reduce":
            arguments["reduce_init"] = _start(scene, shape[0])
        arguments["reduce_res"] = column(scene, choice.pick(("float32", "bfloat16", "float16")), shape[0], written=True)
    return Call("exponential", arguments)


def _bn_stats(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    rows = draw_partitions(choice)
    columns = choice.pick((1, 2, 3, 7, 16, 100, 511, 512))
    data = tile(scene, put(scene, _BOTH), draw_dtype(choice, arch), (rows, columns), flavour="plain")
    dst = tile(scene, put(scene, _BOTH), draw_dtype(choice, arch), (rows, 6), written=True)
    return Call("bn_stats", {"dst": dst, "data": data})


def _bn_aggr(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    rows = draw_partitions(choice)
    kinds = [name for name in dtypes_of(arch) if name in ("float32", "bfloat16", "float16")]
    data = tile(scene, put(scene, _BOTH), choice.pick(kinds), (rows, 3 * choice.integer(1, 12)), flavour="positive")
    dst = tile(scene, put(scene, _BOTH), draw_dtype(choice, arch), (rows, 2), written=True)
    return Call("bn_aggr", {"dst": dst, "data": data})


def _partition_reduce(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    rows, columns = draw_shape(scene, most=1024)
    name = choice.pick(("add", "average", "maximum", "bitwise_or", "bitwise_and"))
    kinds = draw_integers(choice, 2) if name.startswith("bit") else [draw_dtype(choice, arch) for _ in range(2)]
    flavour = "bits" if name.startswith("bit") else "plain"
    data = tile(scene, "sbuf", kinds[0], (rows, columns), flavour=flavour)
    dst = tile(scene, "sbuf", kinds[1], (1, columns), written=True)
    return Call("tensor_partition_reduce", {"dst": dst, "op": op(name), "data": data})


SCANS: dict[str, Callable[[Scene], Call]] = {
    "activate2": _activate2, "activation_reduce": _activation_reduce, "bn_aggr": _bn_aggr, "bn_stats": _bn_stats,
    "exponential": _exponential, "tensor_partition_reduce": _partition_reduce,
    "tensor_scalar_cumulative": _cumulative, "tensor_scalar_reduce": _scalar_reduce, "tensor_tensor_scan": _scan,
}  # fmt: skip


def draw_again(choice: Choice, call: Call) -> list[Call]:
    """The call, or before it another that leaves something in the registers."""
    if "reduce_cmd" not in call.arguments or not choice.chance(60):
        return [call]
    if call.name == "activate2":
        return [call, call.but(reduce_cmd=member("reduce_cmd", "reduce"))]
    first = call.without("reduce_init").without("imm1").but(reduce_cmd=member("reduce_cmd", "reset_reduce"))
    return [first, call]
