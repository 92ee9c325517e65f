"""Measures a call of a cached kernel through JAX beside the same call with NumPy, in alternating rounds.

    python -m benchmarks.jax_calls

The kernel adds two small arrays, so that nearly all of a call is overhead. Times are those of the processor, of all
threads, so that other programs on the machine count little. Needs `nki-lab[jax]`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

BUDGET: Final = 300.0
"""Microseconds that JAX may add to a call."""

ROUNDS: Final = 40
CALLS: Final = 25


def add_kernel() -> Any:
    """Return the kernel that is measured."""
    import nki_lab

    nki_lab.activate()
    import nki
    import nki.language as nl

    @nki.jit
    def add(a, b):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(a), nl.load(b)))
        return out

    return add


def calls(shape: tuple[int, int]) -> dict[str, Callable[[], Any]]:
    """Return the measured calls by name, each made once already."""
    import jax
    import jax.numpy as jnp

    add = add_kernel()
    host = np.ones(shape, np.float32)
    single = jnp.asarray(host)
    half = jnp.asarray(host, jnp.bfloat16)
    host_half = np.asarray(half)
    compiled = jax.jit(lambda a: add(a, a))
    found: dict[str, Callable[[], Any]] = {
        "numpy float32": lambda: add(host, host),
        "jax float32": lambda: add(single, single).block_until_ready(),
        "numpy bfloat16": lambda: add(host_half, host_half),
        "jax bfloat16": lambda: add(half, half).block_until_ready(),
        "jax float32, jit": lambda: compiled(single).block_until_ready(),
    }
    for call in found.values():
        call()
    return found


def measured(found: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Return the microseconds of a call in each round; a round measures every kind of call."""
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(ROUNDS):
        for name, call in found.items():
            start = time.process_time()
            for _ in range(CALLS):
                call()
            times[name].append((time.process_time() - start) / CALLS * 1e6)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=2, default=(4, 3), help="rows and columns of both arrays")
    shape = parser.parse_args().shape
    times = measured(calls((shape[0], shape[1])))
    print(f"add of two {tuple(shape)} arrays, {ROUNDS} rounds of {CALLS} calls; microseconds of the processor a call")
    for name, values in times.items():
        line = f"{name:<18} best {min(values):6.0f}  median {statistics.median(values):6.0f}"
        if name.startswith("jax"):
            plain = times[name.replace("jax", "numpy").partition(",")[0]]
            more = min(values) - min(plain)
            line += f"  over numpy {more:+6.0f}  budget {BUDGET:.0f}: {'met' if more <= BUDGET else 'MISSED'}"
        print(line)


if __name__ == "__main__":
    main()
