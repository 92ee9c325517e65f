"""Legal calls of the instructions in which two cores synchronize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.calls import Call
from tests.draws import Scene
from tests.ingredients import PACKED, draw_dtype, draw_flavour, draw_partitions, draw_shape, member


def _sendrecv(scene: Scene) -> Call:
    choice, arch = scene.choice, scene.arch
    small = choice.chance(40)
    columns = choice.pick((1, 7, 255, 256)) if small else draw_shape(scene, most=512)[1]
    shape = (draw_partitions(choice), columns)
    kind = choice.pick(PACKED) if arch.generation >= 4 and choice.chance(10) else draw_dtype(choice, arch)
    src = scene.part("sbuf", kind, shape, flavour=draw_flavour(choice))
    dst = scene.part("sbuf", kind, shape, written=True)
    rank = choice.integer(0, 1)
    arguments: dict[str, Any] = {"src": src, "dst": dst, "send_to_rank": rank, "recv_from_rank": rank,
                                 "pipe_id": choice.integer(0, 3)}  # fmt: skip
    if small:
        arguments["dma_engine"] = member("dma_engine", choice.pick(("gpsimd_dma", "dma")))
    return Call("sendrecv", arguments)


def _core_barrier(scene: Scene) -> Call:
    choice = scene.choice
    data = scene.part(choice.pick(("hbm", "hbm", "sbuf")), draw_dtype(choice, scene.arch), draw_shape(scene, most=64))
    call = Call("core_barrier", {"data": data, "cores": choice.pick(((0, 1), [0, 1], (0,)))})
    engines = ("gpsimd", "tensor", "vector", "scalar", "sync")
    return call.but(engine=member("engine", choice.pick(engines))) if choice.chance(50) else call


SYNC: dict[str, Callable[[Scene], Call]] = {"sendrecv": _sendrecv, "core_barrier": _core_barrier}
