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
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spec import Instruction
from tests.calls import Call, Case, Part, Word
from tests.draws import Choice, Scene, factors

INTEGERS = ("int32", "uint32", "int16", "uint16", "int8", "uint8")
PACKED = ("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4")
FLAVOURS = ("plain", "special", "bits", "edges")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
ARITHMETIC = (
    "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "greater_equal", "greater",
    "less_equal", "less", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip


def op(name: str) -> Word:
    """An operator or a function of nl, as an argument."""
    return Word(f"nl.{name}", name)


def member(kind: str, name: str) -> Word:
    return Word(f"nisa.{kind}.{name}", name)


def dtypes_of(arch: Arch) -> tuple[str, ...]:
    """Every dtype that can be computed with on the target, the usual ones first."""
    usual = ("float32", "bfloat16", "float16", "int32")
    others = [n for n, d in DTYPES.items() if n not in usual and d.kind != "packed" and d.since <= arch.generation]
    return (*usual, *others)


def draw_dtype(choice: Choice, arch: Arch) -> str:
    names = dtypes_of(arch)
    return choice.pick(names[:2]) if choice.chance(40) else choice.pick(names)


def draw_integers(choice: Choice, count: int) -> list[str]:
    """Integer dtypes for the operands of a bit operator: mostly of one width."""
    width = choice.pick(("32", "16", "8"))
    mixed = choice.chance(15)
    return [choice.pick(("int", "uint")) + (choice.pick(("32", "16", "8")) if mixed else width) for _ in range(count)]


def draw_partitions(choice: Choice, most: int = 128) -> int:
    """A number of partitions, those beside quadrants and halves often."""
    found = choice.pick((1, 2, 128, 3, 31, 32, 33, 64, 65, 127)) if choice.chance(70) else choice.integer(1, 128)
    return min(found, most)


def draw_free(choice: Choice, most: int = 1 << 16) -> int:
    """Elements per partition: mostly small, sometimes around powers of two, seldom many."""
    kind = choice.integer(0, 9)
    if kind < 6:
        return min(most, choice.integer(1, 24))
    if kind < 9:
        return min(most, choice.pick((32, 64, 100, 127, 128, 129, 511, 512, 513)))
    return min(most, choice.pick((1000, 2048, 4095, 4096, 65536)))


def draw_shape(scene: Scene, *, most: int = 4096) -> tuple[int, int]:
    """Partitions and elements per partition that stay quick."""
    columns = draw_free(scene.choice, most)
    return draw_partitions(scene.choice, max(1, (1 << 17) // columns)), columns


def draw_flavour(choice: Choice) -> str:
    return choice.pick(FLAVOURS)


def tile(scene: Scene, space: str, dtype: str, shape: tuple[int, int], **more: Any) -> Part:
    """A view of P partitions and F elements, the latter in any free shape."""
    return scene.part(space, dtype, (shape[0], *factors(scene.choice, shape[1])), **more)


def column(scene: Scene, dtype: str, partitions: int, *, spaces: tuple[str, ...] = ("sbuf", "sbuf", "psum"),
           **more: Any) -> Part:  # fmt: skip
    """A tile of one column."""
    return scene.part(put(scene, spaces), dtype, (partitions, 1), **more)


def number(choice: Choice) -> float | int:
    return choice.pick((1.0, 2, -1.5, 0, 0.1, -3, 1e-3, 12345.678, 2.0**-126, 1e30, 1e39, float("inf"), float("nan")))


def put(scene: Scene, spaces: tuple[str, ...]) -> str:
    return scene.choice.pick(spaces)


def _output(scene: Scene, space: str, shape: tuple[int, int], sources: list[Part], dtype: str) -> Part:
    """dst: a tensor of its own, or the very view of a source."""
    if sources and scene.choice.chance(15):
        same = scene.choice.pick(sources)
        if same.text == "" or same.text.startswith("["):
            return same
    return tile(scene, space, dtype, shape, written=True)


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
        dst = _output(scene, out, shape, [left, right], kinds[2])
    call = Call("tensor_tensor", {"dst": dst, "data1": left, "data2": right, "op": op(name)})
    return call if engine == "unknown" else call.but(engine=member("engine", engine))


def _stage(scene: Scene, name: str, partitions: int, *, whole: str = "", flavour: str = "plain") -> Any:
    """The operand of a scalar stage: a number or a tile of one column."""
    if whole:
        # Without a whole dtype the operand is float32; with one it is an integer of that width.
        if scene.choice.chance(50):
            return column(scene, whole, partitions, flavour="plain" if "shift" in name else "bits")
        return scene.choice.pick((1, 0, 3, 7, 255, -1, 2**31 - 1)) if "shift" not in name else scene.choice.integer(0, 9)
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
    dst = _output(scene, put(scene, spaces), shape, [data], kinds[0])
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
    dst = _output(scene, choice.pick(("sbuf", "psum")), shape, [data, other], draw_dtype(choice, arch))
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
    dst = _output(scene, put(scene, spaces), shape, [data], draw_dtype(choice, scene.arch))
    return Call("reciprocal", {"dst": dst, "data": data})


def _tensor_copy(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene)
    engine = choice.pick(("unknown", "vector", "gpsimd", *(("scalar",) if arch.generation >= 3 else ())))
    spaces = ("sbuf",) if engine == "gpsimd" else ("sbuf", "psum")
    source = draw_dtype(choice, arch)
    target = source if choice.chance(50) else draw_dtype(choice, arch)
    if arch.generation >= 4 and choice.chance(10):
        source = target = choice.pick(PACKED)
    if choice.chance(10) and shape[1] < 2048:
        src, dst = scene.shifted("sbuf", source, *shape, draw_flavour(choice))
    else:
        src = tile(scene, put(scene, spaces), source, shape, flavour=draw_flavour(choice))
        dst = _output(scene, put(scene, spaces), shape, [src], target)
    call = Call("tensor_copy", {"dst": dst, "src": src})
    return call if engine == "unknown" else call.but(engine=member("engine", engine))


def _memset(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene)
    engine = choice.pick(("unknown", "vector", "gpsimd"))
    names = (*dtypes_of(arch), *(PACKED if arch.generation >= 4 else ()))
    dtype = choice.pick(names)
    dst = tile(scene, put(scene, ("sbuf",) if engine == "gpsimd" else ("sbuf", "psum")), dtype, shape, written=True)
    if dtype in PACKED:
        value: Any = 0
    elif dtype in INTEGERS:
        top = int(DTYPES[dtype].max_finite)
        value = choice.pick((0, 1, 7, top, top - 1, int(DTYPES[dtype].lowest)))
    elif dtype == "bool_":
        value = choice.pick((0, 1, True, False, 2, 0.5, 300, -1))
    else:
        value = choice.pick((0, 0.0, 1, 1.0, -0.0, 0.1, -2.5, 1e10, 1e-40, 3.4e38, 1e300, float("inf"), float("-inf")))
    call = Call("memset", {"dst": dst, "value": value})
    return call if engine == "unknown" else call.but(engine=member("engine", engine))


def _iota(scene: Scene) -> Call:
    choice = scene.choice
    counts = [choice.integer(1, 12) for _ in range(choice.integer(1, 4))]
    steps = [choice.pick((1, 0, -1, 3, 100, 2**20, -(2**31), 2**31 - 1)) for _ in counts]
    shape = (draw_partitions(choice), math.prod(counts))
    dst = tile(scene, "sbuf", choice.pick(dtypes_of(scene.arch)), shape, written=True)
    pattern = [list(pair) for pair in zip(steps, counts, strict=True)]
    call = Call("iota", {"dst": dst, "pattern": pattern})
    if choice.chance(50):
        call = call.but(offset=choice.pick((5, -7, 2**31 - 1, -(2**31))))
    return call.but(channel_multiplier=choice.pick((1, -3, 1000, 2**31 - 1))) if choice.chance(50) else call


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
    dst = _output(scene, put(scene, spaces), shape, [data], draw_dtype(choice, arch))
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


def _matmul_dtypes(choice: Choice, arch: Arch) -> tuple[str, str]:
    if choice.chance(35):
        return choice.pick(("float32", "tfloat32")), choice.pick(("float32", "tfloat32"))
    narrow = ["bfloat16", "float16", "float8_e5m2"]
    narrow.append(choice.pick(("float8_e4m3", "float8_e4m3fn")) if arch.generation >= 4 else "float8_e4m3")
    return choice.pick(narrow), choice.pick(narrow)


def _nc_matmul(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    k, m = draw_partitions(choice), draw_partitions(choice)
    left, right = _matmul_dtypes(choice, arch)
    kind = choice.pick(("float32", "float32", "bfloat16")) if arch.generation >= 4 else "float32"
    most = 512 if arch.generation < 4 else 16384 // DTYPES[kind].nbytes
    n = min(most, choice.pick((512, 511, most)) if choice.chance(15) else draw_free(choice, 512))
    pair = 1
    arguments: dict[str, Any] = {}
    mode = choice.integer(0, 9)
    flavour = choice.pick(("plain", "plain", "special"))
    if mode == 7 and arch.generation >= 3:
        left, right = (choice.pick(("float8_e5m2", "float8_e4m3")) for _ in range(2))
        pair = 2
        arguments["perf_mode"] = Word('"double_row"', "double_row") if choice.chance(20) else member(
            "matmul_perf_mode", "double_row")  # fmt: skip
    elif mode == 8:
        sizes = (32, 64, 128) if arch.generation >= 3 else (64, 128)
        rows, columns = choice.pick(sizes), choice.pick(sizes)
        k, m = min(k, rows), min(m, columns)
        at = (rows * choice.integer(0, 128 // rows - 1), columns * choice.integer(0, 128 // columns - 1))
        arguments |= {"tile_position": at, "tile_size": (rows, columns)}
    inner = (pair,) if pair == 2 else ()
    stationary = scene.part("sbuf", left, (k, *inner, *factors(choice, m, 2)), flavour=flavour)
    moving = scene.part("sbuf", right, (k, *inner, *factors(choice, n, 2)), flavour=flavour)
    dst = tile(scene, "psum", kind, (m, n), written=True, plain=arch.generation < 4)
    if choice.chance(40):
        arguments["accumulate"] = choice.pick((None, False, True))
    if choice.chance(10):
        arguments["is_moving_onezero"] = True
    return Call("nc_matmul", {"dst": dst, "stationary": stationary, "moving": moving, **arguments})


def _nc_transpose(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    engine = choice.pick(("unknown", "tensor", "vector"))
    spaces = ("sbuf", "psum")
    source, target = ("sbuf", "psum") if engine == "tensor" else (put(scene, spaces), put(scene, spaces))
    tensor = engine == "tensor" or (engine == "unknown" and (source, target) == ("sbuf", "psum"))
    rows, columns = (draw_partitions(choice, 128 if tensor else 32) for _ in range(2))
    dtype = draw_dtype(choice, arch)
    data = tile(scene, source, dtype, (rows, columns), flavour=draw_flavour(choice))
    dst = tile(scene, target, dtype, (columns, rows), written=True)
    call = Call("nc_transpose", {"dst": dst, "data": data})
    return call if engine == "unknown" else call.but(engine=member("engine", engine))


def _dma_copy(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    shape = draw_shape(scene)
    source = draw_dtype(choice, arch)
    target = source if choice.chance(60) else draw_dtype(choice, arch)
    if arch.generation >= 4 and choice.chance(10):
        source = target = choice.pick(PACKED)
    if arch.generation >= 3 and choice.chance(25):
        return _indirect_copy(scene, source, target)
    flavour = draw_flavour(choice)
    spaces = choice.pick((("hbm", "sbuf"), ("sbuf", "hbm"), ("sbuf", "sbuf"), ("hbm", "hbm")))
    sides = []
    for space, dtype, written in zip(spaces, (source, target), (False, True), strict=True):
        if space == "hbm":
            sides.append(scene.part("hbm", dtype, factors(choice, math.prod(shape), 4), written=written, flavour=flavour))
        else:
            rows = choice.pick([n for n in range(1, 129) if math.prod(shape) % n == 0])
            rest = math.prod(shape) // rows
            sides.append(tile(scene, space, dtype, (rows, rest), written=written, flavour=flavour)
                         if rest <= 8192 else tile(scene, space, dtype, shape, written=written, flavour=flavour))  # fmt: skip
    call = Call("dma_copy", {"dst": sides[1], "src": sides[0]})
    mode = choice.pick(("", "", "swdge", "none", *(("hwdge",) if source == target and arch.generation >= 3 else ())))
    if mode:
        call = call.but(dge_mode=member("dge_mode", mode))
    if mode == "hwdge" and choice.chance(50):
        call = call.but(engine=member("engine", choice.pick(("sync", "scalar"))))
    return call.but(priority=choice.integer(0, 3)) if arch.generation >= 4 and choice.chance(20) else call


def _indirect_copy(scene: Scene, source: str, target: str) -> Call:
    """A gather from, or a scatter to, rows of a tensor in HBM that an index names at run time."""
    choice = scene.choice
    rows, columns, count = choice.integer(1, 20), choice.integer(1, 40), choice.integer(1, 64)
    skip, scatter, scalar = choice.chance(40), choice.chance(40), choice.chance(30)
    count = min(count, rows) if scatter else count
    span = range(-2 if skip else 0, rows + (3 if skip else 0))
    if scatter:
        # Each row once: the order of a scatter's writes is not defined.
        pool, values = list(span), []
        for _ in range(count):
            values.append(pool.pop(choice.integer(0, len(pool) - 1)))
    else:
        values = [choice.pick(span) for _ in range(count)]
    low, high = 0, rows - 1
    inner = choice.integer(0, 3)
    kind = "scalar" if scalar else "vector"
    indices = values[:1] if scalar else values
    table = scene.memory("hbm", target if scatter else source, (rows, columns + inner), flavour=draw_flavour(choice))
    lanes = scene.memory("sbuf", "int32", (len(indices), 1), values=tuple(indices))
    index = Part(lanes, "", "int32", 0, (len(indices), 1), (1, 1))
    dtype = target if scatter else source
    size = 1 if scalar else count
    pattern = [[columns + inner, size], [1, columns]]
    text = f".ap({pattern}, offset={inner}, {kind}_offset=INDEX, indirect_dim=0)"
    part = Part(table, text, dtype, inner, (size, columns), (0 if scalar else columns + inner, 1), index, kind,
                columns + inner, low, high)  # fmt: skip
    other = scene.part("sbuf", source if scatter else target, (size, columns), written=not scatter,
                       flavour=draw_flavour(choice))  # fmt: skip
    call = Call("dma_copy", {"dst": part, "src": other} if scatter else {"dst": other, "src": part})
    return call.but(oob_mode=member("oob_mode", "skip")) if skip else call


DRAWS: dict[str, Callable[[Scene], Call]] = {
    "activation": _activation, "dma_copy": _dma_copy, "iota": _iota, "memset": _memset, "nc_matmul": _nc_matmul,
    "nc_transpose": _nc_transpose, "reciprocal": _reciprocal, "scalar_tensor_tensor": _scalar_tensor_tensor,
    "tensor_copy": _tensor_copy, "tensor_reduce": _tensor_reduce, "tensor_scalar": _tensor_scalar,
    "tensor_tensor": _tensor_tensor,
}  # fmt: skip


def _part_of_it(choice: Choice, call: Call) -> Call:
    """A matmul into some columns of the destination of another."""
    sides = {name: call.parts[name] for name in ("dst", "moving")}
    if any(part.text or len(part.shape) != 2 for part in sides.values()):
        return call
    columns = sides["dst"].shape[1]
    start = choice.integer(0, columns - 1)
    stop = choice.integer(start + 1, columns)
    cut = {
        name: Part(part.memory, f"[:, {start}:{stop}]", part.dtype, start, (part.shape[0], stop - start), part.strides)
        for name, part in sides.items()
    }
    return call.but(**cut)


def draw_legal(choice: Choice, instruction: Instruction, arch: Arch) -> Case:
    """A kernel whose last instruction is a legal call of `instruction`."""
    scene = Scene(choice, arch)
    call = DRAWS[instruction.name](scene)
    calls = [call]
    if instruction.name == "nc_matmul" and choice.chance(40):
        first = _part_of_it(choice, call) if choice.chance(50) else call
        calls = [first.but(accumulate=None), call.but(accumulate=choice.pick((None, None, True, False)))]
    if instruction.name == "activation" and choice.chance(20):
        again = member("reduce_cmd", choice.pick(("reduce", "reset_reduce", "idle")))
        calls = [call.but(reduce_cmd=member("reduce_cmd", "reset_reduce")), call.but(reduce_cmd=again)]
    return Case(arch.target, tuple(scene.memories), tuple(calls))
