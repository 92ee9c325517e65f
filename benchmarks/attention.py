"""Flash attention in NumPy, in the tiles of `examples/kernels/k06_flash_attention.py`, as a reference."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
EXAMPLE = Path(__file__).parents[1] / "examples/kernels/k06_flash_attention.py"


def example() -> ModuleType:
    """Return the module of the example."""
    specification = importlib.util.spec_from_file_location("k06_flash_attention", EXAMPLE)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def in_numpy(q: Array, k: Array, v: Array, P: int, KEYS: int) -> Array:
    """Return causal attention for q, k [heads, D, S] and v [heads, S, D], all float32, as `v`.

    A block of `P` queries meets tiles of `KEYS` keys; float32 all through, with nothing rounded to bfloat16 in between.
    """
    heads, D, S = q.shape
    scale = np.float32(D**-0.5)
    out = np.empty_like(v)
    triangle = np.where(np.tri(P, dtype=bool), np.float32(0), np.float32(-30000))
    for h in range(heads):
        for row in range(0, S, P):
            queries = q[h, :, row : row + P].T
            largest, total, acc = None, None, None
            for first in range(0, row + P, KEYS):
                width = min(KEYS, row + P - first)
                scores = queries @ k[h, :, first : first + width]
                if first + width == row + P:
                    scores[:, -P:] += triangle
                top = scores.max(axis=1, keepdims=True) * scale
                fresh = top if largest is None else np.maximum(top, largest)
                scores *= scale
                scores -= fresh
                powers = np.exp(scores, out=scores)
                sums = powers.sum(axis=1, keepdims=True)
                product = powers @ v[h, first : first + width]
                if total is None:
                    total, acc = sums, product
                else:
                    factor = np.exp(largest - fresh)
                    total = total * factor + sums
                    acc *= factor
                    acc += product
                largest = fresh
            np.divide(acc, total, out=out[h, row : row + P])
    return out
