"""Legal calls of the instructions that move tiles, fill them, and multiply them."""

from __future__ import annotations

import math
from typing import Any

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DTYPES
from tests.calls import Call, Part, Word
from tests.draws import Choice, Scene, factors, row_major
from tests.ingredients import (
    INTEGERS,
    PACKED,
    draw_dtype,
    draw_flavour,
    draw_free,
    draw_partitions,
    draw_shape,
    dtypes_of,
    member,
    op,
    output,
    put,
    tile,
)


def draw_tensor_copy(scene: Scene) -> Call:
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
        dst = output(scene, put(scene, spaces), shape, [src], target)
    call = Call("tensor_copy", {"dst": dst, "src": src})
    return call if engine == "unknown" else call.but(engine=member("engine", engine))


def draw_memset(scene: Scene) -> Call:
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


def draw_iota(scene: Scene) -> Call:
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


def _matmul_dtypes(choice: Choice, arch: Arch) -> tuple[str, str]:
    if choice.chance(35):
        return choice.pick(("float32", "tfloat32")), choice.pick(("float32", "tfloat32"))
    narrow = ["bfloat16", "float16", "float8_e5m2"]
    narrow.append(choice.pick(("float8_e4m3", "float8_e4m3fn")) if arch.generation >= 4 else "float8_e4m3")
    return choice.pick(narrow), choice.pick(narrow)


def draw_nc_matmul(scene: Scene) -> Call:
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
    simple = choice.chance(25)
    most_dims = 1 if simple else 2
    stationary = scene.part("sbuf", left, (k, *inner, *factors(choice, m, most_dims)), flavour=flavour)
    moving = scene.part("sbuf", right, (k, *inner, *factors(choice, n, most_dims)), flavour=flavour, plain=simple)
    dst = tile(scene, "psum", kind, (m, n), written=True, plain=simple or arch.generation < 4)
    if choice.chance(40):
        arguments["accumulate"] = choice.pick((None, False, True))
    if choice.chance(10):
        arguments["is_moving_onezero"] = True
    return Call("nc_matmul", {"dst": dst, "stationary": stationary, "moving": moving, **arguments})


def draw_nc_transpose(scene: Scene) -> Call:
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


def draw_dma_copy(scene: Scene) -> Call:
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
            sides.append(
                scene.part("hbm", dtype, factors(choice, math.prod(shape), 4), written=written, flavour=flavour)
            )
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
        values += [pool.pop(choice.integer(0, len(pool) - 1)) for _ in range(count)]
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


def part_of_it(choice: Choice, call: Call) -> Call:
    """A matmul into some places of the last dimension of another's destination."""
    dst, moving = call.parts["dst"], call.parts["moving"]
    if dst.text or moving.text or len(moving.shape) != 2:
        return call
    free = dst.shape[1:]
    start = choice.integer(0, free[-1] - 1)
    stop = choice.integer(start + 1, free[-1])
    cut = f"[{':, ' * len(free)}{start}:{stop}]"
    steps = tuple(row_major(free))
    parts = {
        name: Part(part.memory, text + cut, part.dtype, start, (part.shape[0], *free[:-1], stop - start),
                   (math.prod(free), *steps))
        for name, part, text in (("dst", dst, ""), ("moving", moving, f".reshape({(moving.shape[0], *free)})"))
    }  # fmt: skip
    return call.but(**parts)


def draw_dma_transpose(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    kind = choice.pick(("bfloat16", "float16", "float32", "int32", "uint8", "int16"))
    if arch.generation >= 3 and choice.chance(25):
        return _gathered_transpose(scene)
    rank = choice.integer(2, 4)
    sizes = [choice.integer(1, 24)] + [choice.integer(1, 6) for _ in range(rank - 2)] + [choice.integer(1, 64)]
    mode = choice.pick(("", "", "none", *(("hwdge",) if arch.generation >= 3 else ())))
    if mode == "hwdge":
        kind, sizes = choice.pick(("bfloat16", "int16")), [16, *sizes[1:]]
    src = scene.part(choice.pick(("hbm", "sbuf")), kind, tuple(sizes), flavour=draw_flavour(choice))
    swapped = (sizes[-1], *sizes[1:-1], sizes[0])
    dst = scene.part("sbuf", kind, swapped, written=True)
    call = Call("dma_transpose", {"dst": dst, "src": src})
    if choice.chance(30):
        call = call.but(axes=(rank - 1, *range(1, rank - 1), 0))
    if mode:
        call = call.but(dge_mode=member("dge_mode", mode))
    return call.but(priority=choice.integer(0, 3)) if arch.generation >= 4 and choice.chance(20) else call


def _gathered_transpose(scene: Scene) -> Call:
    """Rows of a table in HBM that an index names, as columns."""
    choice = scene.choice
    kind = choice.pick(("bfloat16", "float16", "int16"))
    rows, columns, count = choice.integer(1, 20), choice.integer(1, 64), 16 * choice.integer(1, 4)
    skip = choice.chance(40)
    values = tuple(choice.integer(-2 if skip else 0, rows + 1 if skip else rows - 1) for _ in range(count))
    table = scene.memory("hbm", kind, (rows, columns), flavour=draw_flavour(choice))
    lanes = scene.memory("sbuf", "int32", (count, 1), values=values)
    index = Part(lanes, "", "int32", 0, (count, 1), (1, 1))
    text = f".ap({[[columns, count], [1, columns]]}, vector_offset=INDEX, indirect_dim=0)"
    src = Part(table, text, kind, 0, (count, columns), (columns, 1), index, "vector", columns, 0, rows - 1)
    dst = scene.part("sbuf", kind, (columns, count), written=True, flavour=draw_flavour(choice))
    call = Call("dma_transpose", {"dst": dst, "src": src})
    return call.but(oob_mode=member("oob_mode", "skip")) if skip else call


def draw_dma_compute(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    if arch.generation >= 3 and choice.chance(30):
        return _update(scene)
    rows, columns = draw_shape(scene, most=64)
    terms = [scene.part(choice.pick(("hbm", "sbuf")), draw_dtype(choice, arch), (rows, columns), flavour="plain")
             for _ in range(choice.pick((2, 1, 3, 16)))]  # fmt: skip
    dst = scene.part(choice.pick(("sbuf", "hbm")), draw_dtype(choice, arch), (rows, columns), written=True)
    call = Call("dma_compute", {"dst": dst, **{f"src{place}": term for place, term in enumerate(terms)},
                                "reduce_op": op("add")})  # fmt: skip
    return call.but(scales=(1.0,) * len(terms)) if choice.chance(40) else call


def _update(scene: Scene) -> Call:
    """Rows of a table in HBM added to a tile, or a tile added to rows of the table."""
    choice = scene.choice
    kind = choice.pick(("float32", "bfloat16"))
    rows, columns = choice.integer(1, 20), choice.integer(1, 40)
    pool = list(range(rows))
    count = choice.integer(1, rows)
    values = tuple(pool.pop(choice.integer(0, len(pool) - 1)) for _ in range(count))
    table = scene.memory("hbm", kind, (rows, columns), flavour="plain")
    lanes = scene.memory("sbuf", "int32", (count, 1), values=values)
    index = Part(lanes, "", "int32", 0, (count, 1), (1, 1))
    text = f".ap({[[columns, count], [1, columns]]}, vector_offset=INDEX, indirect_dim=0)"
    part = Part(table, text, kind, 0, (count, columns), (columns, 1), index, "vector", columns, 0, rows - 1)
    tile_part = scene.part("sbuf", kind, (count, columns), written=True, flavour="plain", plain=True)
    dst = part if choice.chance(50) else tile_part
    sides = [part, tile_part] if choice.chance(50) else [tile_part, part]
    return Call("dma_compute", {"dst": dst, "src0": sides[0], "src1": sides[1], "reduce_op": op("add")})
