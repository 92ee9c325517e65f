"""Softmax of rows, with a memory manager, asserts with messages, and settings by name."""

import math

import nki
import nki.isa as nisa
import nki.language as nl
from nki.language import bfloat16, float32

from .core.kernel_checks import kernel_assert, newer_chip, size_of
from .core.memory_manager import MemoryManager
from .core.sizes import div_ceil

_SETTINGS = {
    "safe": dict(subtract=True, out_dtype=float32),
    "fast": {"subtract": False, "out_dtype": bfloat16},
}


class RowStep:
    def __init__(self, manager: MemoryManager, width: int, settings: dict, scale: float = 1.0) -> None:
        self.manager, self.width = manager, width
        self.settings = settings
        self.scale = scale
        self.calls = 0

    def _statistics(self, tile):
        largest = self.manager.alloc((tile.shape[0], 1), float32, "max")
        nisa.tensor_reduce(dst=largest, data=tile, op=nl.maximum, axis=1)
        negative = self.manager.alloc((tile.shape[0], 1), float32, "negmax")
        nisa.tensor_scalar(dst=negative, data=largest, op0=nl.multiply, operand0=-self.scale)
        return negative

    def __call__(self, tile):
        self.calls += 1
        total = self.manager.alloc((tile.shape[0], 1), float32, "sum")
        options = {"bias": self._statistics(tile)} if self.settings["subtract"] else {}
        out = self.manager.alloc(tile.shape, float32, "exp")
        nisa.activation(dst=out, op=nl.exp, data=tile, scale=self.scale, **options)
        nisa.tensor_reduce(dst=total, data=out, op=nl.add, axis=1)
        nisa.reciprocal(dst=total, data=total)
        result = self.manager.alloc(tile.shape, self.settings["out_dtype"], "result")
        nisa.tensor_scalar(dst=result, data=out, op0=nl.multiply, operand0=total)
        return result


@nki.jit
def kernel(x, mode="safe", scale=None):
    """Softmax over the last dimension of (rows, columns)."""
    kernel_assert(x.dtype in (float32, bfloat16), f"{x.dtype} is no dtype of an input")
    kernel_assert(mode in _SETTINGS, f"mode is one of {sorted(_SETTINGS)}, not {mode!r}")
    rows, columns = x.shape
    settings = dict(_SETTINGS[mode])
    scale = 1.0 / math.sqrt(columns) if scale is None else scale
    out = nl.ndarray((rows, columns), dtype=settings["out_dtype"], buffer=nl.shared_hbm)
    cores, core = nl.num_programs(axes=0), nl.program_id(axis=0)
    kernel_assert(rows % cores == 0, f"{rows} rows on {cores} cores")
    share = rows // cores
    manager = MemoryManager(prefix="sm_")
    step = RowStep(manager, columns, settings, scale=scale)
    P = nl.tile_size.pmax
    for i in nl.affine_range(div_ceil(share, P)):
        first = core * share + i * P
        count = min(P, (core + 1) * share - first)
        manager.open(f"rows{i:03d}")
        tile = manager.alloc((count, columns), x.dtype, name="in")
        nisa.dma_copy(dst=tile, src=x[first : first + count, :])
        if newer_chip() and columns * size_of(x.dtype) > 512:
            result = step(tile)
        else:
            result = step(tile[:, :])
        nisa.dma_copy(dst=out[first : first + count, 0:columns], src=result)
        done = manager.close()
        kernel_assert(len(done.tensors) >= 4, f"{done.name}: {', '.join(done.tensors)}")
    kernel_assert(step.calls == div_ceil(share, P), f"{step.calls} calls")
    return out
