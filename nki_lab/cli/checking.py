"""One file of `nki-lab check`: examined, fixed on demand and put in place. Runs in processes of its own."""

from __future__ import annotations

import contextlib
import difflib
import multiprocessing
import os
import secrets
import shutil
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
from nki_lab.cli.sources import unreadable
from nki_lab.diagnostic import Diagnostic, NkiError, Span, diagnose, error_of
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.kernel_runtime.interpreter import ModuleFinder, Signature
from nki_lab.query import Document, EvaluationRequest, Examination
from nki_lab.query.configuration import Selection
from nki_lab.query.evaluation_cache import Operation
from nki_lab.query.fixes.source_fixes import fixed, no_worse
from nki_lab.source_files import read_source


def replace_file(path: Path, before: bytes, after: bytes) -> None:
    """Put `after` into the place of `before`, with the same rights; a link stays a link.

    Raises NKI021 where the disk does not take it, or where somebody has changed the file since it was read.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        shutil.copymode(target, draft)
        if target.read_bytes() != before:
            raise OSError(0, "it was changed while it was checked")
        draft.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise error_of(
            diagnose(
                "NKI021",
                f"{path}: not written: {reason}",
                span=Span(str(path), 1, 1, 1, 2),
                help="check that its folder may be written to; the file is unchanged",
            )
        ) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


MOST_FIXES: Final = 10
"""Most rounds in which a file is fixed and checked again: an edit may uncover what the next one fixes."""
FILES_A_PROCESS: Final = 8
"""A process takes as long to start as a few files take to be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A file to check. With `fixes` findings with one exact remedy are fixed, and with `writes` the file too."""

    file: str
    target: str
    selection: Selection = field(default_factory=Selection)
    given: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    library: ModuleFinder = field(default_factory=ModuleFinder)
    fixes: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """The findings in a file: with `fixes`, the findings left after `fixed` edits, which `diff` shows.

    `texts` are the lines of notebook cells, by the names that findings give them. Of the `operations` of NKI that were
    reached, `unknown` could not be evaluated.
    """

    findings: tuple[Diagnostic, ...] = ()
    fixed: int = 0
    diff: str = ""
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    operations: frozenset[Operation] = frozenset()
    unknown: frozenset[Operation] = frozenset()


def check_file(job: Job) -> FileReport:
    """Check one file. Whatever it holds, there is a report."""
    try:
        return _checked(job)
    except NkiError as error:
        return FileReport(findings=tuple(error.diagnostics))
    except Exception as error:  # noqa: BLE001 - the other files are checked after a mistake of ours
        return FileReport(findings=(_our_fault(job, f"nki_lab failed with {type(error).__name__}: {error}"),))


def _checked(job: Job) -> FileReport:
    try:
        source = read_source(job.file)
    except (OSError, ValueError) as error:
        return FileReport(findings=(unreadable(job.file, error),))
    if job.file.endswith(".ipynb"):
        notebook = notebook_of(source, job.file)
        seen = _examined(job, notebook.sources)
        found, texts = notebook.placed(job.selection.of(seen.findings)), notebook.texts()
    else:
        seen = _examined(job, source)
        found, texts = job.selection.of(seen.findings), {}
        fixed_source, count, left = _fixed(job, source, found) if job.fixes else (source, 0, found)
        if count:
            if job.writes:
                replace_file(Path(job.file), source, fixed_source)
            return FileReport(findings=tuple(left), fixed=count, diff=_diff(job.file, source, fixed_source))
    return FileReport(findings=tuple(found), texts=texts, operations=seen.operations, unknown=seen.unknown)


def _examined(job: Job, source: bytes | Sequence[str]) -> Examination:
    document = Document(job.file)
    document.update(source)
    request = EvaluationRequest(arch=arch_of(job.target), given=job.given, library=job.library)
    with gc_relaxed():
        return document.examine(request)


def _fixed(job: Job, source: bytes, found: list[Diagnostic]) -> tuple[bytes, int, list[Diagnostic]]:
    """Return the source after all edits, their number, and the findings that are left.

    Edits that bring an error along are not made.
    """
    count = 0
    for _ in range(MOST_FIXES):
        after = fixed(source, found)
        if after is None:
            break
        left = job.selection.of(_examined(job, after.source).findings)
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
    return diagnose(
        "NKI901",
        message,
        span=Span(job.file, 1, 1, 1, 2),
        help="report it with the file",
        limit="nothing that a file contains makes the checker fail",
    )


# -- many files --------------------------------------------------------------------------------------------------------


def default_processes(count: int) -> int:
    """Return how many processes check `count` files: not more than there are processors for."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        processors = os.cpu_count() or 1
    return max(1, min(processors, count // FILES_A_PROCESS))


def check_files(jobs: Sequence[Job], processes: int) -> Iterator[FileReport]:
    """Check files in so many processes; answers come in the order of the jobs."""
    if processes <= 1 or len(jobs) <= 1:
        yield from map(check_file, jobs)
        return
    with _pool(min(processes, len(jobs))) as pool:
        reports: list[Future[FileReport]] = []
        try:
            for job in jobs:
                reports.append(pool.submit(check_file, job))  # noqa: PERF401 - the pool may break meanwhile
        except BrokenProcessPool:
            pass
        try:
            for i, job in enumerate(jobs):
                try:
                    report = reports[i].result() if i < len(reports) else _alone(job)
                except BrokenProcessPool:  # a process ended, with this file or with another one
                    report = _alone(job)
                yield report
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _alone(job: Job) -> FileReport:
    """Check a file in a process that nothing else depends on."""
    with _pool(1) as pool:
        try:
            return pool.submit(check_file, job).result()
        except BrokenProcessPool:
            return FileReport(findings=(_our_fault(job, "the process that checked this file came to a sudden end"),))


def _pool(processes: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context(_start_method())
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_the_command)


def _start_method() -> str:
    """Return the start method of a process: a copy of this one, which has loaded everything, where that is safe."""
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
