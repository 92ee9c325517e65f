"""Legal calls of selections, searches and gathers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.calls import Call, Part
from tests.draws import Scene, factors
from tests.ingredients import (
    column,
    draw_dtype,
    draw_flavour,
    draw_partitions,
    draw_shape,
    dtypes_of,
    member,
    op,
    output,
    put,
    tile,
)

_BOTH = ("sbuf", "sbuf", "psum")
_RANGE = ("greater_equal", "less", "equal", "less_equal", "greater")


def _floats(scene: Scene) -> list[str]:
    floats = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "tfloat32")
    return [name for name in dtypes_of(scene.arch) if name in floats]


def _commanded(scene: Scene, call: Call, *commands: str) -> Call:
    command = scene.choice.pick(("", *commands))
    return call.but(reduce_cmd=member("reduce_cmd", command)) if command else call


def _range_select(scene: Scene) -> Call:
    choice = scene.choice
    shape = draw_shape(scene)
    kinds = _floats(scene)
    data = tile(scene, put(scene, _BOTH), choice.pick(kinds), shape, flavour="plain")
    dst = output(scene, put(scene, _BOTH), shape, [], choice.pick(kinds))
    arguments: dict[str, Any] = {
        "dst": dst, "on_true_tile": data, "comp_op0": op(choice.pick(_RANGE)), "comp_op1": op(choice.pick(_RANGE)),
        "bound0": column(scene, "float32", shape[0]), "bound1": column(scene, "float32", shape[0]),
    }  # fmt: skip
    if choice.chance(50):
        arguments["range_start"] = choice.pick((1, 7, -3, 1000))
    if choice.chance(70):
        arguments["reduce_res"] = column(scene, choice.pick(kinds), shape[0], written=True)
    if choice.chance(30):
        arguments |= {"reduce_op": op("maximum"), "on_false_value": -3.4028235e38}
    return _commanded(scene, Call("range_select", arguments), "reset_reduce", "reduce", "reset")


def _select_reduce(scene: Scene) -> Call:
    choice = scene.choice
    shape = draw_shape(scene)
    kinds = [name for name in (*_floats(scene), "int8", "uint8", "int16", "uint16") if name != "tfloat32"]
    first = put(scene, _BOTH)
    data = tile(scene, first, choice.pick(kinds), shape, flavour="plain")
    chosen = tile(scene, "sbuf" if first == "psum" else put(scene, _BOTH),
                  choice.pick(("uint8", "int8", "int16", "uint16")), shape)  # fmt: skip
    dst = output(scene, put(scene, _BOTH), shape, [], draw_dtype(choice, scene.arch))
    arguments: dict[str, Any] = {
        "dst": dst, "predicate": chosen, "on_true": data,
        "on_false": column(scene, choice.pick(kinds), shape[0]) if choice.chance(50) else choice.pick((0.0, -1.5, 3)),
    }  # fmt: skip
    if choice.chance(30):
        arguments["reverse_pred"] = True
    call = Call("select_reduce", arguments)
    command = choice.pick(("", "reset_reduce", "reduce"))
    if not command:
        return call
    if choice.chance(80):
        call = call.but(reduce_res=column(scene, choice.pick(_floats(scene)), shape[0], written=True))
    return call.but(reduce_cmd=member("reduce_cmd", command))


def _affine_select(scene: Scene) -> Call:
    choice = scene.choice
    rows, columns = draw_shape(scene)
    counts = factors(choice, columns, most=4)
    data = tile(scene, "sbuf", draw_dtype(choice, scene.arch), (rows, columns), flavour=draw_flavour(choice))
    dst = output(scene, "sbuf", (rows, columns), [data], draw_dtype(choice, scene.arch))
    arguments: dict[str, Any] = {
        "dst": dst, "pattern": [[choice.pick((1, -1, 0, 7, -512)), count] for count in counts],
        "channel_multiplier": choice.pick((0, 1, -1, 64)), "on_true_tile": data,
        "on_false_value": choice.pick((0.0, -9984.0, 1, 1e30)),
    }  # fmt: skip
    if choice.chance(80):
        arguments["cmp_op"] = op(choice.pick((*_RANGE, "not_equal")))
    if choice.chance(50):
        arguments["offset"] = choice.pick((1, -40, 128, 100000))
    return Call("affine_select", arguments)


def _copy_predicated(scene: Scene) -> Call:
    choice = scene.choice
    shape = draw_shape(scene)
    kind = draw_dtype(choice, scene.arch)
    first = put(scene, _BOTH)
    chosen = tile(scene, "sbuf" if first == "psum" else put(scene, _BOTH), choice.pick(("uint8", "uint16", "uint32")),
                  shape)  # fmt: skip
    source: Any = choice.pick((0, 1, 3.0))
    if choice.chance(60):
        source = tile(scene, first, kind, shape, flavour=draw_flavour(choice))
    dst = tile(scene, put(scene, _BOTH), kind, shape, written=True)
    call = Call("tensor_copy_predicated", {"dst": dst, "src": source, "predicate": chosen})
    return call.but(reverse_pred=True) if choice.chance(30) else call


def _searched(scene: Scene, most: int = 600) -> tuple[int, Part]:
    """A row of at least eight elements, in up to two free dimensions, with equal values among them."""
    choice = scene.choice
    rows = draw_partitions(choice)
    columns = choice.pick((8, 9, 16, 31, 64, 100, 256, 511, most))
    shape = (rows, *factors(choice, columns, most=2))
    kind = choice.pick(("float32", "bfloat16", "int8", "uint8", "int32", "float16"))
    return rows, scene.part(put(scene, _BOTH), kind, shape, flavour="plain")


def _max8(scene: Scene) -> Call:
    rows, src = _searched(scene)
    dst = scene.part(put(scene, _BOTH), draw_dtype(scene.choice, scene.arch), (rows, 8), written=True)
    return Call("max8", {"dst": dst, "src": src})


def _topk(scene: Scene) -> Call:
    choice = scene.choice
    rows, columns = choice.pick((16, 32, 64, 128)), choice.pick((1, 2, 3, 16, 40))
    n = choice.pick((16 * columns, max(8, 16 * columns - choice.integer(0, 15))))
    src = scene.part("sbuf", "bfloat16", (rows, columns), flavour="plain")
    size = choice.integer(1, min(n, 20))
    values = scene.part("sbuf", "bfloat16", (rows, size), written=True)
    return Call("topk", {"val_dst": values, "idx_dst": scene.part("sbuf", "uint32", (rows, size), written=True),
                         "src": src, "n": n})  # fmt: skip


def _find(scene: Scene) -> Call:
    rows, data = _searched(scene)
    vals = scene.part(put(scene, _BOTH), data.dtype, (rows, 8), flavour="plain")
    dst = scene.part(put(scene, _BOTH), scene.choice.pick(("uint32", "uint16")), (rows, 8), written=True)
    return Call("nc_find_index8", {"dst": dst, "data": data, "vals": vals})


def _replace(scene: Scene) -> Call:
    choice = scene.choice
    rows, data = _searched(scene)
    vals = scene.part(put(scene, _BOTH), data.dtype, (rows, 8), flavour="plain")
    columns = 1
    for size in data.shape[1:]:
        columns *= size
    dst = output(scene, put(scene, _BOTH), (rows, columns), [data], data.dtype)
    call = Call("nc_match_replace8", {"dst": dst, "data": data, "vals": vals,
                                      "imm": choice.pick((0.0, -5.5, -1e30, 3))})  # fmt: skip
    if choice.chance(60):
        call = call.but(dst_idx=scene.part("sbuf", choice.pick(("uint32", "uint16")), (rows, 8), written=True))
    return call


def _shuffle(scene: Scene) -> Call:
    choice = scene.choice
    rows = choice.pick((32, 64, 96, 128, 1, 16, 31, 33))
    columns = choice.pick((1, 3, 8, 64, 512))
    kind = draw_dtype(choice, scene.arch)
    src = scene.part(put(scene, _BOTH), kind, (rows, columns), flavour=draw_flavour(choice), plain=True)
    dst = src if choice.chance(15) else scene.part(put(scene, _BOTH), kind, (rows, columns), written=True, plain=True)
    if choice.chance(20):
        src = scene.part("sbuf", kind, (1, columns), plain=True)
        mask = [0] * 32
    else:
        mask = [255 if choice.chance(15) else choice.integer(0, 31) for _ in range(32)]
    return Call("nc_stream_shuffle", {"dst": dst, "src": src, "shuffle_mask": mask})


def _n_gather(scene: Scene) -> Call:
    choice = scene.choice
    rows, picks = draw_shape(scene, most=256)
    kind = draw_dtype(choice, scene.arch)
    data = tile(scene, "sbuf", kind, (rows, choice.pick((21, 64, 300))), flavour=draw_flavour(choice))
    indices = tile(scene, "sbuf", "uint32", (rows, picks))
    return Call("nc_n_gather", {"dst": tile(scene, "sbuf", kind, (rows, picks), written=True), "data": data,
                                "indices": indices})  # fmt: skip


def _local_gather(scene: Scene) -> Call:
    choice = scene.choice
    rows = choice.pick((16, 32, 48, 64, 128))
    kind = draw_dtype(choice, scene.arch)
    each = choice.pick((1, 2, 4, 8, 16, 32))
    per_row = choice.integer(1, 4)
    valid = choice.pick((None, 1, 5, 16))
    data = tile(scene, "sbuf", kind, (rows, choice.pick((64, 100, 300))), flavour=draw_flavour(choice))
    index = tile(scene, "sbuf", "uint16", (rows, per_row))
    used = 16 * per_row if valid is None else valid
    dst = tile(scene, "sbuf", kind, (rows, used * each), written=True)
    call = Call("local_gather", {"dst": dst, "src_buffer": data, "index": index})
    call = call if each == 1 and choice.chance(50) else call.but(num_elem_per_idx=each)
    return call if valid is None else call.but(num_valid_indices=valid)


def _nonzero(scene: Scene) -> Call:
    choice = scene.choice
    rows, columns = draw_partitions(choice), choice.pick((1, 2, 16, 63, 300))
    src = tile(scene, "sbuf", choice.pick(("float32", "int32")), (rows, columns), flavour="special")
    first = 0 if src.shape[0] > 64 else None
    dst = scene.part("sbuf", "int32", (rows, columns + 1), written=True, plain=first is None)
    call = Call("nonzero_with_count", {"dst": dst, "src": src})
    return call.but(index_offset=choice.integer(0, 100), padding_val=-7) if choice.chance(50) else call


def _bounds(scene: Scene) -> Call:
    choice = scene.choice
    count = choice.pick((1, 2, 5, 64, 300))
    kind = choice.pick(("float32", "int32"))
    ids = tile(scene, "sbuf", kind, (1, count), flavour="positive")
    dst = scene.part("sbuf", choice.pick(("float32", "int32")), (1, 2, count), written=True, plain=True)
    return Call("sequence_bounds", {"dst": dst, "segment_ids": ids})


PICKS: dict[str, Callable[[Scene], Call]] = {
    "affine_select": _affine_select, "local_gather": _local_gather, "max8": _max8, "topk": _topk, "nc_find_index8": _find,
    "nc_match_replace8": _replace, "nc_n_gather": _n_gather, "nc_stream_shuffle": _shuffle,
    "nonzero_with_count": _nonzero, "range_select": _range_select, "select_reduce": _select_reduce,
    "sequence_bounds": _bounds, "tensor_copy_predicated": _copy_predicated,
}  # fmt: skip
