"""Legal calls of every instruction: all operators, dtypes, memories, engines, sizes and layouts that it takes.

What a legal call is stands here by the documentation, independently of the declarations' predicates: a refusal of what
is drawn here is a finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Instruction
from tests.calls import Call, Case, Word
from tests.draws import Choice, Scene, factors
from tests.ingredients import (
    ARITHMETIC,
    BITWISE,
    column,
    draw_dtype,
    draw_flavour,
    draw_integers,
    draw_shape,
    dtypes_of,
    member,
    number,
    op,
    output,
    put,
    tile,
)
from tests.legal_blocks import BLOCKS
from tests.legal_moves import (
    draw_dma_compute,
    draw_dma_copy,
    draw_dma_transpose,
    draw_iota,
    draw_memset,
    draw_nc_matmul,
    draw_nc_transpose,
    draw_tensor_copy,
    part_of_it,
)
from tests.legal_picks import PICKS
from tests.legal_random import RANDOM, draw_before
from tests.legal_registers import REGISTERS
from tests.legal_scans import SCANS, draw_again
from tests.legal_sync import SYNC


def _tensor_tensor(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene)
    engine = choice.pick(("unknown", "vector", "gpsimd"))
    bits = choice.chance(20)
    names = list(ARITHMETIC) + (["abs_max", "abs_min"] if arch.generation >= 4 else [])
    name = choice.pick(BITWISE) if bits else choice.pick([*names, "power"])
    flavour = "positive" if name == "power" else draw_flavour(choice)
    if bits:
        kinds = draw_integers(choice, 3)
    elif choice.chance(20):
        kinds = [choice.pick(("int32", "uint32")) for _ in range(3)]
    else:
        kinds = [draw_dtype(choice, arch) for _ in range(3)]
    if name == "power":
        engine = "unknown" if engine == "vector" else engine
    inside = engine == "gpsimd" or name == "power"
    spaces = ("sbuf",) if inside else ("sbuf", "sbuf", "psum")
    first = put(scene, spaces)
    second = "sbuf" if first == "psum" else put(scene, spaces)
    out = put(scene, spaces)
    if choice.chance(10) and shape[1] < 2048:
        left, dst = scene.shifted(first, kinds[0], *shape, flavour)
        right = tile(scene, second, kinds[1], shape, flavour=flavour)
    else:
        left = tile(scene, first, kinds[0], shape, flavour=flavour)
        right = tile(scene, second, kinds[1], shape, flavour=flavour)
        dst = output(scene, out, shape, [left, right], kinds[2])
    call = Call("tensor_tensor", {"dst": dst, "data1": left, "data2": right, "op": op(name)})
    return call if engine == "unknown" else call.but(engine=member("engine", engine))


def _stage(scene: Scene, name: str, partitions: int, *, whole: str = "", flavour: str = "plain") -> Any:
    """The operand of a scalar stage: a number or a tile of one column."""
    if whole:
        # Without a whole dtype the operand is float32; with one it is an integer of that width.
        if scene.choice.chance(50):
            return column(scene, whole, partitions, flavour="plain" if "shift" in name else "bits")
        return (
            scene.choice.pick((1, 0, 3, 7, 255, -1, 2**31 - 1)) if "shift" not in name else scene.choice.integer(0, 9)
        )
    if scene.choice.chance(50):
        return column(scene, "float32", partitions, flavour=flavour)
    return number(scene.choice)


def _tensor_scalar(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene)
    kind = choice.integer(0, 9)
    spaces: tuple[str, ...] = ("sbuf", "sbuf", "psum")
    arguments: dict[str, Any] = {}
    flavour = draw_flavour(choice)
    if kind <= 1:
        kinds = draw_integers(choice, 2)
        first = choice.pick((*BITWISE, "invert"))
        arguments["op0"] = op(first)
        arguments["operand0"] = None if first == "invert" else _stage(scene, first, shape[0], whole=kinds[0])
        second = choice.pick((None, *BITWISE))
        if second:
            arguments |= {"op1": op(second), "operand1": _stage(scene, second, shape[0], whole=kinds[0])}
    else:
        kinds = [draw_dtype(choice, arch) for _ in range(2)]
        arguments, engine = _arithmetic_stages(scene, shape[0], flavour)
        if engine:
            arguments["engine"] = member("engine", engine)
        loose = {"power", "rsqrt"} & {value.meaning for value in arguments.values() if isinstance(value, Word)}
        spaces = ("sbuf",) if engine == "gpsimd" else spaces
        flavour = "positive" if loose else flavour
    for name in ("reverse0", "reverse1"):
        if choice.chance(25) and arguments.get(f"op{name[-1]}") is not None:
            arguments[name] = True
    data = tile(scene, put(scene, spaces), kinds[1], shape, flavour=flavour)
    dst = output(scene, put(scene, spaces), shape, [data], kinds[0])
    return Call("tensor_scalar", {"dst": dst, "data": data, **arguments})


def _arithmetic_stages(scene: Scene, partitions: int, flavour: str) -> tuple[dict[str, Any], str]:
    """Operators and operands of both stages, and the engine that is asked for."""
    choice, arch = scene.choice, scene.arch
    v4 = arch.generation >= 4
    kind = choice.integer(0, 9)
    if kind == 0:
        return {"op0": None, "operand0": None}, ""
    if kind == 1:
        unary = choice.pick(("abs", "reciprocal", *(("square", "relu") if v4 else ())))
        found: dict[str, Any] = {"op0": op(unary), "operand0": choice.pick((None, 0.0))}
    elif kind == 2:
        name = choice.pick(("power", "rsqrt"))
        operand = None if name == "rsqrt" else choice.pick((0.5, 2, -1.0))
        found = {"op0": op(name), "operand0": operand}
        if choice.chance(30):
            tile_of = column(scene, "float32", partitions, flavour="positive", spaces=("sbuf",))
            found |= {"op1": op("multiply"), "operand1": choice.pick((2.0, tile_of))}
        return found, choice.pick(("", "gpsimd"))
    elif kind == 3 and arch.generation >= 3:
        name = choice.pick(("multiply", "add"))
        found = {"op0": op(name), "operand0": _stage(scene, name, partitions, flavour=flavour)}
        if name == "multiply" and choice.chance(50):
            found |= {"op1": op("add"), "operand1": _stage(scene, "add", partitions, flavour=flavour)}
        return found, "scalar"
    else:
        first = choice.pick([*ARITHMETIC, *(("abs_max", "abs_min") if v4 else ())])
        found = {"op0": op(first), "operand0": _stage(scene, first, partitions, flavour=flavour)}
    if choice.chance(50):
        second = choice.pick(ARITHMETIC)
        found |= {"op1": op(second), "operand1": _stage(scene, second, partitions, flavour=flavour)}
    return found, choice.pick(("", "vector"))


def _scalar_tensor_tensor(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene)
    flavour = draw_flavour(choice)
    first = choice.pick(("sbuf", "sbuf", "psum"))
    second = "sbuf" if first == "psum" else choice.pick(("sbuf", "psum"))
    data = tile(scene, first, draw_dtype(choice, arch), shape, flavour=flavour)
    other = tile(scene, second, draw_dtype(choice, arch), shape, flavour=flavour)
    given: Any = number(choice)
    if choice.chance(50):
        given = column(scene, draw_dtype(choice, arch), shape[0], flavour=flavour)
    dst = output(scene, choice.pick(("sbuf", "psum")), shape, [data, other], draw_dtype(choice, arch))
    call = Call("scalar_tensor_tensor", {"dst": dst, "data": data, "op0": op(choice.pick(ARITHMETIC)), "operand0": given,
                                         "op1": op(choice.pick(ARITHMETIC)), "operand1": other})  # fmt: skip
    for name in ("reverse0", "reverse1"):
        call = call.but(**{name: True}) if choice.chance(25) else call
    return call


def _reciprocal(scene: Scene) -> Call:
    choice = scene.choice
    shape = draw_shape(scene)
    spaces = ("sbuf", "psum")
    data = tile(scene, put(scene, spaces), draw_dtype(choice, scene.arch), shape, flavour=draw_flavour(choice))
    dst = output(scene, put(scene, spaces), shape, [data], draw_dtype(choice, scene.arch))
    return Call("reciprocal", {"dst": dst, "data": data})


def _tensor_reduce(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    name = choice.pick(("add", "maximum", "minimum", "multiply", "subtract", "logical_and", "logical_or", "logical_xor",
                        "bitwise_and", "bitwise_or", "bitwise_xor"))  # fmt: skip
    rows, columns = draw_shape(scene, most=64 if name == "multiply" else 4096)
    free = factors(choice, columns)
    reduced = choice.integer(1, len(free))
    rank = len(free) + 1
    kept = math.prod(free[: len(free) - reduced])
    if name.startswith("bitwise"):
        kinds = draw_integers(choice, 2)
    else:
        kinds = [draw_dtype(choice, arch) for _ in range(2)]
    exact = name not in ("add", "subtract", "multiply")
    flavour = draw_flavour(choice) if exact else "positive" if name == "multiply" else choice.pick(("plain", "special"))
    data = scene.part(put(scene, ("sbuf", "psum")), kinds[0], (rows, *free), flavour=flavour)
    dst = tile(scene, put(scene, ("sbuf", "psum")), kinds[1], (rows, kept), written=True)
    axes: Any = list(range(rank - reduced, rank))
    if choice.chance(30):
        axes = [axis - rank for axis in axes]
    if choice.chance(50):
        axes.reverse()
    axes = axes[0] if len(axes) == 1 and choice.chance(50) else choice.pick((tuple, list))(axes)
    call = Call("tensor_reduce", {"dst": dst, "op": op(name), "data": data, "axis": axes})
    call = call.but(keepdims=True) if choice.chance(20) else call
    return call.but(negate=True) if choice.chance(20) and not name.startswith("bitwise") else call


def _activation(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene)
    names = [n for n, f in ACTIVATIONS.items() if f.since <= arch.generation]
    name = choice.pick(names)
    rooted = name in ("log", "sqrt", "rsqrt", "reciprocal")
    flavour = "positive" if rooted else choice.pick(("plain", "plain", "special"))
    if name not in ("copy", "relu", "abs", "exp", "square", "sigmoid", "tanh", "sign"):
        flavour = "positive" if rooted else "plain"
    spaces = ("sbuf", "psum")
    data = tile(scene, put(scene, spaces), draw_dtype(choice, arch), shape, flavour=flavour)
    dst = output(scene, put(scene, spaces), shape, [data], draw_dtype(choice, arch))
    arguments: dict[str, Any] = {"dst": dst, "op": op(name), "data": data}
    if choice.chance(40):
        arguments["scale"] = column(scene, "float32", shape[0], flavour="positive") if choice.chance(50) else 0.25
    if choice.chance(40) and not (name == "reciprocal" and arch.generation == 2):
        if choice.chance(60) or arch.generation == 2:
            kind = choice.pick([n for n in dtypes_of(arch) if n != "tfloat32"])
            arguments["bias"] = column(scene, kind, shape[0], flavour="positive" if rooted else "plain")
        else:
            arguments["bias"] = choice.pick((0.5, 1, 2.0)) if rooted else choice.pick((0.5, -1, 0))
    if choice.chance(30):
        arguments["reduce_cmd"] = member("reduce_cmd", choice.pick(("reset_reduce", "reduce", "reset", "idle")))
        arguments["reduce_op"] = choice.pick((op("add"), None))
    if choice.chance(20):
        arguments["reduce_res"] = column(scene, draw_dtype(choice, arch), shape[0], written=True)
    return Call("activation", arguments)


DRAWS: dict[str, Callable[[Scene], Call]] = {
    "activation": _activation, "dma_compute": draw_dma_compute, "dma_copy": draw_dma_copy, "dma_transpose": draw_dma_transpose, "iota": draw_iota, "memset": draw_memset, "nc_matmul": draw_nc_matmul,
    "nc_transpose": draw_nc_transpose, "reciprocal": _reciprocal, "scalar_tensor_tensor": _scalar_tensor_tensor,
    "tensor_copy": draw_tensor_copy, "tensor_reduce": _tensor_reduce, "tensor_scalar": _tensor_scalar,
    "tensor_tensor": _tensor_tensor, **SCANS, **PICKS, **BLOCKS,
    **RANDOM, **REGISTERS, **SYNC,
}  # fmt: skip


def draw_legal(choice: Choice, instruction: Instruction, arch: Arch) -> Case:
    """A kernel whose last instruction is a legal call of `instruction`."""
    scene = Scene(choice, arch)
    call = DRAWS[instruction.name](scene)
    calls = [call]
    if instruction.name in ("nc_matmul", "nc_matmul_mx") and choice.chance(40):
        first = part_of_it(choice, call) if instruction.name == "nc_matmul" and choice.chance(50) else call
        calls = [first.but(accumulate=None), call.but(accumulate=choice.pick((None, None, True, False)))]
    if instruction.name == "activation" and choice.chance(20):
        again = member("reduce_cmd", choice.pick(("reduce", "reset_reduce", "idle")))
        calls = [call.but(reduce_cmd=member("reduce_cmd", "reset_reduce")), call.but(reduce_cmd=again)]
    if instruction.name in SCANS:
        calls = draw_again(choice, call)
    if instruction.name in RANDOM:
        calls = [*draw_before(scene), call]
    return Case(arch.target, tuple(scene.memories), tuple(calls))
