"""One point of a sweep, worked out in whatever process or thread an executor gives it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.dialects import activation
from nki_lab.dialects.kernel import Kernel
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.options import Options
from nki_lab.own_faults import own_fault
from nki_lab.result import Run, profile, run
from nki_lab.result.inputs import maker
from nki_lab.session.arrays import map_leaves
from nki_lab.sweeps.columns import Row
from nki_lab.sweeps.parcel import unpacked
from nki_lab.sweeps.reach import function_of
from nki_lab.testing import compare, plain_array


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Describes one point to a worker, beside the kernel.

    `names` are globals and outer variables of the kernel that get other values, `reference` the keywords of the
    reference function; `computes` says whether values are computed and compared.
    """

    names: Mapping[str, Any]
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]
    target: str
    grid: Any
    options: Options
    trip_counts: Mapping[Any, int]
    reference: Mapping[str, Any]
    computes: bool


def work(kernel: bytes, task: bytes) -> Row:
    """Return the row of a point: what it took, or what went wrong. Only interrupts are raised."""
    start = time.perf_counter()
    try:
        if not activation.is_active():
            # The session has decided for the simulator where it made the kernel.
            activation.activate(force=True)
        function, reference = unpacked(kernel)
        asked: Task = unpacked(task)
        _rebind(function, asked.names)
        row = _computed(function, reference, asked) if asked.computes else _profiled(function, asked)
    except NkiError as error:
        row = failure("failed", error.diagnostics[0])
    except Exception as error:  # noqa: BLE001 - a point that fails is a row, and the other points go on
        row = failure(
            "failed", own_fault(f"the point raised {type(error).__name__}: {error}", limit="a point gives a row")
        )
    row["seconds"] = time.perf_counter() - start
    return row


def failure(status: str, found: Diagnostic) -> Row:
    """Return the row of a point that a finding ended."""
    return {"status": status, "code": found.code, "message": found.message, "file": found.file, "line": found.line}


def _rebind(kernel: Kernel, names: Mapping[str, Any]) -> None:
    """Give globals and outer variables of a kernel other values; the kernel is this point's own copy."""
    function = function_of(kernel)
    if function is None:
        return
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name, value in names.items():
        if name in cells:
            cells[name].cell_contents = value
        else:
            function.__globals__[name] = value


def _profiled(kernel: Kernel, asked: Task) -> Row:
    done = profile(
        kernel.on_grid(asked.grid) if asked.grid is not None else kernel,
        *asked.args,
        target=arch_of(asked.target),
        options=asked.options,
        trip_counts=dict(asked.trip_counts),
        **asked.keywords,
    )
    return _row(done)


def _computed(kernel: Kernel, reference: Callable[..., object] | None, asked: Task) -> Row:
    make = maker("randn")
    args, keywords = map_leaves(
        (asked.args, dict(asked.keywords)), lambda value: make(value) if isinstance(value, TensorSpec) else value
    )
    given = [_copied(value) for value in args]
    named = {name: _copied(value) for name, value in keywords.items() if hasattr(value, "shape")}
    done = run(
        kernel.on_grid(asked.grid) if asked.grid is not None else kernel,
        *args,
        target=arch_of(asked.target),
        options=asked.options,
        on_error="report",
        **keywords,
    )
    row = _row(done)
    if row["status"] == "ok" and reference is not None:
        row |= _compared(done, reference, given, {**named, **asked.reference})
    return row


def _copied(value: Any) -> Any:
    """Return an array as it is before the kernel runs; another value as it is."""
    return plain_array(value).copy() if hasattr(value, "shape") else value


def _compared(done: Run, reference: Callable[..., object], args: list[Any], keywords: Mapping[str, Any]) -> Row:
    """Return the columns about the outputs: the largest error by what is allowed there."""
    try:
        wanted = reference(*args, **keywords)
        pairs = list(zip(done.outputs, done.expected(wanted), strict=True))
        found = [compare(actual, want) for actual, want in pairs]
    except Exception as error:  # noqa: BLE001 - the reference is the user's
        return {"status": "failed", "code": "NKI007", "message": f"the reference: {type(error).__name__}: {error}"}
    if not found:
        return {}
    worst = max(found, key=lambda item: item.error / item.allowed if item.allowed else float(item.error > 0) * 1e300)
    row: Row = {"max_error": worst.error, "allowed_error": worst.allowed}
    bad = sum(item.bad for item in found)
    if bad:
        size = sum(item.size for item in found)
        row |= {"status": "wrong", "message": f"{bad} of {size} elements differ from the reference"}
    return row


def _row(done: Run) -> Row:
    """Return the columns of a run; one with an error is rejected, and has its times all the same."""
    if done.error is not None:
        return failure("failed", done.error.diagnostics[0])
    summary = done.summary
    low, high = summary.get("makespan_interval_ns", (None, None))
    row: Row = {
        "status": "ok",
        "latency_ns": summary.get("makespan_ns"),
        "latency_low_ns": low,
        "latency_high_ns": high,
        "sbuf_peak_bytes": summary.get("sbuf_peak_bytes_per_partition"),
        "psum_peak_bytes": summary.get("psum_peak_bytes_per_partition"),
        "instructions": summary.get("instructions"),
        "flops": summary.get("flops"),
        "dma_bytes": summary.get("dma_bytes"),
        "hbm_read_bytes": summary.get("hbm_read_bytes"),
        "hbm_write_bytes": summary.get("hbm_write_bytes"),
        "mfu": summary.get("mfu"),
        "mbu": summary.get("mbu"),
    }
    wrong = next((item for item in done.diagnostics if item.severity == "error"), None)
    if wrong is not None:
        return row | failure("rejected", wrong)
    if row["latency_ns"] is None:
        untimed = next((item for item in done.diagnostics if item.outcome == "fault"), None)
        reason = "" if untimed is None else untimed.message
        row |= {"status": "failed", "code": "NKI023", "message": f"the run has no times{reason and f': {reason}'}"}
    return row
