"""First runs of a kernel over NumPy, each in a process of its own: memory is new, nothing is planned.

    python benchmarks/first_runs.py product SIZE DTYPE
    python benchmarks/first_runs.py attention

Prints the numeric seconds of the run over those of its reference, which is the fastest of three just before.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by its name then
import numpy as np


def median(*arguments: str, processes: int = 3) -> float:
    """Return the median of some first runs."""
    command = [sys.executable, __file__, *arguments]
    found = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(processes)]
    return statistics.median(map(float, found))


def product(size: int, kind: str) -> float:
    """Return the ratio of a tiled product to NumPy's float32 product of operands that it need not convert."""
    import kernels

    import nki_lab

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), dtype=np.float32).astype(kind) for _ in range(2))
    wide = a.astype(np.float32), b.astype(np.float32)
    plain = _best(lambda: wide[0].T @ wide[1])
    return nki_lab.run(kernels.matmul, a, b, target="trn2").timings.numeric / plain


def attention() -> float:
    """Return the ratio of flash attention of 4,096 tokens to the same algorithm in NumPy."""
    import attention as of_examples

    import nki_lab

    module = of_examples.example()
    arrays = module.inputs(heads=1, S=4096)
    q, k, v = (array.astype(np.float32) for array in arrays)
    plain = _best(lambda: of_examples.in_numpy(q, k, v, module.P, module.KEYS))
    return nki_lab.run(module.flash_attention, *arrays, target="trn2").timings.numeric / plain


def _best(call: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    import nki_lab

    nki_lab.activate()
    print(attention() if sys.argv[1] == "attention" else product(int(sys.argv[2]), sys.argv[3]))
