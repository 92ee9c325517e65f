"""Legal calls of the MX instructions."""

from __future__ import annotations

from collections.abc import Callable

from tests.calls import Call, Part
from tests.draws import Scene
from tests.ingredients import tile

_PACKED = ("float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4")


def _scales(scene: Scene, rows: int, columns: int, *, written: bool = False) -> Part:
    """A tile of scales as small as may be, or with a row for each partition of the data."""
    least = (rows // 32 - 1) * 32 + 4
    partitions = scene.choice.pick((rows, least))
    kind = scene.choice.pick(("uint8", "float8_e8m0fnu"))
    return scene.part("sbuf", kind, (partitions, columns), written=written, flavour="blocks", plain=True)


def _quantize(scene: Scene) -> Call:
    choice = scene.choice
    rows, columns = choice.pick((32, 64, 96, 128)), choice.pick((1, 2, 16, 64))
    flavour = choice.pick(("plain", "positive"))
    src = tile(scene, "sbuf", choice.pick(("bfloat16", "float16")), (rows, 4 * columns), flavour=flavour)
    dst = tile(scene, "sbuf", choice.pick(_PACKED[:2]), (rows, columns), written=True)
    return Call("quantize_mx", {"dst": dst, "src": src, "dst_scale": _scales(scene, rows, columns, written=True)})


def _matmul(scene: Scene) -> Call:
    choice = scene.choice
    rows = choice.pick((32, 64, 96, 128))
    columns, moving = 2 * choice.integer(1, 64), choice.pick((1, 2, 64, 512, 600))
    return Call("nc_matmul_mx", {
        "dst": tile(scene, "psum", choice.pick(("float32", "bfloat16")), (columns, moving), written=True),
        "stationary": tile(scene, "sbuf", choice.pick(_PACKED), (rows, columns), flavour="blocks"),
        "moving": tile(scene, "sbuf", choice.pick(_PACKED), (rows, moving), flavour="blocks"),
        "stationary_scale": _scales(scene, rows, columns), "moving_scale": _scales(scene, rows, moving),
        "accumulate": choice.pick((None, False)),
    })  # fmt: skip


BLOCKS: dict[str, Callable[[Scene], Call]] = {"nc_matmul_mx": _matmul, "quantize_mx": _quantize}
