"""The rows of a recording where the compiler model changed the program: those of the program, then those it inserted.

Rows of the program keep their numbers, so that steps, values and replay need no translation. A row that is not executed
takes no time: it stands at the end of the row that does its work, or of the one before it where nothing needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.backend import DEAD, Compiled
from nki_lab.kernel_runtime.footprint import Column, spread
from nki_lab.kernel_runtime.ir import Program, access_columns
from nki_lab.kernel_runtime.recording.schema import FULL_EFFICIENCY
from nki_lab.kernel_runtime.schedule import Schedule
from nki_lab.kernel_runtime.timing import Timing
from nki_lab.kernel_runtime.vocabulary import ORIGINS

SOURCE, MOVED, LEFT_OUT, INSERTED = range(len(ORIGINS))


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRows:
    """The relation of executed and recorded rows.

    Executed row i is recorded as `home[i]`; recorded row r takes its time from executed row `of[r]`.

    `executes` is true where these are the same instruction. `origin` and `stands_for` are those of the
    recording's table `changes`.
    """

    home: Column
    of: Column
    executes: NDArray[np.bool_]
    origin: NDArray[np.uint8]
    stands_for: NDArray[np.uint32]

    def column(self, executed: NDArray[Any], otherwise: int = 0) -> NDArray[Any]:
        """Return a column of the recorded rows from one of the executed rows; rows that are not executed have
        `otherwise`.
        """
        return np.where(self.executes, executed[self.of], np.array(otherwise, executed.dtype))

    def rows(self, executed: NDArray[Any]) -> NDArray[Any]:
        """Return the recorded rows of executed rows; -1 stays."""
        return np.where(executed >= 0, self.home[executed], -1)


def recorded_rows(program: Program, compiled: Compiled) -> RecordedRows:
    """Return the rows of a recording of `program` as the compiler model executes it."""
    count, executed = len(program), len(compiled.source)
    home = compiled.source.copy()
    inserted = np.flatnonzero(home < 0)
    home[inserted] = count + np.arange(len(inserted))
    of = np.full(count + len(inserted), -1, np.int64)
    of[home] = np.arange(executed)
    executes = of >= 0
    # What is not executed goes with its stand-in, or with the executed row before it in the program.
    rows = np.arange(count)
    last = np.maximum.accumulate(np.where(executes[:count], rows, -1))
    before = np.where(last >= 0, of[last], 0)
    stand = compiled.stand_in
    there = (stand != DEAD) & (stand != rows)
    of[:count] = np.where(executes[:count], of[:count], np.where(there, of[stand], before))
    of[:count] = np.where(of[:count] < 0, before, of[:count])
    origin = np.full(len(of), SOURCE, np.uint8)
    origin[home[compiled.moved]] = MOVED
    origin[:count][~executes[:count]] = LEFT_OUT
    origin[count:] = INSERTED
    stands_for = np.zeros(len(of), np.uint32)
    stands_for[executes] = 1
    np.add.at(stands_for, stand[there], 1)
    stands_for[count:] = 0
    stands_for[:count][~executes[:count]] = 0
    return RecordedRows(home, of, executes, origin, stands_for)


def tables_of_program(
    found: RecordedRows,
    program: Program,
    executed: Program,
    queues: Schedule,
    timing: Timing,
    tables: dict[str, dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Return tables of executed rows as those of the program's rows and the inserted ones."""
    edges, triggers = tables["edges"], tables["triggers"]
    row, before = found.home[edges["row"]], found.home[edges["before"]]
    order = np.lexsort((before, row))
    triggered = found.home[triggers["row"]]
    later = np.argsort(triggered, kind="stable")
    changed = np.flatnonzero((found.origin != SOURCE) | (found.stands_for > 1))
    return {
        **tables,
        "changes": {"row": changed, "origin": found.origin[changed], "stands_for": found.stands_for[changed]},
        "rows": {**_row_columns(found, timing, program, executed), "lane": queues.lane[found.of]},
        "accesses": _accesses(found, program, executed),
        "edges": {"row": row[order], "before": before[order], "kind": edges["kind"][order]},
        "triggers": {"row": triggered[later], "start": triggers["start"][later]},
        "critical": {"row": found.home[tables["critical"]["row"]]},
        "lifetimes": _lifetimes(found, executed, timing),
    }


def _row_columns(found: RecordedRows, timing: Timing, program: Program, executed: Program) -> dict[str, Any]:
    """Return the columns of `rows` that the change of rows concerns, without lanes."""
    ends = timing.start + timing.duration
    start = np.where(found.executes, timing.start[found.of], ends[found.of])
    count = len(program)
    inserted = found.of[count:]
    pace = (timing.busy * FULL_EFFICIENCY // np.maximum(timing.duration, 1)).clip(0, FULL_EFFICIENCY)
    variant = np.frombuffer(executed.op_variant, np.uint32)[found.of]
    own = np.frombuffer(program.op_variant, np.uint32)
    # A row keeps the operands that the program gives it: another instruction that does its work may have others.
    operands: dict[tuple[str, ...], int] = {}
    kind = np.array([operands.setdefault(item.names, len(operands)) for item in executed.variants], np.int64)
    alike = found.executes[:count] & (kind[variant[:count]] == kind[own])
    variant[:count] = np.where(alike, variant[:count], own)
    width = np.fromiter((len(item.names) for item in executed.variants), np.int64, len(executed.variants))[variant]
    return {
        "start": start,
        "duration": found.column(timing.duration),
        "ready": np.where(found.executes, timing.ready[found.of], np.maximum(start, timing.ready[found.of])),
        "setup": found.column(timing.setup),
        "op": variant,
        "site": np.concatenate((np.frombuffer(program.op_site, np.uint32), _of(executed.op_site, inserted, np.uint32))),
        "iteration": np.concatenate(
            (np.frombuffer(program.op_iteration, np.int32), _of(executed.op_iteration, inserted, np.int32))
        ),
        "access": np.cumsum(width) - width,
        "after": np.where(found.executes, found.rows(timing.critical_pred)[found.of], found.home[found.of]),
        "work": found.column(timing.work),
        "bytes": found.column(timing.bytes),
        "pace": found.column(pace, FULL_EFFICIENCY),
        "stall": found.column(timing.stall),
        "setup_stall": found.column(timing.setup_reason),
        "held": found.column(timing.throttle_reason),
        "confidence": timing.confidence[found.of],
    }


def _of(column: Any, rows: Column, dtype: type[np.generic]) -> NDArray[Any]:
    found: NDArray[Any] = np.frombuffer(column, dtype)[rows]
    return found


def _accesses(found: RecordedRows, program: Program, executed: Program) -> dict[str, Any]:
    """Return the table `accesses`: the program's, then those of inserted rows."""
    inserted = found.of[len(program) :]
    first = np.frombuffer(executed.op_access, np.uint32).astype(np.int64)[inserted]
    width = np.fromiter((len(item.names) for item in executed.variants), np.int64, len(executed.variants))
    more = spread(first, width[np.frombuffer(executed.op_variant, np.uint32)[inserted]])
    view = np.concatenate(
        (np.frombuffer(program.access_view, np.uint32), np.frombuffer(executed.access_view, np.uint32)[more])
    )
    return {"view": view, "role": np.concatenate((roles_of(program), roles_of(executed)[more]))}


def roles_of(program: Program) -> NDArray[np.uint8]:
    """Return whether each access reads, writes, or adds to what is there."""
    accesses = access_columns(program, indices=False)
    accumulating = program.ops_where(lambda item: item.instruction.accumulates(item.use))
    return np.where(accesses.is_out & accumulating[accesses.op], 2, accesses.is_out).astype(np.uint8)


def _lifetimes(found: RecordedRows, executed: Program, timing: Timing) -> dict[str, Any]:
    """Return the table `lifetimes`, of the tensors that the executed rows access."""
    accesses = access_columns(executed)
    count = len(executed.buffers)
    start = timing.start[accesses.op]
    end = np.where(accesses.is_out, timing.ready[accesses.op], start + timing.duration[accesses.op])
    begins, ends = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(begins, accesses.buffer, start)
    np.maximum.at(ends, accesses.buffer, end)
    used = np.flatnonzero(ends >= 0)
    first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    order = np.argsort(start, kind="stable")
    first[accesses.buffer[order[::-1]]] = accesses.op[order[::-1]]
    last[accesses.buffer[order]] = accesses.op[order]
    used = used[np.argsort(begins[used], kind="stable")]
    return {
        "buffer": used,
        "start": begins[used],
        "end": ends[used],
        "first": found.home[first[used]],
        "last": found.home[last[used]],
    }
