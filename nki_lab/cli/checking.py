"""One file of `nki-lab check`: examined, mended where that is asked for. Runs in processes of its own."""

from __future__ import annotations

import difflib
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final

from nki_lab.cli.notebooks import notebook_of
from nki_lab.cli.replacing import replace_file
from nki_lab.cli.sources import unreadable
from nki_lab.diagnostic import Diagnostic, NkiError, Span, diagnose
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.kernel_runtime.interpreter import ModuleFinder, Signature
from nki_lab.query import Document, EvaluationRequest, Examination
from nki_lab.query.evaluation_cache import Operation
from nki_lab.query.fixes.source_fixes import fixed, no_worse
from nki_lab.query.selecting import Selection
from nki_lab.source_files import read_source

SECONDS: Final = 30.0
"""How long the kernels of one file are evaluated."""
PASSES: Final = 10
"""How often a file is mended and looked at again: what one edit uncovers, the next one mends."""
FILES_A_PROCESS: Final = 8
"""A process takes as long to start as a few files take to be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A file to check. With `mends` what has one exact remedy is mended, and with `writes` that is written back."""

    file: str
    target: str
    selection: Selection = field(default_factory=Selection)
    given: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    library: ModuleFinder = field(default_factory=ModuleFinder)
    mends: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The findings in a file: with `mends`, those that are left after `mended` edits, which `diff` shows.

    `texts` are the lines of notebook cells, by the names that findings give them. Of the `operations` of NKI that were
    come to, `unknown` could not be evaluated.
    """

    findings: tuple[Diagnostic, ...] = ()
    mended: int = 0
    diff: str = ""
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    operations: frozenset[Operation] = frozenset()
    unknown: frozenset[Operation] = frozenset()


def checked(job: Job) -> Checked:
    """Check one file. Whatever it holds, there is an answer."""
    try:
        return _checked(job)
    except NkiError as error:
        return Checked(findings=tuple(error.diagnostics))
    except Exception as error:  # noqa: BLE001 - the other files are checked after a mistake of ours
        return Checked(findings=(_our_fault(job, f"nki_lab failed with {type(error).__name__}: {error}"),))


def _checked(job: Job) -> Checked:
    try:
        source = read_source(job.file)
    except (OSError, ValueError) as error:
        return Checked(findings=(unreadable(job.file, error),))
    if job.file.endswith(".ipynb"):
        notebook = notebook_of(source, job.file)
        seen = _examined(job, notebook.sources)
        return _checked_as(seen, notebook.placed(job.selection.of(seen.findings)), texts=notebook.texts())
    seen = _examined(job, source)
    found = job.selection.of(seen.findings)
    if not job.mends:
        return _checked_as(seen, found)
    mended, count, left = _mended(job, source, found)
    if not count:
        return _checked_as(seen, found)
    if job.writes:
        replace_file(Path(job.file), source, mended)
    return Checked(findings=tuple(left), mended=count, diff=_diff(job.file, source, mended))


def _checked_as(seen: Examination, found: Sequence[Diagnostic], *, texts: Mapping[str, Sequence[str]] | None = None,
                ) -> Checked:  # fmt: skip
    return Checked(findings=tuple(found), texts=texts or {}, operations=seen.operations, unknown=seen.unknown)


def _examined(job: Job, source: bytes | Sequence[str]) -> Examination:
    document = Document(job.file)
    document.update(source)
    request = EvaluationRequest(arch=arch_of(job.target), seconds=SECONDS, given=job.given, library=job.library)
    with gc_relaxed():
        return document.examine(request)


def _findings(job: Job, source: bytes | Sequence[str]) -> list[Diagnostic]:
    return job.selection.of(_examined(job, source).findings)


def _mended(job: Job, source: bytes, found: list[Diagnostic]) -> tuple[bytes, int, list[Diagnostic]]:
    """The source after all edits, how many they were, and the findings that are left.

    Edits that bring an error along are not made.
    """
    count = 0
    for _ in range(PASSES):
        after = fixed(source, found)
        if after is None:
            break
        left = _findings(job, after.source)
        if not no_worse(found, left):
            break
        source, found = after.source, left
        count += after.count
    return source, count, found


def _diff(file: str, before: bytes, after: bytes) -> str:
    """The change as a unified diff."""
    old, new = (data.decode("utf-8", errors="replace").splitlines(keepends=True) for data in (before, after))
    lines = difflib.unified_diff(old, new, file, file)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _our_fault(job: Job, message: str) -> Diagnostic:
    return diagnose("NKI901", message, span=Span(job.file, 1, 1, 1, 2), help="report it with the file",
                    limit="nothing that a file contains makes the checker fail")  # fmt: skip


# -- many files --------------------------------------------------------------------------------------------------------


def sensible(count: int) -> int:
    """How many processes check `count` files, where nobody says: not more than there are processors for."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        processors = os.cpu_count() or 1
    return max(1, min(processors, count // FILES_A_PROCESS))


def all_checked(jobs: Sequence[Job], processes: int) -> Iterator[Checked]:
    """Check files in so many processes; answers come in the order of the jobs."""
    if processes <= 1 or len(jobs) <= 1:
        yield from map(checked, jobs)
        return
    with _pool(min(processes, len(jobs))) as pool:
        answers: list[Future[Checked]] = []
        try:
            for job in jobs:
                answers.append(pool.submit(checked, job))  # noqa: PERF401 - a pool may break while jobs are given to it
        except BrokenProcessPool:
            pass
        try:
            for i, job in enumerate(jobs):
                try:
                    answer = answers[i].result() if i < len(answers) else _alone(job)
                except BrokenProcessPool:  # a process is gone, with this file or with another one
                    answer = _alone(job)
                yield answer
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _alone(job: Job) -> Checked:
    """Check a file in a process that nothing else depends on."""
    with _pool(1) as pool:
        try:
            return pool.submit(checked, job).result()
        except BrokenProcessPool:
            return Checked(findings=(_our_fault(job, "the process that checked this file came to a sudden end"),))


def _pool(processes: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context(_start_method())
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_the_command)


def _start_method() -> str:
    """How a process starts: as a copy of this one, which has loaded everything, where that is safe."""
    if sys.platform != "linux":
        return "spawn"
    return "fork" if threading.active_count() == 1 else "forkserver"  # a lock that a thread holds is copied as held


def _end_with_the_command() -> None:
    """Have this process end when the command is killed: it would wait for work for ever."""
    command = multiprocessing.parent_process()
    if command is not None:
        threading.Thread(target=_watch, args=(command.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
