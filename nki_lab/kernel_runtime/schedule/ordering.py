"""An order of all ops in which every op comes after what it waits for, or the circle that forbids one."""

from __future__ import annotations

import heapq

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related, diagnose
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.op_findings import instruction_name, span_at
from nki_lab.kernel_runtime.issue.source_location import placed


def sorted_ops(op: Column, pred: Column, count: int) -> Column:
    """The ops with each after its preds, otherwise as in the program; ops behind a circle are missing."""
    waiting = np.bincount(op, minlength=count).tolist()
    by_pred = np.argsort(pred, kind="stable")
    after = op[by_pred].tolist()
    start = np.searchsorted(pred[by_pred], np.arange(count + 1)).tolist()
    ready = [number for number in range(count) if not waiting[number]]
    out = []
    while ready:
        number = heapq.heappop(ready)
        out.append(number)
        for follower in after[start[number] : start[number + 1]]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    return np.array(out, np.int64)


def circle_in(op: Column, pred: Column, order: Column, count: int) -> list[int]:
    """Ops of which each waits for the next, and the last for the first; `order` is what `sorted_ops` gave."""
    stuck = np.ones(count, bool)
    stuck[order] = False
    inside = stuck[op] & stuck[pred]
    # Any pred will do: from an op that is stuck, one comes to a circle by walking from pred to pred.
    towards = dict(zip(op[inside].tolist(), pred[inside].tolist(), strict=True))
    seen: dict[int, int] = {}
    path: list[int] = []
    at = int(np.flatnonzero(stuck)[0])
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = towards[at]
    return path[seen[at] :]


def refuse_circle(program: Program, circle: list[int]) -> Diagnostic:
    """NKI402 at the first instruction of a circle, naming all."""
    low = circle.index(min(circle))
    circle = circle[low:] + circle[:low]
    names = [
        repr(name) if (name := program.op_names.get(number)) else instruction_name(program, number) for number in circle
    ]
    steps = [f"{name} (line {program.site_of(number).line})" for name, number in zip(names, circle, strict=True)]
    if len(steps) == 1:
        message = f"{steps[0]} waits for itself"
    else:
        message = f"{' waits for '.join(steps)}, which waits for {names[0]} again"
    return placed(
        diagnose(
            "NKI402",
            message,
            limit="an instruction runs after what it reads, and after the producers that the schedule names",
            help="turn one edge around: with_schedule takes pairs (consumer, producer)",
            related=[
                Related(f"{name} is part of the circle", span_at(program, program.op_site[number]))
                for number, name in zip(circle[1:], names[1:], strict=True)
            ],
        ),
        program.site_of(circle[0]),
    )
