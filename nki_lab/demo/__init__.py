"""`nki-lab demo`: two kernels compiled, checked, run, compared with float64 references, and timed."""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

from nki_lab.dialects import activate
from nki_lab.export.text import brief, table
from nki_lab.result import Run, check, compile, run, spec  # noqa: A004 - their public names
from nki_lab.session.arrays import Array
from nki_lab.testing import tolerance

_FOLDER = Path(__file__).parent
_HEAD = ("kernel", "inputs", "instructions", "compiled", "findings", "ran", "off by at most", "allowed", "result")
_SEED = 7
REPORT = "demo-report.html"


def main(target: str = "trn2", html: str = REPORT) -> int:
    """Show both kernels on `target`; 0 where their results agree with the references, else 1.

    `html` is where the report of the first one's times goes.
    """
    activate()
    rng = np.random.default_rng(_SEED)
    lhs_t, rhs = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((1024, 512), (1024, 1024)))
    shown = [
        _show("matmul.py", "matmul", (lhs_t, rhs), _matmul, target),
        _show("softmax.py", "softmax", (rng.standard_normal((512, 2048)).astype(np.float32),), _softmax, target),
    ]
    comparison = table(_HEAD, [row for row, _, _ in shown], left=range(len(_HEAD)))
    print(f"on {target}, compared with float64 references\n\n{comparison}")
    for _, _, done in shown:
        print(f"\n{brief(done.recording)}")
    first = shown[0][2]
    print(f"\nthe report of {first.name}, for any browser: {first.to_html(html)}")
    return 0 if all(good for _, good, _ in shown) else 1


def _matmul(lhs_t: Array, rhs: Array) -> Array:
    return lhs_t.astype(np.float64).T @ rhs.astype(np.float64)


def _softmax(x: Array) -> Array:
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    result: Array = powers / powers.sum(axis=1, keepdims=True)
    return result


def _show(
    file: str, name: str, arrays: tuple[Array, ...], reference: Callable[..., Array], target: str
) -> tuple[tuple[str, ...], bool, Run]:
    """One row of the table, whether the result is right, and the run."""
    path = _FOLDER / file
    kernel = runpy.run_path(str(path), run_name=path.stem)[name]
    start = time.perf_counter()
    program = compile(kernel, *(spec(array.shape, array.dtype) for array in arrays), target=target)
    compiled = time.perf_counter() - start
    found = [item for item in check(path=path, target=target) if item.severity in ("error", "warning")]
    done = run(kernel, *arrays, target=target)
    found += [item for item in done.diagnostics if item.severity in ("error", "warning")]
    (actual,) = done.outputs
    expected = reference(*arrays)
    error = float(np.max(np.abs(actual.astype(np.float64) - expected)) / np.sqrt(np.mean(expected**2)))
    try:
        done.check(expected)
        good = not found
    except AssertionError as problem:
        print(problem)
        good = False
    for item in found:
        print(item)
    inputs = ", ".join(f"{array.dtype}[{','.join(map(str, array.shape))}]" for array in arrays)
    row = (
        name,
        inputs,
        f"{len(program):,}",
        f"{compiled * 1e3:.1f} ms",
        str(len(found)),
        f"{done.timings.numeric * 1e3:.1f} ms",
        f"{error:.1e} rms",
        f"{tolerance(actual.dtype):.1e}",
        "agrees" if good else "DIFFERS",
    )
    return row, good, done
