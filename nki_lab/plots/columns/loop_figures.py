"""The loops of a run with their figures, and each iteration with its own."""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.kernel_runtime.recording.loops import loops as figures
from nki_lab.kernel_runtime.vocabulary import ITERATION_STATES
from nki_lab.plots.columns.frame import Frame, nanoseconds, of_records

_LOOPS = (
    "loop", "variable", "kind", "parent", "depth", "core", "file", "line", "executions", "iterations", "warm_up",
    "outliers", "steady", "representative", "begin_ns", "end_ns", "interval_ns", "mean_ns", "spread_ns",
)  # fmt: skip


def loops(recording: Recording) -> Frame:
    """Return the loops, outer ones before inner ones, with the figures of the recording.

    `loop` numbers them, `parent` is the loop around one (-1: none). `warm_up` and `outliers` count iterations;
    `interval_ns` is the initiation interval, `representative` a row of the recording's table `iterations`.
    """
    records = [
        (
            loop.number, loop.variable, loop.kind, loop.parent, loop.depth, loop.core, loop.file, loop.line,
            loop.executions, loop.iterations, loop.warm_up, loop.outliers, loop.steady, loop.representative,
            *(time / 1000 for time in (loop.begin, loop.end, loop.interval, loop.mean, loop.spread)),
        )
        for loop in figures(recording).loops
    ]  # fmt: skip
    return of_records(_LOOPS, records, ("variable", "kind", "file"))


def iterations(recording: Recording) -> Frame:
    """Return the iterations that have instructions, by loop and in its order.

    `iteration` is the row of the recording's table, `value` that of the loop's variable, `rows` its instructions, those
    of loops within it included. The `interval_ns` of an `execution` of the loop add up to its time; `state` is one of
    unsettled, warm-up, steady, outlier.
    """
    found = figures(recording).iterations
    order = np.argsort(found.execution, kind="stable")
    order = order[found.execution[order] >= 0]
    return {
        "loop": found.loop[order],
        "execution": found.execution[order],
        "iteration": order,
        "value": whole(recording.table("iterations")["value"])[order],
        "rows": found.rows[order],
        "begin_ns": nanoseconds(found.begin[order]),
        "end_ns": nanoseconds(found.end[order]),
        "interval_ns": nanoseconds(found.interval[order]),
        "state": np.array(ITERATION_STATES)[found.state[order]],
    }
