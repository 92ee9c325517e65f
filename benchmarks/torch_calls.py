"""Measures a call of a cached kernel through PyTorch beside the same call with NumPy, in alternating rounds.

    python -m benchmarks.torch_calls

The kernel and the rounds are those of `benchmarks.jax_calls`. Needs `nki-lab[torch]`.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.jax_calls import BUDGET, CALLS, ROUNDS, add_kernel, measured


def calls(shape: tuple[int, int]) -> dict[str, Callable[[], Any]]:
    """Return the measured calls by name, each made once already."""
    import torch

    add = add_kernel()
    host = np.ones(shape, np.float32)
    half = np.ones(shape, ml_dtypes.bfloat16)
    single = torch.ones(shape)
    torch_half = torch.ones(shape, dtype=torch.bfloat16)
    compiled = torch.compile(lambda a: add(a, a), fullgraph=True, backend="aot_eager")
    found: dict[str, Callable[[], Any]] = {
        "numpy float32": lambda: add(host, host),
        "torch float32": lambda: add(single, single),
        "numpy bfloat16": lambda: add(half, half),
        "torch bfloat16": lambda: add(torch_half, torch_half),
        "torch float32, compile": lambda: compiled(single),
    }
    for call in found.values():
        call()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=2, default=(4, 3), help="rows and columns of both tensors")
    shape = parser.parse_args().shape
    times = measured(calls((shape[0], shape[1])))
    print(f"add of two {tuple(shape)} tensors, {ROUNDS} rounds of {CALLS} calls; microseconds of the processor a call")
    for name, values in times.items():
        line = f"{name:<23} best {min(values):6.0f}  median {statistics.median(values):6.0f}"
        if name.startswith("torch"):
            more = min(values) - min(times[name.replace("torch", "numpy").partition(",")[0]])
            line += f"  over numpy {more:+6.0f}  budget {BUDGET:.0f}: {'met' if more <= BUDGET else 'MISSED'}"
        print(line)


if __name__ == "__main__":
    main()
