"""Legal calls of the random family, and what may come before them: seeds, states and other draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.calls import Call
from tests.draws import Scene
from tests.ingredients import column, draw_dtype, draw_flavour, draw_partitions, member, output, put, tile

_BOTH = ("sbuf", "sbuf", "psum")
_INTEGERS = ("uint32", "int32", "uint16", "int16", "uint8", "int8")
_UNIFORM = ("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "tfloat32", *_INTEGERS)


def _shape(scene: Scene) -> tuple[int, int]:
    """Few elements: the reference makes each number by itself."""
    return draw_partitions(scene.choice), scene.choice.pick((1, 2, 3, 4, 5, 8, 16, 21, 40))


def _rng(scene: Scene) -> Call:
    choice = scene.choice
    engine = choice.pick(("", "vector", *(("gpsimd",) if scene.arch.generation >= 3 else ())))
    space = "sbuf" if engine == "gpsimd" else put(scene, _BOTH)
    call = Call("rng", {"dst": tile(scene, space, choice.pick(_INTEGERS), _shape(scene), written=True)})
    return call.but(engine=member("engine", engine)) if engine else call


def _rand2(scene: Scene) -> Call:
    choice = scene.choice
    shape = _shape(scene)
    low: Any = choice.pick((0.0, -1.5, -300, 0.25))
    high: Any = choice.pick((1.0, 2, 1000.5))
    if choice.chance(30):
        low = column(scene, "float32", shape[0])
    if choice.chance(30):
        high = column(scene, "float32", shape[0])
    dst = tile(scene, put(scene, _BOTH), choice.pick(_UNIFORM), shape, written=True)
    return Call("rand2", {"dst": dst, "min": low, "max": high})


def _dropout(scene: Scene) -> Call:
    choice = scene.choice
    shape = _shape(scene)
    kind = draw_dtype(choice, scene.arch)
    data = tile(scene, put(scene, _BOTH), kind, shape, flavour=draw_flavour(choice))
    dst = output(scene, put(scene, _BOTH), shape, [data], kind)
    prob: Any = choice.pick((0.0, 1.0, 0.5, 0.1, 1, 0))
    if choice.chance(50):
        floats = ("float32", "bfloat16", "float16", "float8_e5m2")
        whole = kind.startswith(("int", "uint", "bool"))
        prob = column(scene, "float32" if whole else choice.pick(floats), shape[0], flavour="plain")
    return Call("dropout", {"dst": dst, "data": data, "prob": prob})


def _set_seed(scene: Scene) -> Call:
    kind = scene.choice.pick(("uint32", "int32", "float32"))
    flavour = "plain" if kind == "float32" else "bits"
    return Call("set_rng_seed", {"src_seeds": scene.part(put(scene, _BOTH), kind, (1, 1), flavour=flavour)})


def _state(scene: Scene) -> tuple[int, tuple[int, int], dict[str, Any]]:
    """Partitions, shape and engine of a state."""
    choice = scene.choice
    rows = draw_partitions(choice)
    engine = choice.pick(("", "gpsimd", *(("vector", "vector") if scene.arch.generation >= 4 else ())))
    return rows, (rows, 24 if engine == "vector" else 6), {"engine": member("engine", engine)} if engine else {}


def _set_state(scene: Scene) -> Call:
    _, shape, engine = _state(scene)
    return Call("rand_set_state", {"src_seeds": scene.part("sbuf", "uint32", shape, flavour="bits"), **engine})


def _get_state(scene: Scene) -> Call:
    _, shape, engine = _state(scene)
    space = put(scene, _BOTH) if shape[1] == 24 else "sbuf"
    return Call("rand_get_state", {"dst": scene.part(space, "uint32", shape, written=True), **engine})


RANDOM: dict[str, Callable[[Scene], Call]] = {
    "dropout": _dropout, "rand2": _rand2, "rand_get_state": _get_state, "rand_set_state": _set_state, "rng": _rng,
    "set_rng_seed": _set_seed,
}  # fmt: skip


def draw_before(scene: Scene) -> list[Call]:
    """Up to three calls that leave the generators in some state."""
    choice = scene.choice
    have = [_set_seed, _rng] if scene.arch.generation < 3 else [_set_seed, _rng, _set_state]
    return [choice.pick(have)(scene) for _ in range(choice.integer(0, 3))]
