"""A sweep while it runs: points go to an executor, rows come back, are kept, and are counted."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any, Final

from nki_lab.diagnostic import Span, coded_error, diagnose
from nki_lab.dialects.kernel import as_kernel
from nki_lab.dialects.tracebacks import with_user_frames
from nki_lab.kernel_runtime.options import Options
from nki_lab.own_faults import own_fault
from nki_lab.processors import processor_count
from nki_lab.sweeps.columns import Row
from nki_lab.sweeps.fingerprint import layout
from nki_lab.sweeps.local_pool import LocalProcesses
from nki_lab.sweeps.parcel import packed
from nki_lab.sweeps.points import Arguments, Plan, Point, require_arguments, shown, values_of
from nki_lab.sweeps.progress import Progress, Report, reporter
from nki_lab.sweeps.reach import function_of
from nki_lab.sweeps.store import Store, finished
from nki_lab.sweeps.table import Sweep
from nki_lab.sweeps.work import failure, work

_TICK: Final = 0.1
"""Seconds until a cancelled sweep notices."""
_FLUSH: Final = 1.0
"""Seconds after which finished points are written."""
_TRIES: Final = 2
"""Workers that may end with a point before it is lost."""
_DEAD: Final = frozenset({"KilledWorker", "WorkerDiedError", "BrokenProcessPool"})


@with_user_frames
def sweep(
    kernel: Callable[..., object],
    parameters: Mapping[str, object],
    *,
    args: Arguments = (),
    reference: Callable[..., object] | None = None,
    where: Callable[..., object] | None = None,
    options: Options | None = None,
    trip_counts: Mapping[Any, int] | None = None,
    executor: Executor | Any = None,
    workers: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Report | bool | None = None,
    cancel: threading.Event | None = None,
) -> Sweep:
    """Profile a kernel for each combination of parameters, several at a time, and give a table of what was found.

    `parameters` are lists of values by name. A name is a parameter of the kernel, a global or an outer variable that
    the kernel's code reads, an option, `target`, `grid`, or a parameter of `args`: what gives the arguments for a
    point, a function such as `lambda S: (nki_lab.spec((S, 512), "float32"),)`, or the arguments themselves, in which
    `"float32[S,512]"` stands for a tensor. `where` is a function of parameters that says which combinations count.

    With `reference`, a function of the arguments, the kernel computes, and the largest error is a column; arrays of
    which only the shape is given are random, the same ones each time. A point that fails is a row with its finding.

    Points run in `workers` processes of this computer, as many as it has cores; in an `executor` of
    `concurrent.futures`; or in those of a Dask client. Finished ones are kept in `folder`, as Parquet, and are not
    computed again as long as kernel, arguments, options and version are the same; failed ones neither, but for those
    that a worker lost. `progress` is called with a `Progress`; on a terminal there is a line. An interrupt and `cancel`
    end the workers at once; with `cancel` set, the Sweep has the rows until then.
    """
    plan = Plan(
        kernel=as_kernel(kernel),
        values=values_of(parameters),
        args=args,
        reference=reference,
        options=options,
        trip_counts=trip_counts or {},
        where=where,
    )
    points = plan.points()
    for point in points[:1]:
        require_arguments(plan, point)
    store = None if folder is None else Store.open(folder)
    pool = _executor(executor, workers)
    running = _Running(plan, points, store, reporter(progress), cancel or threading.Event())
    if running.missing:
        if store is not None:
            store.require_writable()
        running.run(pool or LocalProcesses(min(workers or processor_count(), len(running.missing))), own=pool is None)
    return running.result()


def _executor(given: Any, workers: int | None) -> Executor | None:
    """Return the executor that points run in; None for processes of our own."""
    if workers is not None and (type(workers) is not int or workers < 1):
        raise coded_error(
            "NKI012", f"workers is {workers!r}", operand="workers", limit="a positive number", help="for example 4"
        )
    if given is None:
        return None
    if workers is not None:
        raise coded_error(
            "NKI012", "sweep: both executor and workers", operand="workers", limit="an executor has its own workers"
        )
    if isinstance(given, Executor):
        return given
    if callable(getattr(given, "get_executor", None)):  # a Dask client
        found: Executor = given.get_executor(pure=False)
        return found
    raise coded_error(
        "NKI012",
        f"the executor is a {type(given).__name__}",
        operand="executor",
        limit="an executor of concurrent.futures, or a Client of dask.distributed",
        help="without executor, points run in processes of this computer",
    )


class _Running:
    """The state of a sweep: rows by point, and the points that are missing."""

    def __init__(
        self, plan: Plan, points: Sequence[Point], store: Store | None, report: Report, cancel: threading.Event
    ) -> None:
        self.plan, self.points, self.store, self._report, self._cancel = plan, points, store, report, cancel
        self._layout = layout(plan.kernel)
        kept = {} if store is None else store.rows
        found = {point.number: finished(kept, point.key, self._layout) for point in points}
        self.rows: dict[int, Row] = {number: row for number, row in found.items() if row is not None}
        self.reused = len(self.rows)
        self.missing = [point for point in points if point.number not in self.rows]
        self._failed = sum(row["status"] != "ok" for row in self.rows.values())
        self._start = time.monotonic()
        self._done: queue.SimpleQueue[tuple[Point, Future[Row]]] = queue.SimpleQueue()
        self._tries: dict[int, int] = {}
        self._futures: dict[int, Future[Row]] = {}
        function = function_of(plan.kernel)
        code = None if function is None else function.__code__
        self._place = code and Span(code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 2)

    def run(self, executor: Executor, *, own: bool) -> None:
        """Work out the missing points; an executor that is not the caller's `own` to keep is ended with them."""
        parcel = packed((self.plan.kernel, self.plan.reference), f"the kernel {self.plan.kernel.__name__}", self._place)
        complete = False
        try:
            self._tell()
            for point in self.missing:
                if self._cancel.is_set():
                    break
                self._submit(executor, parcel, point)
            self._collect(executor, parcel)
            complete = not self._futures
        finally:
            for future in list(self._futures.values()):
                future.cancel()
            if own:
                executor.shutdown(wait=complete, cancel_futures=not complete)
            self._take_what_came()
            if self.store is not None:
                self.store.flush()
            self._tell(finished=True)

    def _submit(self, executor: Executor, parcel: bytes, point: Point) -> None:
        self._tries[point.number] = self._tries.get(point.number, 0) + 1
        task = packed(point.task, "an argument of the kernel", self._place)
        try:
            future = executor.submit(work, parcel, task)
        except (BrokenExecutor, RuntimeError) as error:  # one that was shut down
            self._take(point, _lost(f"the executor takes no more work: {error}", self._tries[point.number]))
            return
        self._futures[point.number] = future
        future.add_done_callback(lambda done: self._done.put((point, done)))

    def _collect(self, executor: Executor, parcel: bytes) -> None:
        flushed = time.monotonic()
        while self._futures and not self._cancel.is_set():
            try:
                point, future = self._done.get(timeout=_TICK)
            except queue.Empty:
                self._tell()
            else:
                self._settle(executor, parcel, point, future)
            if self.store is not None and time.monotonic() - flushed > _FLUSH:
                self.store.flush()
                flushed = time.monotonic()

    def _settle(self, executor: Executor, parcel: bytes, point: Point, future: Future[Row]) -> None:
        self._futures.pop(point.number, None)
        row = _row_of(future, self._tries[point.number])
        if row["status"] == "lost" and self._tries[point.number] < _TRIES:
            self._submit(executor, parcel, point)
        else:
            self._take(point, row)

    def _take_what_came(self) -> None:
        """Keep the points that finished while the sweep was told to end."""
        while not self._done.empty():
            point, future = self._done.get()
            if not future.cancelled() and future.exception() is None and point.number not in self.rows:
                self._take(point, future.result())

    def _take(self, point: Point, row: Row) -> None:
        self.rows[point.number] = row
        self._failed += row["status"] != "ok"
        if self.store is not None and row["status"] != "lost":
            texts = {name: shown(value) for name, value in point.parameters.items()}
            whole = {**row, "target": point.task.target, "shapes": point.shapes}
            self.store.add(point.key, texts, self._layout, whole)
        self._tell()

    def _tell(self, *, finished: bool = False) -> None:
        self._report(
            Progress(
                name=self.plan.kernel.__name__,
                done=len(self.rows),
                total=len(self.points),
                failed=self._failed,
                reused=self.reused,
                seconds=time.monotonic() - self._start,
                finished=finished,
            )
        )

    def result(self) -> Sweep:
        """Return the table of the rows so far."""
        problems: Iterable[str] = () if self.store is None else self.store.problems
        return Sweep(self.plan, self.points, self.rows, reused=self.reused, problems=tuple(problems))


def _row_of(future: Future[Row], tries: int) -> Row:
    """Return the row of a future that is done, whatever became of it."""
    try:
        return future.result()
    except CancelledError:
        return _lost("somebody else cancelled it", tries)
    except Exception as error:  # noqa: BLE001 - of the executor or of us; a point that fails is a row
        if isinstance(error, BrokenExecutor) or type(error).__name__ in _DEAD:
            return _lost(str(error).partition("\n")[0] or type(error).__name__, tries)
        found = own_fault(f"the worker raised {type(error).__name__}: {error}", limit="a worker gives rows")
        return failure("failed", found)


def _lost(reason: str, tries: int) -> Row:
    times = "twice" if tries >= _TRIES else "once"
    return failure("lost", diagnose("NKI034", f"the worker that had the point ended {times}: {reason}"))
