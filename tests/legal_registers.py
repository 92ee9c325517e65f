"""Legal calls of the instructions that move single numbers between memory and registers."""

from __future__ import annotations

from collections.abc import Callable

from tests.calls import Call, Word
from tests.draws import Scene

_DTYPES = ("int32", "uint32", "int16", "uint16", "int8", "uint8")
_NUMBERS = (0, 1, -1, 7, 255, 256, -129, 2**15, 2**31 - 1, -(2**31), 2**32 - 1)
_FRESH = Word("nisa.register_alloc()")


def _register_move(scene: Scene) -> Call:
    value = scene.choice.pick(_NUMBERS)
    source = value if scene.choice.chance(50) else Word(f"nisa.register_alloc({value})", value)
    return Call("register_move", {"dst": _FRESH, "src": source})


def _register_load(scene: Scene) -> Call:
    source = scene.part(
        scene.choice.pick(("sbuf", "hbm")), scene.choice.pick((*_DTYPES, "float32")), (1, 1), plain=True
    )
    return Call("register_load", {"dst": _FRESH, "src": source})


def _register_store(scene: Scene) -> Call:
    value = scene.choice.pick(_NUMBERS)
    place = scene.choice.pick(("sbuf", "hbm"))
    target = scene.part(place, scene.choice.pick(_DTYPES), (1, 1), written=True, plain=True)
    return Call("register_store", {"dst": target, "src": Word(f"nisa.register_alloc({value})", value)})


REGISTERS: dict[str, Callable[[Scene], Call]] = {
    "register_move": _register_move, "register_load": _register_load, "register_store": _register_store,
}  # fmt: skip
