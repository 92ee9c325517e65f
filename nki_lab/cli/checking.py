"""One file of `nki-lab check`: examined, fixed on demand and put in place. Runs in processes of its own."""

from __future__ import annotations

import ast
import difflib
import io
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final

from nki_lab.cli.notebooks import notebook_of
from nki_lab.contained import SuddenEnd, can_fork, copying, in_copies, note
from nki_lab.diagnostic import Diagnostic, NkiError, Span, diagnose, error_of
from nki_lab.file_system import replace_content
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.kernel_runtime.interpreter import Budget, ModuleFinder, Signature
from nki_lab.own_faults import ended_evaluation, own_fault
from nki_lab.printable import on_one_line
from nki_lab.processors import processor_count
from nki_lab.query import Document, EvaluationRequest, Examination
from nki_lab.query.call_sites import CallSite, call_sites
from nki_lab.query.checking import unreadable
from nki_lab.query.configuration import Selection
from nki_lab.query.fixes.mending import Mending
from nki_lab.query.fixes.source_fixes import FIXABLE, obstacle, readable
from nki_lab.query.reach import Operation
from nki_lab.source import known_facts
from nki_lab.source_files import read_source


def replace_file(path: Path, before: bytes, after: bytes) -> None:
    """Put `after` into the place of `before`, with the same rights; a link stays a link.

    Raises NKI021 where the disk does not take it, or where somebody has changed the file since it was read.
    """
    try:
        replace_content(path, before, after)
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


FILES_A_PROCESS: Final = 8
"""A process takes as long to start as a few files take to be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A file to check. With `fixes` findings with one exact remedy are fixed, and with `writes` the file too;
    with `keeps_text` the report has the text, with `possible` findings that hold for some arguments. Unless it
    `evaluates`, only the syntax is checked. `content` stands for what the file holds, where there is no file.
    """

    file: str
    target: str
    selection: Selection = field(default_factory=Selection)
    given: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    library: ModuleFinder = field(default_factory=ModuleFinder)
    fixes: bool = False
    writes: bool = False
    keeps_text: bool = False
    possible: bool = False
    evaluates: bool = True
    content: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """The findings in a file: with `fixes`, the findings left after `fixed` edits, which `diff` shows,
    and of these `left` the ones whose fix would bring an error along, with that error. `unmended` says why nothing of
    the file can be fixed, where something is to be.

    `texts` are the lines of notebook cells, by the names that findings give them, and of a file on demand. `sites` are
    the calls of NKI's functions, by these names or the file's. The runs came to operations of other files too: to those
    `given_elsewhere` with known arguments, to those `assumed_elsewhere` with assumed or unknown ones.
    """

    file: str
    findings: tuple[Diagnostic, ...] = ()
    fixed: int = 0
    left: tuple[tuple[Diagnostic, Diagnostic], ...] = ()
    unmended: str = ""
    diff: str = ""
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sites: Mapping[str, tuple[CallSite, ...]] = field(default_factory=dict)
    given_elsewhere: frozenset[Operation] = frozenset()
    assumed_elsewhere: frozenset[Operation] = frozenset()


def check_file(job: Job) -> FileReport:
    """Check one file. Whatever it holds, there is a report."""
    try:
        with gc_relaxed():
            return _checked(job)
    except NkiError as error:
        return FileReport(file=job.file, findings=tuple(error.diagnostics))
    except Exception as error:  # noqa: BLE001 - the other files are checked after a mistake of ours
        return FileReport(
            file=job.file, findings=(_our_fault(job, f"nki_lab failed with {type(error).__name__}: {error}"),)
        )


def _checked(job: Job) -> FileReport:
    try:
        source = read_source(job.file) if job.content is None else job.content
    except (OSError, ValueError) as error:
        return FileReport(file=job.file, findings=(unreadable(job.file, error),))
    if job.file.endswith(".ipynb"):
        notebook = notebook_of(source, job.file)
        seen = _examined(job, notebook.sources, notebook.targets())
        return replace(
            _report(job, seen),
            findings=tuple(job.selection.of([*notebook.faults, *notebook.placed(seen.examination.findings)])),
            texts=notebook.texts(),
            sites=notebook.by_cell(seen.sites),
        )
    seen, count, after = _examined(job, source), 0, source
    left: tuple[tuple[Diagnostic, Diagnostic], ...] = ()
    read = readable(source) if job.fixes else None
    if read is not None:
        text, encoding = read
        mending = Mending(
            (text,),
            seen,
            lambda texts: _examined(job, texts[0].encode(encoding)),
            lambda later: job.selection.of(later.examination.findings),
        )
        mending.run()
        after, count = mending.texts[0].encode(encoding), mending.count
        seen, left = mending.seen, tuple(mending.left.values())
        if count and job.writes:
            replace_file(Path(job.file), source, after)
    report = replace(_report(job, seen), fixed=count, left=left)
    if count:
        return replace(report, diff=difference(job.file, source, after))
    wanted = job.fixes and any(item.code in FIXABLE and item.file == job.file for item in report.findings)
    return replace(report, unmended=obstacle(source)) if wanted else report


@dataclass(frozen=True, slots=True)
class _Seen:
    """The examination of a source, the calls of NKI's functions in it, and its lines."""

    examination: Examination
    sites: tuple[CallSite, ...]
    lines: tuple[str, ...]


def _report(job: Job, seen: _Seen) -> FileReport:
    reach = seen.examination.reach
    return FileReport(
        file=job.file,
        findings=tuple(job.selection.of(seen.examination.findings)),
        texts={job.file: seen.lines} if job.keeps_text or job.content is not None else {},
        sites={job.file: seen.sites},
        given_elsewhere=frozenset(item for item in reach.given if item[0] != job.file),
        assumed_elsewhere=frozenset(item for item in reach.assumed | reach.unknown if item[0] != job.file),
    )


def _examined(job: Job, source: bytes | Sequence[str], targets: tuple[tuple[int, int, str], ...] = ()) -> _Seen:
    document = Document(job.file, once=True)
    syntax = document.update(source)
    if not job.evaluates:
        return _Seen(Examination(findings=tuple(syntax)), (), ())
    request = EvaluationRequest(
        arch=arch_of(job.target),
        budget=Budget(begun=note),
        given=job.given,
        library=job.library,
        possible=job.possible,
        targets=targets,
        describes=False,
    )
    found = document.examine(request)
    facts = document.facts
    return _Seen(found, call_sites(facts, found.reach), facts.lines) if facts is not None else _Seen(found, (), ())


def examined_file(job: Job) -> tuple[Examination, frozenset[str]] | None:
    """Return the examination of a file, and the functions at its top level; None where it cannot be read."""
    try:
        source = read_source(job.file)
    except (OSError, ValueError):
        return None
    examination = _examined(job, source).examination
    tree = known_facts(source, job.file, ()).tree
    return examination, frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def difference(file: str, before: bytes, after: bytes) -> str:
    """Return the change of a file as a unified diff, its name on one line."""
    file = on_one_line(file)
    old, new = (_lines(data.decode("utf-8", errors="replace")) for data in (before, after))
    lines = difflib.unified_diff(old, new, file, file)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends, as other tools number those of a change: form feeds end none."""
    return list(io.StringIO(text if "\n" in text else text.replace("\r", "\n"), newline="\n"))


def _our_fault(job: Job, message: str) -> Diagnostic:
    return own_fault(
        message,
        span=Span(job.file, 1, 1, 1, 2),
        report="the file",
        limit="nothing that a file contains makes the checker fail",
    )


# -- many files --------------------------------------------------------------------------------------------------------


def default_processes(count: int) -> int:
    """Return how many processes check `count` files: not more than there are processors for."""
    return max(1, min(processor_count(), count // FILES_A_PROCESS))


def check_files(jobs: Sequence[Job], processes: int) -> Iterator[FileReport]:
    """Check files in so many processes, none of them this one; answers come in the order of the jobs.

    A file that ends its process costs the findings of its own evaluation only.
    """
    if processes <= 1 or len(jobs) <= 1:
        yield from _one_by_one(jobs)
        return
    with _pool(min(processes, len(jobs))) as pool:
        reports: list[Future[FileReport]] = []
        try:
            with copying():  # the first job starts the processes
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
        except BaseException:  # an interrupt, or nobody wants the rest
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_by_one(jobs: Sequence[Job]) -> Iterator[FileReport]:
    """Check files in one process beside this one."""
    if can_fork():
        for job, found in zip(jobs, in_copies(check_file, jobs), strict=True):
            yield _without_evaluation(job, found) if isinstance(found, SuddenEnd) else found
    elif sys.platform == "linux":  # the command has no threads: somebody calls this who has, and his process is the one
        yield from map(check_file, jobs)
    else:
        yield from map(_alone, jobs)


def _alone(job: Job) -> FileReport:
    """Check a file in a process that nothing else depends on."""
    if can_fork():
        return next(_one_by_one([job]))
    with _pool(1) as pool:
        try:
            with copying():
                report = pool.submit(check_file, job)
            return report.result()
        except BrokenProcessPool:
            return _without_evaluation(job, SuddenEnd(1))


def _without_evaluation(job: Job, end: SuddenEnd) -> FileReport:
    """Return the findings on the syntax of a file whose evaluation ended its process, and what is missing and why."""
    missing = ended_evaluation(job.file, str(end), end.note)
    if not can_fork():
        return FileReport(file=job.file, findings=(missing,))
    found = next(in_copies(_read_only, [job]))
    findings = () if isinstance(found, SuddenEnd) else found.findings
    return FileReport(file=job.file, findings=(*findings, missing))


def _read_only(job: Job) -> FileReport:
    """Check the syntax of a file."""
    return check_file(replace(job, evaluates=False, fixes=False, writes=False))


def _pool(processes: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context(_start_method())
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_the_command)


def _start_method() -> str:
    """Return the start method of a process: a copy of this one, which has loaded everything, where that is safe."""
    if can_fork():
        return "fork"
    return "forkserver" if sys.platform == "linux" else "spawn"


def _end_with_the_command() -> None:
    """Have this process end when the command is killed: it would wait for work for ever."""
    command = multiprocessing.parent_process()
    if command is not None:
        threading.Thread(target=_watch, args=(command.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
